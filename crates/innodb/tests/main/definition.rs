//! `.frm` files and the text of SHOW CREATE TABLE, both made by real servers (cases/make), are equal tables.

use std::path::{Path, PathBuf};

use innodb::Error;
use innodb::table::collation::Collation;
use innodb::table::{Field, Length, Table, Type, Version, frm, sql};

const SERIES: [(&str, u32); 3] = [("10.11", 101_119), ("11.4", 110_405), ("11.8", 110_806)];

fn folder(series: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(series)
}

/// A table's real name, from the name of its file.
fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().replace("@0020", " ").replace("@0060", "`")
}

/// A table of a series: its name, from its `.frm` file, from its SQL.
type DefinitionPair = (String, Result<Table, Error>, Result<Table, Error>);

fn both(series: &str, version: u32) -> Vec<DefinitionPair> {
    let script = std::fs::read_to_string(folder(series).join("create.txt")).unwrap();
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(folder(series)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "frm") {
            let name = name(&path);
            let text = sql::find(&script, None, &name).unwrap();
            let from_frm = frm::parse(&std::fs::read(&path).unwrap());
            tables.push((name, from_frm, sql::parse(text, Version(version))));
        }
    }
    tables
}

#[test]
fn a_frm_file_and_its_sql_are_the_same_table() {
    for (series, version) in SERIES {
        let mut read = 0;
        for (name, from_frm, from_sql) in both(series, version) {
            match (from_frm, from_sql) {
                (Ok(from_frm), Ok(from_sql)) => assert_eq!(from_frm, from_sql, "{name} of {series}"),
                (Err(one), Err(other)) => assert_eq!(one, other, "{name} of {series}"),
                other => panic!("{name} of {series}: {other:#?}"),
            }
            read += 1;
        }
        assert!(read >= 38, "{read} tables of {series}");
    }
}

/// The files of a table, without `.ibd`; `stem` is that of its `.frm` file.
fn files(stem: &str, table: &Table) -> Vec<String> {
    let encoded = |name: &str| name.replace('-', "@002d");
    let mut files = Vec::new();
    for partition in table.partitions() {
        let name = format!("{stem}#P#{}", encoded(&partition.name));
        let subs = partition.subpartitions.iter().map(|sub| format!("{name}#SP#{}", encoded(sub)));
        files.extend(subs);
        if partition.subpartitions.is_empty() {
            files.push(name);
        }
    }
    if files.is_empty() { vec![stem.to_owned()] } else { files }
}

/// The indexes as the server's dictionary lists them: name and own columns.
fn own_columns(table: &Table) -> Vec<String> {
    let name = |column: usize| table.columns()[column].name.clone();
    let line = |index: &innodb::table::Index| {
        let key = table.keys().iter().find(|key| key.name == index.name);
        let parts = key.map_or(usize::from(index.name == "FTS_DOC_ID_INDEX"), |key| key.parts.len());
        let fields: Vec<_> =
            index.fields[..parts].iter().filter_map(|field| field.column).map(name).collect();
        format!("{}\t{}", index.name, if fields.is_empty() { "NULL".to_owned() } else { fields.join(",") })
    };
    table.indexes().iter().map(line).collect()
}

#[test]
fn indexes_are_those_of_the_servers_dictionary() {
    for (series, _) in SERIES {
        let dictionary = std::fs::read_to_string(folder(series).join("indexes.txt")).unwrap();
        let mut known = 0;
        for entry in std::fs::read_dir(folder(series)).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let table = match path.extension() {
                Some(end) if end == "frm" => frm::parse(&std::fs::read(&path).unwrap()),
                _ => continue,
            };
            let Ok(table) = table else { continue };
            for file in files(&stem, &table) {
                let lines = dictionary.lines().filter_map(|line| line.strip_prefix(&format!("{file}\t")));
                assert_eq!(own_columns(&table), lines.collect::<Vec<_>>(), "{file} of {series}");
                known += own_columns(&table).len();
            }
        }
        // The rest are tables that the crate does not read, and the internal table of a VECTOR key.
        let refused = ["compressed\t", "page_compressed\t", "redundant\t", "vectors#i#01\t"];
        let all = dictionary.lines().filter(|line| !refused.iter().any(|name| line.starts_with(name)));
        assert_eq!(known, all.count(), "{series}");
    }
}

