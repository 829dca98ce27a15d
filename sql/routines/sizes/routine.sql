-- The largest InnoDB tables: CALL m.sizes('shop', 20); NULL or '%' for every database.
-- Servers: all
CREATE PROCEDURE sizes(IN db_like VARCHAR(64) CHARACTER SET utf8, IN top INT UNSIGNED)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: largest InnoDB tables'
BEGIN
  -- information_schema.tables would open every table.
  DECLARE top_rows INT UNSIGNED DEFAULT IFNULL(top, 4294967295);
  SELECT s.database_name AS db, SUBSTRING_INDEX(SUBSTRING_INDEX(s.table_name, '#P#', 1), '#p#', 1) AS table_name,
      SUM(s.n_rows) AS rows_about, SUM(s.clustered_index_size) * @@innodb_page_size AS data_bytes,
      SUM(s.sum_of_other_index_sizes) * @@innodb_page_size AS index_bytes,
      SUM(s.clustered_index_size + s.sum_of_other_index_sizes) * @@innodb_page_size AS bytes
    FROM mysql.innodb_table_stats s
    WHERE s.database_name LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci)
    GROUP BY 1, 2
    ORDER BY bytes DESC, 1, 2
    LIMIT top_rows;
END
