//! Which transactions and rows of a log are shown.

use transactions::{Asked, Filter, Known, LogFile, Wording};

use crate::support::{Said, all, recorded, walk, walk_with};

/// The time of each transaction of the log of MariaDB 10.11.
const TIME: i64 = 1_795_470_949;

fn said(filter: &Filter) -> Said {
    walk(&[LogFile::new(recorded("mariadb-10.11"))], filter)
}

fn tables(patterns: &[&str]) -> Filter {
    let mut filter = all();
    filter.tables.include = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
    filter
}

fn conditions(texts: &[&str]) -> Filter {
    Filter { conditions: texts.iter().map(|text| text.parse().unwrap()).collect(), ..all() }
}

fn gtids(texts: &[&str]) -> Filter {
    Filter { gtid: texts.iter().map(|text| text.parse().unwrap()).collect(), ..all() }
}

#[test]
fn transactions_are_asked_for_by_name() {
    let found = said(&gtids(&["0-1-5"]));
    assert_eq!(found.names(), ["0-1-5"]);
    assert!(found.others.contains(&("3-1-1".to_owned(), Asked::No)) && found.missing.is_empty());
    let found = said(&gtids(&["3-1-1", "0-1-18-0-1-40"]));
    assert_eq!(found.names(), ["3-1-1", "0-1-18", "0-1-19"]);
    assert!(found.missing.is_empty());
    let found = said(&gtids(&["0-1-99", "0-1-19", "1-1-1-1-1-9"]));
    let missing =
        ["0-1-99", "1 to 9 of domain 1"].map(|it| format!("there is no transaction {it} in this log"));
    assert_eq!(found.names(), ["0-1-19"]);
    assert_eq!(found.missing, missing);
}

#[test]
fn transactions_are_asked_for_by_time() {
    for (since, until, is_in) in [
        (Some(TIME), None, true),
        (Some(TIME + 1), None, false),
        (None, Some(TIME), false),
        (None, Some(TIME + 1), true),
        (Some(TIME), Some(TIME + 1), true),
    ] {
        let found = said(&Filter { since, until, ..all() });
        assert_eq!(found.shown.len(), if is_in { 20 } else { 0 }, "{since:?} {until:?}");
        assert_eq!(found.others.len(), if is_in { 0 } else { 20 });
        assert!(found.others.iter().all(|(_, asked)| *asked == Asked::No) && found.reported.is_empty());
    }
}

/// Which tables a statement changes is not in the log, so statements are neither shown nor left out.
#[test]
fn rows_are_asked_for_by_table() {
    let found = said(&tables(&["app.my", "app.cs"]));
    assert_eq!(found.names(), ["0-1-12", "0-1-13"]);
    assert!(
        found.shown[0].contains("  app.my: insert 1 (") && found.shown[1].contains("  app.cs: insert 3 (")
    );
    assert!(found.others.iter().all(|(_, asked)| *asked == Asked::WithoutRows));
    assert_eq!(found.others.len(), 18);
    let mut filter = tables(&[]);
    filter.tables.exclude = vec!["app.zoo".parse().unwrap()];
    let found = said(&filter);
    assert_eq!(found.shown.len(), 20, "a transaction is shown without its rows");
    assert!(found.shown[2].ends_with("  not app.zoo\n"), "{}", found.shown[2]);
}

#[test]
fn rows_are_asked_for_by_value() {
    for (condition, names, rows) in [
        ("id=6", &["0-1-5", "3-1-1"][..], ["insert 1", "delete 1"]),
        ("@1=7", &["0-1-6", "3-1-1"], ["insert 1", "delete 1"]),
        ("v=x", &["0-1-4", "0-1-13"], ["update 1", "insert 1"]),
    ] {
        let found = said(&conditions(&[condition]));
        assert_eq!(found.names(), names, "{condition}");
        for (text, rows) in found.shown.iter().zip(rows) {
            assert!(text.contains(&format!(": {rows} (")), "{condition}: {text}");
        }
        assert!(!found.lacks_columns && found.missing.is_empty(), "{condition}");
    }
    // Every condition has to be so, of the same row.
    assert_eq!(said(&conditions(&["id=1", "v=x"])).names(), ["0-1-4", "0-1-13"]);
    assert_eq!(said(&conditions(&["id=5", "v=x"])).names(), [""; 0]);
}

