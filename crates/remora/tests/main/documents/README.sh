other
mariadb -e "SET GLOBAL binlog_row_metadata = FULL"
