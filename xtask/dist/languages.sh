# Runs in the bare tree of a Debian release: what is in /release for Python and Node is installed and used.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
say() { printf '    %s: %s\n' "$SERIES" "$*"; }
apt-get update -qq
apt-get install -qq -y --no-install-recommends mariadb-server-core mariadb-client-core python3-venv nodejs \
  >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }

python3 -m venv /tmp/python
/tmp/python/bin/pip install --quiet --disable-pip-version-check --no-index /release/remora_db-*_x86_64.whl
/tmp/python/bin/python /checks/wheel.py
/tmp/python/bin/python -m remora_db --version >/dev/null
/tmp/python/bin/pip uninstall --quiet --yes remora-db
[ ! -e /tmp/python/bin/remora ] || { say 'pip has left the program behind'; exit 1; }
say "$(python3 --version): the wheel"

# npm itself needs hundreds of packages of Debian. It puts the packages into these two folders.
modules=/tmp/node/node_modules
mkdir -p "$modules/remora-db" "$modules/remora-db-linux-x64"
tar -xzf /release/remora-db-[0-9]*.tgz -C "$modules/remora-db" --strip-components=1
tar -xzf /release/remora-db-linux-x64-*.tgz -C "$modules/remora-db-linux-x64" --strip-components=1
cd /tmp/node
remora() { node "$modules/remora-db/bin/remora.js" "$@"; }
[ "$(remora --version)" = "$("$modules/remora-db-linux-x64/remora" --version)" ]
code=0
remora import /nowhere >/dev/null 2>&1 || code=$?
[ $code = 2 ] || { say "remora's code 2 has become $code"; exit 1; }
[ -x "$(node -p 'require("remora-db").program()')" ]
say "Node $(node --version): the packages of npm"
