# Runs in the bare tree of a Debian release: what is in /release for Python and Node is installed and used.
set -eu
export DEBIAN_FRONTEND=noninteractive HOME=/root
say() { printf '    %s: %s\n' "$SERIES" "$*"; }
apt-get update -qq
apt-get install -qq -y --no-install-recommends mariadb-server-core mariadb-client-core python3-venv nodejs npm \
  >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }

python3 -m venv /tmp/python
/tmp/python/bin/pip install --quiet --disable-pip-version-check --no-index /release/remora_db-*_x86_64.whl
/tmp/python/bin/python /checks/wheel.py
/tmp/python/bin/python -m remora_db --version >/dev/null
/tmp/python/bin/pip uninstall --quiet --yes remora-db
[ ! -e /tmp/python/bin/remora ] || { say 'pip has left the program behind'; exit 1; }
say "$(python3 --version): the wheel"

mkdir /tmp/node
cd /tmp/node
npm install --silent --no-audit --no-fund --offline --omit=optional /release/remora-db-linux-x64-*.tgz \
  /release/remora-db-[0-9]*.tgz
[ "$(npx --no-install remora --version)" = "$(node_modules/remora-db-linux-x64/remora --version)" ]
code=0
npx --no-install remora import /nowhere >/dev/null 2>&1 || code=$?
[ $code = 2 ] || { say "remora's code 2 has become $code"; exit 1; }
[ -x "$(node -p 'require("remora-db").program()')" ]
say "Node $(node --version): the packages of npm"
