//! Everything that a server says about who waits for whom, read once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use server::{Error, Session, prepared_xa, xa_literal};

use crate::connection::{self, Connection, statement_kind};
use crate::graph::{Party, Wait, waiting_behind};
use crate::metadata::{self, Known};
use crate::transaction::{self, Transaction};
use crate::view::{View, ask, number, text};
use crate::{row, table};

/// Something that could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// What is not seen, and how to get it.
    pub what: String,
    /// Whether somebody may wait who is not in the picture.
    pub hides_waiters: bool,
}

/// Who waits for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// The connections that this account may see, by number.
    pub connections: BTreeMap<u64, Connection>,
    /// The open transactions of InnoDB, by who has them.
    #[serde(serialize_with = "alone", deserialize_with = "by_party")]
    pub transactions: BTreeMap<Party, Transaction>,
    /// Open transactions that are left out, because they are younger than these.
    pub younger: usize,
    /// The waits, each pair once.
    pub waits: Vec<Wait>,
    /// Who waits, but nobody says for whom.
    pub unexplained: Vec<Party>,
    /// Prepared XA transactions, with their names as `XA ROLLBACK` takes them.
    pub prepared: Vec<String>,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
}

impl Picture {
    /// Asks a server. A source that is missing or refused becomes a [`Gap`] if it matters.
    ///
    /// # Errors
    ///
    /// Those after which the session can't be used, and that of a refused process list.
    pub fn read(session: &mut Session) -> Result<Picture, Error> {
        let connections = connection::all(session)?;
        let mut picture = Picture::default();
        let transactions = transactions(session, &mut picture.gaps)?;
        let found = waits(session, &connections, &transactions, &mut picture.gaps)?;
        let mut pairs = BTreeSet::new();
        picture.waits = current(found, &connections)
            .into_iter()
            .filter(|one| pairs.insert((one.waiter.clone(), one.holder.clone())))
            .collect();
        picture.unexplained = unexplained(&connections, &transactions, &picture.waits);
        picture.connections = connections.into_iter().map(|one| (one.id, one)).collect();
        picture.transactions = transactions.into_iter().map(|one| (one.party(), one)).collect();
        if picture.waits.iter().any(|wait| matches!(wait.holder, Party::Prepared(_))) {
            picture.prepared = prepared(session)?;
        }
        picture.add_last_statements(session)?;
        Ok(picture)
    }

    /// Asks only for the oldest open transactions and who has them, which costs less.
    ///
    /// # Errors
    ///
    /// As those of [`Picture::read`].
    pub fn of_oldest(session: &mut Session, most: usize) -> Result<Picture, Error> {
        let mut picture = Picture::default();
        let mut all = transactions(session, &mut picture.gaps)?;
        // Of those of the same second, the older connection: a choice that stays.
        all.sort_by_key(|one| (Reverse(one.seconds), one.connection));
        picture.younger = all.len().saturating_sub(most);
        all.truncate(most);
        let ids: Vec<u64> = all.iter().map(|one| one.connection).filter(|id| *id != 0).collect();
        picture.connections = connection::some(session, &ids)?.into_iter().map(|one| (one.id, one)).collect();
        picture.transactions = all.into_iter().map(|one| (one.party(), one)).collect();
        picture.add_last_statements(session)?;
        Ok(picture)
    }

    /// Transactions that have been open for at least a second, the oldest first.
    #[must_use]
    pub fn oldest(&self) -> Vec<&Party> {
        let mut all: Vec<_> = self.transactions.iter().filter(|(_, one)| one.seconds > 0).collect();
        all.sort_by_key(|(_, one)| Reverse(one.seconds));
        all.into_iter().map(|(party, _)| party).collect()
    }

    /// Who probably has the oldest snapshot, up to which purge can't remove old versions of rows. The server
    /// does not say whether a transaction has read anything.
    #[must_use]
    pub fn holds_purge(&self) -> Option<u64> {
        let keeps = |party: &&Party| self.transactions.get(party).is_some_and(|one| one.keeps_snapshot);
        self.oldest().into_iter().filter(keeps).find_map(|party| match party {
            Party::Connection(id) => Some(*id),
            Party::Prepared(_) => None,
        })
    }

    /// Leaves those who wait and whom they wait for, and the oldest open transactions.
    pub fn keep_parties(&mut self, most: usize) {
        let mut kept: BTreeSet<Party> =
            self.waits.iter().flat_map(|wait| [wait.waiter.clone(), wait.holder.clone()]).collect();
        kept.extend(self.unexplained.iter().cloned());
        kept.extend(self.oldest().into_iter().take(most).cloned());
        let before = self.transactions.len();
        self.transactions.retain(|party, _| kept.contains(party));
        self.younger += before - self.transactions.len();
        self.connections.retain(|id, _| kept.contains(&Party::Connection(*id)));
    }

    /// Leaves of each statement only what kind of statement it is: it may hold data of the application.
    pub fn hide_statements(&mut self) {
        for connection in self.connections.values_mut() {
            connection.statement = statement_kind(&connection.statement);
            connection.last_statement = connection.last_statement.as_deref().map(statement_kind);
        }
    }

