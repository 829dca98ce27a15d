# Runs in the bare tree of a Debian release: makes it an image of the release's MariaDB with the plugins.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
groupadd --system mysql
useradd --system --gid mysql --no-create-home --home-dir /var/lib/mysql --shell /usr/sbin/nologin mysql
apt-get update -qq
apt-get install -qq -y --no-install-recommends mariadb-server-core mariadb-client-core \
  /release/remora_*_amd64.deb /release/remora-urlpack_*_amd64.deb /release/remora-plugins-"$SERIES"_*_amd64.deb \
  >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
install -d -o mysql -g mysql /var/lib/mysql /run/mysqld
install -d /docker-entrypoint-initdb.d /etc/mysql/mariadb.conf.d
printf '[mariadb]\nbind_address=*\nskip_name_resolve\nuser=mysql\ndatadir=/var/lib/mysql\nsocket=/run/mysqld/mysqld.sock\n' \
  >/etc/mysql/my.cnf
printf '!includedir /etc/mysql/mariadb.conf.d/\n' >>/etc/mysql/my.cnf
apt-get clean
rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/log/* /var/cache/*
