# Runs in a machine that has booted, as its root: 'remora setup' and the units under a real systemd.
set -eu
export HOME=/root
say() { printf '    systemd %s: %s\n' "$(systemctl --version | sed -n 's/^systemd \([0-9]*\).*/\1/p')" "$*"; }
fail() { say "$*"; journalctl --no-pager -o cat -u 'remora-*' | tail -n 40; exit 1; }
generations() { remora list "$1" --key /etc/remora/db1.full-key | grep -c '^ *db1@'; }

mariadb -e 'CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)'
set -- mysql: --to /backup --name db1 --encrypt --copy-to /copies --keep-last 2 --yes
remora setup "$@" >/run/setup 2>&1 || { cat /run/setup; fail 'setup ends badly'; }
say 'set up, and backed up for the first time'

for row in 2 3 4; do
  mariadb -e "INSERT INTO d.t VALUES ($row)"
  systemctl start remora-backup@db1.service || fail 'no backup'
  # It begins by itself, after the mirror; this waits for its end.
  systemctl start remora-prune@db1.service || fail 'nothing is pruned'
done
systemctl start remora-verify@db1.service || fail 'not verified'
for place in /backup /copies; do
  [ "$(generations $place)" = 2 ] || fail "$place has $(generations $place) generations of 2"
done
say 'backed up, mirrored, pruned, verified'

tries=0
until journalctl --no-pager -o cat -u remora-binlog@db1.service | grep -q '^caught up'; do
  tries=$((tries + 1))
  [ $tries -lt 60 ] || fail 'the archive does not catch up'
  sleep 1
done
[ -z "$(systemctl list-units --failed --no-legend 'remora-*')" ] || fail "$(systemctl --failed --no-legend)"
say 'the log is archived, and no unit has failed'

remora verify /copies/db1 --boot --key /etc/remora/db1.full-key >/run/booted 2>&1 || { cat /run/booted; fail 'not sound'; }
say 'a server starts on the copy'

remora setup "$@" >/run/setup 2>&1 || { cat /run/setup; fail 'setup can not be repeated'; }
! grep -E ': (done|to do)$' /run/setup || fail 'what was done is done again'
