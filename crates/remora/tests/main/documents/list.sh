remora backup mysql: --to /backup --prove
truncate -s 4M /srv/d.img
remora backup file:/srv/d.img --to /backup --name data
remora backup mysql: --to /backup
