# Runs in the bare tree of a Debian release, as its root: what is in /release is installed, used, upgraded and
# removed. SERIES is that of the release's MariaDB, NEXT the folder with packages of a higher version.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
say() { printf '    %s: %s\n' "$SERIES" "$*"; }
fail() { say "$*" >&2; exit 1; }
install() { apt-get install -qq -y --no-install-recommends --allow-downgrades "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }; }
sql() { remora sandbox shell "$1" -- --batch --skip-column-names -e "$2"; }

find / -xdev -name '*remora*' -not -path '/release*' -not -path '/proc/*' >/tmp/before
apt-get update -qq

install /release/remora_*_amd64.deb
remora --version
bash -c '. /usr/share/bash-completion/completions/remora; complete -p remora' >/dev/null
[ -s /usr/share/man/man1/remora-import.1.gz ] || fail 'no manual page'
say 'installed'

# The server that the release has, as its users have it.
install mariadb-server-core mariadb-client-core
seq 1 1000 | sed 's/.*/&,text &/' >/tmp/rows.csv
remora sandbox start try >/dev/null
remora import /tmp/rows.csv --into try.numbers --no-header --create --create-database --url sandbox:try >/dev/null
[ "$(sql try 'SELECT COUNT(*) FROM try.numbers')" = 1000 ] || fail 'the import has not all rows'
remora backup sandbox:try --to /tmp/repo --name try >/dev/null
remora verify /tmp/repo >/dev/null
remora sandbox stop try --remove >/dev/null
say 'a sandbox, an import, a backup'

if ls /release/remora-plugins-"$SERIES"_*_amd64.deb >/dev/null 2>&1; then
  install /release/remora-urlpack_*_amd64.deb /release/remora-plugins-"$SERIES"_*_amd64.deb
  remora sandbox start queue --plugins >/dev/null
  sql queue "CREATE DATABASE q; CREATE TABLE q.jobs (id INT) ENGINE=QUEUE; INSERT INTO q.jobs VALUES (7);"
  [ "$(sql queue "SELECT id FROM q.jobs WHERE queue_wait('q.jobs')")" = 7 ] || fail 'the queue has not given its row'
  [ "$(sql queue "SELECT CAST(url_unpack(url_pack('http://example.com/')) AS CHAR)")" = http://example.com/ ] ||
    fail 'an URL is not what it was'
  remora sandbox stop queue --remove >/dev/null
  say 'plugins in a sandbox'

  # The trigger: whichever release the server is updated to, it finds the engine for that one.
  link=/usr/lib/mysql/plugin/ha_queue.so
  packages() { apt-cache policy mariadb-server-core | sed -n 's/^[ *]*\([0-9]*:[^ ]*\) [0-9]*$/\1/p' | sort -V; }
  for package in $(packages); do
    release=${package#*:}
    release=${release%%[-+]*}
    install mariadb-server-core="$package" mariadb-client-core="$package"
    [ "$(readlink $link)" = "/usr/lib/remora/mariadb-$SERIES/$release/ha_queue.so" ] ||
      fail "after an update to $release the engine is $(readlink $link)"
    say "the server is $release, and finds its engine"
  done
  # A release that nobody has an engine for: none is found, and the update ends well.
  mv /usr/lib/remora/mariadb-"$SERIES"/"$release" /tmp/away
  install --reinstall mariadb-server-core
  [ ! -L $link ] || fail 'an engine is found that was not built for this release'
  grep -q 'no ENGINE=QUEUE for MariaDB' /tmp/apt.log || fail 'the update says nothing of the missing engine'
  mv /tmp/away /usr/lib/remora/mariadb-"$SERIES"/"$release"
  apt-get purge -qq -y remora-urlpack remora-plugins-"$SERIES" >/dev/null
  [ ! -L $link ] || fail 'the engine is still found'
fi

install "$NEXT"/remora_*_amd64.deb
case $(dpkg-query -W -f '${Version}' remora) in *next*) ;; *) fail 'not upgraded' ;; esac
remora --version >/dev/null
say 'upgraded'

apt-get purge -qq -y remora >/dev/null
rm -rf /root/.cache/remora /tmp/repo
find / -xdev -name '*remora*' -not -path '/release*' -not -path '/proc/*' >/tmp/after
cmp -s /tmp/before /tmp/after || fail "left behind: $(comm -13 /tmp/before /tmp/after)"
say 'removed, and nothing is left'
