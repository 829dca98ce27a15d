-- Tables with each type, kind of key and option, for `make`. A line that begins with `-- 11.8` says that the
-- next statement is for that series and later ones only.
CREATE TABLE numbers (
  a tinyint, b tinyint unsigned NOT NULL, c smallint zerofill, d smallint unsigned, e mediumint NOT NULL,
  f mediumint unsigned, g int, h int(5) unsigned zerofill, i bigint NOT NULL AUTO_INCREMENT, j bigint unsigned,
  k float, l float(10,2), m float unsigned NOT NULL, n double, o double(15,4) unsigned zerofill, p double zerofill,
  q decimal(5,2), r decimal(65,30) unsigned, s decimal(38,38), t decimal(10,0) zerofill NOT NULL, u bit(1),
  v bit(10) NOT NULL, w bit(64), x bool, y year, z year(2), PRIMARY KEY (i));
CREATE TABLE times (
  a date, b time, c time(1) NOT NULL, d time(3), e time(6), f datetime, g datetime(2) NOT NULL, h datetime(5),
  i timestamp NULL, j timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  k timestamp(4) NULL DEFAULT NULL, l timestamp(6) NOT NULL DEFAULT '2020-01-01 00:00:00', m year(4) DEFAULT 2001,
  KEY (g), UNIQUE KEY (j, l));
CREATE TABLE texts (
  a char(10), b char(10) CHARACTER SET utf8mb4 NOT NULL, c char(3) CHARACTER SET ucs2, d char(255) CHARACTER SET utf32,
  e varchar(63) CHARACTER SET utf8mb4, f varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, g varchar(255),
  h varchar(256) NOT NULL DEFAULT 'it''s \\ a\nline', i varchar(300) COLLATE utf8mb4_uca1400_spanish_as_cs, j tinytext,
  k text CHARACTER SET utf8mb3, l mediumtext CHARACTER SET utf16le, m longtext COLLATE utf8mb4_general_ci,
  n varchar(100) COMPRESSED, o text COMPRESSED, p mediumtext COMPRESSED CHARACTER SET utf8mb4, q json,
  r varchar(0), s char(0), t char(20) CHARACTER SET utf16, u varchar(10) CHARACTER SET sjis, v national varchar(10)
) DEFAULT CHARSET=latin1;
CREATE TABLE bytes (
  a binary(10), b binary(255) NOT NULL, c varbinary(255), d varbinary(256), e tinyblob, f blob NOT NULL, g mediumblob,
  h longblob, i varbinary(100) COMPRESSED, j blob COMPRESSED, k longblob COMPRESSED, l char(5) CHARACTER SET binary
) ROW_FORMAT=COMPACT;
CREATE TABLE members (
  a enum('x','y','z'), b enum('a','A') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL, c set('one','two','three'),
  d set('a','b','c','d','e','f','g','h','i') NOT NULL, e enum('it''s','a,b','','back\\slash','new\nline'),
  f enum('grün','grau') CHARACTER SET utf8mb4, g enum('grün','grau') CHARACTER SET latin1,
  h set('ä','ö') CHARACTER SET ucs2, i enum('x','y') CHARACTER SET utf16, j enum('x','y','z') DEFAULT 'y',
  k enum('ÿ','b') CHARACTER SET latin1, l enum('€','ž') CHARACTER SET latin1
) DEFAULT CHARSET=utf8mb4;
CREATE TABLE addresses (u uuid NOT NULL, v uuid, i4 inet4, i6 inet6 NOT NULL DEFAULT '::1', PRIMARY KEY (u), KEY (i6));
CREATE TABLE shapes (
  a geometry NOT NULL, b point, c linestring, d polygon, e multipoint, f multilinestring, g multipolygon,
  h geometrycollection, i point REF_SYSTEM_ID=101 NOT NULL, id int, PRIMARY KEY (id), SPATIAL KEY (a), SPATIAL KEY at (i));
