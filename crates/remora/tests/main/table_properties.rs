//! An import keeps the properties of an existing table, although the rows go into another table that gets its
//! name.

use std::path::Path;

use sandbox::Product;

use crate::support::{Place, on_own_mariadb, on_own_servers, tell};

/// Tables of columns `a` and `b`, as far as a server takes them. <> is a folder.
const TABLES: &[&str] = &[
    "(a INT PRIMARY KEY, b INT) DATA DIRECTORY='<>'",
    "(a INT PRIMARY KEY, b INT) ENGINE=MyISAM DATA DIRECTORY='<>/one' INDEX DIRECTORY='<>/two'",
    "(a INT PRIMARY KEY, b INT) ENGINE=Aria DATA DIRECTORY='<>/one' INDEX DIRECTORY='<>/two'",
    "(a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (2) DATA DIRECTORY='<>/one' \
     COMMENT 'c', PARTITION p1 VALUES LESS THAN MAXVALUE DATA DIRECTORY='<>/two')",
    "(a INT PRIMARY KEY, b INT) ENGINE=MyISAM PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (2) \
     DATA DIRECTORY='<>/one' INDEX DIRECTORY='<>/two' MAX_ROWS=5, PARTITION p1 VALUES LESS THAN MAXVALUE)",
    "(a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) SUBPARTITION BY HASH (a) (PARTITION p0 VALUES LESS THAN MAXVALUE \
     (SUBPARTITION s0 DATA DIRECTORY='<>/one', SUBPARTITION s1))",
    "(a INT PRIMARY KEY, b INT) PARTITION BY HASH (a) PARTITIONS 3",
    "(a INT PRIMARY KEY, b INT, UNIQUE KEY k (b) USING HASH)",
    "(a INT AUTO_INCREMENT PRIMARY KEY, b INT CHECK (b > 1), CONSTRAINT less CHECK (b < 1000)) AUTO_INCREMENT=500 \
     COMMENT='it''s AUTO_INCREMENT=3 DATA DIRECTORY=''x''' ROW_FORMAT=COMPACT",
    "(a INT PRIMARY KEY, b INT) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4",
    "(a INT PRIMARY KEY, b INT) PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=3",
    "(a INT PRIMARY KEY, b INT) ENCRYPTED=NO",
    "(a INT PRIMARY KEY, b INT) STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 STATS_SAMPLE_PAGES=77",
    "(a INT PRIMARY KEY, b INT) ENGINE=Aria TRANSACTIONAL=0 PAGE_CHECKSUM=0 ROW_FORMAT=PAGE",
    "(a INT PRIMARY KEY, b INT) ENGINE=Aria TRANSACTIONAL=1",
    "(a INT PRIMARY KEY, b INT) ENGINE=MyISAM CHECKSUM=1 DELAY_KEY_WRITE=1 PACK_KEYS=1 MIN_ROWS=10 MAX_ROWS=1000000 \
     AVG_ROW_LENGTH=100 ROW_FORMAT=FIXED",
    "(a INT NOT NULL, b INT NOT NULL) ENGINE=CSV",
    "(a INT NOT NULL, b INT) ENGINE=MEMORY MAX_ROWS=100",
    "(a INT PRIMARY KEY, b INT, h INT INVISIBLE DEFAULT 3, t TEXT, z TEXT COMPRESSED, v INT AS (a + 1) VIRTUAL, \
     p INT AS (a + 2) STORED, KEY k (h) IGNORED, KEY l (t(10)) COMMENT 'x' KEY_BLOCK_SIZE=4, FULLTEXT KEY f (t))",
    "(a INT PRIMARY KEY, b INT, s DATE DEFAULT '2001-01-01', e DATE DEFAULT '2002-01-01', PERIOD FOR p (s, e), \
     UNIQUE (b, p WITHOUT OVERLAPS))",
    "(a INT PRIMARY KEY, b INT, u TEXT, d INT DEFAULT (a * 2), n INT DEFAULT NEXTVAL(numbers), c TIMESTAMP DEFAULT \
     CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP COMMENT 'when', UNIQUE (u)) DEFAULT CHARSET=latin1 COLLATE latin1_bin",
    "(a INT PRIMARY KEY, b INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING",
    "(a INT PRIMARY KEY, b INT) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION p0 HISTORY, PARTITION p1 CURRENT)",
    // Only MySQL 8 and later take these.
    "(a INT PRIMARY KEY, b INT, KEY k (b) INVISIBLE, KEY e ((a + b) DESC), CHECK (b > 1) NOT ENFORCED)",
    "(a INT PRIMARY KEY, b INT, h POINT NOT NULL DEFAULT (ST_SRID(POINT(1, 2), 4326)) SRID 4326 INVISIBLE, SPATIAL KEY (h))",
    "(a INT PRIMARY KEY, b INT, v VECTOR(3) DEFAULT (STRING_TO_VECTOR('[1,2,3]')), j JSON DEFAULT ('[7]'), \
     KEY m ((CAST(j AS UNSIGNED ARRAY))))",
    "(a INT PRIMARY KEY, b INT) TABLESPACE=innodb_file_per_table ENCRYPTION='N'",
];

