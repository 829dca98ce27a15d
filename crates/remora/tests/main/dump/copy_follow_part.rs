//! Copies that are followed and have not all of A: rows that meet a condition, and masked values.

use server::Session;

use super::Pair;
use super::copy::copy;
use super::copy_follow::{LOG, Random, command, execute, next, once};
use super::mask::{SECRET, search};
use crate::support::{Ended, of_today, on_products, part_of_today, products, tell};

/// Conditions of all forms, each with its table.
const CONDITIONS: [&str; 20] = [
    "n = 7",
    "n <> 7 OR u IS NULL",
    "u >= 18446744073709551614 AND NOT (n < -1)",
    "n IN (1, -2, 7) OR `Day` IS NOT NULL",
    "N not in (1, 2)",
    "not n between -1 AND 2",
    "day >= '2026-01-01'",
    "day < '2024-02-29'",
    "day BETWEEN '2024-02-29' AND '2026-01-01'",
    "at < \"2026-01-01 12:00:00.5\"",
    "at >= '2026-01-01'",
    "ts > '2026-01-01 00:00:00'",
    "kind = 'new' or kind IS NULL",
    "kind NOT IN ('new', 'it''s')",
    "code = 'ab'",
    "code > x'6162' AND (n = 1 OR n = 7)",
    "fixed IN ('ab', x'61620000')",
    "word = 'acme' OR n IS NULL",
    "word <> 'acme'",
    "word IN ('\u{e9}t\u{e9}', '')",
];

/// A random one of some values, as SQL.
fn one_of<'a>(random: &mut Random, values: &[&'a str]) -> &'a str {
    values[usize::try_from(random.below(values.len() as u64)).unwrap()]
}

/// The columns of a row with random values, as SET takes them.
fn assignments(random: &mut Random) -> String {
    let values: [(&str, &[&str]); 9] = [
        ("n", &["NULL", "-2", "-1", "1", "2", "7"]),
        ("u", &["NULL", "0", "18446744073709551613", "18446744073709551614", "18446744073709551615"]),
        ("day", &["NULL", "'0000-00-00'", "'2024-02-28'", "'2024-02-29'", "'2026-01-01'", "'2026-01-02'"]),
        ("at", &["NULL", "'2025-12-31 23:59:59.999'", "'2026-01-01'", "'2026-01-01 12:00:00.5'"]),
        ("ts", &["'2025-12-31 23:59:59'", "'2026-01-01 00:00:00'", "'2026-01-01 00:00:01'"]),
        ("kind", &["NULL", "'new'", "'old'", "'it''s'"]),
        ("code", &["NULL", "''", "'ab'", "x'6162'", "x'616200'", "'AB'", "'b'"]),
        ("fixed", &["NULL", "''", "'ab'", "x'61620000'", "'AB'"]),
        ("word", &["NULL", "''", "'acme'", "'acme '", "'Acme'", "'\u{e9}t\u{e9}'", "' acme'"]),
    ];
    let set = values.map(|(column, values)| format!("{column} = {}", one_of(random, values)));
    set.join(", ")
}

/// Random changes of all tables.
fn change(pair: &Pair, random: &mut Random, count: usize) {
    let mut session = pair.source();
    execute(&mut session, &["SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'"]);
    for at in 0..CONDITIONS.len() {
        execute(&mut session, &["START TRANSACTION"]);
        for _ in 0..count {
            let (id, other) = (random.below(12), random.below(12));
            let sql = match random.below(5) {
                0 | 1 => format!("REPLACE INTO d.c{at} SET id = {id}, {}", assignments(random)),
                2 => format!("DELETE FROM d.c{at} WHERE id = {id}"),
                3 => {
                    format!("UPDATE IGNORE d.c{at} SET id = {other}, {} WHERE id = {id}", assignments(random))
                }
                _ => format!("UPDATE d.c{at} SET {} WHERE id BETWEEN {id} AND {other}", assignments(random)),
            };
            execute(&mut session, &[&sql]);
        }
        execute(&mut session, &["COMMIT"]);
    }
}

