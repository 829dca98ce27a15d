-- Who waits for a row lock of InnoDB or for a metadata lock, for whom, and for how long: CALL m.blockers().
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
  -- Metadata locks are the server's own. Who holds them is in performance_schema, where the server has them
  -- there.
  IF EXISTS (SELECT 1 FROM information_schema.tables
      WHERE table_schema = 'performance_schema' AND table_name = 'metadata_locks') THEN
    SELECT p.id AS waiting, p.time AS waits_s, p.info AS waiting_statement, bt.processlist_id AS blocker,
        bt.processlist_user AS blocker_user, bt.processlist_host AS blocker_host, bt.processlist_command AS blocker_command,
        bt.processlist_time AS blocker_time_s, CONCAT_WS('.', w.object_schema, w.object_name) AS locked, b.lock_type AS held,
        w.lock_type AS wanted, CONCAT('KILL ', bt.processlist_id) AS remedy
      FROM information_schema.processlist p
      LEFT JOIN performance_schema.threads wt ON wt.processlist_id = p.id
      LEFT JOIN performance_schema.metadata_locks w ON w.owner_thread_id = wt.thread_id AND w.lock_status = 'PENDING'
      LEFT JOIN performance_schema.metadata_locks b ON b.object_type = w.object_type AND b.object_schema <=> w.object_schema
        AND b.object_name <=> w.object_name AND b.lock_status = 'GRANTED' AND b.owner_thread_id <> w.owner_thread_id
      LEFT JOIN performance_schema.threads bt ON bt.thread_id = b.owner_thread_id
      WHERE p.state LIKE 'Waiting for%metadata lock'
      ORDER BY waits_s DESC, 1, 4;
  ELSE
    SELECT p.id AS waiting, p.time AS waits_s, p.info AS waiting_statement
      FROM information_schema.processlist p WHERE p.state LIKE 'Waiting for%metadata lock' ORDER BY waits_s DESC, 1;
  END IF;
END
