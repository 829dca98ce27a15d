CREATE TABLE `addresses` (
  `u` uuid NOT NULL,
  `v` uuid DEFAULT NULL,
  `i4` inet4 DEFAULT NULL,
  `i6` inet6 NOT NULL DEFAULT '::1',
  PRIMARY KEY (`u`),
  KEY `i6` (`i6`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `bytes` (
  `a` binary(10) DEFAULT NULL,
  `b` binary(255) NOT NULL,
  `c` varbinary(255) DEFAULT NULL,
  `d` varbinary(256) DEFAULT NULL,
  `e` tinyblob DEFAULT NULL,
  `f` blob NOT NULL,
  `g` mediumblob DEFAULT NULL,
  `h` longblob DEFAULT NULL,
  `i` varbinary(100) /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `j` blob /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `k` longblob /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `l` binary(5) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci ROW_FORMAT=COMPACT;
CREATE TABLE `child` (
  `id` int(11) NOT NULL,
  `p` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `fk1` (`p`),
  CONSTRAINT `child_ibfk_1` FOREIGN KEY (`id`) REFERENCES `parent` (`x`),
  CONSTRAINT `fk1` FOREIGN KEY (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `compressed` (
  `a` int(11) NOT NULL,
  `b` int(11) DEFAULT NULL,
  PRIMARY KEY (`a`),
  KEY `b` (`b`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;
CREATE TABLE `computed` (
  `a` int(11) NOT NULL,
  `b` int(11) GENERATED ALWAYS AS (`a` * 2) VIRTUAL,
  `c` varchar(20) GENERATED ALWAYS AS (concat('x)',`a`)) STORED,
  `d` int(11) GENERATED ALWAYS AS (`a` + 1) STORED,
  `e` char(5) GENERATED ALWAYS AS (left(`c`,5)) VIRTUAL COMMENT 'the ''first'' five',
  PRIMARY KEY (`a`),
  UNIQUE KEY `d` (`d`),
  KEY `b` (`b`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `counter` (
  `next_not_cached_value` bigint(21) NOT NULL,
  `minimum_value` bigint(21) NOT NULL,
  `maximum_value` bigint(21) NOT NULL,
  `start_value` bigint(21) NOT NULL COMMENT 'start value when sequences is created or value if RESTART is used',
  `increment` bigint(21) NOT NULL COMMENT 'increment value',
  `cache_size` bigint(21) unsigned NOT NULL,
  `cycle_option` tinyint(1) unsigned NOT NULL COMMENT '0 if no cycles are allowed, 1 if the sequence should begin a new cycle when maximum_value is passed',
  `cycle_count` bigint(21) NOT NULL COMMENT 'How many cycles have been done'
) ENGINE=InnoDB SEQUENCE=1;
CREATE TABLE `defaults` (
  `a` int(11) DEFAULT (1 + 2),
  `b` varchar(50) DEFAULT concat('a','(','b\''),
  `c` int(11) NOT NULL DEFAULT 5 COMMENT 'DEFAULT 7, KEY (c)',
  `d` datetime DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `e` bit(4) DEFAULT b'101',
  `f` int(11) DEFAULT NULL,
  `g` text DEFAULT 'x',
  `h` int(11) INVISIBLE DEFAULT 3,
  `i` int(11) DEFAULT NULL CHECK (`i` > 0),
  `j` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_length(`j`) < 5),
  `k` varchar(10) DEFAULT uuid(),
  `l` decimal(5,2) DEFAULT -1.50,
  `m` float DEFAULT 10000000000,
  `n` varbinary(3) DEFAULT 'AB',
  `o` int(11) DEFAULT -1,
  CONSTRAINT `c1` CHECK (`a` < `c`),
  CONSTRAINT `CONSTRAINT_1` CHECK (`b` <> 'x)')
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `descending` (
  `a` int(11) NOT NULL,
  `b` int(11) DEFAULT NULL,
  `c` int(11) DEFAULT NULL,
  PRIMARY KEY (`a` DESC),
  KEY `b` (`b` DESC,`c`),
  KEY `c` (`c`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `fulltext_index` (
  `id` int(11) NOT NULL,
  `FTS_DOC_ID` bigint(20) unsigned NOT NULL,
  `a` text DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `FTS_DOC_ID_INDEX` (`FTS_DOC_ID`),
  FULLTEXT KEY `a` (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `fulltext_key` (
  `id` int(11) NOT NULL,
  `a` text DEFAULT NULL,
  `b` varchar(100) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `b` (`b`),
  FULLTEXT KEY `a` (`a`),
  FULLTEXT KEY `both_of_them` (`a`,`b`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `fulltext_own` (
  `FTS_DOC_ID` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `a` text DEFAULT NULL,
  PRIMARY KEY (`FTS_DOC_ID`),
  FULLTEXT KEY `a` (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `hash_key` (
  `a` int(11) NOT NULL,
  `b` text DEFAULT NULL,
  `c` varchar(9000) DEFAULT NULL,
  PRIMARY KEY (`a`),
  UNIQUE KEY `b` (`b`) USING HASH,
  UNIQUE KEY `two` (`c`,`a`) USING HASH,
  KEY `c` (`c`(10))
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `hash_named` (
  `a` int(11) DEFAULT NULL,
  `b` int(11) NOT NULL,
  UNIQUE KEY `a` (`a`) USING HASH,
  KEY `b` (`b`) USING HASH
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `hash_versioned` (
  `id` int(11) NOT NULL,
  `a` text NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `a` (`a`) USING HASH
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING;
CREATE TABLE `many_columns` (
  `c0` int(11) DEFAULT NULL,
  `c1` int(11) DEFAULT NULL,
  `c2` varchar(10) DEFAULT NULL,
  `c3` int(11) NOT NULL,
  `c4` int(11) DEFAULT NULL,
  `c5` int(11) DEFAULT NULL,
  `c6` int(11) DEFAULT NULL,
  `c7` int(11) DEFAULT NULL,
  `c8` int(11) DEFAULT NULL,
  `c9` varchar(1000) DEFAULT NULL,
  `c10` bit(3) DEFAULT NULL,
  `c11` bit(5) DEFAULT NULL,
  `c12` bit(8) DEFAULT NULL,
  KEY `k1` (`c1`),
  KEY `k2` (`c2`,`c3`,`c4`),
  KEY `k3` (`c10`,`c11`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `members` (
  `a` enum('x','y','z') DEFAULT NULL,
  `b` enum('a','A') CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  `c` set('one','two','three') DEFAULT NULL,
  `d` set('a','b','c','d','e','f','g','h','i') NOT NULL,
  `e` enum('it''s','a,b','','back\\slash','new\nline') DEFAULT NULL,
  `f` enum('grün','grau') DEFAULT NULL,
  `g` enum('grün','grau') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  `h` set('ä','ö') CHARACTER SET ucs2 COLLATE ucs2_general_ci DEFAULT NULL,
  `i` enum('x','y') CHARACTER SET utf16 COLLATE utf16_general_ci DEFAULT NULL,
  `j` enum('x','y','z') DEFAULT 'y',
  `k` enum('ÿ','b') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  `l` enum('€','ž') CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `no_key` (
  `a` int(11) DEFAULT NULL,
  `b` varchar(10) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `numbers` (
  `a` tinyint(4) DEFAULT NULL,
  `b` tinyint(3) unsigned NOT NULL,
  `c` smallint(5) unsigned zerofill DEFAULT NULL,
  `d` smallint(5) unsigned DEFAULT NULL,
  `e` mediumint(9) NOT NULL,
  `f` mediumint(8) unsigned DEFAULT NULL,
  `g` int(11) DEFAULT NULL,
  `h` int(5) unsigned zerofill DEFAULT NULL,
  `i` bigint(20) NOT NULL AUTO_INCREMENT,
  `j` bigint(20) unsigned DEFAULT NULL,
  `k` float DEFAULT NULL,
  `l` float(10,2) DEFAULT NULL,
  `m` float unsigned NOT NULL,
  `n` double DEFAULT NULL,
  `o` double(15,4) unsigned zerofill DEFAULT NULL,
  `p` double unsigned zerofill DEFAULT NULL,
  `q` decimal(5,2) DEFAULT NULL,
  `r` decimal(65,30) unsigned DEFAULT NULL,
  `s` decimal(38,38) DEFAULT NULL,
  `t` decimal(10,0) unsigned zerofill NOT NULL,
  `u` bit(1) DEFAULT NULL,
  `v` bit(10) NOT NULL,
  `w` bit(64) DEFAULT NULL,
  `x` tinyint(1) DEFAULT NULL,
  `y` year(4) DEFAULT NULL,
  `z` year(2) DEFAULT NULL,
  PRIMARY KEY (`i`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `odd ``names``` (
  `a``b` int(11) DEFAULT NULL,
  `select` int(11) NOT NULL,
  `ключ` int(11) DEFAULT NULL,
  `c d` int(11) DEFAULT NULL,
  PRIMARY KEY (`select`),
  UNIQUE KEY `k``1` (`a``b`,`c d`),
  KEY `ключ` (`ключ`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='a long comment, longer than one hundred and eighty bytes, which the server puts elsewhere: it goes on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on';
CREATE TABLE `options` (
  `a` int(11) NOT NULL,
  `b` int(11) DEFAULT NULL,
  PRIMARY KEY (`a`),
  KEY `k` (`b`) USING BTREE COMMENT 'a ''comment''',
  KEY `i` (`b`,`a`) IGNORED
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci MIN_ROWS=1 MAX_ROWS=1000 AVG_ROW_LENGTH=100 PACK_KEYS=1 STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 STATS_SAMPLE_PAGES=20 CHECKSUM=1 DELAY_KEY_WRITE=1 ROW_FORMAT=DYNAMIC COMMENT='it''s; CREATE TABLE `x` (';
CREATE TABLE `other_engine` (
  `a` int(11) NOT NULL,
  PRIMARY KEY (`a`)
) ENGINE=Aria DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci PAGE_CHECKSUM=1 TRANSACTIONAL=1;
CREATE TABLE `page_compressed` (
  `a` int(11) NOT NULL,
  PRIMARY KEY (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci `PAGE_COMPRESSED`=1 `PAGE_COMPRESSION_LEVEL`=3;
CREATE TABLE `parent` (
  `id` int(11) NOT NULL,
  `x` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `x` (`x`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `partitioned` (
  `id` int(11) NOT NULL,
  `d` date NOT NULL,
  PRIMARY KEY (`id`,`d`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY RANGE (year(`d`))
(PARTITION `p0` VALUES LESS THAN (2020) COMMENT = 'a)' ENGINE = InnoDB,
 PARTITION `P-x` VALUES LESS THAN (2021) ENGINE = InnoDB,
 PARTITION `p2` VALUES LESS THAN MAXVALUE ENGINE = InnoDB);
CREATE TABLE `partitioned_hash` (
  `id` int(11) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY KEY (`id`)
PARTITIONS 3;
CREATE TABLE `partitioned_history` (
  `id` int(11) NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING
 PARTITION BY SYSTEM_TIME 
(PARTITION `p0` HISTORY ENGINE = InnoDB,
 PARTITION `pn` CURRENT ENGINE = InnoDB);
CREATE TABLE `partitioned_limit` (
  `id` int(11) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING
 PARTITION BY SYSTEM_TIME LIMIT 100
PARTITIONS 4;
CREATE TABLE `partitioned_linear` (
  `id` int(11) DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY LINEAR HASH (`id`)
PARTITIONS 2;
CREATE TABLE `partitioned_named` (
  `id` int(11) NOT NULL,
  `x` int(11) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY RANGE  COLUMNS(`id`)
SUBPARTITION BY HASH (`x`)
(PARTITION `a` VALUES LESS THAN (10)
 (SUBPARTITION `s0` ENGINE = InnoDB,
  SUBPARTITION `s1` ENGINE = InnoDB),
 PARTITION `b` VALUES LESS THAN (20)
 (SUBPARTITION `s2` ENGINE = InnoDB,
  SUBPARTITION `s3` ENGINE = InnoDB));
CREATE TABLE `partitioned_sub` (
  `id` int(11) NOT NULL,
  `x` int(11) NOT NULL,
  PRIMARY KEY (`id`,`x`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY LIST (`id`)
SUBPARTITION BY HASH (`x`)
SUBPARTITIONS 2
(PARTITION `a` VALUES IN (1,2) ENGINE = InnoDB,
 PARTITION `b` VALUES IN (NULL,3) ENGINE = InnoDB);
CREATE TABLE `period` (
  `id` int(11) DEFAULT NULL,
  `s` date NOT NULL,
  `e` date NOT NULL,
  PERIOD FOR `p` (`s`, `e`),
  UNIQUE KEY `u` (`id`,`p` WITHOUT OVERLAPS)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `prefixes` (
  `a` varchar(300) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  `b` blob DEFAULT NULL,
  `c` char(10) DEFAULT NULL,
  `d` binary(20) DEFAULT NULL,
  `e` text DEFAULT NULL,
  `f` int(11) NOT NULL,
  `g` varchar(20) DEFAULT NULL,
  PRIMARY KEY (`a`(10),`f`),
  UNIQUE KEY `a` (`a`(20)),
  KEY `b` (`b`(20)),
  KEY `c` (`c`(3),`a`(5)),
  KEY `d` (`d`(7) DESC,`f` DESC),
  KEY `e` (`e`(3),`g`),
  KEY `g` (`g`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `redundant` (
  `a` int(11) NOT NULL,
  PRIMARY KEY (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci ROW_FORMAT=REDUNDANT;
CREATE TABLE `serials` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `a` double DEFAULT NULL,
  `b` int(3) unsigned zerofill DEFAULT NULL,
  `c` bigint(20) unsigned zerofill DEFAULT NULL,
  `d` mediumint(8) unsigned zerofill DEFAULT NULL,
  UNIQUE KEY `id` (`id`),
  KEY `a` (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `shapes` (
  `a` geometry NOT NULL,
  `b` point DEFAULT NULL,
  `c` linestring DEFAULT NULL,
  `d` polygon DEFAULT NULL,
  `e` multipoint DEFAULT NULL,
  `f` multilinestring DEFAULT NULL,
  `g` multipolygon DEFAULT NULL,
  `h` geometrycollection DEFAULT NULL,
  `i` point NOT NULL,
  `id` int(11) NOT NULL,
  PRIMARY KEY (`id`),
  SPATIAL KEY `a` (`a`),
  SPATIAL KEY `at` (`i`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `texts` (
  `a` char(10) DEFAULT NULL,
  `b` char(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  `c` char(3) CHARACTER SET ucs2 COLLATE ucs2_general_ci DEFAULT NULL,
  `d` char(255) CHARACTER SET utf32 COLLATE utf32_general_ci DEFAULT NULL,
  `e` varchar(63) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  `f` varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  `g` varchar(255) DEFAULT NULL,
  `h` varchar(256) NOT NULL DEFAULT 'it''s \\ a\nline',
  `i` varchar(300) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_spanish_as_cs DEFAULT NULL,
  `j` tinytext DEFAULT NULL,
  `k` text CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL,
  `l` mediumtext CHARACTER SET utf16le COLLATE utf16le_general_ci DEFAULT NULL,
  `m` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  `n` varchar(100) /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `o` text /*M!100301 COMPRESSED*/ DEFAULT NULL,
  `p` mediumtext /*M!100301 COMPRESSED*/ CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  `q` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`q`)),
  `r` varchar(0) DEFAULT NULL,
  `s` char(0) DEFAULT NULL,
  `t` char(20) CHARACTER SET utf16 COLLATE utf16_general_ci DEFAULT NULL,
  `u` varchar(10) CHARACTER SET sjis COLLATE sjis_japanese_ci DEFAULT NULL,
  `v` varchar(10) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci DEFAULT NULL
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `times` (
  `a` date DEFAULT NULL,
  `b` time DEFAULT NULL,
  `c` time(1) NOT NULL,
  `d` time(3) DEFAULT NULL,
  `e` time(6) DEFAULT NULL,
  `f` datetime DEFAULT NULL,
  `g` datetime(2) NOT NULL,
  `h` datetime(5) DEFAULT NULL,
  `i` timestamp NULL DEFAULT NULL,
  `j` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  `k` timestamp(4) NULL DEFAULT NULL,
  `l` timestamp(6) NOT NULL DEFAULT '2020-01-01 00:00:00.000000',
  `m` year(4) DEFAULT 2001,
  UNIQUE KEY `j` (`j`,`l`),
  KEY `g` (`g`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `tiny_unique` (
  `a` tinyblob NOT NULL,
  `b` int(11) DEFAULT NULL,
  UNIQUE KEY `a` (`a`(255))
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `unique_key` (
  `a` int(11) DEFAULT NULL,
  `b` int(11) NOT NULL,
  `c` varchar(20) NOT NULL,
  UNIQUE KEY `whole` (`c`,`b`),
  UNIQUE KEY `part` (`c`(5)),
  UNIQUE KEY `nullable` (`a`,`b`),
  KEY `c` (`c`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `unique_part` (
  `a` int(11) DEFAULT NULL,
  `c` varchar(20) NOT NULL,
  UNIQUE KEY `part` (`c`(5)),
  UNIQUE KEY `nullable` (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
CREATE TABLE `versioned` (
  `id` int(11) NOT NULL,
  `a` varchar(10) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `a` (`a`),
  KEY `k` (`a`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING;
CREATE TABLE `versioned_no_key` (
  `a` int(11) DEFAULT NULL,
  `b` int(11) DEFAULT NULL WITHOUT SYSTEM VERSIONING
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING;
CREATE TABLE `versioned_open` (
  `id` int(11) NOT NULL,
  `s` timestamp(6) GENERATED ALWAYS AS ROW START,
  `e` timestamp(6) GENERATED ALWAYS AS ROW END,
  `x` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`,`e`),
  UNIQUE KEY `x` (`x`,`e`),
  PERIOD FOR SYSTEM_TIME (`s`, `e`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING;
CREATE TABLE `versioned_precise` (
  `id` int(11) NOT NULL,
  `s` bigint(20) unsigned GENERATED ALWAYS AS ROW START INVISIBLE,
  `e` bigint(20) unsigned GENERATED ALWAYS AS ROW END INVISIBLE,
  PRIMARY KEY (`id`,`e`),
  PERIOD FOR SYSTEM_TIME (`s`, `e`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci WITH SYSTEM VERSIONING;
