//! Words, names, texts and numbers of SQL, and what a table has beside its columns.

use innodb::table::sql::{self, Kind, split};
use innodb::table::{KeyKind, RowFormat, Table};

use crate::support::VERSION;

fn table(inner: &str, end: &str) -> Result<Table, String> {
    let text = format!("CREATE TABLE t (a int, {inner}) {end} ENGINE=InnoDB");
    sql::parse(&text, VERSION).map_err(|error| error.to_string())
}

#[test]
fn sql_is_split_into_tokens() {
    let text = "a1_$@ 1.5e+10 0x1F,2-1\n'x''y\\n' \"q\"\"'\" `n``m` # c\n/* c */ /*!50100 b*/ /*M! c */\n\
                /* mariadb-5.3 */ \u{e4}";
    let wanted = [
        (Kind::Word, "a1_$@", 1),
        (Kind::Number, "1.5e+10", 1),
        (Kind::Number, "0x1F", 1),
        (Kind::Sign, ",", 1),
        (Kind::Number, "2", 1),
        (Kind::Sign, "-", 1),
        (Kind::Number, "1", 1),
        (Kind::Text, "x'y\n", 2),
        (Kind::Text, "q\"'", 2),
        (Kind::Name, "n`m", 2),
        (Kind::Word, "b", 3),
        (Kind::Word, "c", 3),
        (Kind::OldTime, "", 4),
        (Kind::Word, "\u{e4}", 4),
    ];
    let tokens = split(text).unwrap();
    let found: Vec<_> =
        tokens.iter().map(|token| (token.kind.clone(), token.text.as_str(), token.line)).collect();
    assert_eq!(found, wanted);
    for token in tokens.iter().filter(|token| [Kind::Word, Kind::Number, Kind::Sign].contains(&token.kind)) {
        assert_eq!(text[token.start..token.end], token.text);
    }
    for (text, message) in [
        ("a /* b", "line 1 of the definition: a comment without end"),
        ("/*!1 a\n/*!2 b */ */", "line 2 of the definition: a comment within a comment"),
        ("\n\n'x\\", "line 3 of the definition: a text without end"),
        ("\n`x", "line 2 of the definition: a name without end"),
    ] {
        assert_eq!(split(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn foreign_keys_have_their_actions() {
    let with = |action: &str| {
        let key = "FOREIGN KEY (a) REFERENCES";
        let inner = format!(
            "CONSTRAINT `c` {key} `o` (a) ON DELETE {action}, {key} d.`o` (a) ON UPDATE {action}, KEY k (a)"
        );
        table(&inner, "").map(|table| table.keys().len())
    };
    for action in ["SET NULL", "SET DEFAULT", "NO ACTION", "CASCADE", "RESTRICT"] {
        assert_eq!(with(action), Ok(1), "{action}");
    }
    for action in ["SET", "NO", "NULL", "DEFAULT", ""] {
        assert!(with(action).unwrap_err().contains("RESTRICT"), "{action}");
    }
}

#[test]
fn only_a_unique_key_may_be_one_of_a_hash() {
    for (key, kind) in [
        ("UNIQUE KEY k (a) USING HASH", KeyKind::UniqueHash),
        ("UNIQUE KEY k (a) USING BTREE", KeyKind::Unique),
        ("KEY k (a) USING HASH", KeyKind::Plain),
        ("KEY k (a) COMMENT 'c' `own`=1 KEY_BLOCK_SIZE=4 IGNORED", KeyKind::Plain),
        ("KEY k (a) NOT IGNORED", KeyKind::Plain),
    ] {
        assert_eq!(table(key, "").map(|table| table.keys()[0].kind), Ok(kind), "{key}");
    }
}

#[test]
fn rows_are_stored_in_a_format_that_is_read() {
    for (option, wanted) in [
        ("ROW_FORMAT=DEFAULT", Some(RowFormat::Default)),
        ("ROW_FORMAT=dynamic", Some(RowFormat::Dynamic)),
        ("ROW_FORMAT=COMPACT", Some(RowFormat::Compact)),
        ("ROW_FORMAT=REDUNDANT", None),
        ("PAGE_COMPRESSED=0", Some(RowFormat::Default)),
        ("PAGE_COMPRESSED='OFF'", Some(RowFormat::Default)),
        ("PAGE_COMPRESSED=1", None),
        ("ENCRYPTED=NO", Some(RowFormat::Default)),
        ("ENCRYPTED=default", Some(RowFormat::Default)),
        ("ENCRYPTED=YES", None),
    ] {
        assert_eq!(table("b int", option).map(|table| table.row_format()).ok(), wanted, "{option}");
    }
}

#[test]
fn a_table_has_up_to_8192_partitions() {
    let of = |count: u32| {
        let text = format!("CREATE TABLE t (a int) ENGINE=InnoDB PARTITION BY HASH (a) PARTITIONS {count}");
        sql::parse(&text, VERSION).map(|table| table.partitions().len()).ok()
    };
    assert_eq!([of(8192), of(8193)], [Some(8192), None]);
}