#[track_caller]
fn assert_part(pair: &Pair) {
    let (mut source, mut target) = (pair.source(), pair.target());
    for session in [&mut source, &mut target] {
        execute(session, &["SET time_zone = '+00:00'"]);
    }
    let mut rows_of = [0, 0];
    for (at, condition) in CONDITIONS.iter().enumerate() {
        let all =
            format!("SELECT id, n, u, day, at, ts, kind, HEX(code), HEX(fixed), HEX(word) FROM d.c{at}");
        let expected = source.strings(&format!("{all} WHERE {condition} ORDER BY id")).unwrap();
        let found = target.strings(&format!("{all} ORDER BY id")).unwrap();
        assert!(expected == found, "{condition}: {expected:#?} {found:#?}");
        let total = source.strings(&all).unwrap().len();
        rows_of = [rows_of[0] + found.len(), rows_of[1] + total - found.len()];
    }
    assert!(rows_of.iter().all(|rows| *rows > 10), "{rows_of:?}");
}

#[test]
fn rows_move_into_a_condition_and_out_of_it() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} to {to}"));
            let pair = Pair::new(product, to, &LOG);
            let mut source = pair.source();
            execute(&mut source, &["CREATE DATABASE d"]);
            for at in 0..CONDITIONS.len() {
                let sql = format!(
                    "CREATE TABLE d.c{at} (id INT PRIMARY KEY, n SMALLINT, u BIGINT UNSIGNED, day DATE, at DATETIME(3), \
                     ts TIMESTAMP NOT NULL DEFAULT '2026-01-01 00:00:00', kind ENUM('old', 'new', 'it''s'), code \
                     VARBINARY(9), fixed BINARY(4), word VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin) ENGINE=InnoDB"
                );
                execute(&mut source, &[&sql]);
            }
            let mut random = Random(5);
            change(&pair, &mut random, 30);
            let conditions = CONDITIONS.iter().enumerate().map(|(at, sql)| format!("--where=d.c{at}:{sql}"));
            let conditions: Vec<String> = conditions.collect();
            let mut options: Vec<&str> = conditions.iter().map(String::as_str).collect();
            once(&pair, &options).exits(0);
            assert_part(&pair);
            options.extend(["--resume", "--verify-every", "1h"]);
            for _ in 0..3 {
                change(&pair, &mut random, 20);
                once(&pair, &options).exits(0).says(&["verified in", "20 tables with"]);
                assert_part(&pair);
            }
        }
    });
}

/// Texts of many scripts. Of each a character set stores what it has.
const TEXTS: [&str; 10] = [
    "Gr\u{fc}\u{df}e \u{20ac}",
    "\u{17d}lu\u{165}",
    "\u{395}\u{3bb}",
    "\u{41f}\u{440}\u{438}",
    "\u{65e5}\u{672c}\u{8a9e} \u{ff71}\u{ff61}",
    "\u{d55c}\u{ad6d}",
    "\u{4e2d}\u{6587}",
    "\u{5e9}\u{5dc}",
    "\u{1f600}~\\\\",
    "  ",
];

const MASKS: [&str; 16] = [
    // Not as the others, for these have no address.
    "text_swe7.email=hash",
    "text_armscii8.email=hash",
    "text_*.hash=hash",
    "text_*.short=hash",
    "text_*.email=fake:email",
    "text_*.name=fake:name",
    "text_*.phone=fake:phone",
    "other.tiny=hash",
    "other.big=hash",
    "other.medium=hash",
    "other.bytes=hash",
    "other.few=hash",
    "other.fixed=hash",
    "other.padded=hash",
    "other.large=hash",
    "other.day=null",
];

/// Copies or continues with these masks and a key.
fn masked(pair: &Pair, masks: &[&str], arguments: &[&str]) -> Ended {
    let masks: Vec<String> = masks.iter().map(|mask| format!("--mask=d.{mask}")).collect();
    let masks: Vec<&str> = masks.iter().map(String::as_str).collect();
    once(pair, &[&masks[..], &["--mask-key", "key"], arguments].concat())
}

/// A table for each character set, and one for other types. Returns the character sets.
fn make_masked(source: &mut Session) -> Vec<String> {
    execute(source, &["SET sql_mode = '', NAMES utf8mb4", "CREATE DATABASE d"]);
    let sets = "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS \
                WHERE CHARACTER_SET_NAME NOT IN ('binary', 'gb18030') ORDER BY 1";
    let sets: Vec<String> = source.strings(sets).unwrap().into_iter().flatten().flatten().collect();
    assert!(sets.len() > 35, "{sets:?}");
    for set in &sets {
        let sql = format!(
            "CREATE TABLE d.`text_{set}` (id INT PRIMARY KEY, hash VARCHAR(60) CHARACTER SET {set}, short CHAR(8) CHARACTER \
             SET {set}, email TEXT CHARACTER SET {set}, name VARCHAR(30) CHARACTER SET {set}, phone CHAR(20) CHARACTER SET \
             {set}) ENGINE=InnoDB"
        );
        execute(source, &[&sql]);
    }
    execute(
        source,
        &[
            "CREATE TABLE d.other (id INT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, medium MEDIUMINT, bytes \
           VARBINARY(60), few VARBINARY(3), fixed BINARY(20), padded BINARY(40), large LONGBLOB, day DATE, kept VARCHAR(20), \
           UNIQUE KEY (bytes)) ENGINE=InnoDB",
        ],
    );
    sets
}

