head -c 5000000 /dev/urandom > big.ibd
head -c 2000000 /dev/urandom > /backup/shop.sql.zst
