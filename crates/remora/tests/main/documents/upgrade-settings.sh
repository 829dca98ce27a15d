printf '[mysqld]\ninnodb_defragment = ON\nmax_connections = 300\nold_passwords = 0\n' > /etc/mysql/my.cnf