/// Rows with other texts for each number.
fn fill_masked(source: &mut Session, sets: &[String], number: u32) {
    for set in sets {
        for (id, text) in TEXTS.iter().enumerate() {
            let text = format!("'{SECRET}{number}{text}'");
            let sql = format!(
                "REPLACE INTO d.`text_{set}` VALUES ({id}, {text}, LEFT({text}, 8), REPEAT({text}, 50), {text}, {text})"
            );
            execute(source, &[&sql]);
        }
        let nothing = format!("REPLACE INTO d.`text_{set}` VALUES (99, '', ' ', NULL, '', NULL)");
        execute(source, &[&nothing]);
    }
}

#[test]
fn values_of_all_character_sets_and_types_are_masked_as_the_source_masks_them() {
    on_products(&of_today(products()), |product| {
        for to in part_of_today(vec![product, next(product)], 3) {
            tell(format!("{product} to {to}"));
            let mut pair =
                Pair::new(product, to, &[&LOG[..], &["--binlog-row-event-max-size=1024"]].concat());
            std::fs::write(pair.folder.path().join("key"), "sixteen and more bytes").unwrap();
            let mut source = pair.source();
            let sets = make_masked(&mut source);
            once(&pair, &["--mask", "d.text_latin1.hash=hash"]).exits(2).says(&["needs --mask-key"]);
            let addresses = masked(&pair, &["text_*.email=fake:email"], &[]);
            addresses
                .exits(1)
                .says(&["column email of `d`.`text_armscii8`: its character set has no @, or two dots"]);
            fill_masked(&mut source, &sets, 1);
            masked(&pair, &MASKS, &[]).exits(0);
            let verified = ["--resume", "--verify-every", "1h"];
            masked(&pair, &MASKS, &verified).exits(0).says(&["verified in"]);
            execute(&mut source, &["DELETE FROM d.text_latin1", "UPDATE d.text_cp1250 SET id = id + 200"]);
            fill_masked(&mut source, &sets, 2);
            execute(
                &mut source,
                &[
                    "INSERT INTO d.other VALUES (1, -128, 18446744073709551615, -8388608, 'Gehheim', 'Geh', 'Gehheim', \
                     'Gehheim', REPEAT('Gehheim', 9999), '2026-11-30', 'kept'), \
                     (2, 127, 0, 8388607, '', 'a', x'00', x'ff00', x'00', NULL, ''), \
                     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
                ],
            );
            masked(&pair, &MASKS, &verified).exits(0).says(&["verified in"]);
            let whole = "SELECT COUNT(*) FROM d.other WHERE LENGTH(bytes) = 16 AND LENGTH(few) = 3 AND day IS NULL AND \
                         LENGTH(padded) = 40 AND id < 3";
            assert_eq!(pair.target().value(whole).unwrap().as_deref(), Some("2"));
            // Values that change places, in a unique key too, and rows that get another key.
            fill_masked(&mut source, &sets, 3);
            execute(
                &mut source,
                &[
                    "UPDATE d.other SET bytes = CASE id WHEN 1 THEN 'Gehheim2' ELSE 'Gehheim' END, kept = 'x' WHERE id < 3 \
                     ORDER BY id",
                    "UPDATE d.other SET id = id + 100, tiny = -tiny",
                ],
            );
            masked(&pair, &MASKS, &verified).exits(0).says(&["verified in"]);
            let kept = "SELECT COUNT(*) FROM d.other WHERE id > 100 AND kept = 'x'";
            assert_eq!(pair.target().value(kept).unwrap().as_deref(), Some("2"));
            // Nothing of it came to B, not even for a moment: its log has all that came.
            pair.to.stop().unwrap();
            search(pair.to.data());
        }
    });
}

