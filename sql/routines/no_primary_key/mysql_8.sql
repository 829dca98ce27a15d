-- InnoDB tables without a primary key: CALL m.no_primary_key('%').
-- Servers: MySQL 8 and later
CREATE PROCEDURE no_primary_key(IN db_like VARCHAR(64) CHARACTER SET utf8mb4)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: tables without primary key'
BEGIN
  SELECT t.table_schema AS db, t.table_name AS table_name
    FROM information_schema.tables t
    WHERE t.table_type = 'BASE TABLE' AND t.engine = 'InnoDB'
      AND t.table_schema LIKE (IFNULL(db_like, '%') COLLATE utf8mb4_general_ci)
      AND t.table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
      -- Without a primary key InnoDB takes the first unique index of whole columns that can't be NULL.
      AND NOT EXISTS (
        SELECT 1 FROM information_schema.statistics s
          WHERE s.table_schema = t.table_schema AND s.table_name = t.table_name AND s.non_unique = 0
          GROUP BY s.index_name
          HAVING SUM(s.nullable = 'YES' OR s.sub_part IS NOT NULL OR s.column_name IS NULL) = 0)
    ORDER BY 1, 2;
END
