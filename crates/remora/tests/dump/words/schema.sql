-- Words of the schema itself: members of ENUM and SET, defaults and comments in other character sets, and
-- names of 64 letters of two bytes.
SET @q = CHAR(39 USING utf8), @e = CONVERT(_latin1 0xE9 USING utf8), @s = CONVERT(_latin1 0xDF USING utf8);
SET @euro = _utf8 0xE282AC, @kanji = _utf8 0xE8A1A8;
SET @sql = CONCAT('CREATE TABLE sets (id INT PRIMARY KEY, e ENUM(', @q, @e, @q, ', "a"), s SET("', @s, '", "b") CHARACTER SET latin1, j ENUM("', @kanji,
  '") CHARACTER SET sjis, d VARCHAR(10) CHARACTER SET latin1 DEFAULT "', @e, @q, '" COMMENT "', @euro, @q, '\\\\") DEFAULT CHARSET=latin1 COMMENT="', @euro, '"');
PREPARE s FROM @sql;
EXECUTE s;
INSERT INTO sets (id, e, s, j) VALUES (1, 1, 3, 1), (2, 'a', '', NULL);
SET @sql = CONCAT('CREATE TABLE `', REPEAT(@e, 64), '` (`', REPEAT(@s, 64), '` INT PRIMARY KEY)');
PREPARE s FROM @sql;
EXECUTE s;
SET @sql = CONCAT('INSERT INTO `', REPEAT(@e, 64), '` VALUES (1)');
PREPARE s FROM @sql;
EXECUTE s;
SET @sql = CONCAT('CREATE TABLE `', REPEAT(@e, 63), 'x` (id INT PRIMARY KEY)');
PREPARE s FROM @sql;
EXECUTE s;
