//! A trial: a small table is filled once through its file and once by INSERT, and both must be equal.

use std::fmt::Write as _;

use disk::Files;
use innodb::table::Table;
use progress::Silent;
use server::{Session, TableName};

use super::template_table::Names;
use super::{Input, Piece, Request, RowSink, write};
use crate::Error;

/// The columns of the table. The last ones are often off-page.
const COLUMNS: &str = "id INT UNSIGNED NOT NULL AUTO_INCREMENT, number BIGINT NOT NULL, price DECIMAL(12,3), \
    ratio DOUBLE, moment DATETIME(3), word VARCHAR(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, \
    bytes BLOB, PRIMARY KEY (id), UNIQUE KEY number (number), KEY word (word, price)";
/// How many rows it has: enough for a tree of two levels.
const ROWS: u64 = 400;

/// The texts of a row; none for NULL.
fn texts(id: u64) -> [Option<String>; 7] {
    let number = i128::from(id.wrapping_mul(0x9E37_79B9_7F4A_7C15)) - (1 << 63);
    let is_null = id.is_multiple_of(7);
    let some = |text: String| (!is_null).then_some(text);
    [
        Some(id.to_string()),
        Some(number.to_string()),
        some(format!("{}{}.{:03}", if id.is_multiple_of(2) { "-" } else { "" }, id * 99_991, id)),
        some(format!("{}.5", number / 3)),
        some(format!("{}-{:02}-28 {:02}:59:07.{:03}", 1000 + id * 20, id % 12 + 1, id % 24, id)),
        Some(format!(
            "w\u{f6}rd {:04} {}",
            id * 7919 % ROWS,
            "\u{20ac}".repeat(usize::try_from(id % 60).unwrap_or(0))
        )),
        (id.is_multiple_of(9)).then(|| "bytes ".repeat(usize::try_from(id * 5).unwrap_or(0))),
    ]
}

/// Fills the small table in both ways beside the target.
///
/// # Errors
/// [`Error::Refused`] if they differ, or this server or place does not qualify; other errors as those of
/// [`write()`].
pub fn trial(session: &mut Session, disk: &dyn Files, request: &Request<'_>) -> Result<(), Error> {
    let [filled, inserted] = Names::of(request.target).trial;
    let logs =
        session.about.log_bin && session.value("SELECT @@SESSION.sql_log_bin")?.as_deref() == Some("1");
    if logs {
        session.execute("SET SESSION sql_log_bin = 0")?;
    }
    let mut tried = compare(session, disk, request, (&filled, &inserted));
    for table in [&filled, &inserted] {
        let dropped = session.execute(&format!("DROP TABLE IF EXISTS {table}")).map(drop);
        tried = tried.and(dropped.map_err(Error::from));
    }
    if logs {
        tried = tried.and(session.execute("SET SESSION sql_log_bin = 1").map(drop).map_err(Error::from));
    }
    tried
}

fn compare(
    session: &mut Session,
    disk: &dyn Files,
    request: &Request<'_>,
    (filled, inserted): (&TableName, &TableName),
) -> Result<(), Error> {
    for table in [filled, inserted] {
        session.execute(&format!("DROP TABLE IF EXISTS {table}"))?;
        session.execute(&format!("CREATE TABLE {table} ({COLUMNS}) ENGINE = InnoDB"))?;
    }
    let mut values = String::new();
    for id in 1..=ROWS {
        let cells = texts(id).map(|text| text.map_or("NULL".to_owned(), |text| format!("'{text}'")));
        write!(values, "{}({})", if id == 1 { "" } else { "," }, cells.join(",")).ok();
    }
    session.execute(&format!("INSERT INTO {inserted} VALUES {values}"))?;
    let definition = session.definition(filled)?;
    let small = Request {
        target: filled,
        definition: &definition,
        sorted: true,
        bytes: None,
        progress: &Silent,
        ..*request
    };
    let mut pieces = (1..=ROWS).step_by(100);
    let mut next = || Ok(pieces.next().map(|first| Piece { input: first, rows: 100, bytes: 0 }));
    let rows = |table: &Table, first: u64, _: u64, take: &mut RowSink<'_>| {
        for id in first..first + 100 {
            let mut row = innodb::write::Row::default();
            for (column, text) in table.columns().iter().zip(texts(id)) {
                match text {
                    Some(text) => row.push_text(column, text.as_bytes())?,
                    None => row.push(None),
                }
            }
            take(&row, id)?;
        }
        Ok(())
    };
    write(session, disk, &small, Input { next: &mut next, bytes: None, rows: &rows, back: None })?;
    let mut sums = Vec::new();
    for table in [filled, inserted] {
        let sum = session.strings(&format!("CHECKSUM TABLE {table} EXTENDED"))?;
        sums.push(sum.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten());
    }
    let is_same = matches!(sums.as_slice(), [Some(one), Some(other)] if one == other);
    if is_same {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a small table that was imported as a file on {} differs from the same table filled by INSERT",
        session.about.version_text
    )))
}
