head -n 1000 "$PROJECT/demo/urls_world.txt" > urls.txt
mariadb web -e 'CREATE TABLE packed (time DATETIME, u VARBINARY(512), status INT)'
remora sandbox stop db1
remora sandbox start db1 --plugins
