//! Waits for rows of InnoDB.

use std::collections::{BTreeMap, BTreeSet};

use server::{Error, Session};

use crate::graph::{Lock, LockKind, Party, Wait};
use crate::transaction::Transaction;
use crate::view::{Row, View, ask, text};

/// Where servers say which transaction waits for which, and what the locks are on: MySQL from 8.0 on, then
/// MariaDB and older MySQL. Joined here, because MySQL takes seconds to join them.
const SOURCES: [[&str; 2]; 2] = [
    [
        "SELECT requesting_engine_transaction_id, blocking_engine_transaction_id, requesting_engine_lock_id, \
         blocking_engine_lock_id FROM performance_schema.data_lock_waits",
        "SELECT engine_lock_id, CONCAT(object_schema, '.', object_name), index_name, lock_mode \
         FROM performance_schema.data_locks WHERE lock_status = 'WAITING'",
    ],
    [
        "SELECT requesting_trx_id, blocking_trx_id, requested_lock_id, blocking_lock_id \
         FROM information_schema.innodb_lock_waits",
        "SELECT lock_id, REPLACE(lock_table, '`', ''), lock_index, lock_mode FROM information_schema.innodb_locks",
    ],
];

/// Asks the source that this server has. Its refusal is a text.
pub(crate) fn read(
    session: &mut Session,
    transactions: &[Transaction],
) -> Result<Result<Vec<Wait>, String>, Error> {
    let mut refused = None;
    for [of_waits, of_locks] in SOURCES {
        match ask(session, of_waits)? {
            View::Missing => {}
            // To an account without rights a server also refuses a table that it does not have.
            View::Refused(why) => refused = Some(why),
            View::Rows(rows) => {
                let locks = ask(session, of_locks)?.rows();
                return Ok(Ok(waits(transactions, &rows, &locks)));
            }
        }
    }
    Ok(refused.map_or_else(|| Ok(Vec::new()), Err))
}

/// Edges to those who have been given the lock. A transaction that only waits behind others is shown behind
/// the holder, too, so that a queue of n waiters has n edges. One that would have no edge at all keeps those
/// to the others in the queue.
pub(crate) fn waits(transactions: &[Transaction], rows: &[Row], locks: &[Row]) -> Vec<Wait> {
    let mut of_id: BTreeMap<&str, Vec<&Transaction>> = BTreeMap::new();
    for transaction in transactions {
        of_id.entry(&transaction.id).or_default().push(transaction);
    }
    let names: BTreeMap<String, Lock> = locks.iter().map(|row| (text(row, 0), lock(row))).collect();
    let unknown = Lock { kind: LockKind::Row, object: "a table".into(), mode: "unknown".into() };
    let (mut granted, mut queued) = (Vec::new(), Vec::new());
    for row in rows {
        let lock = names.get(&text(row, 2)).unwrap_or(&unknown);
        let waiters = candidates(&of_id, &text(row, 0), Transaction::waits_for_row);
        let holders = candidates(&of_id, &text(row, 1), |holder| holder.rows_locked > 0);
        let is_certain = waiters.len() == 1 && holders.len() == 1;
        for (waiter, holder) in waiters.iter().flat_map(|waiter| holders.iter().map(move |it| (waiter, it))) {
            let wait =
                Wait { waiter: waiter.party(), holder: holder.party(), lock: lock.clone(), is_certain };
            let only_waits = holder.requested_lock.as_deref() == Some(&*text(row, 3));
            if only_waits { &mut queued } else { &mut granted }.push(wait);
        }
    }
    let explained: BTreeSet<Party> = granted.iter().map(|wait| wait.waiter.clone()).collect();
    granted.extend(queued.into_iter().filter(|wait| !explained.contains(&wait.waiter)));
    granted
}

/// The transaction of a number. MariaDB's number 0 is that of all that have changed nothing: then those that
/// come into question.
fn candidates<'t>(
    of_id: &BTreeMap<&str, Vec<&'t Transaction>>,
    id: &str,
    is_possible: impl Fn(&Transaction) -> bool,
) -> Vec<&'t Transaction> {
    let all = of_id.get(id).cloned().unwrap_or_default();
    if id != "0" {
        return all;
    }
    all.into_iter().filter(|one| is_possible(one)).collect()
}

fn lock(row: &Row) -> Lock {
    let index = text(row, 2);
    let object = if index.is_empty() { text(row, 1) } else { format!("{}, index {index}", text(row, 1)) };
    Lock { kind: LockKind::Row, object, mode: text(row, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(id: &str, connection: u64, requested: Option<&str>) -> Transaction {
        let requested_lock = requested.map(str::to_owned);
        Transaction { id: id.into(), connection, requested_lock, rows_locked: 1, ..Transaction::default() }
    }

    fn row(cells: &[&str]) -> Row {
        cells.iter().map(|cell| Some((*cell).to_owned())).collect()
    }

    fn shown(waits: &[Wait]) -> Vec<String> {
        let mark = |wait: &Wait| if wait.is_certain { "" } else { "?" };
        waits.iter().map(|wait| format!("{}>{}{}", wait.waiter, wait.holder, mark(wait))).collect()
    }

    #[test]
    fn who_waits_behind_waiters_waits_for_the_holder() {
        let all = [
            transaction("90", 1, None),
            transaction("91", 2, Some("91:5")),
            transaction("92", 3, Some("92:5")),
        ];
        let rows = [
            row(&["91", "90", "91:5", "90:5"]),
            row(&["92", "90", "92:5", "90:5"]),
            row(&["92", "91", "92:5", "91:5"]),
        ];
        let locks = [row(&["91:5", "d.t", "PRIMARY", "X"])];
        let found = waits(&all, &rows, &locks);
        assert_eq!(shown(&found), ["2>1", "3>1"]);
        assert_eq!(found[0].lock.to_string(), "a row of d.t, index PRIMARY (X)");
        // Without the holder's row the queue is all that is known.
        assert_eq!(shown(&waits(&all, &rows[2..], &locks)), ["3>2"]);
    }

    #[test]
    fn trx_id_zero_is_everybody_who_only_read_under_locks() {
        let mut all = vec![transaction("0", 1, None), transaction("91", 2, Some("91:5"))];
        let rows = [row(&["91", "0", "91:5", "0:5"])];
        // A transaction that only read has no locks.
        all.push(Transaction { rows_locked: 0, ..transaction("0", 3, None) });
        assert_eq!(shown(&waits(&all, &rows, &[])), ["2>1"]);
        all.push(transaction("0", 4, None));
        assert_eq!(shown(&waits(&all, &rows, &[])), ["2>1?", "2>4?"]);
    }

    #[test]
    fn two_xa_transactions_without_a_client_are_two() {
        let all =
            [transaction("80", 0, None), transaction("81", 0, None), transaction("91", 2, Some("91:5"))];
        let found = waits(&all, &[row(&["91", "81", "91:5", "81:5"])], &[]);
        assert_eq!(shown(&found), ["2>XA transaction 81"]);
    }
}
