//! Changes that two tables get alike: many rows come, grow and go, pages split, and the tables get columns
//! and keys.

use server::Session;

use crate::support::{execute, quoted};

/// How many rows are added to a table, or a quarter of what it has.
const ROWS: u64 = 1000;

/// A column of a table.
struct Column {
    name: String,
    kind: String,
    is_nullable: bool,
    /// Whether a value is there only once.
    is_unique: bool,
    is_primary: bool,
}

fn columns(session: &mut Session, table: &str) -> Vec<Column> {
    let table = session.quote(table);
    let rows = session
        .strings(&format!(
            "SELECT column_name, data_type, is_nullable, \
             (SELECT MAX(index_name = 'PRIMARY') FROM information_schema.statistics s WHERE s.table_schema = 'a-b' AND \
             s.table_name = {table} AND s.column_name = c.column_name AND s.non_unique = 0) \
             FROM information_schema.columns c WHERE table_schema = 'a-b' AND table_name = {table} AND \
             is_generated = 'NEVER' ORDER BY ordinal_position"
        ))
        .unwrap();
    let columns = rows.into_iter().map(|row| {
        let [Some(name), Some(kind), Some(nullable), unique] = <[_; 4]>::try_from(row).unwrap() else {
            panic!("{table}")
        };
        let (is_unique, is_primary) = (unique.is_some(), unique.as_deref() == Some("1"));
        Column { name: quoted(&name), kind, is_nullable: nullable == "YES", is_unique, is_primary }
    });
    columns.collect()
}

/// Another value than that of an earlier row, if it must be one. A server may bend it or leave the row out.
fn another(column: &Column) -> String {
    let name = format!("r.{}", column.name);
    if !column.is_unique {
        return name;
    }
    match column.kind.as_str() {
        "char" | "varchar" | "text" => {
            format!("CONCAT(CONV(CRC32(CONCAT(seq, {name})), 10, 36), CONVERT({name} USING utf8mb4))")
        }
        "binary" | "varbinary" | "blob" => format!("CONCAT(UNHEX(MD5(CONCAT(seq, {name}))), {name})"),
        "uuid" => format!("MD5(CONCAT(seq, {name}))"),
        "date" | "datetime" | "timestamp" => format!("{name} + INTERVAL seq DAY"),
        _ => format!("{name} + seq * 37"),
    }
}

/// The statements, in which the table is `x`. They need a table of more rows, which `prepare` makes.
fn statements(columns: &[Column], more: &str) -> Vec<String> {
    let list = |keep: &dyn Fn(&Column) -> bool| {
        let names = columns.iter().filter(|column| keep(column)).map(|column| column.name.clone());
        names.collect::<Vec<_>>().join(", ")
    };
    let (all, key) = (list(&|_| true), list(&|column| column.is_primary));
    // The same rows in the same order, whatever a server knows of the tables.
    let order = if key.is_empty() { String::new() } else { format!(" ORDER BY {key}") };
    let hash = format!("CRC32(CONCAT_WS('|', {}))", if key.is_empty() { &all } else { &key });
    let insert = |which: &str| {
        format!("INSERT IGNORE INTO x ({all}) SELECT {all} FROM {more} WHERE number {which} ORDER BY number")
    };
    let mut statements = vec![insert("% 2 = 0")];
    for Column { name, kind, is_nullable, .. } in columns {
        if kind.ends_with("char") || kind.ends_with("text") || kind.ends_with("blob") || kind == "varbinary" {
            let longer = format!("CONCAT({name}, REPEAT('w', 30))");
            statements.push(format!("UPDATE IGNORE x SET {name} = {longer} WHERE {hash} % 7 = 0{order}"));
        }
        if *is_nullable {
            statements.push(format!("UPDATE IGNORE x SET {name} = NULL WHERE {hash} % 11 = 1{order}"));
        }
    }
    statements.extend([
        format!("DELETE FROM x WHERE {hash} % 3 = 0"),
        insert("% 3 > 0"),
        "ALTER TABLE x ADD COLUMN added INT DEFAULT 7, ALGORITHM=INSTANT".to_owned(),
        format!("UPDATE x SET added = {hash} % 1000 WHERE {hash} % 4 = 0"),
        format!("DELETE FROM x WHERE {hash} % 5 = 0"),
        insert(">= 0"),
        "ALTER TABLE x ADD COLUMN early VARCHAR(9) DEFAULT 'e' FIRST, ALGORITHM=INSTANT".to_owned(),
        "ALTER TABLE x ADD KEY added (added, early)".to_owned(),
        format!("UPDATE x SET early = added WHERE {hash} % 2 = 0"),
        format!("DELETE FROM x WHERE {hash} % 6 = 1"),
    ]);
    statements
}

/// Makes a table with rows like those of a table, but for what must be there only once.
fn prepare(session: &mut Session, table: &str, columns: &[Column], more: &str) {
    let table = quoted(table);
    let rows = session.value(&format!("SELECT COUNT(*) FROM {table}")).unwrap().unwrap();
    let all = rows.parse::<u64>().unwrap();
    let rows = all.clamp(1, 200);
    let values: Vec<String> =
        columns.iter().map(|column| format!("{} {}", another(column), column.name)).collect();
    execute(session, &format!("DROP TABLE IF EXISTS {more}"));
    execute(
        session,
        &format!(
            "CREATE TABLE {more} ENGINE=MyISAM SELECT ROW_NUMBER() OVER (ORDER BY seq) number, {} \
             FROM (SELECT {} FROM {table} LIMIT {rows}) r JOIN seq_1_to_{}",
            values.join(", "),
            columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", "),
            ROWS.max(all / 4) / rows
        ),
    );
}

/// Changes two tables, which have the same rows, in the same way.
pub(crate) fn change(session: &mut Session, one: &str, other: &str) {
    run(session, [one, other], |_| true);
}

/// The same once more, without new columns and keys.
pub(crate) fn change_again(session: &mut Session, one: &str, other: &str) {
    run(session, [one, other], |statement| !statement.starts_with("ALTER"));
}

fn run(session: &mut Session, tables: [&str; 2], keep: impl Fn(&str) -> bool) {
    let (columns, more) = (columns(session, tables[0]), "`more rows`");
    execute(session, "SET sql_mode = 'NO_UNSIGNED_SUBTRACTION'");
    prepare(session, tables[0], &columns, more);
    let mut both = |statement: &str| {
        tables.map(|table| {
            let done = session.execute(&statement.replacen(" x ", &format!(" {} ", quoted(table)), 1));
            done.map(|done| done.affected).map_err(|error| error.code())
        })
    };
    for statement in statements(&columns, more).into_iter().filter(|statement| keep(statement)) {
        let mut ended = both(&statement);
        // A table with computed columns gets no column at an instant.
        if let (Some((longer, _)), Err(_)) = (statement.split_once(", ALGORITHM"), &ended[0]) {
            assert_eq!(ended[0], ended[1], "{}: {statement}", tables[0]);
            ended = both(longer);
        }
        assert!(ended[0].is_ok() && ended[0] == ended[1], "{}: {statement}: {ended:?}", tables[0]);
    }
    execute(session, &format!("DROP TABLE {more}"));
}
