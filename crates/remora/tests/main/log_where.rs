//! `remora log --where`: what SELECT shows is found.

use innodb::table::collation::Charset;
use server::Session;

use crate::extract::{execute, folder, session};
use crate::log::{log, logging};
use crate::support::mariadbs;

const TYPES: [(&str, &str); 32] = [
    ("TINYINT(4) UNSIGNED ZEROFILL", "7"),
    ("BIGINT", "-9223372036854775808"),
    ("BIGINT UNSIGNED", "18446744073709551615"),
    ("DECIMAL(8,3) ZEROFILL", "1.5"),
    ("FLOAT", "1.2345678"),
    ("FLOAT(10,2)", "123456.79"),
    ("DOUBLE", "0.1"),
    ("BIT(9)", "257"),
    ("YEAR", "2155"),
    ("DATE", "'2026-02-28'"),
    ("TIME(3)", "'-838:59:58.9'"),
    ("DATETIME(6)", "'2026-11-23 10:00:00.25'"),
    ("TIMESTAMP(2) NULL", "'2026-11-23 10:00:00.25'"),
    ("CHAR(10)", "'it''s'"),
    ("VARCHAR(300)", "REPEAT('\u{e4}', 150)"),
    ("TEXT COMPRESSED", "REPEAT('\u{e4}', 500)"),
    ("JSON", "'{\"a\": 1}'"),
    ("ENUM('a', 'b''c')", "'b''c'"),
    ("ENUM('\u{e4}', 'b') CHARACTER SET utf16", "'\u{e4}'"),
    ("SET('x', 'y', 'z')", "'x,z'"),
    ("BINARY(5)", "'A'"),
    ("BINARY(5)", "x'0041000100'"),
    ("VARBINARY(5)", "x'FF00'"),
    ("BLOB", "x'00FF'"),
    ("UUID", "'123e4567-e89b-12d3-a456-426655440000'"),
    ("UUID", "'123e4567-e89b-72d3-a456-426655440000'"),
    ("INET4", "'192.0.2.0'"),
    ("INET6", "'2001:db8::'"),
    ("INET6", "'::ffff:192.0.2.1'"),
    ("GEOMETRY", "ST_GeomFromText('POINT(1 1)')"),
    ("INT", "NULL"),
    ("VARCHAR(5)", "''"),
];

/// What is stored in columns of all character sets, as far as they have these letters.
const TEXT: &str =
    "'a\u{e4}\u{c4}\u{e9}\u{151}\u{436}\u{3a9}\u{5d0}\u{e01}\u{3042}\u{4e00}\u{ac00}\u{10d0}\u{540}\\\\'";

/// Columns of every type and every character set, and a value for each.
fn columns(session: &mut Session) -> Vec<(String, &'static str)> {
    let charsets =
        session.strings("SELECT character_set_name FROM information_schema.CHARACTER_SETS").unwrap();
    let charsets: Vec<String> = charsets.into_iter().flatten().flatten().collect();
    assert!(charsets.len() > 35);
    let of = |kind: &str, name: &str| (format!("{kind} CHARACTER SET {name}"), TEXT);
    let mut columns: Vec<_> = charsets.iter().map(|name| of("VARCHAR(50)", name)).collect();
    columns.extend(["utf8mb4", "utf16", "gbk", "binary"].map(|name| of("CHAR(50)", name)));
    columns.extend(TYPES.map(|(kind, value)| (kind.to_owned(), value)));
    columns
}

