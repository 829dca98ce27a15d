remora backup mysql: --to /backup
mariadb shop -e "INSERT INTO orders VALUES (5001, 1, 2.50, 'new'); SET sql_log_bin = 0; INSERT INTO orders VALUES (5002, 1, 2.50, 'not logged')"
remora backup mysql: --to /backup
remora binlog /backup/db1 --once
