//! What a BINLOG statement holds: events that a server applies in a session, as `mariadb-binlog` prints them.
//!
//! Facts: `sql_binlog.cc` and `log_event.cc` of MariaDB's source. A statement has a table and its rows, since
//! the server forgets tables at its end. Events have no checksums if the FORMAT_DESCRIPTION that the session
//! was given says so; that one has room for its own in any case.

use crate::event::rows::Rows;
use crate::event::{Change, HEADER_BYTES, Kind, SUM_BYTES};

/// Where the time of the server's start is in FORMAT_DESCRIPTION: behind the number and the text of versions.
const CREATED: std::ops::Range<usize> = 52..56;
/// The flag of the last event of a statement.
const ENDS_STATEMENT: u16 = 1;
/// Whose events they are: any number does.
const SERVER_ID: u32 = 1;
/// The first length of a number that has two bytes.
const TWO_BYTES_FROM: usize = 251;

fn event(kind: Kind, body: &[u8], room: usize) -> Vec<u8> {
    let len = HEADER_BYTES + body.len() + room;
    let mut bytes = Vec::with_capacity(len);
    bytes.extend([0; 4]);
    bytes.push(kind.0);
    bytes.extend(SERVER_ID.to_le_bytes());
    // A server takes no event of 4 GiB.
    bytes.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend(body);
    bytes.resize(len, 0);
    bytes
}

/// A FORMAT_DESCRIPTION with this body, for events without checksums. To the server it is not the first of a
/// log, which would end what is open.
#[must_use]
pub fn format(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    if let Some(created) = body.get_mut(CREATED) {
        created.fill(0);
    }
    if let Some(sum) = body.last_mut() {
        *sum = 0;
    }
    event(Kind::FORMAT_DESCRIPTION, &body, SUM_BYTES)
}

/// A table, by the body of its TABLE_MAP, and rows of it, as a statement that ends with them.
#[must_use]
pub fn rows(described: &[u8], rows: &Rows<'_>) -> Vec<u8> {
    let kind = match rows.change {
        Change::Insert => Kind::WRITE_ROWS_V1,
        Change::Update => Kind::UPDATE_ROWS_V1,
        Change::Delete => Kind::DELETE_ROWS_V1,
    };
    let mut body = Vec::with_capacity(rows.data.len() + HEADER_BYTES);
    body.extend(rows.table_id.to_le_bytes().iter().take(6));
    body.extend((rows.flags | ENDS_STATEMENT).to_le_bytes());
    match u16::try_from(rows.columns) {
        Ok(count) if rows.columns >= TWO_BYTES_FROM => {
            body.push(0xFC);
            body.extend(count.to_le_bytes());
        }
        _ => body.push(rows.columns.to_le_bytes()[0]),
    }
    body.extend([rows.before, rows.after].into_iter().flatten().flatten());
    body.extend(&*rows.data);
    let mut bytes = event(Kind::TABLE_MAP, described, 0);
    bytes.extend(event(kind, &body, 0));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::format::Format;
    use crate::event::{Body, Event};

    /// What is written is read again.
    #[test]
    fn rows_are_read_as_they_were_written() {
        for (columns, change) in [(3, Change::Insert), (251, Change::Delete), (400, Change::Update)] {
            let bits = vec![0xFF; usize::div_ceil(columns, 8)];
            let own = Rows {
                change,
                table_id: 0x0102_0304_0506,
                flags: 2,
                columns,
                before: (change != Change::Insert).then_some(&bits[..]),
                after: (change != Change::Delete).then_some(&bits[..]),
                is_partial: false,
                data: b"images"[..].into(),
            };
            let bytes = rows(b"described", &own);
            let (table, event) = bytes.split_at(HEADER_BYTES + 9);
            assert!(table.ends_with(b"described"));
            let format = Format::without_sums();
            let Ok(Body::Rows(read)) = Event::unchecked(event, 0, &format).unwrap().parse() else { panic!() };
            assert_eq!(read, Rows { flags: 3, ..own });
        }
    }

    #[test]
    fn a_format_is_of_no_log_and_without_checksums() {
        let mut body = vec![7; 90];
        body[..2].copy_from_slice(&[4, 0]);
        body[56] = 19;
        body[89] = 1;
        let bytes = format(&body);
        assert_eq!(bytes.len(), HEADER_BYTES + 90 + SUM_BYTES);
        let none = Format::without_sums();
        let Ok(Body::Format(read)) = Event::unchecked(&bytes, 0, &none).unwrap().parse() else { panic!() };
        assert!(!read.has_sums && read.created == 0);
    }
}
