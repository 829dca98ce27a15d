-- Counters that changed within half a second, and their rates: CALL m.report(0.5).
-- Servers: all
CREATE PROCEDURE report(IN seconds DECIMAL(10, 3))
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: counters per second'
BEGIN
  -- The first reading is one text, name=value in lines: a temporary table would be written to the binary log.
  DECLARE before_all LONGTEXT CHARACTER SET latin1;
  DECLARE began, took DECIMAL(20, 6);
  DECLARE room BIGINT UNSIGNED DEFAULT @@SESSION.group_concat_max_len;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SET SESSION group_concat_max_len = room;
    RESIGNAL;
  END;
  IF seconds IS NULL OR seconds <= 0 OR seconds > 86400 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'report(seconds): give a number above 0 and up to 86400';
  END IF;
  SET SESSION group_concat_max_len = 1048576;
  SELECT CONCAT('\n', GROUP_CONCAT(CONCAT(variable_name, '=', variable_value) SEPARATOR '\n'), '\n'),
      UNIX_TIMESTAMP(SYSDATE(6))
    INTO before_all, began
    FROM information_schema.global_status c
    WHERE variable_value REGEXP '^-?[0-9]+([.][0-9]+)?$';
  DO SLEEP(seconds);
  SET took = UNIX_TIMESTAMP(SYSDATE(6)) - began;
  SELECT s.name AS status, s.new_value - s.old_value AS changed,
      CASE WHEN s.is_gauge = 0 AND s.new_value >= s.old_value
        THEN ROUND((s.new_value - s.old_value) / took, 3) END AS per_second,
      s.new_value AS value_now, took AS seconds,
      CASE WHEN s.is_gauge THEN 'gauge' WHEN s.new_value < s.old_value THEN 'set back' ELSE 'counter' END AS kind
    FROM (
      SELECT variable_name AS name,
          CAST(variable_value AS DECIMAL(38, 6)) AS new_value,
          CAST(SUBSTRING_INDEX(SUBSTRING(before_all,
            LOCATE(CONCAT('\n', CONVERT(variable_name USING latin1), '='), before_all)
              + CHAR_LENGTH(variable_name) + 2, 64), '\n', 1) AS DECIMAL(38, 6)) AS old_value,
          -- These go up and down or are settings. A test compares them with the list of remora stat.
          variable_name REGEXP CONCAT('^(ACL_|UPTIME|MAX_(MEMORY|TMP_SPACE|USED)_|MEMORY_USED|TMP_SPACE_USED|STACK_USAGE',
            '|THREADS_(CONNECTED|RUNNING|CACHED)$|THREADPOOL_(IDLE_)?THREADS|OPEN_(FILES|TABLES|STREAMS|TABLE_DEFINITIONS)$',
            '|TABLE_OPEN_CACHE_ACTIVE|PREPARED_STMT_COUNT|LAST_QUERY_|DELAYED_INSERT_|NOT_FLUSHED_|TC_LOG_(MAX_|PAGE_SIZE)',
            '|SLAVES_|SLAVE_(OPEN_|HEARTBEAT_PERIOD)|RPL_SEMI_SYNC_MASTER_(CLIENTS|WAIT_SESSIONS|(NET|TX)_AVG_)',
            '|BINLOG_(DISK_USE|SNAPSHOT_)|QCACHE_(FREE_|TOTAL_|QUERIES_IN)|KEY_BLOCKS_|ARIA_PAGECACHE_BLOCKS_',
            '|PERFORMANCE_SCHEMA_SESSION_CONNECT_ATTRS_LONG|SSL_(CTX_)?VERIFY_|SSL_DEFAULT_|SSL_(USED_)?SESSION_CACHE_(SIZE|ENTR)',
            '|INNODB_(ASYNC_.*_(PENDING|SIZE|RUNNING)$|AVAILABLE_|CHECKPOINT_|CURRENT_|ENCRYPTION_ROTATION_EST|HISTORY_|.*_PENDING_',
            '|BUFFER_POOL_(BYTES_|RESIZE_|PAGES_(DATA|DIRTY|FREE|LATCHED|MISC|OLD|TOTAL))|IBUF_(SIZE|FREE|SEG)|MEM_|NUM_OPEN',
            '|ONLINEDDL_|PAGE_SIZE|ROW_LOCK_(CURRENT|TIME_(AVG|MAX))|UNDO_TABLESPACES_)',
            '|DEPRECATED_USE_.*_TIMESTAMP$|ERROR_LOG_(BUFFERED|LATEST)_|GLOBAL_CONNECTION_MEMORY|ONGOING_|REPLICA_OPEN_',
            '|INNODB_REDO_LOG_(UUID|LOGICAL_SIZE|PHYSICAL_SIZE|CAPACITY_RESIZED)|SSL_SESSION_CACHE_TIMEOUT$',
            '|WSREP$|WSREP_(APPLIER_|APPLY_|CERT_|CLUSTER_|COMMIT_|DESYNC|FLOW_CONTROL_(INTERVAL_|PAUSED$)|GCACHE_|GMCAST_|IST_',
            '|LOCAL_(CACHED|INDEX|.*QUEUE|STATE)|OPEN_|PROTOCOL_|ROLLBACKER_|THREAD_))') AS is_gauge
        FROM information_schema.global_status c
        WHERE variable_value REGEXP '^-?[0-9]+([.][0-9]+)?$'
          AND LOCATE(CONCAT('\n', CONVERT(variable_name USING latin1), '='), before_all) > 0
    ) s
    WHERE s.new_value <> s.old_value
    ORDER BY s.name;
  SET SESSION group_concat_max_len = room;
END
