mariadb web -e 'CREATE TABLE hits (id INT PRIMARY KEY)'
other
store
