-- Who waits for a row lock of InnoDB, for whom, and for how long: CALL m.blockers().
-- Servers: all
CREATE PROCEDURE blockers()
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: who waits for whom'
BEGIN
  -- The times of transactions are in the system's time zone, whatever that of the session is.
  DECLARE now_there DATETIME DEFAULT CONVERT_TZ(NOW(), @@SESSION.time_zone, 'SYSTEM');
  SELECT r.trx_mysql_thread_id AS waiting, TIMESTAMPDIFF(SECOND, r.trx_wait_started, now_there) AS waits_s,
      r.trx_query AS waiting_statement, b.trx_mysql_thread_id AS blocker,
      p.user AS blocker_user, p.host AS blocker_host, p.command AS blocker_command, p.time AS blocker_time_s,
      TIMESTAMPDIFF(SECOND, b.trx_started, now_there) AS blocker_transaction_s, b.trx_rows_modified AS blocker_rows_changed,
      b.trx_query AS blocker_statement,
      -- A transaction that waits itself is not the root of it.
      b.trx_wait_started IS NULL AS is_root,
      -- An XA transaction that was prepared outlives its connection.
      IF(b.trx_mysql_thread_id = 0, 'XA RECOVER', CONCAT('KILL ', b.trx_mysql_thread_id)) AS remedy
    FROM information_schema.innodb_lock_waits w
    JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
    JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id
    LEFT JOIN information_schema.processlist p ON p.id = b.trx_mysql_thread_id
    ORDER BY is_root DESC, waits_s DESC, 1, 4;
END
