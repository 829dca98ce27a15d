remora sandbox start old --folder /srv/old --port 3306 --option bind-address=127.0.0.2
other
