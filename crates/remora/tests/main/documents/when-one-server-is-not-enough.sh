store
mariadb -e "SET GLOBAL binlog_row_metadata = 'FULL'; FLUSH BINARY LOGS"
remora backup mysql: --to s3://company-backups/db
remora binlog s3://company-backups/db/db1 --once
