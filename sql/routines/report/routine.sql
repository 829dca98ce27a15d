-- What changed within some seconds, and how much per second: CALL m.report(0.5).
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
    FROM information_schema.global_status
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
          -- These go up and down, or say what is, not what was done.
          variable_name REGEXP CONCAT('^(UPTIME|MAX_|THREADS_(CONNECTED|RUNNING|CACHED)$',
            '|OPEN_(FILES|TABLES|STREAMS|TABLE_DEFINITIONS)$|MEMORY_USED|PREPARED_STMT_COUNT|SLAVES_|SLAVE_OPEN_',
            '|LAST_|TC_LOG_|QCACHE_(FREE_|TOTAL_|QUERIES_IN)|KEY_BLOCKS_|ARIA_PAGECACHE_BLOCKS_',
            '|INNODB_(CHECKPOINT_|HISTORY_|MEM_|NUM_OPEN|PAGE_SIZE|IBUF_(SIZE|FREE|SEG)|BUFFER_POOL_BYTES_',
            '|BUFFER_POOL_PAGES_(DATA|DIRTY|FREE|MISC|OLD|TOTAL|LATCHED)|ROW_LOCK_(CURRENT|TIME_(AVG|MAX)))',
            '|WSREP_(LOCAL_(STATE|INDEX|.*QUEUE)|CLUSTER_))|_(CURRENT_WAITS|PENDING_[A-Z]+)$') AS is_gauge
        FROM information_schema.global_status
        WHERE variable_value REGEXP '^-?[0-9]+([.][0-9]+)?$'
          AND LOCATE(CONCAT('\n', CONVERT(variable_name USING latin1), '='), before_all) > 0
    ) s
    WHERE s.new_value <> s.old_value
    ORDER BY s.name;
  SET SESSION group_concat_max_len = room;
END