/// How many of them each kind of server takes.
fn takes(place: &Place) -> usize {
    match place.product {
        Product::MySql56 => 9,
        Product::MySql97 => 13,
        _ => TABLES.len() - 4,
    }
}

fn definition(place: &Place) -> String {
    let text = place.value("SHOW CREATE TABLE t");
    server::definition::without_counter(&text)
}

/// The files below a folder, without what tells a partition's number.
fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push(entry.path().display().to_string()),
        }
    }
    all.sort();
    all
}

#[test]
fn an_import_leaves_the_properties_of_a_table_unchanged() {
    on_own_servers(|place| {
        let folder = place.path("rows");
        for part in ["one", "two"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let file = place.file("rows.csv", "a,b\n1,3\n2,5\n");
        if place.is_mariadb() {
            place.sql(&["CREATE SEQUENCE numbers"]);
        }
        let mut made = 0;
        for table in TABLES {
            let create = format!("CREATE TABLE t {}", table.replace("<>", folder.to_str().unwrap()));
            if place.session().execute(&create).is_err() {
                continue;
            }
            made += 1;
            tell(&create);
            let (before, paths) = (definition(place), files(&folder));
            // MySQL 8 and later leave files of MyISAM in the data folder.
            let elsewhere =
                table.contains("<>") && (place.product != Product::MySql97 || !table.contains("MyISAM"));
            assert_eq!(elsewhere, !paths.is_empty(), "{paths:?}");
            for more in [
                &[][..],
                &["--replace"],
                &["--replace", "--indexes", "after"],
                &["--replace", "--physical=auto"],
            ] {
                place.import(&[&[file.as_str(), "--into", "t"], more].concat()).exits(0);
                place.untouched("t", 2);
                assert_eq!(definition(place), before, "{more:?}");
                assert_eq!(files(&folder), paths, "{more:?}");
            }
            if create.contains("=500") {
                place.sql(&["INSERT INTO t (a, b) VALUES (NULL, 900)"]);
                assert_eq!(place.value("SELECT MAX(a) FROM t"), "500");
            }
            place.sql(&["DROP TABLE t"]);
            assert_eq!(files(&folder), [""; 0]);
        }
        assert!(made >= takes(place), "{made}");
    });
}

#[test]
fn a_table_that_can_not_be_copied_is_reported_in_one_line() {
    on_own_mariadb(|place| {
        let folder = place.path("rows");
        std::fs::create_dir(&folder).unwrap();
        let directory = format!("DATA DIRECTORY='{}'", folder.display());
        let work = format!("{}_work", place.schema);
        place.sql(&[
            &format!("CREATE DATABASE {work}"),
            &format!("CREATE TABLE t (a INT PRIMARY KEY) {directory}"),
            &format!("CREATE TABLE old (a INT PRIMARY KEY) ENGINE=MyISAM {directory}"),
            "CREATE TABLE one (a INT) ENGINE=MyISAM",
            "CREATE TABLE whole (a INT) ENGINE=MERGE UNION=(one) INSERT_METHOD=LAST",
        ]);
        let file = place.file("rows.csv", "a\n1\nx\n");
        let import = |more: &[&str]| place.import(&[&[file.as_str()], more].concat());
        // A bad row would be too late: those before it were in the table below.
        import(&["--into", "whole"]).exits(1).says(&["not in it (MRG_MyISAM)", "the table that has them"]);
        place.untouched("one", 0);
        let elsewhere = ["--work-database", work.as_str()];
        for table in ["t", "old"] {
            let told = import(&[&["--into", table], &elsewhere[..]].concat()).exits(1);
            told.says(&["before: ...", "DATA DIRECTORY", "leave --work-database out"]);
            place.untouched(table, 0);
        }
        let only = ["--into", "t", "--physical"];
        import(&only).exits(1).says(&["can't be written", "DATA DIRECTORY", "--physical=auto"]);
        place.untouched("t", 0);
        // An option that the server only takes in a mode of its own.
        for (table, way) in [("t", "--append"), ("old", "LOAD DATA")] {
            place.sql(&[
                "SET sql_mode = 'IGNORE_BAD_TABLE_OPTIONS'",
                &format!("ALTER TABLE {table} NO_OPTION='x'"),
            ]);
            import(&["--into", table]).exits(1).says(&[
                "no table like",
                "...DATA DIRECTORY",
                "NO_OPTION",
                way,
            ]);
            place.untouched(table, 0);
        }
        let file = place.file("good.csv", "a\n1\n");
        place.import(&[&file, "--into", "t", "--append"]).exits(0);
        place.untouched("t", 1);
        assert_eq!(place.rows(&format!("SHOW TABLES FROM {work}")), [""; 0]);
        place.sql(&[&format!("DROP DATABASE {work}")]);
    });
}
