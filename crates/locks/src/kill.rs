//! Ending a statement or a connection: who is meant, what stands against it, and when it is over.

use server::{Error, Flavour, Session};

use crate::connection::{self, Connection, Role};
use crate::graph::Party;
use crate::picture::Picture;
use crate::transaction::{self, Transaction};
use crate::view::ask;

/// What to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The statement that runs. Its changes are taken back, its transaction stays.
    Query,
    /// The connection. Its transaction is rolled back.
    Connection,
}

/// Whom to end. Several conditions must all be met.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By number.
    pub ids: Vec<u64>,
    /// Those who keep others waiting and wait for nobody.
    pub blocking: bool,
    /// The name of an account.
    pub user: Option<String>,
    /// Those who have been idle for this many seconds or longer, with an open transaction.
    pub idle_s: Option<u64>,
}

/// A connection to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The connection, as it was shown.
    pub connection: Connection,
    /// Its transaction.
    pub transaction: Option<Transaction>,
    /// How many wait for it.
    pub waiting: usize,
}

/// What must not be ended, and what may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Our own connection.
    pub own: u64,
    /// Whether the user asked for threads of replication, too.
    pub replication: bool,
}

/// How an attempt to end something ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has been told to end it.
    Told,
    /// It was not ended, and why.
    LeftOut(String),
}

/// The targets that a selection means.
#[must_use]
pub fn choose(picture: &Picture, selection: &Selection) -> Vec<Target> {
    let blocking = picture.blocking();
    let is_meant = |connection: &&Connection| {
        let party = Party::Connection(connection.id);
        let is_idle_for = |seconds| {
            connection.is_idle() && connection.seconds >= seconds && picture.transactions.contains_key(&party)
        };
        (selection.ids.is_empty() || selection.ids.contains(&connection.id))
            && (!selection.blocking || blocking.contains(&party))
            && selection.user.as_ref().is_none_or(|user| *user == connection.user)
            && selection.idle_s.is_none_or(is_idle_for)
    };
    let target = |connection: &Connection| {
        let party = Party::Connection(connection.id);
        Target {
            connection: connection.clone(),
            transaction: picture.transactions.get(&party).cloned(),
            waiting: picture.waiting_behind(&party),
        }
    };
    picture.connections.values().filter(is_meant).map(target).collect()
}

impl Target {
    /// Why it must not be ended in this way, or why that would be of no use.
    #[must_use]
    pub fn objection(&self, how: How, limits: &Limits) -> Option<String> {
        let Connection { id, command, .. } = &self.connection;
        match self.connection.role() {
            _ if *id == limits.own => Some(format!("{id} is remora's own connection")),
            Role::System => Some(format!("{id} is a thread of the server itself ({command})")),
            Role::Replication if !limits.replication => Some(format!(
                "{id} belongs to replication ({command}), which would stop; --replication ends it all the same"
            )),
            _ if how == How::Query && self.connection.is_idle() => Some(format!(
                "{id} runs no statement: KILL QUERY would free nothing, because the locks belong to its transaction; \
                 leave out --query"
            )),
            _ => None,
        }
    }

    /// Rows that are brought back. For a statement nobody knows how many of them are its own.
    #[must_use]
    pub fn rows_to_roll_back(&self) -> u64 {
        self.transaction.as_ref().map_or(0, |transaction| transaction.rows_modified)
    }

    /// Ends it, unless it is not the same any more: another connection or another statement.
    ///
    /// # Errors
    ///
    /// Those after which the session can't be used.
    pub fn end(&self, session: &mut Session, how: How) -> Result<Outcome, Error> {
        let Connection { id, query_id, .. } = self.connection;
        let Some(now) = connection::one(session, id)? else { return Ok(Outcome::LeftOut(gone(id))) };
        if let Some(change) = self.change(&now) {
            return Ok(Outcome::LeftOut(format!("{id} {change} meanwhile: look again")));
        }
        let sql = match (how, query_id) {
            // The server compares the number, so that it can't be the next statement.
            (How::Query, Some(query)) => format!("KILL QUERY ID {query}"),
            (How::Query, None) => format!("KILL QUERY {id}"),
            (How::Connection, _) => format!("KILL CONNECTION {id}"),
        };
        match session.execute(&sql) {
            Ok(_) => Ok(Outcome::Told),
            Err(error) => match error.code() {
                Some(NO_SUCH_THREAD | NO_SUCH_QUERY) => Ok(Outcome::LeftOut(gone(id))),
                Some(KILL_DENIED) => Ok(Outcome::LeftOut(denied(&self.connection, session.about.flavour))),
                Some(_) => Ok(Outcome::LeftOut(error.to_string())),
                None => Err(error),
            },
        }
    }

