-- AUTO_INCREMENT columns and sequences that are nearly used up: CALL m.counters_near_end('%', 80).
-- Servers: all
CREATE PROCEDURE counters_near_end(IN db_like VARCHAR(64) CHARACTER SET utf8, IN percent INT UNSIGNED)
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: counters that run out'
BEGIN
  DECLARE all_sequences LONGTEXT CHARACTER SET utf8;
  DECLARE had LONGTEXT CHARACTER SET utf8 DEFAULT @_remora_statement;
  DECLARE room BIGINT UNSIGNED DEFAULT @@SESSION.group_concat_max_len;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    SET SESSION group_concat_max_len = room, @_remora_statement = had;
    RESIGNAL;
  END;
  SET SESSION group_concat_max_len = 16777216;
  -- A sequence tells its values only to a SELECT from it. One that counts down begins at its maximum.
  SELECT GROUP_CONCAT(CONCAT(' UNION ALL SELECT ', QUOTE(table_schema), ', ', QUOTE(table_name),
      ', NULL, CAST(next_not_cached_value AS DECIMAL(20)), ',
      'CAST(IF(increment < 0, maximum_value, minimum_value) AS DECIMAL(20)), ',
      'CAST(IF(increment < 0, minimum_value, maximum_value) AS DECIMAL(20)), ',
      'IF(cycle_option = 1, ''sequence, cycles'', ''sequence'') FROM `',
      REPLACE(table_schema, '`', '``'), '`.`', REPLACE(table_name, '`', '``'), '`') SEPARATOR '')
    INTO all_sequences
    FROM information_schema.tables
    WHERE table_type = 'SEQUENCE' AND table_schema LIKE (IFNULL(db_like, '%') COLLATE utf8_general_ci);
  SET @_remora_statement = CONCAT(
    'SELECT u.db, u.table_name, u.column_name, u.next_value, u.last_possible, ROUND(u.used, 2) AS used_percent, u.kind FROM (',
    'SELECT c.*, 100 * (c.next_value - c.first_possible) / (c.last_possible - c.first_possible) AS used FROM (',
    'SELECT t.table_schema AS db, t.table_name, c.column_name, CAST(t.auto_increment AS DECIMAL(20)) AS next_value, ',
    'CAST(0 AS DECIMAL(20)) AS first_possible, ',
    'CAST(CASE c.data_type WHEN ''tinyint'' THEN 127 WHEN ''smallint'' THEN 32767 WHEN ''mediumint'' THEN 8388607 ',
    'WHEN ''int'' THEN 2147483647 WHEN ''float'' THEN 16777216 WHEN ''double'' THEN 9007199254740992 ',
    'ELSE CAST(9223372036854775807 AS DECIMAL(20)) END * IF(c.column_type LIKE ''%unsigned%'' AND c.data_type LIKE ''%int'', 2, 1) ',
    '+ IF(c.column_type LIKE ''%unsigned%'' AND c.data_type LIKE ''%int'', 1, 0) AS DECIMAL(20)) AS last_possible, ',
    '''AUTO_INCREMENT'' AS kind FROM information_schema.tables t JOIN information_schema.columns c ',
    'ON c.table_schema = t.table_schema AND c.table_name = t.table_name AND c.extra LIKE ''%auto_increment%'' ',
    'WHERE t.auto_increment IS NOT NULL AND t.table_schema LIKE ', QUOTE(IFNULL(db_like, '%')),
    ' AND c.table_schema LIKE ', QUOTE(IFNULL(db_like, '%')),
    IFNULL(all_sequences, ''),
    ') c) u WHERE u.used >= ', IFNULL(percent, 0), ' ORDER BY used_percent DESC, 1, 2');
  PREPARE _remora_counters FROM @_remora_statement;
  EXECUTE _remora_counters;
  DEALLOCATE PREPARE _remora_counters;
  SET SESSION group_concat_max_len = room, @_remora_statement = had;
END