/// The fields of an index in the order in which they are stored. A field is shown as `-` for those of InnoDB,
/// a length in bytes, `?` for a field that may be NULL, `+` for one that may lie off-page, `v` for one in
/// descending order.
fn fields(table: &Table, index: &str) -> String {
    let index = table.indexes().iter().find(|own| own.name == index).unwrap();
    let field = |field: &Field| {
        let name = field.column.map_or("-", |column| &table.columns()[column].name);
        let length = match field.length {
            Length::Fixed(bytes) => format!(" {bytes}"),
            Length::Variable { max, external } => format!(" ..{max}{}", if external { "+" } else { "" }),
        };
        let prefix = field.prefix.map_or(String::new(), |bytes| format!(" ({bytes})"));
        let null = if field.nullable { "?" } else { "" };
        let down = if field.descending { "v" } else { "" };
        format!("{name}{length}{prefix}{null}{down}")
    };
    let fields: Vec<_> = index.fields.iter().map(field).collect();
    format!("{}/{}: {}", index.key_fields, index.unique_fields, fields.join(", "))
}

#[test]
fn fields_are_stored_in_this_order() {
    let script = std::fs::read_to_string(folder("11.8").join("create.txt")).unwrap();
    for (table, index, expected) in [
        ("no_key", "GEN_CLUST_INDEX", "1/1: - 6, - 6, - 7, a 4?, b ..40?"),
        ("versioned", "PRIMARY", "2/2: id 4, row_end 7, - 6, - 7, a ..40?, row_start 7"),
        ("versioned", "a", "3/2: a ..40?, row_end 7, id 4"),
        ("versioned", "k", "3/3: a ..40?, id 4, row_end 7"),
        (
            "prefixes",
            "PRIMARY",
            "2/2: a ..1200+ (40), f 4, - 6, - 7, a ..1200+, b ..65535+?, c 10?, d 20?, e ..65535+?, g ..80?",
        ),
        ("prefixes", "a", "3/1: a ..1200+ (80), a ..1200+ (40), f 4"),
        ("prefixes", "c", "4/4: c 3 (3)?, a ..1200+ (20), a ..1200+ (40), f 4"),
        ("prefixes", "d", "3/3: d 7 (7)?v, f 4v, a ..1200+ (40)"),
        ("descending", "b", "3/3: b 4?v, c 4?, a 4v"),
        ("many_columns", "k3", "3/3: c10 1?, c11 1?, - 6"),
        ("tiny_unique", "a", "1/1: a ..255+ (255), - 6, - 7, a ..255+, b 4?"),
        ("hash_key", "two", "2/2: DB_ROW_HASH_2 8?, a 4"),
        ("computed", "PRIMARY", "1/1: a 4, - 6, - 7, c ..80?, d 4?"),
        ("computed", "b", "2/2: b 4?, a 4"),
        ("fulltext_key", "PRIMARY", "1/1: id 4, - 6, - 7, a ..65535+?, b ..400+?, FTS_DOC_ID 8"),
        ("shapes", "at", "2/2: i 32 (32), id 4"),
        ("vectors", "PRIMARY", "1/1: id 4, - 6, - 7, v ..12, w ..400+?"),
        ("addresses", "i6", "2/2: i6 16, u 16"),
        (
            "texts",
            "GEN_CLUST_INDEX",
            "1/1: - 6, - 6, - 7, a 10?, b ..40, c 6?, d ..1020+?, e ..252?, f ..256+?, g ..255?, h ..256+, i ..1200+?, \
             j ..255+?, k ..65535+?, l ..16777215+?, m ..4294967295+?, n ..101?, o ..65535+?, p ..16777215+?, \
             q ..4294967295+?, r ..0?, s 0?, t ..80?, u ..20?, v ..30?",
        ),
    ] {
        let text = sql::find(&script, None, table).unwrap();
        let read = sql::parse(text, Version(110_806)).unwrap();
        assert_eq!(fields(&read, index), expected, "{table}");
    }
}