/// Tables with these columns and a row, one for each thing that a log may say of columns.
fn fill(session: &mut Session, columns: &[(String, &'static str)]) {
    let numbered = columns.iter().enumerate();
    let defined = numbered.map(|(at, (kind, _))| format!("c{at} {kind}")).collect::<Vec<_>>().join(", ");
    let values = columns.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(", ");
    execute(session, &["SET time_zone = '+00:00', NAMES utf8mb4, sql_mode = ''"]);
    for metadata in ["NO_LOG", "FULL"] {
        execute(
            session,
            &[
                &format!("SET GLOBAL binlog_row_metadata = {metadata}"),
                &format!("CREATE TABLE {metadata} ({defined})"),
                &format!("INSERT INTO {metadata} VALUES ({values})"),
            ],
        );
    }
}

/// The values as a terminal shows them; what is no text is written in hexadecimal.
fn shown(session: &mut Session, columns: &[(String, &'static str)]) -> Vec<Option<String>> {
    let shown = columns.iter().enumerate().map(|(at, (kind, _))| {
        let is_bytes = kind.ends_with(" binary")
            || ["BINARY", "VARBINARY", "BLOB", "GEOMETRY"].iter().any(|of| kind.starts_with(of));
        match kind.as_str() {
            "BIT(9)" => format!("c{at}+0"),
            _ if is_bytes => format!("CONCAT('0x', HEX(c{at}))"),
            _ => format!("CONVERT(c{at} USING utf8mb4)"),
        }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    session.strings(&format!("SELECT {shown} FROM FULL")).unwrap().remove(0)
}

/// Whatever the log says of its columns, `--where` finds what SELECT shows.
#[test]
fn every_value_is_found_as_select_shows_it() {
    let folder = folder();
    let server = logging(mariadbs()[0], &[]);
    let mut session = session(&server);
    let columns = columns(&mut session);
    fill(&mut session, &columns);
    let found = |table: &str, at: usize, typed: &str| {
        let (table, condition) = (format!("app.{table}"), format!("@{}={typed}", at + 1));
        let ended = log(folder.path(), &server, &["--table", &table, "--where", &condition]);
        let lines = ended.out.lines().count();
        (ended, lines)
    };
    for (at, value) in shown(&mut session, &columns).iter().enumerate() {
        let value = value.as_deref().unwrap_or("NULL");
        for table in ["NO_LOG", "FULL"] {
            let (ended, lines) = found(table, at, value);
            let has_members =
                table == "FULL" || !["ENUM", "SET"].iter().any(|kind| columns[at].0.starts_with(kind));
            // Without the names of members that is an error.
            let expected = if has_members { (0, 1) } else { (3, 0) };
            assert_eq!((ended.code, lines), expected, "{table} {} {value} {}", columns[at].0, ended.err);
        }
    }
    let at = |kind: &str| columns.iter().position(|(own, _)| own == kind).unwrap();
    let member = at("ENUM('a', 'b''c')");
    for (at, typed) in [(at("GEOMETRY"), "POINT(1 1)"), (member, "a"), (at("SET('x', 'y', 'z')"), "x,z")] {
        found("NO_LOG", at, typed).0.exits(3).says(&["can't be compared"]);
    }
    assert_eq!(["2", "b"].map(|typed| found("FULL", member, typed).1), [1, 0]);
    assert_eq!(found("FULL", at("BINARY(5)"), "A").1, 1);
    let moment = at("TIMESTAMP(2) NULL");
    assert_eq!(found("FULL", moment, "2026-11-23 11:00:00.25+01:00").1, 1);
    found("FULL", moment, "2026-11-23 11:00:00.25").0.exits(0).says(&["is taken for UTC"]);
}

/// Every character of every character set is what the server makes of it.
#[test]
fn characters_are_those_of_the_server() {
    let server = logging(mariadbs()[0], &[]);
    let mut session = session(&server);
    execute(&mut session, &["SET NAMES utf8mb4"]);
    for charset in Charset::all().filter(|charset| charset.min == 1) {
        let name = charset.name;
        let (codes, len) = match (name, charset.max) {
            ("utf8mb3" | "utf8mb4" | "binary", _) => continue,
            (_, 1) => (vec!["0_to_255"], 1),
            (_, 2) => (vec!["32768_to_65535"], 2),
            _ => (vec!["32768_to_65535", "9412608_to_9437183"], 3),
        };
        let mut count = 0;
        for codes in codes {
            let bytes = "UNHEX(LPAD(HEX(seq), IF(seq < 256, 2, LENGTH(HEX(seq))), '0'))";
            let char = format!("CAST({bytes} AS CHAR CHARACTER SET {name})");
            let sql = format!(
                "SELECT seq, CONVERT({char} USING utf8mb4) FROM seq_{codes} WHERE CHAR_LENGTH({char}) = 1 AND HEX({char}) = HEX({bytes})"
            );
            for row in session.strings(&sql).unwrap() {
                let [Some(code), Some(text)] = row.as_slice() else { panic!("{row:?}") };
                let code: u32 = code.parse().unwrap();
                // What the server has no letter for.
                if text == "?" && code != 63 {
                    continue;
                }
                let bytes = code.to_be_bytes();
                let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
                assert_eq!(charset.text(&bytes[first..]).as_ref(), Some(text), "{name} {code:x}");
                count += 1;
            }
        }
        assert!(count >= [0, 120, 5000, 13000][len], "{name} {count}");
    }
}
