# What a page finds: a server with a shop, and files to import. prepare.sh of a page adds to it.

# A server in the place of Debian's.
server() {
    remora sandbox start db1 --folder /var/lib/server --port 3306 "$@" \
        --option log-bin=binlog --option server-id=1 --option binlog-format=ROW
    ln -sfn /var/lib/server/data /var/lib/mysql
    ln -sf /var/lib/server/server.sock /run/mysqld/mysqld.sock
}

# A second server: mysql://root@other, also called new.
other() {
    remora sandbox start other --folder /srv/other --port 3306 --option bind-address=127.0.0.3
}

# Orders with their lines, which go with them.
shop() {
    mariadb <<'SQL'
CREATE DATABASE shop;
CREATE DATABASE web;
USE shop;
CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT NOT NULL, total DECIMAL(10,2) NOT NULL, note TEXT);
CREATE TABLE shop.order_lines (id INT PRIMARY KEY, order_id INT NOT NULL, price DECIMAL(10,2) NOT NULL,
  FOREIGN KEY (order_id) REFERENCES shop.orders (id) ON DELETE CASCADE);
INSERT INTO orders SELECT seq, seq % 97, seq * 1.25, NULL FROM seq_1_to_2000;
INSERT INTO shop.order_lines SELECT seq, 1 + seq % 2000, 1.25 FROM seq_1_to_5000;
SQL
}

# Page views, as a web server would log them.
hits() {
    seq 1 3000 | awk 'BEGIN { print "time,url,status" }
        { printf "2026-11-22 19:%02d:%02d,https://example.com/page/%d,%d\n", $1 / 60 % 60, $1 % 60, $1 % 300, 200 }' > hits.csv
}

# A backup, the archived log, and a DELETE without its WHERE, after which the log is archived again.
history() {
    mariadb -e "SET GLOBAL binlog_row_metadata = 'FULL'"
    remora backup mysql: --to /backup
    remora backup mysql: --to /backup
    remora binlog /backup/db1 --once
    for order in 5001 5002 5003; do mariadb -e "INSERT INTO orders VALUES ($order, 1, 2.50, 'new')" shop; done
    mariadb -e "SET gtid_seq_no = 90113; DELETE FROM orders" shop
    remora binlog /backup/db1 --once
}

# The plugins, and a queue whose consumer has failed.
queue() {
    remora sandbox stop db1
    remora sandbox start db1 --plugins
    mariadb shop <<'SQL'
CREATE TABLE dead (id INT, customer INT, body TEXT, failed INT NULL, why TEXT NULL) ENGINE=QUEUE FAILED=failed WHY=why;
CREATE TABLE jobs (id INT, customer INT, body TEXT) ENGINE=QUEUE TRIES=2 BACKOFF='0,1,0' DEAD='dead' KEEP=86400;
INSERT INTO jobs SELECT seq, seq % 3, 'mail' FROM seq_1_to_6;
INSERT INTO dead SELECT seq, seq, 'mail', 2, 'no such host' FROM seq_1_to_4;
SELECT * FROM jobs WHERE queue_wait('jobs');
SELECT queue_end();
SQL
}

# This machine's sshd, and a key for it.
sshd() {
    mkdir -p -m 700 .ssh
    ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519
    cp .ssh/id_ed25519.pub .ssh/authorized_keys
    printf 'HostKey /root/.ssh/id_ed25519\nUsePAM no\nStrictModes no\nPidFile none\n' > .ssh/sshd_config
    /usr/sbin/sshd -f /root/.ssh/sshd_config
    until ssh-keyscan -t ed25519 db1 > .ssh/known_hosts 2> /dev/null && [ -s .ssh/known_hosts ]; do sleep 0.05; done
}

# An object store with a bucket.
store() {
    echo '{"identities": [{"name": "all", "credentials": [{"accessKey": "id", "secretKey": "secret"}],
        "actions": ["Admin", "Read", "List", "Write"]}]}' > /srv/keys.json
    mkdir /srv/store
    "$XDG_CACHE_HOME/remora/store/weed" mini -dir=/srv/store -bucket=company-backups -ip=127.0.0.1 -ip.bind=127.0.0.1 \
        -webdav=false -admin.ui=false -s3.iam=false -s3.config=/srv/keys.json -s3.port.iceberg=0 -s3.port.lance=0 &
    echo 'export AWS_ACCESS_KEY_ID=id AWS_SECRET_ACCESS_KEY=secret AWS_ENDPOINT_URL=http://127.0.0.1:8333' > /tmp/env
    . /tmp/env
    until remora list s3://company-backups/none 2>&1 | grep -q 'no backup'; do sleep 0.1; done
    printf 's3.bucket.create -name retained\ns3.bucket.lock -name retained -enable\n' |
        "$XDG_CACHE_HOME/remora/store/weed" shell -master=127.0.0.1:9333.19333 -filer=127.0.0.1:8888.18888
}

server
shop
hits
[ ! -f /tmp/prepare.sh ] || . /tmp/prepare.sh
