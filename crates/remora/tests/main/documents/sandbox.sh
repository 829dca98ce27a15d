remora backup mysql: --to /backup
mkdir -p /opt/mysql/bin
cp /usr/sbin/mariadbd /opt/mysql/bin/mysqld