CREATE TABLE no_key (a int, b varchar(10));
CREATE TABLE unique_key (a int, b int NOT NULL, c varchar(20) NOT NULL, KEY (c), UNIQUE KEY nullable (a, b), UNIQUE KEY whole (c, b), UNIQUE KEY part (c(5)));
CREATE TABLE unique_part (a int, c varchar(20) NOT NULL, UNIQUE KEY part (c(5)), UNIQUE KEY nullable (a));
CREATE TABLE tiny_unique (a tinyblob NOT NULL, b int, UNIQUE KEY (a(255)));
CREATE TABLE prefixes (
  a varchar(300) CHARACTER SET utf8mb4 NOT NULL, b blob, c char(10) CHARACTER SET latin1, d binary(20), e text, f int NOT NULL,
  g varchar(20), PRIMARY KEY (a(10), f), KEY (b(20)), KEY (c(3), a(5)), KEY (d(7) DESC, f DESC), KEY (e(3), g), KEY (g(20)), UNIQUE KEY (a(20)));
CREATE TABLE descending (a int NOT NULL, b int, c int, PRIMARY KEY (a DESC), KEY (b DESC, c), KEY (c));
CREATE TABLE hash_key (a int, b text, c varchar(9000), UNIQUE KEY (b), UNIQUE KEY two (c, a), PRIMARY KEY (a), KEY (c(10)));
CREATE TABLE hash_named (a int, b int NOT NULL, UNIQUE KEY a (a) USING HASH, KEY b (b) USING HASH);
CREATE TABLE hash_versioned (id int PRIMARY KEY, a text NOT NULL, UNIQUE KEY (a)) WITH SYSTEM VERSIONING;
CREATE TABLE serials (id SERIAL, a double precision, b int(3) zerofill, c bigint zerofill, d mediumint zerofill, KEY (a));
CREATE TABLE fulltext_key (id int NOT NULL PRIMARY KEY, a text, b varchar(100), FULLTEXT KEY (a), FULLTEXT KEY both_of_them (a, b), KEY (b));
CREATE TABLE fulltext_own (FTS_DOC_ID bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, a text, FULLTEXT KEY (a));
CREATE TABLE fulltext_index (id int PRIMARY KEY, FTS_DOC_ID bigint unsigned NOT NULL, a text, UNIQUE KEY FTS_DOC_ID_INDEX (FTS_DOC_ID), FULLTEXT KEY (a));
CREATE TABLE computed (
  a int NOT NULL, b int AS (a * 2) VIRTUAL, c varchar(20) AS (concat('x)', a)) STORED, d int AS (a + 1) PERSISTENT UNIQUE,
  e char(5) GENERATED ALWAYS AS (left(c, 5)) VIRTUAL COMMENT 'the ''first'' five', KEY (b), PRIMARY KEY (a));
CREATE TABLE defaults (
  a int DEFAULT (1 + 2), b varchar(50) DEFAULT (concat('a', '(', "b'")), c int NOT NULL DEFAULT 5 COMMENT 'DEFAULT 7, KEY (c)',
  d datetime DEFAULT current_timestamp() ON UPDATE current_timestamp(), e bit(4) DEFAULT b'101', f int DEFAULT NULL, g text DEFAULT 'x',
  h int INVISIBLE DEFAULT 3, i int CHECK (i > 0), j json CHECK (json_length(j) < 5), k varchar(10) DEFAULT uuid(), l decimal(5,2) DEFAULT -1.50,
  m float DEFAULT 1e10, n varbinary(3) DEFAULT x'4142', o int DEFAULT (-1), CONSTRAINT c1 CHECK (a < c), CHECK (b <> 'x)'));
CREATE TABLE options (a int PRIMARY KEY, b int, KEY k (b) COMMENT 'a ''comment''' USING BTREE, KEY i (b, a) IGNORED)
  ENGINE=InnoDB AUTO_INCREMENT=77 AVG_ROW_LENGTH=100 MIN_ROWS=1 MAX_ROWS=1000 CHECKSUM=1 DELAY_KEY_WRITE=1
  STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 STATS_SAMPLE_PAGES=20 PACK_KEYS=1 ROW_FORMAT=DYNAMIC COMMENT='it''s; CREATE TABLE `x` (';
