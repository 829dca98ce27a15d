# Runs in the tree of the image of MariaDB, as its root: the first start, one that is cut off, and the next.
set -eu
say() { printf '    %s: %s\n' "$SERIES" "$*"; }
fail() { say "$*" >&2; tail -n 20 /tmp/server.log >&2; exit 1; }
sql() { MYSQL_PWD="a 'b\" \$c" mariadb --user=root --batch --skip-column-names -e "$1"; }
start() {
  /usr/bin/start mariadbd --skip-networking >/tmp/server.log 2>&1 &
  server=$!
}
up() {
  tries=0
  until sql 'SELECT 1' >/dev/null 2>&1 && [ ! -e /var/lib/mysql/first-start-is-not-finished ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] && kill -0 $server 2>/dev/null || fail 'the server does not come up'
    sleep 0.2
  done
}

! /usr/bin/start mariadbd 2>/tmp/refused || fail 'a server without a password'
grep -q MARIADB_ROOT_PASSWORD /tmp/refused || fail 'it does not say that it wants a password'
export MARIADB_ROOT_PASSWORD="a 'b\" \$c" MARIADB_DATABASE='my_db' MARIADB_USER="o'neil" MARIADB_PASSWORD='p\"w'
echo 'CREATE TABLE t (a INT); INSERT INTO t VALUES (7);' >/docker-entrypoint-initdb.d/t.sql
# Cut off in the middle, it begins again.
start
until [ -d /var/lib/mysql/mysql ]; do
  kill -0 $server 2>/dev/null || fail 'the first start ends'
  sleep 0.1
done
kill -9 $server 2>/dev/null || true
for process in $(pidof mariadbd || true); do kill -9 "$process"; done
wait $server 2>/dev/null || true
start
up
[ "$(sql 'SELECT a FROM my_db.t')" = 7 ] || fail 'the script was not run'
sql 'CREATE TABLE my_db.q (id INT) ENGINE=QUEUE; INSERT INTO my_db.q VALUES (9)'
[ "$(sql "SELECT id FROM my_db.q WHERE queue_wait('my_db.q')")" = 9 ] || fail 'the queue has not given its row'
[ "$(sql "SELECT CAST(url_unpack(url_pack('http://example.com/')) AS CHAR)")" = http://example.com/ ] ||
  fail 'an URL is not what it was'
[ "$(MYSQL_PWD='p\"w' mariadb --user="o'neil" --batch --skip-column-names my_db -e 'SELECT a FROM t')" = 7 ] ||
  fail 'the account can not read its database'
kill $server
wait $server || fail 'it does not stop'
unset MARIADB_ROOT_PASSWORD
start
up
[ "$(sql 'SELECT a FROM my_db.t')" = 7 ] || fail 'the data are not there after a restart'
kill $server
wait $server || true
say 'the image of MariaDB: first start, cut off, again; a queue, packed URLs, a restart'
