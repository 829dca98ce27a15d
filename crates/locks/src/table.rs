//! Waits for tables as a whole: locks of engines without locks on rows, and FLUSH TABLES on MySQL.

use server::{Error, Session};

use crate::connection::Connection;
use crate::graph::{Lock, LockKind, Party, Wait};
use crate::view::{Row, View, ask, number, text};

/// The state of a connection that waits for an engine's lock on a whole table.
pub(crate) const LEVEL: &str = "Waiting for table level lock";
/// The state of one that waits until FLUSH TABLES has got its tables.
pub(crate) const FLUSH: &str = "Waiting for table flush";

const HANDLES: &str = "SELECT t.processlist_id, CONCAT(h.object_schema, '.', h.object_name), h.internal_lock \
     FROM performance_schema.table_handles h JOIN performance_schema.threads t ON t.thread_id = h.owner_thread_id \
     WHERE h.internal_lock IS NOT NULL";

/// Who waits for a table lock of an engine; `None` if the server does not say.
pub(crate) fn read(session: &mut Session, connections: &[Connection]) -> Result<Option<Vec<Wait>>, Error> {
    Ok(match ask(session, HANDLES)? {
        View::Rows(rows) => Some(waits(&rows, connections)),
        View::Missing | View::Refused(_) => None,
    })
}

fn waits_for_table(connection: &Connection) -> bool {
    connection.state == LEVEL
}

/// The server shows a lock that is waited for like one that is held: who waits is in the process list.
fn waits(handles: &[Row], connections: &[Connection]) -> Vec<Wait> {
    let waiting = |id: u64| connections.iter().any(|one| one.id == id && waits_for_table(one));
    let reads = |row: &Row| text(row, 2).starts_with("READ");
    let mut found = Vec::new();
    for asked in handles.iter().filter(|row| number(row, 0).is_some_and(waiting)) {
        for held in handles.iter().filter(|row| number(row, 0).is_some_and(|id| !waiting(id))) {
            let (Some(waiter), Some(holder)) = (number(asked, 0), number(held, 0)) else { continue };
            if text(asked, 1) == text(held, 1) && !(reads(asked) && reads(held)) {
                found.push(Wait {
                    waiter: Party::Connection(waiter),
                    holder: Party::Connection(holder),
                    lock: Lock { kind: LockKind::Table, object: text(asked, 1), mode: text(asked, 2) },
                    is_certain: true,
                });
            }
        }
    }
    found
}

/// FLUSH TABLES of MySQL waits until statements that use tables have ended, and later ones wait for it. No
/// table says so: the holders are probably the statements that began before the first of the waiters.
pub(crate) fn flushes(connections: &[Connection]) -> Vec<Wait> {
    let is_waiter = |one: &&Connection| one.state == FLUSH;
    let Some(longest) = connections.iter().filter(is_waiter).map(|one| one.seconds).max() else {
        return Vec::new();
    };
    let runs = |one: &&Connection| {
        one.command == "Query" && !one.waits_for_lock() && one.seconds >= longest && !one.statement.is_empty()
    };
    let pairs = connections
        .iter()
        .filter(is_waiter)
        .flat_map(|waiter| connections.iter().filter(runs).map(move |holder| (waiter.id, holder.id)));
    let lock = Lock { kind: LockKind::Flush, object: String::new(), mode: String::new() };
    pairs
        .map(|(waiter, holder)| Wait {
            waiter: Party::Connection(waiter),
            holder: Party::Connection(holder),
            lock: lock.clone(),
            is_certain: false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(id: u64, state: &str, seconds: u64) -> Connection {
        let [state, command, statement] = [state, "Query", "SELECT 1"].map(str::to_owned);
        Connection { id, state, command, statement, seconds, ..Connection::default() }
    }

    fn shown(waits: &[Wait]) -> Vec<String> {
        let mark = |wait: &Wait| if wait.is_certain { "" } else { "?" };
        waits.iter().map(|wait| format!("{}>{}{}", wait.waiter, wait.holder, mark(wait))).collect()
    }

    #[test]
    fn a_writer_waits_for_readers_and_they_not_for_each_other() {
        let row = |id: &str, mode: &str| vec![Some(id.into()), Some("d.t9".into()), Some(mode.into())];
        let handles = [row("1", "READ"), row("2", "WRITE"), row("3", "READ")];
        let all = [connection(1, "User sleep", 9), connection(2, LEVEL, 5), connection(3, LEVEL, 5)];
        // The third one waits behind the second one, and not for the first one.
        assert_eq!(shown(&waits(&handles, &all)), ["2>1"]);
    }

    #[test]
    fn a_flush_waits_for_what_began_before_it() {
        let all = [
            connection(1, "User sleep", 9),
            connection(2, FLUSH, 5),
            connection(3, FLUSH, 4),
            connection(4, "executing", 1),
        ];
        assert_eq!(shown(&flushes(&all)), ["2>1?", "3>1?"]);
        assert!(flushes(&all[3..]).is_empty());
    }
}
