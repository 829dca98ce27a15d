//! What a definition of MySQL says, one property at a time: the text of CREATE TABLE, and where fields are.

use innodb::page::Pages;
use innodb::space::Space;
use innodb::table::KeyKind;
use innodb::table::dictionary::Definition;
use innodb::{Error, instant, sdi};
use serde_json::{Value, json};

use crate::file::Memory;
use crate::mysql::VERSIONS;

/// Where something is in the JSON, and what is there instead.
pub(crate) type Change<'a> = (&'a str, Value);

fn original() -> Value {
    let mut pages = Memory::new(VERSIONS);
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    serde_json::from_slice(&sdi::tables(&space, &mut pages).unwrap().unwrap()[0]).unwrap()
}

pub(crate) fn changed(changes: &[Change<'_>]) -> Definition {
    let mut whole = original();
    for (place, value) in changes {
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = whole["dd_object"].pointer_mut(parent).unwrap_or_else(|| panic!("{place}"));
        match parent {
            Value::Array(items) if name == "-" => items.push(value.clone()),
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[name] = value.clone(),
        }
    }
    Definition::parse(&serde_json::to_vec(&whole).unwrap()).unwrap()
}

fn text(changes: &[Change<'_>]) -> Result<String, Error> {
    changed(changes).create_table()
}

/// The line of a column or key, without its comma.
#[track_caller]
fn line(at: usize, changes: &[Change<'_>]) -> String {
    let text = text(changes).unwrap();
    text.lines().nth(1 + at).unwrap().trim().trim_end_matches(',').to_owned()
}

/// What follows the closing parenthesis.
fn end(changes: &[Change<'_>]) -> String {
    let text = text(changes).unwrap();
    text.split_once("\n)").unwrap().1.to_owned()
}

#[test]
fn options_are_said_where_they_are_set() {
    let usual = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci";
    assert_eq!(end(&[]), usual);
    for (options, wanted) in [
        ("pack_keys=2;", " PACK_KEYS=1"),
        ("pack_keys=4;", " PACK_KEYS=0"),
        ("pack_keys=1;", ""),
        ("stats_persistent=4096;", " STATS_PERSISTENT=1"),
        ("stats_persistent=8192;", " STATS_PERSISTENT=0"),
        ("stats_auto_recalc=1;", " STATS_AUTO_RECALC=1"),
        ("stats_auto_recalc=2;", " STATS_AUTO_RECALC=0"),
        ("stats_sample_pages=7;", " STATS_SAMPLE_PAGES=7"),
        ("checksum=1;", " CHECKSUM=1"),
        ("delay_key_write=1;", " DELAY_KEY_WRITE=1"),
        ("avg_row_length=3;max_rows=2;min_rows=1;", " MIN_ROWS=1 MAX_ROWS=2 AVG_ROW_LENGTH=3"),
        ("row_type=2;", " ROW_FORMAT=DYNAMIC"),
        ("checksum=0;delay_key_write=0;max_rows=0;row_type=0;stats_sample_pages=0;", ""),
    ] {
        assert_eq!(end(&[("/options", json!(options))]), format!("{usual}{wanted}"));
    }
    for (format, wanted) in [(0, ""), (1, " ROW_FORMAT=FIXED"), (5, " ROW_FORMAT=COMPACT"), (6, "")] {
        let changes = [("/options", json!("row_type=1;")), ("/row_format", json!(format))];
        assert_eq!(end(&changes), format!("{usual}{wanted}"));
    }
    let comment = "'a\\\n\r\0";
    assert_eq!(end(&[("/comment", json!(comment))]), format!("{usual} COMMENT='''a\\\\\\n\\r\\0'"));
    let general = [("/options", json!("explicit_tablespace=1;")), ("/tablespace_ref", json!("a`b"))];
    assert_eq!(end(&general), format!(" /*!50100 TABLESPACE `a``b` */{usual}"));
    for (collation, wanted) in [
        (8, " ENGINE=InnoDB DEFAULT CHARSET=latin1"),
        (47, " ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin"),
        (46, " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"),
    ] {
        assert_eq!(end(&[("/collation_id", json!(collation))]), wanted);
    }
    assert!(text(&[("/collation_id", json!(999))]).is_err());
}

#[test]
fn columns_have_their_properties_in_order() {
    let plain = "`b` varchar(10) NOT NULL DEFAULT 'b'";
    assert_eq!(line(2, &[]), plain);
    let own = |name: &'static str, value: Value| (name, value);
    for (changes, wanted) in [
        (vec![own("name", json!("a`b"))], "`a``b` varchar(10) NOT NULL DEFAULT 'b'"),
        (
            vec![own("is_explicit_collation", json!(true))],
            "`b` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT 'b'",
        ),
        (
            vec![own("collation_id", json!(46))],
            "`b` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'b'",
        ),
        (vec![own("collation_id", json!(8))], "`b` varchar(10) CHARACTER SET latin1 NOT NULL DEFAULT 'b'"),
        // A number has no character set.
        (vec![own("collation_id", json!(8)), own("type", json!(4))], plain),
        (
            vec![own("generation_expression", json!("(`a` + 1)"))],
            "`b` varchar(10) GENERATED ALWAYS AS ((`a` + 1)) STORED NOT NULL",
        ),
        (
            vec![own("generation_expression", json!("1")), own("is_virtual", json!(true))],
            "`b` varchar(10) GENERATED ALWAYS AS (1) VIRTUAL NOT NULL",
        ),
        (vec![own("is_nullable", json!(true))], "`b` varchar(10) DEFAULT 'b'"),
        (vec![own("is_nullable", json!(true)), own("type", json!(18))], "`b` varchar(10) NULL DEFAULT 'b'"),
        (
            vec![own("srs_id_null", json!(false)), own("srs_id", json!(4326))],
            "`b` varchar(10) NOT NULL /*!80003 SRID 4326 */ DEFAULT 'b'",
        ),
        (
            vec![own("options", json!("storage=1;column_format=1;"))],
            "`b` varchar(10) NOT NULL /*!50606 STORAGE DISK */ /*!50606 COLUMN_FORMAT FIXED */ DEFAULT 'b'",
        ),
        (
            vec![own("options", json!("storage=2;column_format=2;"))],
            "`b` varchar(10) NOT NULL /*!50606 STORAGE MEMORY */ /*!50606 COLUMN_FORMAT DYNAMIC */ DEFAULT 'b'",
        ),
        (vec![own("options", json!("storage=0;column_format=0;"))], plain),
        (
            vec![
                own("update_option", json!("CURRENT_TIMESTAMP")),
                own("is_auto_increment", json!(true)),
                own("hidden", json!(4)),
                own("comment", json!("it's")),
            ],
            "`b` varchar(10) NOT NULL DEFAULT 'b' ON UPDATE CURRENT_TIMESTAMP AUTO_INCREMENT \
             /*!80023 INVISIBLE */ COMMENT 'it''s'",
        ),
    ] {
        let places: Vec<String> = changes.iter().map(|(name, _)| format!("/columns/2/{name}")).collect();
        let changes: Vec<Change<'_>> =
            places.iter().map(String::as_str).zip(changes.into_iter().map(|(_, value)| value)).collect();
        assert_eq!(line(2, &changes), wanted);
    }
    // Columns that the engine or the server adds are not shown.
    for hidden in [2, 3] {
        assert_eq!(line(2, &[("/columns/2/hidden", json!(hidden))]), "`e` varchar(30) DEFAULT 'ee'");
    }
}

#[test]
fn defaults_are_written_as_their_type_is() {
    // The type's number, its name, the collation, characters, the default, and the same as text.
    for (kind, name, collation, chars, default, wanted) in [
        (16, "varchar(9)", 255, 36, "it's", "'it''s'"),
        (17, "bit(3)", 8, 3, "b'101'", "b'101'"),
        (17, "bit(3)", 63, 3, "b'101'", "b'101'"),
        (16, "varbinary(9)", 63, 9, "0x6162", "'ab'"),
        (29, "binary(4)", 63, 4, "0x6162", "'ab\\0\\0'"),
        (29, "binary(2)", 63, 1, "0x6162", "'ab'"),
        (16, "varbinary(9)", 63, 9, "0xff", "0xff"),
        (16, "varbinary(9)", 63, 9, "0x616", "0x616"),
    ] {
        let changes = [
            ("/columns/2/type", json!(kind)),
            ("/columns/2/column_type_utf8", json!(name)),
            ("/columns/2/collation_id", json!(collation)),
            ("/columns/2/char_length", json!(chars)),
            ("/columns/2/default_value_utf8", json!(default)),
        ];
        assert_eq!(line(2, &changes), format!("`b` {name} NOT NULL DEFAULT {wanted}"));
    }
    for (option, none, is_null, nullable, kind, wanted) in [
        ("CURRENT_TIMESTAMP(3)", false, false, false, 16, " NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"),
        ("uuid()", false, false, false, 16, " NOT NULL DEFAULT (uuid())"),
        ("uuid()", true, false, false, 16, " NOT NULL DEFAULT (uuid())"),
        ("", true, false, false, 16, " NOT NULL"),
        ("", false, true, true, 16, " DEFAULT NULL"),
        ("", false, true, false, 16, " NOT NULL"),
        // A BLOB has no other default, so it is not said.
        ("", false, true, true, 24, ""),
        ("", false, true, true, 27, ""),
        ("", false, true, true, 23, " DEFAULT NULL"),
        ("", false, true, true, 28, " DEFAULT NULL"),
    ] {
        let changes = [
            ("/columns/2/default_option", json!(option)),
            ("/columns/2/has_no_default", json!(none)),
            ("/columns/2/default_value_utf8_null", json!(is_null)),
            ("/columns/2/is_nullable", json!(nullable)),
            ("/columns/2/type", json!(kind)),
        ];
        assert_eq!(line(2, &changes), format!("`b` varchar(10){wanted}"));
    }
}

#[test]
fn keys_have_their_kind_their_parts_and_their_options() {
    assert_eq!(line(6, &[]), "PRIMARY KEY (`id`)");
    let (kind, parts) = ("/indexes/0/type", "/indexes/0/elements/-");
    let part = |column: u32, length: u32, order: u32| json!({"length": length, "order": order, "hidden": false, "column_opx": column});
    for (changes, wanted) in [
        (vec![(kind, json!(2))], "UNIQUE KEY `PRIMARY` (`id`)"),
        (vec![(kind, json!(3))], "KEY `PRIMARY` (`id`)"),
        (vec![(kind, json!(4))], "FULLTEXT KEY `PRIMARY` (`id`)"),
        (vec![(kind, json!(5))], "SPATIAL KEY `PRIMARY` (`id`)"),
        // The column `b` has 10 characters of four bytes.
        (vec![(parts, part(2, 40, 2))], "PRIMARY KEY (`id`,`b`)"),
        (vec![(parts, part(2, 20, 3))], "PRIMARY KEY (`id`,`b`(5) DESC)"),
        (vec![(kind, json!(4)), (parts, part(2, 20, 2))], "FULLTEXT KEY `PRIMARY` (`id`,`b`)"),
        (vec![("/indexes/0/is_algorithm_explicit", json!(true))], "PRIMARY KEY (`id`) USING BTREE"),
        (
            vec![("/indexes/0/is_algorithm_explicit", json!(true)), ("/indexes/0/algorithm", json!(3))],
            "PRIMARY KEY (`id`)",
        ),
        (vec![("/indexes/0/comment", json!("it's"))], "PRIMARY KEY (`id`) COMMENT 'it''s'"),
        (
            vec![("/indexes/0/options", json!("parser_name=ngram;"))],
            "PRIMARY KEY (`id`) /*!50100 WITH PARSER `ngram` */",
        ),
        (vec![("/indexes/0/is_visible", json!(false))], "PRIMARY KEY (`id`) /*!80000 INVISIBLE */"),
    ] {
        assert_eq!(line(6, &changes), wanted);
    }
    // The hidden column of an expression is the fourth that is not shown any more.
    let expression = [
        ("/columns/3/hidden", json!(3)),
        ("/columns/3/generation_expression", json!("lower(`b`)")),
        (parts, part(3, 1, 2)),
    ];
    assert_eq!(line(5, &expression), "PRIMARY KEY (`id`,(lower(`b`)))");
    let hidden = text(&[("/indexes/0/hidden", json!(true))]).unwrap();
    assert!(!hidden.contains("PRIMARY"), "{hidden}");
    for wrong in [0, 6] {
        assert!(text(&[(kind, json!(wrong))]).is_err());
    }
    assert!(text(&[(parts, part(77, 1, 2))]).is_err());
}

#[test]
fn foreign_keys_and_checks_are_said() {
    let key = |schema: &str, update: u32, delete: u32| {
        json!({"name": "f", "update_rule": update, "delete_rule": delete,
               "referenced_table_schema_name": schema, "referenced_table_name": "o",
               "elements": [{"column_opx": 0, "referenced_column_name": "x"},
                            {"column_opx": 2, "referenced_column_name": "y"}]})
    };
    let head = "CONSTRAINT `f` FOREIGN KEY (`d`, `b`) REFERENCES";
    for (key, wanted) in [
        (key("pages", 1, 1), "`o` (`x`, `y`)"),
        (key("other", 1, 1), "`other`.`o` (`x`, `y`)"),
        (key("pages", 3, 4), "`o` (`x`, `y`) ON DELETE SET NULL ON UPDATE CASCADE"),
        (key("pages", 2, 5), "`o` (`x`, `y`) ON DELETE SET DEFAULT ON UPDATE RESTRICT"),
    ] {
        assert_eq!(line(7, &[("/foreign_keys/-", key)]), format!("{head} {wanted}"));
    }
    for (update, delete) in [(0, 1), (1, 6)] {
        assert!(text(&[("/foreign_keys/-", key("pages", update, delete))]).is_err());
    }
    // In base64: (`d` > 1)
    let check = |state: u32| json!({"name": "c", "state": state, "check_clause": "KGBk\nYCA+IDEp"});
    let clause = "CONSTRAINT `c` CHECK ((`d` > 1))";
    assert_eq!(line(7, &[("/check_constraints/-", check(2))]), clause);
    let ignored = format!("{clause} /*!80016 NOT ENFORCED */");
    assert_eq!(line(7, &[("/check_constraints/-", check(1))]), ignored);
    let wrong = json!({"name": "c", "state": 1, "check_clause": "?"});
    assert!(text(&[("/check_constraints/-", wrong)]).is_err());
}

#[test]
fn partitions_are_listed_or_counted() {
    let usual = end(&[]);
    let part = |name: &str, values: &str, subparts: &[&str]| {
        let subparts: Vec<Value> = subparts.iter().map(|name| json!({"name": name})).collect();
        json!({"name": name, "description_utf8": values, "subpartitions": subparts})
    };
    let said = |kind: u32, default: u32, parts: &[Value], more: &[Change<'_>]| {
        let mut changes = vec![
            ("/partition_type", json!(kind)),
            ("/partition_expression", json!("`d`")),
            ("/default_partitioning", json!(default)),
            ("/partitions", json!(parts)),
        ];
        changes.extend_from_slice(more);
        end(&changes).strip_prefix(&usual).unwrap().to_owned()
    };
    let two = [part("p0", "5", &["s0", "s1"]), part("2", "MAXVALUE", &["s2", "s 3"])];
    assert_eq!(said(1, 3, &two, &[]), "\n/*!50100 PARTITION BY HASH (`d`)\nPARTITIONS 2 */");
    assert_eq!(said(1, 2, &two, &[]), "\n/*!50100 PARTITION BY HASH (`d`) */");
    let (first, second) = ("PARTITION p0", "PARTITION `2`");
    for (kind, by, values) in [
        (1, "50100 PARTITION BY HASH (`d`)", ["", ""]),
        (7, "50100 PARTITION BY RANGE (`d`)", [" VALUES LESS THAN (5)", " VALUES LESS THAN MAXVALUE"]),
        (8, "50100 PARTITION BY LIST (`d`)", [" VALUES IN (5)", " VALUES IN (MAXVALUE)"]),
        (
            9,
            "50500 PARTITION BY RANGE  COLUMNS(```d```)",
            [" VALUES LESS THAN (5)", " VALUES LESS THAN (MAXVALUE)"],
        ),
        (10, "50500 PARTITION BY LIST  COLUMNS(```d```)", [" VALUES IN (5)", " VALUES IN (MAXVALUE)"]),
    ] {
        let [one, other] = values;
        assert_eq!(
            said(kind, 1, &two, &[]),
            format!("\n/*!{by}\n({first}{one} ENGINE = InnoDB,\n {second}{other} ENGINE = InnoDB) */")
        );
    }
    let sub = |default: u32| {
        [
            ("/subpartition_type", json!(1)),
            ("/subpartition_expression", json!("`d`")),
            ("/default_subpartitioning", json!(default)),
        ]
    };
    let by = "\n/*!50100 PARTITION BY RANGE (`d`)\nSUBPARTITION BY HASH (`d`)";
    let (less, most) = ("VALUES LESS THAN (5)", "VALUES LESS THAN MAXVALUE");
    assert_eq!(
        said(7, 1, &two, &sub(3)),
        format!(
            "{by}\nSUBPARTITIONS 2\n({first} {less} ENGINE = InnoDB,\n {second} {most} ENGINE = InnoDB) */"
        )
    );
    assert_eq!(
        said(7, 1, &two, &sub(1)),
        format!(
            "{by}\n({first} {less}\n (SUBPARTITION s0 ENGINE = InnoDB,\n  SUBPARTITION s1 ENGINE = InnoDB),\n \
             {second} {most}\n (SUBPARTITION s2 ENGINE = InnoDB,\n  SUBPARTITION `s 3` ENGINE = InnoDB)) */"
        )
    );
    let mut own = part("p", "", &[]);
    own["options"] = json!("max_rows=7;min_rows=0;");
    own["comment"] = json!("it's");
    let wanted =
        "\n/*!50100 PARTITION BY HASH (`d`)\n(PARTITION p MAX_ROWS = 7 COMMENT = 'it''s' ENGINE = InnoDB) */";
    assert_eq!(said(1, 1, &[own], &[]), wanted);
}

/// A key with the beginning of a column has two fields of it, and the column says the places of both.
#[test]
fn a_beginning_in_the_key_has_a_place_of_its_own() {
    let whole = json!({"length": u32::MAX, "order": 2, "hidden": true, "column_opx": 1});
    // The length of `id` is 80 bytes. The places are 0 and, for the whole, 9.
    let changes = [
        ("/indexes/0/elements/0/length", json!(40)),
        ("/indexes/0/elements/-", whole),
        ("/columns/1/se_private_data", json!("physical_pos=32777;table_id=1125;")),
    ];
    let table = changed(&changes).table().unwrap();
    let fields = &table.clustered().fields;
    assert_eq!((fields[0].column, fields[0].prefix), (Some(1), Some(40)));
    assert_eq!((fields[8].column, fields[8].prefix), (Some(1), None));
    assert_eq!((table.keys()[0].parts[0].prefix, table.clustered().key_fields), (Some(40), 1));
    assert_eq!(changed(&[]).table().unwrap().clustered().fields[0].prefix, None);
    // The place of the beginning is in the upper half.
    let moved = ("/columns/1/se_private_data", json!("physical_pos=98313;table_id=1125;"));
    let error = changed(&[changes[0].clone(), changes[1].clone(), moved]).table().unwrap_err().to_string();
    assert!(error.contains("contradict"), "{error}");
}

#[test]
fn rows_of_other_formats_are_refused() {
    for (number, what) in
        [(3, "ROW_FORMAT=COMPRESSED"), (4, "ROW_FORMAT=REDUNDANT"), (6, "format 6, which there is not")]
    {
        let error = changed(&[("/row_format", json!(number))]).table().unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// A table to which MySQL 8.0.12 to 8.0.28 added columns says how many it had before: at least those of its
/// key.
#[test]
fn rows_have_at_least_the_fields_of_their_key() {
    let mut pages = Memory::new(VERSIONS);
    for (columns, is_sound) in [(0, false), (1, true), (4, true)] {
        let own = format!("instant_col={columns};");
        let table = changed(&[("/se_private_data", json!(own))]).table().unwrap();
        let layout = instant::layout(&table, 4, 62, &mut pages);
        assert_eq!(layout.is_ok(), is_sound, "{columns}");
        assert!(is_sound || layout.unwrap_err().to_string().contains("contradicts itself"));
    }
}

#[test]
fn a_key_is_of_its_kind_and_of_beginnings_of_columns() {
    let kinds = [KeyKind::Primary, KeyKind::Unique, KeyKind::Plain, KeyKind::Fulltext, KeyKind::Spatial];
    for (number, kind) in (1..).zip(kinds) {
        assert_eq!(changed(&[("/indexes/0/type", json!(number))]).table().unwrap().keys()[0].kind, kind);
    }
    assert!(changed(&[("/indexes/0/type", json!(6))]).table().is_err());
    // A text, which may be in the key as a whole, a BLOB, a point and a number, which may not.
    for (kind, length, prefix) in [
        (16, 40, None),
        (16, 36, Some(36)),
        (29, 36, Some(36)),
        (27, 10, Some(10)),
        (30, 10, Some(10)),
        (4, 4, None),
    ] {
        let part = json!({"length": length, "order": 2, "hidden": false, "column_opx": 2});
        // Its place is the fourth one, as a whole and as a beginning.
        let changes = [
            ("/columns/2/type", json!(kind)),
            ("/columns/2/se_private_data", json!("physical_pos=294916;")),
            ("/indexes/0/elements/4", part),
        ];
        let table = changed(&changes).table().unwrap();
        assert_eq!(table.keys()[0].parts[1].prefix, prefix, "{kind} {length}");
    }
}
