remora sandbox start other --folder /srv/other --port 3306 --option bind-address=127.0.0.3 \
    --option log-bin=binlog --option server-id=2 --option binlog-format=ROW
