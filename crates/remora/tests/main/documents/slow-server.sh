mariadb shop -e "BEGIN; UPDATE orders SET note = 'first' WHERE id = 1; SELECT SLEEP(60)" > /dev/null 2>&1 &
until mariadb -BNe "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(60)'" | grep -q 1; do sleep 0.05; done
mariadb shop -e "UPDATE orders SET note = 'second' WHERE id = 1" > /dev/null 2>&1 &
until mariadb -BNe "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'" | grep -q 1; do sleep 0.2; done