#[test]
fn what_can_not_be_decided_or_masked_for_the_log_is_refused_before_anything_is_copied() {
    on_products(&of_today(products()), |product| {
        let pair = Pair::new(product, product, &LOG);
        execute(
            &mut pair.source(),
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (id INT PRIMARY KEY, day DATE, at DATETIME, word VARCHAR(20) CHARACTER SET latin1, kind \
                 ENUM('a', 'b'), price DECIMAL(9,2), mail VARCHAR(100)) ENGINE=InnoDB",
                "CREATE TABLE d.child (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES d.t (id) ON DELETE CASCADE) \
                 ENGINE=InnoDB",
                "CREATE TABLE d.m (mail VARCHAR(60) PRIMARY KEY) ENGINE=InnoDB",
            ],
        );
        for (condition, why) in [
            ("word = 'acme'", "column word: its collation is latin1_swedish_ci"),
            ("price > 5", "column price: it is no integer, date, ENUM, bytes, or text"),
            ("day > '2026-11-30 12:00:00'", "column day: it is compared with a date such as"),
            ("day > '0000-00-00'", "column day: it is compared with a date such as"),
            ("at > '2026-11-30 12:00:00.5'", "with 0 decimals at most"),
            ("kind > 'a'", "column kind: only =, <> and IN compare it exactly"),
            ("kind = 'c'", "column kind: it has no member \"c\""),
            ("id = '7'", "column id: it is compared with an integer without quotes"),
            ("id = 7.0", "a value is expected instead of \"7.0\""),
            ("id <=> 7", "a comparison such as =, <=, IN or BETWEEN is expected instead of \"<=>\""),
            ("id % 2 = 0", "a comparison such as =, <=, IN or BETWEEN is expected instead of \"%\""),
            ("id = 1 XOR id = 2", "\"XOR\" is not expected"),
            ("7 = id", "a column is expected instead of \"7\""),
            ("id = (SELECT 7)", "a value is expected instead of \"(\""),
            ("id = 7 /*! OR 1 = 1 */", "\"/*\" is not expected"),
        ] {
            let ended = once(&pair, &["--where", &format!("d.t:{condition}")]);
            ended.exits(1).says(&[
                "it can't be followed",
                "can't be decided for rows of the binary log",
                why,
            ]);
        }
        once(&pair, &["--where", "d.child:id = 1"]).exits(1).says(&["it has a condition, and foreign key"]);
        let key = pair.folder.path().join("key");
        std::fs::write(&key, "sixteen and more bytes").unwrap();
        let keyed = ["--mask", "d.m.mail=hash", "--mask-key", "key"];
        once(&pair, &keyed).exits(1).says(&["table `d`.`m`: column `mail` of its key is masked"]);
        let cut_over = |option: &[&str]| {
            let follow = ["d", "--follow", "apply", "--cut-over"];
            copy(&pair, &[&follow[..], option].concat()).exits(2).says(&["--cut-over"]);
        };
        cut_over(&["--where", "d.t:id = 1"]);
        cut_over(&["--mask", "d.t.mail=null"]);
        once(&pair, &["--where", "d.t:id = 1", "--ddl", "same"]).exits(2).says(&["--ddl same needs"]);
        let databases =
            "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME IN ('d', '_remora')";
        assert_eq!(pair.target().value(databases).unwrap().as_deref(), Some("0"));
    });
}

#[test]
fn a_copy_of_a_part_is_not_said_to_take_over() {
    let product = of_today(products())[0];
    let pair = Pair::new(product, product, &LOG);
    execute(
        &mut pair.source(),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, mail VARCHAR(100)) ENGINE=InnoDB",
            "CREATE TRIGGER d.lower_case BEFORE INSERT ON d.t FOR EACH ROW SET NEW.mail = LOWER(NEW.mail)",
        ],
    );
    let plan = |options: &[&str]| {
        let options = [&["--dry-run"], options].concat();
        Ended::of(&command(&pair, &options).output().unwrap()).exits(3).out
    };
    let whole = plan(&[]);
    assert!(
        whole.contains("a second time; --cut-over creates it") && whole.contains("at a cut-over,"),
        "{whole}"
    );
    for options in [["--where", "d.t:id > 5"], ["--mask", "d.t.mail=null"]] {
        let part = plan(&options);
        assert!(part.contains("a second time") && !part.contains("cut-over"), "{options:?}: {part}");
    }
}
