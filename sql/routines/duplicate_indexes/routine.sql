-- Indexes that another index makes needless: CALL m.duplicate_indexes('shop').
-- Servers: all
CREATE PROCEDURE duplicate_indexes(IN db_like VARCHAR(64) CHARACTER SET utf8)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: indexes that another one covers'
BEGIN
  DECLARE room BIGINT UNSIGNED DEFAULT @@SESSION.group_concat_max_len;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SET SESSION group_concat_max_len = room;
    RESIGNAL;
  END;
  SET SESSION group_concat_max_len = 1048576, @_remora_table = NULL, @_remora_index = NULL, @_remora_columns = NULL;
  -- In this order an index comes right after one that covers it. Joining each with each would be quadratic.
  SELECT d.db, d.table_name, d.index_name, TRIM(TRAILING ',' FROM d.index_columns) AS index_columns,
      d.covered_by, TRIM(TRAILING ',' FROM d.covering_columns) AS covering_columns
    FROM (
      SELECT s.db, s.table_name, s.index_name, s.columns AS index_columns, s.non_unique,
          s.place = @_remora_table AND LEFT(@_remora_columns, CHAR_LENGTH(s.columns)) = s.columns AS is_covered,
          s.columns = @_remora_columns AS is_equal,
          CAST(@_remora_index AS CHAR(64) CHARACTER SET utf8) AS covered_by,
          CAST(@_remora_columns AS CHAR(2000) CHARACTER SET utf8) AS covering_columns,
          @_remora_table := s.place AS was_table, @_remora_index := s.index_name AS was_index,
          @_remora_columns := s.columns AS was_columns
        FROM (
          SELECT table_schema AS db, table_name, index_name, MAX(non_unique) AS non_unique,
              CONVERT(CONCAT(table_schema, '/', table_name) USING utf8) COLLATE utf8_bin AS place,
              CONVERT(GROUP_CONCAT(CONCAT('`', REPLACE(column_name, '`', '``'), '`',
                IF(sub_part IS NULL, '', CONCAT('(', sub_part, ')')),
                IF(collation = 'D', ' DESC', ''), ',')
                ORDER BY seq_in_index SEPARATOR '') USING utf8) COLLATE utf8_bin AS columns
            FROM information_schema.statistics
            WHERE table_schema LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci)
              AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
              -- Only an open table tells this. MySQL 5.6 has no collation, which would tell FULLTEXT, too.
              AND index_type = 'BTREE'
              -- An index that queries may not use covers nothing.
              /*M!100600 AND ignored = 'NO' */
            GROUP BY table_schema, table_name, index_name
            ORDER BY place, columns DESC, index_name = 'PRIMARY' DESC, non_unique, index_name
            LIMIT 18446744073709551615
        ) s
    ) d
    -- A unique index also keeps duplicates away: only another one on the same columns makes it needless.
    WHERE d.is_covered AND (d.non_unique = 1 OR d.is_equal)
    ORDER BY d.db, d.table_name, d.index_name;
  SET SESSION group_concat_max_len = room, @_remora_table = NULL, @_remora_index = NULL, @_remora_columns = NULL;
END
