-- All bytes in every kind of text, and character sets whose second bytes look like backslashes.
CREATE TABLE bytes (id INT PRIMARY KEY AUTO_INCREMENT, l VARCHAR(300) CHARACTER SET latin1, b VARBINARY(300), f BINARY(8), c CHAR(8) CHARACTER SET latin1,
  t MEDIUMTEXT CHARACTER SET latin1, x BLOB);
CREATE TABLE digits (n INT PRIMARY KEY);
INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12),(13),(14),(15);
INSERT INTO bytes (l, b, f, c, t, x)
  SELECT CONVERT(CHAR(a.n * 16 + b.n USING binary) USING latin1), CHAR(a.n * 16 + b.n USING binary), CHAR(a.n * 16 + b.n USING binary),
    CONVERT(CHAR(a.n * 16 + b.n USING binary) USING latin1), CONCAT('x', CONVERT(CHAR(a.n * 16 + b.n USING binary) USING latin1), 'y'),
    CONCAT(CHAR(a.n * 16 + b.n USING binary), CHAR(b.n * 16 + a.n USING binary))
  FROM digits a, digits b;
INSERT INTO bytes (l, b, f, c, t, x) VALUES ('\\N', '\\N', '\\N', '\\N', '\\N', '\\N'), ('NULL', 'NULL', 'NULL', 'NULL', 'NULL', 'NULL'),
  ('', '', '', '', '', ''), (NULL, NULL, NULL, NULL, NULL, NULL), ('a ', 'a ', 'a\0', 'a ', ' a\r\n', '"a","b"\n');
CREATE TABLE charsets (id INT PRIMARY KEY, u8 VARCHAR(50) CHARACTER SET utf8, u84 VARCHAR(50) CHARACTER SET utf8mb4,
  u2 VARCHAR(50) CHARACTER SET ucs2, u16 VARCHAR(50) CHARACTER SET utf16, u32 VARCHAR(50) CHARACTER SET utf32,
  sj VARCHAR(50) CHARACTER SET sjis, gb VARCHAR(50) CHARACTER SET gbk, b5 VARCHAR(50) CHARACTER SET big5,
  l2 VARCHAR(50) CHARACTER SET latin2, a VARCHAR(50) CHARACTER SET ascii, uj TEXT CHARACTER SET ujis);
INSERT INTO charsets VALUES (1, _utf8 0xC3A9E282AC, _utf8mb4 0xF09F9880, _ucs2 0x005C0009000A0000, _utf16 0xD83DDE00005C, _utf32 0x0000005C,
  _sjis 0x835C955C, _gbk 0xBF5C815C, _big5 0xA55CB35C, _latin2 0xB1E6EA, 'a\\b', _ujis 0xA4A2A4A4);
INSERT INTO charsets (id, u84) VALUES (2, '');
-- UTF-8 that was stored as latin1: only its bytes are right.
CREATE TABLE twice (id INT PRIMARY KEY, t VARCHAR(20) CHARACTER SET latin1 COMMENT 'it''s ; a -- "comment" \\ with  KEY `x` (`y`)');
INSERT INTO twice VALUES (1, _latin1 0xC3A4C3B6);
