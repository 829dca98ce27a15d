remora backup mysql: --to /backup
remora backup mysql: --to /backup
mkdir -p /srv/old /srv/room /copy/shop
mariadb shop -e 'DELETE FROM order_lines WHERE order_id < 10; DELETE FROM orders WHERE id < 10'
mariadb-dump --no-data shop > shop.sql
remora sandbox stop db1
cp -a /var/lib/server/data /srv/old/mysql
cp /srv/old/mysql/shop/orders.* /copy/shop/
remora sandbox start db1
mariadb shop -e "DELETE FROM orders"
other
