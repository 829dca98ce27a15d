remora backup mysql: --to /backup --track
remora sandbox start second --folder /srv/second
ln -s /srv/second/server.sock /run/mysqld/second.sock
sshd
