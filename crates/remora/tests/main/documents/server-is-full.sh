remora backup mysql: --to /backup
