remora backup mysql: --to /backup
remora backup mysql: --to /backup
