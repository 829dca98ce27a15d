mariadb -e "CREATE USER backup@localhost; GRANT SELECT, PROCESS, SLAVE MONITOR ON *.* TO backup@localhost; SET GLOBAL binlog_format = MIXED"
printf '[client]\nuser=backup\n' > .my.cnf
