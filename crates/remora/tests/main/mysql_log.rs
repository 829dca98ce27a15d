//! `remora log` and `remora reverse` read what MySQL 9.7 wrote. No server is needed.

use std::fs;
use std::path::Path;

use crate::extract::{folder, run};
use crate::support::Ended;

/// The server that wrote the logs.
const SERVER: &str = "1fd4a02f-eb29-11f1-bb7b-02fc00000001";
/// What comes before the first transaction, and after the last.
const AROUND_BYTES: u64 = 158 + 44;

fn on(name: &str, arguments: &[&str]) -> Ended {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../binlog/tests/cases").join(name);
    let log = log.with_added_extension("binlog");
    let (command, more) = arguments.split_first().unwrap();
    run(folder().path(), &[&[*command, log.to_str().unwrap()][..], more].concat())
}

fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

/// The statements of a script without the checks of each.
fn statements(script: &str) -> Vec<&str> {
    let behind = script.split_once("START TRANSACTION;\n").unwrap().1;
    let own = |line: &&str| !line.is_empty() && !line.starts_with("-- ") && !line.starts_with("SET @remora");
    behind.lines().filter(own).take_while(|line| !line.starts_with("PREPARE")).collect()
}

#[test]
fn compressed_transactions_are_shown_with_their_rows() {
    let ended = on("mysql-9.7-compressed", &["log", "--rows"]).exits(0);
    has(
        &ended.out,
        &[
            &format!("{SERVER}:3  app.t  insert 2"),
            &format!("{SERVER}:4  app.t  update 1, delete 1"),
            "~ @1=1 @2='aaa",
            &format!("{SERVER}:5  app.t  insert 1   INSERT INTO t VALUES (3, 'three', NULL)"),
            &format!("{SERVER}:nightly:1  app.t  insert 1"),
            "+ @1=8 @2='eight' @3=NULL",
        ],
    );
    // They take the bytes that they have in the file.
    let json = on("mysql-9.7-compressed", &["log", "--json"]).exits(0);
    let lines = json.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let bytes: u64 = lines.filter_map(|line| line["bytes"].as_u64()).sum();
    assert_eq!(bytes, 4107 - AROUND_BYTES);
}

#[test]
fn a_tag_is_part_of_a_gtid() {
    let chosen = |gtid: &str| on("mysql-9.7-compressed", &["log", "--gtid", gtid]).exits(0).out;
    let tagged = chosen(&format!("{SERVER}:Nightly:1-2"));
    assert_eq!(tagged.lines().count(), 2, "{tagged}");
    has(&tagged, &[&format!("{SERVER}:nightly:1"), &format!("{SERVER}:nightly:2")]);
    assert!(!chosen(&format!("{SERVER}:1-12")).contains("nightly"));
    on("mysql-9.7-compressed", &["log", "--gtid", &format!("{SERVER}:1-2:4")]).exits(2);
}

#[test]
fn json_of_mysql_is_compared_as_it_is_shown() {
    let document = r#"j={"a": null, "b": [1, 2]}"#;
    let ended = on("mysql-9.7", &["log", "--rows", "--where", document]).exits(0);
    has(&ended.out, &[r#"j='{"a": null, "b": [1, 2]}'"#, "w=0x0000803F000020C0", "s='gr\u{fc}n'", "t='\u{e4}'"]);
    assert!(!ended.out.contains("app.parent"), "{}", ended.out);
}

/// Facts: the rows that foreign keys change are in the log before the row that they refer to, in an order in
/// which those come back last that others refer to.
#[test]
fn reverse_undoes_what_foreign_keys_deleted() {
    let script = on("mysql-9.7", &["reverse", "--gtid", &format!("{SERVER}:11")]).exits(0).out;
    let expected = [
        "INSERT INTO `app`.`parent` (`id`, `v`) VALUES",
        "  (1, 10);",
        "INSERT INTO `app`.`child` (`id`, `p`) VALUES",
        "  (11, 1);",
        "INSERT INTO `app`.`grand` (`id`, `c`) VALUES",
        "  (111, 11);",
        "INSERT INTO `app`.`child` (`id`, `p`) VALUES",
        "  (12, 1);",
    ];
    assert_eq!(statements(&script), expected);
    has(&script, &["app.child: insert 2 (2 of them were taken along by foreign keys)"]);
    assert!(!script.contains("do not come back"), "{script}");
}

/// Facts: the rows of a table that refers to itself look as if nobody had checked foreign keys.
#[test]
fn reverse_does_not_check_where_the_log_has_no_order() {
    let script = on("mysql-9.7", &["reverse", "--gtid", &format!("{SERVER}:17")]).exits(0).out;
    let expected = [
        "SET foreign_key_checks = 0;",
        "INSERT INTO `app`.`tree` (`id`, `p`) VALUES",
        "  (1, NULL),",
        "  (4, 1),",
        "  (3, 2),",
        "  (2, 1);",
        "SET foreign_key_checks = 1;",
    ];
    assert_eq!(statements(&script), expected);
    has(&script, &["Note: foreign keys are not checked for the rows of 1 transaction"]);
}

#[test]
fn reverse_leaves_keys_to_the_foreign_key_that_changed_them() {
    let script = on("mysql-9.7", &["reverse", "--gtid", &format!("{SERVER}:12")]).exits(0).out;
    let expected = ["UPDATE `app`.`parent` SET `id` = 2, `v` = 20 WHERE `id` = 5 AND `v` = 20;"];
    assert_eq!(statements(&script), expected);
}

#[test]
fn reverse_puts_json_and_vectors_back() {
    let script = on("mysql-9.7", &["reverse", "--gtid", &format!("{SERVER}:3-4")]).exits(0).out;
    has(
        &script,
        &[
            r#"BINARY `j` = '{"a": null, "b": [1, 2]}'"#,
            "BINARY `w` = x'0000803F000020C0'",
            "`g` = x'000000000101000000000000000000F03F0000000000000040'",
            "SET `id` = 2, ",
        ],
    );
}

#[test]
fn a_log_that_mysql_encrypted_is_left_out() {
    let folder = folder();
    fs::write(folder.path().join("binlog.000001"), b"\xFDbin\x01\x05\0\0\0").unwrap();
    let words = ["it is encrypted, as MySQL encrypts logs", "mysqlbinlog --read-from-remote-server"];
    run(folder.path(), &["log", "binlog.000001"]).exits(3).says(&words);
}
