-- Indexes that nothing has read since the server counts: CALL m.unused_indexes('shop').
-- Servers: all
CREATE PROCEDURE unused_indexes(IN db_like VARCHAR(64) CHARACTER SET utf8)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: indexes that nothing reads'
BEGIN
  IF @@performance_schema = 0 AND IFNULL((SELECT variable_value FROM information_schema.global_variables
      WHERE variable_name = 'USERSTAT'), 'OFF') <> 'ON' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =
      'unused_indexes: this server does not count; SET GLOBAL userstat = 1 (MariaDB) or start it with performance_schema';
  ELSEIF @@performance_schema THEN
    SELECT object_schema AS db, object_name AS table_name, index_name, 'performance_schema' AS counted_by
      FROM performance_schema.table_io_waits_summary_by_index_usage
      WHERE index_name IS NOT NULL AND index_name <> 'PRIMARY' AND count_star = 0
        AND object_schema LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci) AND object_schema <> 'mysql'
      ORDER BY 1, 2, 3;
  ELSE
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
  END IF;
END
