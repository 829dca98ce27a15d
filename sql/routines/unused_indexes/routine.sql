-- Indexes that nothing has read: CALL m.unused_indexes('shop').
-- Servers: all
CREATE PROCEDURE unused_indexes(IN db_like VARCHAR(64) CHARACTER SET utf8)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: indexes that nothing reads'
BEGIN
  DECLARE watched BOOL DEFAULT FALSE;
  IF @@performance_schema THEN
    -- It may be on and count nothing.
    SET watched = EXISTS (SELECT 1 FROM performance_schema.setup_instruments
      WHERE name = 'wait/io/table/sql/handler' AND enabled = 'YES');
  END IF;
  IF watched THEN
    SELECT i.table_schema AS db, i.table_name, i.index_name, 'performance_schema' AS counted_by
      FROM (
        SELECT DISTINCT table_schema, table_name, index_name FROM information_schema.statistics
          WHERE table_schema LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci) AND non_unique = 1
            AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
      ) i
      JOIN performance_schema.table_io_waits_summary_by_index_usage u
        ON u.object_schema = i.table_schema AND u.object_name = i.table_name AND u.index_name = i.index_name
      WHERE u.count_star = 0
      ORDER BY 1, 2, 3;
  ELSEIF (SELECT variable_value FROM information_schema.global_variables WHERE variable_name = 'USERSTAT') = 'ON' THEN
    -- The table is MariaDB's.
    /*M!
    SELECT i.table_schema AS db, i.table_name, i.index_name, 'userstat' AS counted_by
      FROM (
        SELECT DISTINCT table_schema, table_name, index_name FROM information_schema.statistics
          WHERE table_schema LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci) AND non_unique = 1
            AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
      ) i
      LEFT JOIN information_schema.index_statistics u
        ON u.table_schema = i.table_schema AND u.table_name = i.table_name AND u.index_name = i.index_name
      WHERE u.rows_read IS NULL
      ORDER BY 1, 2, 3;
    */
    DO 0;
  ELSE
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
      'unused_indexes: this server does not count; SET GLOBAL userstat = 1 (MariaDB) or start it with performance_schema';
  END IF;
END