    /// Everybody who waits.
    #[must_use]
    pub fn waiting(&self) -> BTreeSet<&Party> {
        self.waits.iter().map(|wait| &wait.waiter).chain(&self.unexplained).collect()
    }

    /// Those who keep others waiting and wait for nobody, as far as the server says so.
    #[must_use]
    pub fn blocking(&self) -> BTreeSet<&Party> {
        let waiting = self.waiting();
        let certain = self.waits.iter().filter(|wait| wait.is_certain).map(|wait| &wait.holder);
        certain.filter(|holder| !waiting.contains(holder)).collect()
    }

    /// Those who wait for each other in a circle: nobody of them is the first.
    #[must_use]
    pub fn circle(&self) -> BTreeSet<&Party> {
        let mut left = self.waiting();
        loop {
            // Whoever waits for nobody in here, or keeps nobody in here waiting, is not part of a circle.
            let inside = |wait: &&Wait| left.contains(&&wait.waiter) && left.contains(&&wait.holder);
            let waiters: BTreeSet<&Party> =
                self.waits.iter().filter(inside).map(|wait| &wait.waiter).collect();
            let holders: BTreeSet<&Party> =
                self.waits.iter().filter(inside).map(|wait| &wait.holder).collect();
            let both: BTreeSet<&Party> = waiters.intersection(&holders).copied().collect();
            if both.len() == left.len() {
                return left;
            }
            left = both;
        }
    }

    /// Those for whom others only probably wait, and who wait for nobody.
    #[must_use]
    pub fn probable(&self) -> BTreeSet<&Party> {
        let (waiting, blocking) = (self.waiting(), self.blocking());
        let holders = self.waits.iter().map(|wait| &wait.holder);
        holders.filter(|holder| !waiting.contains(holder) && !blocking.contains(holder)).collect()
    }

    /// How many wait for somebody, directly or behind others.
    #[must_use]
    pub fn waiting_behind(&self, party: &Party) -> usize {
        waiting_behind(&self.waits, party)
    }

    /// Whether nobody waits who is not in the picture.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.gaps.iter().any(|gap| gap.hides_waiters)
    }

    /// Looks up the last statement of each idle holder and of each idle connection with a transaction.
    fn add_last_statements(&mut self, session: &mut Session) -> Result<(), Error> {
        let holders = self.waits.iter().map(|wait| &wait.holder);
        let ids: BTreeSet<u64> = holders
            .chain(self.transactions.keys())
            .filter_map(|party| match party {
                Party::Connection(id) => Some(*id),
                Party::Prepared(_) => None,
            })
            .filter(|id| self.connections.get(id).is_some_and(Connection::is_idle))
            .collect();
        if ids.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let sql = format!(
            "SELECT t.processlist_id, s.sql_text FROM performance_schema.events_statements_current s \
             JOIN performance_schema.threads t ON t.thread_id = s.thread_id \
             WHERE s.sql_text IS NOT NULL AND t.processlist_id IN ({}) ORDER BY s.event_id",
            list.join(", ")
        );
        for row in ask(session, &sql)?.rows() {
            let connection = number(&row, 0).and_then(|id| self.connections.get_mut(&id));
            if let Some(connection) = connection {
                connection.last_statement = Some(text(&row, 1));
            }
        }
        Ok(())
    }
}

/// All transactions; none if they are refused, which is a gap.
fn transactions(session: &mut Session, gaps: &mut Vec<Gap>) -> Result<Vec<Transaction>, Error> {
    Ok(match ask(session, transaction::ALL)? {
        View::Rows(rows) => rows.iter().map(transaction::transaction).collect(),
        View::Missing => Vec::new(),
        View::Refused(why) => {
            let what = format!("without PROCESS this account sees only its own connections: {why}");
            gaps.push(Gap { what, hides_waiters: true });
            Vec::new()
        }
    })
}

/// As a list: JSON has only text as keys, and each transaction knows who has it.
fn alone<S: Serializer>(all: &BTreeMap<Party, Transaction>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.values())
}

fn by_party<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Party, Transaction>, D::Error> {
    let all = Vec::<Transaction>::deserialize(from)?;
    Ok(all.into_iter().map(|one| (one.party(), one)).collect())
}

/// The waits of all kinds. A source is asked only if somebody waits for what it knows.
fn waits(
    session: &mut Session,
    connections: &[Connection],
    transactions: &[Transaction],
    gaps: &mut Vec<Gap>,
) -> Result<Vec<Wait>, Error> {
    let mut found = Vec::new();
    if transactions.iter().any(Transaction::waits_for_row) {
        match row::read(session, transactions)? {
            Ok(waits) => found.extend(waits),
            Err(what) => gaps.push(Gap { what, hides_waiters: false }),
        }
    }
    let in_state = |state: &str| connections.iter().any(|one| one.state == state);
    if in_state(table::FLUSH) {
        found.extend(table::flushes(connections));
    }
    if in_state(table::LEVEL) {
        match table::read(session, connections)? {
            Some(waits) => found.extend(waits),
            None => {
                let what = "who holds a lock on a whole table is only in performance_schema.table_handles";
                gaps.push(Gap { what: what.to_owned(), hides_waiters: false });
            }
        }
    }
    let is_metadata =
        |one: &Connection| one.waits_for_lock() && ![table::FLUSH, table::LEVEL].contains(&&*one.state);
    if connections.iter().any(is_metadata) {
        let all = transactions.iter().map(Transaction::party);
        let prepared: Vec<Party> = all.filter(|one| matches!(one, Party::Prepared(_))).collect();
        match metadata::read(session, connections)? {
            Known::Exactly(locks) => found.extend(metadata::waits(&locks, &prepared, true)),
            Known::Probably(locks) => found.extend(metadata::waits(&locks, &prepared, false)),
            Known::Nothing(what) => gaps.push(Gap { what, hides_waiters: false }),
        }
    }
    Ok(found)
}

