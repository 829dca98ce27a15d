store
remora backup mysql: --to s3://company-backups/db
