SET sql_mode = '', time_zone = '+00:00', TIMESTAMP = 1700000000;
USE d;
FLUSH BINARY LOGS;
XA COMMIT 'later';
INSERT INTO other VALUES (7, 7);
TRUNCATE other;
SET SESSION binlog_format = STATEMENT; INSERT INTO other VALUES (8, 8); SET SESSION binlog_format = ROW;
DELETE FROM t WHERE id = 2;