CREATE TABLE `odd ``names``` (`a``b` int, `select` int, `ключ` int, `c d` int, PRIMARY KEY (`select`), UNIQUE KEY `k``1` (`a``b`, `c d`), KEY `ключ` (`ключ`)) COMMENT='a long comment, longer than one hundred and eighty bytes, which the server puts elsewhere: it goes on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on';
CREATE TABLE parent (id int PRIMARY KEY, x int, KEY (x)) ENGINE=InnoDB;
CREATE TABLE child (id int PRIMARY KEY, p int NOT NULL, CONSTRAINT fk1 FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE SET DEFAULT, FOREIGN KEY (id) REFERENCES parent (x));
CREATE TABLE versioned (id int PRIMARY KEY, a varchar(10), UNIQUE KEY (a), KEY k (a, id)) WITH SYSTEM VERSIONING;
CREATE TABLE versioned_no_key (a int, b int WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING;
CREATE TABLE versioned_open (
  id int, s timestamp(6) GENERATED ALWAYS AS ROW START, e timestamp(6) GENERATED ALWAYS AS ROW END, x int, PERIOD FOR SYSTEM_TIME (s, e),
  PRIMARY KEY (id), UNIQUE KEY (x, e)) WITH SYSTEM VERSIONING;
CREATE TABLE versioned_precise (
  id int PRIMARY KEY, s bigint unsigned GENERATED ALWAYS AS ROW START INVISIBLE, e bigint unsigned GENERATED ALWAYS AS ROW END INVISIBLE,
  PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING;
CREATE TABLE period (id int, s date, e date, PERIOD FOR p (s, e), UNIQUE KEY u (id, p WITHOUT OVERLAPS));
CREATE TABLE partitioned (id int NOT NULL, d date NOT NULL, PRIMARY KEY (id, d)) PARTITION BY RANGE (year(d))
  (PARTITION p0 VALUES LESS THAN (2020) COMMENT = 'a)', PARTITION `P-x` VALUES LESS THAN (2021), PARTITION p2 VALUES LESS THAN MAXVALUE);
CREATE TABLE partitioned_hash (id int NOT NULL PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 3;
CREATE TABLE partitioned_sub (id int NOT NULL, x int NOT NULL, PRIMARY KEY (id, x)) PARTITION BY LIST (id) SUBPARTITION BY HASH (x) SUBPARTITIONS 2
  (PARTITION a VALUES IN (1,2), PARTITION b VALUES IN (3,NULL));
CREATE TABLE partitioned_named (id int NOT NULL, x int NOT NULL) PARTITION BY RANGE COLUMNS (id) SUBPARTITION BY HASH (x)
  (PARTITION a VALUES LESS THAN (10) (SUBPARTITION s0, SUBPARTITION s1), PARTITION b VALUES LESS THAN (20) (SUBPARTITION s2, SUBPARTITION s3));
CREATE TABLE partitioned_history (id int PRIMARY KEY) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION p0 HISTORY, PARTITION pn CURRENT);
CREATE TABLE partitioned_limit (id int) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 100 PARTITIONS 4;
CREATE TABLE partitioned_linear (id int) PARTITION BY LINEAR HASH (id) PARTITIONS 2;
CREATE TABLE many_columns (
  c0 int, c1 int, c2 varchar(10), c3 int NOT NULL, c4 int, c5 int, c6 int, c7 int, c8 int, c9 varchar(1000), c10 bit(3), c11 bit(5), c12 bit(8),
  KEY k1 (c1), KEY k2 (c2, c3, c4), KEY k3 (c10, c11));
CREATE SEQUENCE counter START WITH 100 CACHE 10;
CREATE TABLE redundant (a int PRIMARY KEY) ROW_FORMAT=REDUNDANT;
CREATE TABLE compressed (a int PRIMARY KEY, b int, KEY (b) KEY_BLOCK_SIZE=4) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;
CREATE TABLE page_compressed (a int PRIMARY KEY) PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=3;
CREATE TABLE other_engine (a int PRIMARY KEY) ENGINE=Aria TRANSACTIONAL=1;
-- 11.8
CREATE TABLE vectors (id int PRIMARY KEY, v vector(3) NOT NULL, w vector(100), VECTOR KEY v (v) M=8 DISTANCE=cosine);
-- 11.8
CREATE TABLE future (a int, t timestamp(6) NULL, PRIMARY KEY (a)) DEFAULT COLLATE utf8mb4_uca1400_nopad_ai_ci;
