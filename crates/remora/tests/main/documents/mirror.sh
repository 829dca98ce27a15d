store
remora backup mysql: --to /backup
