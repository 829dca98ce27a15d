queue
# More to give again, and a second server.
mariadb shop -BNe "SELECT * FROM jobs WHERE queue_wait('jobs'); SELECT queue_end()"
remora sandbox start b --folder /srv/b --plugins
mariadb -S /srv/b/server.sock -e "CREATE DATABASE shop; CREATE TABLE shop.jobs (id INT, customer INT, body TEXT) ENGINE=QUEUE"
ln -s /var/lib/server/server.sock /run/a.sock
ln -s /srv/b/server.sock /run/b.sock
