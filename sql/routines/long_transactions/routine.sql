-- InnoDB transactions that have been open for at least 60 s: CALL m.long_transactions(60).
-- Servers: all
CREATE PROCEDURE long_transactions(IN seconds INT UNSIGNED)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: open transactions'
BEGIN
  -- The times of transactions are in the system's time zone, whatever that of the session is.
  DECLARE now_there DATETIME DEFAULT CONVERT_TZ(NOW(), @@SESSION.time_zone, 'SYSTEM');
  SELECT t.trx_mysql_thread_id AS thread, TIMESTAMPDIFF(SECOND, t.trx_started, now_there) AS open_s,
      p.user, p.host, p.db, p.command, p.time AS in_command_s, t.trx_state AS state,
      t.trx_rows_locked AS rows_locked, t.trx_rows_modified AS rows_changed, t.trx_query AS statement
    FROM information_schema.innodb_trx t
    LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
    WHERE TIMESTAMPDIFF(SECOND, t.trx_started, now_there) >= IFNULL(seconds, 0) AND t.trx_mysql_thread_id <> CONNECTION_ID()
    ORDER BY open_s DESC, 1;
END
