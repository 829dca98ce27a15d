-- InnoDB files of which 100 MiB or more are unused: CALL m.fragmentation('%', 100).
-- Servers: mariadb
CREATE PROCEDURE fragmentation(IN db_like VARCHAR(64) CHARACTER SET utf8, IN least_mib INT UNSIGNED)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: files larger than their tables'
BEGIN
  SELECT f.db, f.table_name, f.file_bytes, f.used_bytes, f.file_bytes - f.used_bytes AS free_bytes,
      ROUND(100 * (f.file_bytes - f.used_bytes) / f.file_bytes, 1) AS free_percent
    FROM (
      SELECT s.database_name AS db, s.table_name,
          -- Old statistics may count more pages than the file has.
          CAST(t.file_size AS SIGNED) AS file_bytes,
          CAST((s.clustered_index_size + s.sum_of_other_index_sizes) * t.page_size AS SIGNED) AS used_bytes
        FROM (
          SELECT CONVERT(CONVERT(CAST(SUBSTRING_INDEX(name, '/', 1) AS BINARY) USING filename) USING utf8) AS db,
              CONVERT(CONVERT(CAST(SUBSTRING_INDEX(name, '/', -1) AS BINARY) USING filename) USING utf8) AS table_name,
              file_size, page_size
            FROM information_schema.innodb_sys_tablespaces
            WHERE file_size >= IFNULL(least_mib, 0) * 1048576 AND name LIKE '%/%' AND name NOT LIKE '%#%'
        ) t
        JOIN mysql.innodb_table_stats s
          ON s.database_name = t.db COLLATE utf8_bin AND s.table_name = t.table_name COLLATE utf8_bin
        WHERE s.database_name LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci)
    ) f
    WHERE f.file_bytes - f.used_bytes >= IFNULL(least_mib, 0) * 1048576
    ORDER BY free_bytes DESC, 1, 2;
END
