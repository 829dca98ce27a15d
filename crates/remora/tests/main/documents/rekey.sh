remora key new old.key
remora backup mysql: --to /backup --key old.key