/// Without those whose waiter has ended or run on: InnoDB answers from a copy that may be 0.1 s old.
fn current(waits: Vec<Wait>, connections: &[Connection]) -> Vec<Wait> {
    waits.into_iter().filter(|wait| runs(connections, &wait.waiter)).collect()
}

/// Whether somebody runs a statement.
fn runs(connections: &[Connection], party: &Party) -> bool {
    connections.iter().any(|one| Party::Connection(one.id) == *party && !one.is_idle())
}

/// Who waits without an edge.
fn unexplained(connections: &[Connection], transactions: &[Transaction], waits: &[Wait]) -> Vec<Party> {
    let explained: BTreeSet<&Party> = waits.iter().map(|wait| &wait.waiter).collect();
    let of_rows = transactions.iter().filter(|one| one.waits_for_row()).map(Transaction::party);
    let of_rows = of_rows.filter(|party| runs(connections, party));
    let of_others =
        connections.iter().filter(|one| one.waits_for_lock()).map(|one| Party::Connection(one.id));
    let all: BTreeSet<Party> = of_rows.chain(of_others).collect();
    all.into_iter().filter(|party| !explained.contains(party)).collect()
}

/// The names of prepared XA transactions, as `XA ROLLBACK` takes them; none if they may not be seen.
fn prepared(session: &mut Session) -> Result<Vec<String>, Error> {
    match prepared_xa(session) {
        Ok(names) => Ok(names.iter().map(xa_literal).collect()),
        Err(error) if error.code().is_some() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_statement_only_its_kind_is_left() {
        let all =
            ["update t set a='secret'", "/* secret */ SELECT 1", "(SELECT 'secret')", "", "COMMIT", " \n"];
        let expected = ["UPDATE ...", "...", "...", "", "COMMIT ...", ""];
        assert_eq!(all.map(statement_kind), expected);
        let connection = Connection {
            statement: "INSERT 'secret'".into(),
            last_statement: Some("DELETE 'secret'".into()),
            ..Connection::default()
        };
        let mut picture = Picture { connections: [(5, connection)].into(), ..Picture::default() };
        picture.hide_statements();
        assert!(!format!("{picture:?}").contains("secret"), "{picture:?}");
    }

    #[test]
    fn the_oldest_snapshot_holds_purge_back() {
        let open = |connection: u64, seconds, keeps_snapshot| {
            let id = connection.to_string();
            let one = Transaction { id, connection, seconds, keeps_snapshot, ..Transaction::default() };
            (one.party(), one)
        };
        let all =
            [open(1, 5, true), open(2, 90, false), open(3, 40, true), open(4, 0, true), open(0, 95, true)];
        let picture = Picture { transactions: all.into(), ..Picture::default() };
        let expected =
            [Party::Prepared("0".into()), Party::Connection(2), Party::Connection(3), Party::Connection(1)];
        assert_eq!(picture.oldest(), expected.iter().collect::<Vec<_>>());
        assert_eq!((picture.holds_purge(), Picture::default().holds_purge()), (Some(3), None));
    }

    #[test]
    fn who_runs_nothing_does_not_wait() {
        let idle = Connection { id: 7, command: "Sleep".into(), ..Connection::default() };
        let row = Some("91:5".to_owned());
        let waiting =
            |connection| Transaction { connection, requested_lock: row.clone(), ..Transaction::default() };
        assert!(unexplained(&[idle], &[waiting(7), waiting(8)], &[]).is_empty());
    }

    #[test]
    fn who_waits_without_an_edge_is_named() {
        let state = "Waiting for table metadata lock".to_owned();
        let connection = Connection { id: 7, state, ..Connection::default() };
        let row = Some("91:5".to_owned());
        let transaction = Transaction { connection: 8, requested_lock: row, ..Transaction::default() };
        let updates = Connection { id: 8, ..Connection::default() };
        let all = unexplained(&[connection, updates], &[transaction], &[]);
        assert_eq!(all, [Party::Connection(7), Party::Connection(8)]);
        let mut picture = Picture { unexplained: all, ..Picture::default() };
        assert!(picture.blocking().is_empty() && picture.waiting().len() == 2 && picture.is_complete());
        picture.gaps.push(Gap { what: "PROCESS".into(), hides_waiters: true });
        assert!(!picture.is_complete());
    }
}
