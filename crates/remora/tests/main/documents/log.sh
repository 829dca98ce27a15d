mariadb shop <<'SQL'
SET GLOBAL binlog_row_metadata = 'FULL';
FLUSH BINARY LOGS;
DELETE FROM order_lines;
SET gtid_seq_no = 90113;
DELETE FROM orders;
INSERT INTO orders VALUES (4711, 1, 2.50, 'new');
ALTER TABLE orders ADD COLUMN paid DATE
SQL