#[test]
fn a_definition_that_is_not_understood_is_an_error_with_its_words() {
    let around =
        |inner: &str| format!("CREATE TABLE `t` (\n  {inner}\n) ENGINE=InnoDB DEFAULT CHARSET=latin1");
    for (inner, message) in [
        (
            "`a` int(11) SPARSE",
            "line 2 of the definition: 'SPARSE' where more of a column, ',' or ')' was expected",
        ),
        ("`a` tinyfloat", "line 2 of the definition: column `a` tinyfloat: a type that is not known"),
        (
            "`a` char(4) COLLATE latin9_ci",
            "line 2 of the definition: column `a` char: the collation or character set latin9_ci",
        ),
        (
            "`a` decimal(66,0)",
            "line 2 of the definition: column `a` decimal: a type with a number that it can't have",
        ),
        (
            "`a` int(11),\n  KEY `k` (`b`)",
            "line 3 of the definition: key `k` is of a column that there is not: `b`",
        ),
        (
            "`a` int(11),\n  KEY `k` (`a`) `option`",
            "line 3 of the definition: 'option' where more of a key, ',' or ')' was expected",
        ),
        (
            "`a` int(11),\n  KEY `k` (`a`) option = 1",
            "line 3 of the definition: 'option' where more of a key, ',' or ')' was expected",
        ),
        ("`a` int(11) CHECK ((1", "line 3 of the definition: the end where ')' was expected"),
        ("`a` enum('x", "line 2 of the definition: a text without end"),
        (
            "`a` datetime /* mariadb-5.3 */ DEFAULT NULL",
            "column `a` has the format that TIME, DATETIME and TIMESTAMP had before MariaDB 10.1: rebuild the table (ALTER TABLE ... FORCE)",
        ),
        (
            "`a` enum('\u{434}') CHARACTER SET cp1251",
            "column `a` has members whose letters are not known in cp1251: its .frm \
          file can be read",
        ),
    ] {
        let error = sql::parse(&around(inner), Version(110_806)).unwrap_err();
        assert_eq!(error.to_string(), message, "{inner}");
    }
    for (end, message) in [
        ("ENGINE=InnoDB `ENCRYPTED`=YES", "the table has ENCRYPTED=YES"),
        (
            "ENGINE=InnoDB KEY_BLOCK_SIZE=8",
            "the table has ROW_FORMAT=COMPRESSED; only DYNAMIC and COMPACT are read and written here",
        ),
        ("ENGINE=QUEUE", "the table's engine is QUEUE, not InnoDB"),
        (
            "ENGINE=InnoDB WINGS=2",
            "line 1 of the definition: '2' where another option than WINGS, which is not known, was expected",
        ),
        (
            "ENGINE=InnoDB -- a comment needs a space, or an end of its line\n--\n--COMMENT=''",
            "line 3 of the definition: '-' where an option of a table was expected",
        ),
        ("ENGINE=InnoDB; DROP TABLE `t`", "line 1 of the definition: 'DROP' where the end was expected"),
        (
            "ENGINE=InnoDB PARTITION BY HASH (a) PARTITIONS 9999",
            "line 1 of the definition: the end where a number of partitions \
          that a table can have was expected",
        ),
    ] {
        let error = sql::parse(&format!("CREATE TABLE t (a int) {end}"), Version(110_806)).unwrap_err();
        assert_eq!(error.to_string(), message, "{end}");
    }
}

#[test]
fn a_block_size_of_zero_is_none() {
    let text = "CREATE TABLE t (a int) ENGINE=InnoDB KEY_BLOCK_SIZE=0";
    assert_eq!(sql::parse(text, Version(110_806)).unwrap().columns().len(), 1);
}

#[test]
fn a_table_is_found_among_statements() {
    let script = "-- CREATE TABLE t (x int);\n/*!40101 SET NAMES utf8 */;\nUSE `one`;\nCREATE TABLE `t` (`a` int);\n\
                  INSERT INTO t VALUES ('; CREATE TABLE `u` (');\nUSE two;\n/*!50100 CREATE TABLE IF NOT EXISTS t (b int) */;\n\
                  CREATE TABLE three.`t` (c int\n) /*!50100 PARTITION BY HASH (c) */;\nCREATE VIEW `u` AS SELECT 1;";
    let found = |schema, table| sql::find(script, schema, table);
    assert_eq!(found(Some("one"), "t"), Ok("CREATE TABLE `t` (`a` int)"));
    assert_eq!(found(Some("two"), "t"), Ok("CREATE TABLE IF NOT EXISTS t (b int)"));
    assert_eq!(
        found(Some("three"), "t"),
        Ok("CREATE TABLE three.`t` (c int\n) /*!50100 PARTITION BY HASH (c) */")
    );
    let read = sql::parse(found(Some("three"), "t").unwrap(), Version(110_806)).unwrap();
    assert_eq!(read.partitions().len(), 1);
    assert!(found(None, "t").unwrap_err().to_string().contains("more than one CREATE TABLE `t`"));
    assert!(found(None, "u").unwrap_err().to_string().contains("no CREATE TABLE `u`"));
}

