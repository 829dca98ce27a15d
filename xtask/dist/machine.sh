# Runs in the bare tree of a Debian release: makes it a machine that can be booted, with a server and remora.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
# Nothing is started before there is a system.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
apt-get install -qq -y --no-install-recommends systemd systemd-sysv dbus mariadb-server /release/remora_*_amd64.deb \
  >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }
rm /usr/sbin/policy-rc.d
printf '[mysqld]\nlog_bin\nserver_id=1\nbinlog_format=ROW\n' >/etc/mysql/mariadb.conf.d/99-check.cnf
cat >/etc/systemd/system/check.service <<'UNIT'
[Unit]
After=multi-user.target mariadb.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'code=0; sh /checks/units.sh >/units.log 2>&1 || code=$?; systemctl exit $code'
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --quiet check.service