    /// What differs from what was shown.
    fn change(&self, now: &Connection) -> Option<&'static str> {
        let then = &self.connection;
        if (&then.user, &then.host) != (&now.user, &now.host) {
            return Some("has become another connection");
        }
        // Replication and the server's own threads go through statements all the time.
        let is_client = then.role() == Role::Client;
        let same = then.query_id == now.query_id && then.statement == now.statement;
        (is_client && !same).then_some("has begun another statement")
    }

    /// What is left to do for the server, in rows that are still to be brought back; `None` if it has ended.
    ///
    /// MySQL removes a killed connection from the process list at once: only its transaction shows that it is
    /// still being rolled back.
    ///
    /// # Errors
    ///
    /// Those after which the session can't be used.
    pub fn remaining(&self, session: &mut Session, how: How) -> Result<Option<u64>, Error> {
        let then = &self.connection;
        let now = connection::one(session, then.id)?;
        let transactions = ask(session, transaction::ALL)?.rows();
        let transactions: Vec<Transaction> = transactions.iter().map(transaction::transaction).collect();
        let known = self.transaction.as_ref().map_or("0", |transaction| &transaction.id);
        let is_it = |one: &&Transaction| one.connection == then.id || (known != "0" && one.id == known);
        let rows = transactions.iter().find(is_it).map(|transaction| transaction.rows_modified);
        let runs = now.as_ref().is_some_and(|now| !now.is_idle() && self.change(now).is_none());
        Ok(match how {
            How::Query => runs.then(|| rows.unwrap_or(0)),
            How::Connection => rows.or_else(|| now.map(|_| 0)),
        })
    }
}

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;
/// ER_NO_SUCH_QUERY of MariaDB.
const NO_SUCH_QUERY: u16 = 1957;
/// ER_KILL_DENIED_ERROR.
const KILL_DENIED: u16 = 1095;

fn gone(id: u64) -> String {
    format!("{id} has ended by itself")
}

fn denied(connection: &Connection, flavour: Flavour) -> String {
    let (id, account) = (connection.id, connection.account());
    match flavour {
        Flavour::MariaDb => format!("{id} belongs to {account}: ending it needs CONNECTION ADMIN"),
        Flavour::MySql => format!(
            "{id} belongs to {account}: ending it needs CONNECTION_ADMIN, and SYSTEM_USER if that account has it \
             (SUPER before MySQL 8.0)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { own: 1, replication: false };

    fn connection(id: u64, user: &str, command: &str, statement: &str) -> Connection {
        let [user, command, statement] = [user, command, statement].map(str::to_owned);
        Connection { id, user, command, statement, seconds: 90, query_id: Some(id), ..Connection::default() }
    }

    fn picture() -> Picture {
        let all = [
            connection(1, "root", "Query", "SELECT 1"),
            connection(5, "app", "Sleep", ""),
            connection(6, "app", "Query", "UPDATE t SET a = 1"),
            connection(7, "system user", "Slave_SQL", ""),
            connection(8, "event_scheduler", "Daemon", ""),
        ];
        let transaction = Transaction { connection: 5, rows_modified: 3, ..Transaction::default() };
        Picture {
            connections: all.into_iter().map(|one| (one.id, one)).collect(),
            transactions: [(transaction.party(), transaction)].into(),
            ..Picture::default()
        }
    }

    fn chosen(selection: &Selection) -> Vec<u64> {
        choose(&picture(), selection).iter().map(|target| target.connection.id).collect()
    }

    #[test]
    fn all_conditions_must_be_met() {
        let user = Some("app".to_owned());
        assert_eq!(chosen(&Selection { user: user.clone(), ..Selection::default() }), [5, 6]);
        assert_eq!(chosen(&Selection { ids: vec![6, 7], ..Selection::default() }), [6, 7]);
        assert_eq!(chosen(&Selection { ids: vec![6, 7], user, ..Selection::default() }), [6]);
        assert_eq!(chosen(&Selection { idle_s: Some(90), ..Selection::default() }), [5]);
        assert_eq!(chosen(&Selection { idle_s: Some(91), ..Selection::default() }), Vec::<u64>::new());
        assert_eq!(chosen(&Selection { blocking: true, ..Selection::default() }), Vec::<u64>::new());
    }

    #[test]
    fn some_are_never_ended_and_some_only_on_request() {
        let all = choose(&picture(), &Selection::default());
        let objection = |at: usize, how, limits: &Limits| all[at].objection(how, limits).unwrap_or_default();
        assert!(objection(0, How::Connection, &LIMITS).contains("own"));
        assert!(objection(1, How::Query, &LIMITS).contains("KILL QUERY would free nothing"));
        assert_eq!(objection(1, How::Connection, &LIMITS), "");
        assert_eq!(objection(2, How::Query, &LIMITS), "");
        assert!(objection(3, How::Connection, &LIMITS).contains("--replication"));
        let asked = Limits { replication: true, ..LIMITS };
        assert_eq!(objection(3, How::Connection, &asked), "");
        assert!(objection(4, How::Connection, &asked).contains("server itself"));
    }

    #[test]
    fn a_number_that_means_somebody_else_is_noticed() {
        let target = choose(&picture(), &Selection { ids: vec![6], ..Selection::default() }).remove(0);
        let same = target.connection.clone();
        assert_eq!(target.change(&same), None);
        let other = Connection { user: "other".into(), ..same.clone() };
        assert!(target.change(&other).unwrap().contains("another connection"));
        let next = Connection { query_id: Some(99), ..same };
        assert!(target.change(&next).unwrap().contains("another statement"));
    }
}