#[test]
fn columns_that_no_table_has_are_missing() {
    let found = said(&conditions(&["absent=1"]));
    assert!(found.shown.is_empty() && found.is_nameless && !found.lacks_columns);
    assert_eq!(found.missing, ["no table of these transactions has the columns that --where names"]);
    assert!(found.reported.is_empty(), "the log has the names: {:?}", found.reported);
    // Some tables have it.
    let found = said(&conditions(&["tu=255"]));
    assert_eq!((found.names(), found.is_nameless), (vec!["0-1-3", "0-1-4"], true));
    assert!(!found.lacks_columns && found.missing.is_empty());
}

/// The table of the log of MySQL 5.6.
const OF_T: &str = "CREATE TABLE t (id INT NOT NULL, v VARCHAR(10), d DATETIME(3), e ENUM('a','b'), \
                    PRIMARY KEY (id)) ENGINE=InnoDB DEFAULT CHARSET=latin1";

#[test]
fn a_definition_gives_columns_their_names() {
    let files = [LogFile::new(recorded("mysql-5.6"))];
    let ask = |condition: &str, schema: &str| {
        let known = Known::of(format!("USE app; {schema};"));
        walk_with(&files, &conditions(&[condition]), &known).unwrap()
    };
    let unnamed = walk(&files, &conditions(&["v=b"]));
    assert!(unnamed.shown.is_empty() && unnamed.is_nameless && unnamed.lacks_columns);
    assert!(unnamed.missing.is_empty(), "whether a table has it is not known");
    let named = |table: &str| {
        format!(
            "warning: app.{table}: the names of its columns are not in the log: write @N=VALUE with the number of the \
             column, or give its CREATE TABLE with --schema"
        )
    };
    assert_eq!(unnamed.reported, [named("t"), named("m")], "once for each table");
    let found = ask("v=b", OF_T);
    assert_eq!(found.shown.len(), 1, "{:?}", found.reported);
    assert!(found.shown[0].contains("app.t: update 1 ("), "{}", found.shown[0]);
    assert!(found.is_nameless && !found.lacks_columns);
    // The member of an ENUM is a number in the log.
    assert_eq!(ask("e=b", OF_T).shown.len(), 2);
    assert_eq!(ask("e=a", OF_T).shown.len(), 0);
    let odd = ask("v=b", &OF_T.replace("INT NOT NULL", "NUMBER"));
    assert!(
        odd.reported[0]
            .starts_with("warning: --schema: the definition of app.t must be as SHOW CREATE TABLE")
    );
    // A definition that is not that of the table in the log.
    for (from, to, why) in [
        (", e ENUM('a','b')", "", "has 3 columns in its definition and 4 in the log"),
        ("id INT", "id BIGINT", "has another type of id in its definition than in the log"),
        ("ENUM('a','b')", "INT", "has another type of e in its definition than in the log"),
        ("v VARCHAR(10)", "v DECIMAL(9,2)", "has another type of v in its definition than in the log"),
    ] {
        let found = ask("v=b", &OF_T.replace(from, to));
        let said = format!(
            "warning: --schema: app.t {why}: it was altered, and its columns are called @1, @2 and so on"
        );
        assert_eq!(found.reported, [said, named("t"), named("m")], "{to}");
        assert!(found.shown.is_empty());
    }
}

#[test]
fn transactions_are_asked_for_by_statement() {
    let by = |text: &str| said(&Filter { statement: Some(Wording::new(text)), ..all() });
    let found = by("delete from app.zoo");
    assert_eq!(found.names(), ["3-1-1"], "rows have their statement beside them");
    assert_eq!(found.others.len(), 19);
    assert_eq!(by("create table my").names(), ["0-1-11"]);
    assert_eq!(by("truncate app.my").names(), ["0-1-14"]);
    assert_eq!(by("truncate other.my").names(), [""; 0]);
}

/// A TIMESTAMP is in UTC in the log.
#[test]
fn a_time_without_its_zone_is_pointed_out() {
    let found = said(&conditions(&["@37=2001-01-01 00:00:00"]));
    let [only] = found.reported.as_slice() else { panic!("{:?}", found.reported) };
    assert!(only.starts_with("warning: app.zoo: ts is a TIMESTAMP: the time is taken for UTC"), "{only}");
    for quiet in ["@37=2001-01-01 00:00:00+01:00", "@37=NULL", "@36=2001-01-01 00:00:00"] {
        assert_eq!(said(&conditions(&[quiet])).reported, [""; 0], "{quiet}");
    }
}
