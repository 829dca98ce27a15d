-- InnoDB tables without a primary key: CALL m.no_primary_key('%').
-- Servers: all
CREATE PROCEDURE no_primary_key(IN db_like VARCHAR(64) CHARACTER SET utf8)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: tables without primary key'
BEGIN
  -- InnoDB gives such a table a hidden index, and its dictionary has that: no table is opened.
  SELECT t.db, t.table_name
    FROM (
      SELECT DISTINCT
          CONVERT(CONVERT(CAST(SUBSTRING_INDEX(t.name, '/', 1) AS BINARY) USING filename) USING utf8) AS db,
          CONVERT(CONVERT(CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(t.name, '/', -1), '#P#', 1), '#p#', 1)
            AS BINARY) USING filename) USING utf8) AS table_name
        FROM information_schema.innodb_sys_indexes i
        JOIN information_schema.innodb_sys_tables t ON t.table_id = i.table_id
        -- A sequence of MariaDB is a table, too, with one row.
        LEFT JOIN (SELECT table_id FROM information_schema.innodb_sys_columns WHERE name = 'next_not_cached_value') s
          ON s.table_id = t.table_id
        WHERE i.name = 'GEN_CLUST_INDEX' AND t.name NOT LIKE '%/#%' AND s.table_id IS NULL
    ) t
    WHERE t.db LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci) AND t.db <> 'mysql'
    ORDER BY 1, 2;
END