#[test]
fn a_damaged_frm_file_is_an_error_or_a_table() {
    let mut refused = 0;
    for entry in std::fs::read_dir(folder("11.8")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "frm") {
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                // The middle holds the row of defaults and empty space, and nothing is read there.
                if at > 2000 && at + 2000 < whole.len() {
                    continue;
                }
                let mut bytes = whole.clone();
                bytes[at] ^= [1, 0x80, 0xff][at % 3];
                refused += usize::from(frm::parse(&bytes).is_err());
                refused += usize::from(frm::parse(&whole[..at]).is_err());
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
    for (bytes, message) in [
        (vec![0; 4000], "this is no .frm file of a table of MariaDB (offset 0 of the .frm file)"),
        (
            b"TYPE=VIEW\nquery=".to_vec(),
            "this is no .frm file of a table of MariaDB (offset 0 of the .frm file)",
        ),
        (b"\xfe\x01\x0a".to_vec(), "it ends before what should be here (offset 51 of the .frm file)"),
    ] {
        assert_eq!(frm::parse(&bytes).unwrap_err().to_string(), message);
    }
    let mut old = std::fs::read(folder("11.8").join("no_key.frm")).unwrap();
    old[51..55].copy_from_slice(&50_651_u32.to_le_bytes());
    let message = frm::parse(&old).unwrap_err().to_string();
    assert!(message.starts_with("the .frm file is of version 50651, and those of MariaDB 10.1"), "{message}");
    // KEY_BLOCK_SIZE
    let mut zip = std::fs::read(folder("11.8").join("no_key.frm")).unwrap();
    zip[62] = 8;
    let message = frm::parse(&zip).unwrap_err().to_string();
    assert!(message.contains("ROW_FORMAT=COMPRESSED"), "{message}");
    old[51..55].copy_from_slice(&50_744_u32.to_le_bytes());
    let message = frm::parse(&old).unwrap_err().to_string();
    assert!(message.contains("of MySQL 5.7") && message.contains("--schema"), "{message}");
}

/// A column of a `.frm` file with this type and length is one that a server can have, or refused.
#[test]
fn lengths_that_no_type_has_are_refused() {
    let whole = std::fs::read(folder("10.11").join("numbers.frm")).unwrap();
    let with = |at: usize, length: u16, decimals: u8| {
        let mut bytes = whole.clone();
        bytes[at + 3..at + 5].copy_from_slice(&length.to_le_bytes());
        bytes[at + 9] = bytes[at + 9] & 0xC0 | decimals;
        frm::parse(&bytes)
    };
    let has = |at: usize, (length, decimals): (u16, u8), kind: &Type| {
        with(at, length, decimals)
            .is_ok_and(|table| table.columns().iter().any(|column| column.kind == *kind))
    };
    let bytes = whole.as_slice();
    let is_type = |number: u8| (0..bytes.len() - 17).filter(move |at| bytes[at + 13] == number);
    // The columns are where another length is another type.
    let bits = is_type(16).filter(|&at| has(at, (63, 0), &Type::Bit { bits: 63 }));
    let mut tried = 0;
    for at in bits {
        assert!(has(at, (64, 0), &Type::Bit { bits: 64 }) && has(at, (1, 0), &Type::Bit { bits: 1 }));
        assert!(with(at, 65, 0).is_err() && with(at, 0, 0).is_err());
        tried += 1;
    }
    let decimal = |scale| Type::Decimal { precision: 40, scale, unsigned: false, zerofill: false };
    for at in is_type(246).filter(|&at| has(at, (42, 37), &decimal(37))) {
        // The sign and the point are of the length.
        assert!(has(at, (42, 38), &decimal(38)));
        for (length, decimals) in [(42, 39), (41 + 2, 41), (7, 6), (68, 2), (1, 0)] {
            let is_refused = with(at, length, decimals).is_err();
            assert!(is_refused, "{length} {decimals}");
        }
        tried += 1;
    }
    assert!(tried >= 2, "{tried}");
}

#[test]
fn collations_are_known_by_number_and_by_name() {
    let known: Vec<_> = (0..=u16::MAX).filter_map(Collation::of_number).collect();
    // A server of 11.8 has all but one of these, which MySQL has for names of tables.
    assert_eq!(known.len(), 1289);
    for collation in known {
        assert_eq!(Collation::of_name(&collation.name()), Some(collation), "{}", collation.number());
        let of_charset = Collation::of_charset(collation.charset().name).unwrap();
        assert_eq!(of_charset.charset(), collation.charset());
    }
    for (number, name, charset, max) in [
        (8, "latin1_swedish_ci", "latin1", 1),
        (63, "binary", "binary", 1),
        (83, "utf8mb3_bin", "utf8mb3", 3),
        (579, "utf8mb3_general1400_as_ci", "utf8mb3", 3),
        (2304, "utf8mb4_uca1400_ai_ci", "utf8mb4", 4),
        (2363, "utf8mb4_uca1400_spanish_as_cs", "utf8mb4", 4),
        (2560, "ucs2_uca1400_ai_ci", "ucs2", 2),
    ] {
        let collation = Collation::of_number(number).unwrap();
        assert_eq!((collation.name().as_str(), collation.charset().name), (name, charset));
        assert_eq!(collation.charset().max, max, "{name}");
    }
    assert_eq!(Collation::of_name("UTF8_BIN"), Collation::of_number(83));
    assert_eq!(Collation::of_charset("utf8"), Collation::of_number(33));
}
