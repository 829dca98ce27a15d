//! Waits for metadata locks: tables, names of GET_LOCK, the locks of the server as a whole.
//!
//! Which lock excludes which is as the servers' manuals and the comments of their `sql/mdl.h` have it.

use server::{Error, Flavour, Session};

use crate::connection::Connection;
use crate::graph::{Lock, LockKind, Party, Wait};
use crate::view::{Row, View, ask, number, text};

/// A lock that is held or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetadataLock {
    /// Who; `None` if it has no connection, as a prepared XA transaction has none.
    pub(crate) owner: Option<u64>,
    /// `TABLE`, `SCHEMA`, `USER LEVEL LOCK`, `GLOBAL`, `COMMIT`, `BACKUP`, `BACKUP LOCK` and so on.
    pub(crate) object_type: String,
    pub(crate) schema: Option<String>,
    pub(crate) name: Option<String>,
    /// `SHARED_READ`, `EXCLUSIVE` and so on.
    pub(crate) mode: String,
    pub(crate) is_granted: bool,
}

/// What is known of metadata locks.
#[derive(Debug)]
pub(crate) enum Known {
    /// The server says who holds and who waits.
    Exactly(Vec<MetadataLock>),
    /// The server says who holds; who waits for what is concluded from statements.
    Probably(Vec<MetadataLock>),
    /// Nothing, and why.
    Nothing(String),
}

const FROM_SCHEMA: &str = "SELECT t.processlist_id, l.object_type, l.object_schema, l.object_name, l.lock_type, l.lock_status \
     FROM performance_schema.metadata_locks l LEFT JOIN performance_schema.threads t ON t.thread_id = l.owner_thread_id";
const INSTRUMENT: &str = "SELECT enabled FROM performance_schema.setup_instruments \
     WHERE name = 'wait/lock/metadata/sql/mdl'";
/// The plugin's lengths of a column for a name of GET_LOCK are those of a schema.
const FROM_PLUGIN: &str = "SELECT thread_id, lock_type, table_schema, table_name, lock_mode \
     FROM information_schema.metadata_lock_info";

/// Reads them from the performance schema, or else from MariaDB's plugin.
pub(crate) fn read(session: &mut Session, connections: &[Connection]) -> Result<Known, Error> {
    let instrument = ask(session, INSTRUMENT)?.rows();
    let is_on = instrument.first().is_some_and(|row| text(row, 0) == "YES");
    let refused = match ask(session, FROM_SCHEMA)? {
        View::Rows(rows) if is_on => return Ok(Known::Exactly(rows.iter().map(from_schema).collect())),
        View::Refused(why) => Some(why),
        _ => None,
    };
    if let View::Rows(rows) = ask(session, FROM_PLUGIN)? {
        let mut locks: Vec<MetadataLock> = rows.iter().map(from_plugin).collect();
        let pending: Vec<MetadataLock> = connections.iter().flat_map(|one| guessed(one, &locks)).collect();
        locks.extend(pending);
        return Ok(Known::Probably(locks));
    }
    let flavour = session.about.flavour;
    Ok(Known::Nothing(refused.unwrap_or_else(|| how(flavour, !instrument.is_empty()).to_owned())))
}

/// How to learn who holds metadata locks.
fn how(flavour: Flavour, has_instrument: bool) -> &'static str {
    match flavour {
        _ if has_instrument => {
            "UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name = 'wait/lock/metadata/sql/mdl' \
             shows who holds the metadata locks that are taken from then on"
        }
        Flavour::MariaDb => {
            "INSTALL SONAME 'metadata_lock_info' shows at once who holds metadata locks (the file is in the package \
             mariadb-server); performance_schema=ON with its instrument wait/lock/metadata/sql/mdl also shows who waits \
             for which, after a restart"
        }
        Flavour::MySql => "who holds metadata locks is in performance_schema, from MySQL 5.7 on",
    }
}

fn from_schema(row: &Row) -> MetadataLock {
    MetadataLock {
        owner: number(row, 0),
        object_type: text(row, 1),
        schema: row.get(2).cloned().flatten(),
        name: row.get(3).cloned().flatten(),
        mode: text(row, 4),
        is_granted: text(row, 5) == "GRANTED",
    }
}

/// The plugin's words for kinds of locks. It has no status: all that it shows are held.
fn from_plugin(row: &Row) -> MetadataLock {
    let object_type = match text(row, 1).as_str() {
        "Table metadata lock" => "TABLE",
        "User lock" => "USER LEVEL LOCK",
        "Backup lock" => "BACKUP",
        "Global read lock" => "GLOBAL",
        "Commit lock" => "COMMIT",
        _ => "OTHER",
    };
    let [schema, name] = [2, 3].map(|at| row.get(at).cloned().flatten().filter(|text| !text.is_empty()));
    MetadataLock {
        owner: number(row, 0),
        object_type: object_type.to_owned(),
        schema,
        name,
        mode: text(row, 4).trim_start_matches("MDL_").to_owned(),
        is_granted: true,
    }
}

/// What a connection probably asks for: the locks of others whose object its statement names.
fn guessed(connection: &Connection, held: &[MetadataLock]) -> Vec<MetadataLock> {
    let object_type = match connection.state.as_str() {
        "Waiting for table metadata lock" => "TABLE",
        "User lock" => "USER LEVEL LOCK",
        "Waiting for backup lock" => "BACKUP",
        _ => return Vec::new(),
    };
    let is_named = |lock: &&MetadataLock| {
        // The plugin has the name of GET_LOCK where others have a schema.
        let name = lock.name.as_ref().or(lock.schema.as_ref());
        lock.object_type == object_type
            && lock.owner != Some(connection.id)
            && name.is_none_or(|name| names(&connection.statement, name))
    };
    let mode = if object_type == "TABLE" { table_mode(&connection.statement) } else { "EXCLUSIVE" };
    let asked = |lock: &MetadataLock| MetadataLock {
        owner: Some(connection.id),
        mode: mode.to_owned(),
        is_granted: false,
        ..lock.clone()
    };
    let mut all: Vec<MetadataLock> = Vec::new();
    for lock in held.iter().filter(is_named).map(asked) {
        if !all.contains(&lock) {
            all.push(lock);
        }
    }
    all
}

/// Whether a name occurs in a statement as a whole word, in upper or lower case.
fn names(statement: &str, name: &str) -> bool {
    let (statement, name) = (statement.to_lowercase(), name.to_lowercase());
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    statement.match_indices(&name).any(|(at, _)| {
        let before = statement[..at].chars().next_back();
        let after = statement[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The lock that a statement on a table asks for.
fn table_mode(statement: &str) -> &'static str {
    let word = statement.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "SELECT" | "WITH" | "SHOW" | "CHECK" => "SHARED_READ",
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" => "SHARED_WRITE",
        "LOCK" => "SHARED_NO_READ_WRITE",
        _ => "EXCLUSIVE",
    }
}

/// Edges from each lock that is asked for to those that exclude it. `prepared`: transactions without a
/// connection, who own the locks that nobody else does.
pub(crate) fn waits(locks: &[MetadataLock], prepared: &[Party], is_exact: bool) -> Vec<Wait> {
    let mut found = Vec::new();
    for asked in locks.iter().filter(|lock| !lock.is_granted) {
        let Some(waiter) = asked.owner else { continue };
        for other in locks.iter().filter(|other| other.owner != asked.owner && asked.waits_for(other)) {
            let holders = match other.owner {
                Some(id) => vec![Party::Connection(id)],
                None => prepared.to_vec(),
            };
            let is_certain = is_exact && holders.len() == 1;
            found.extend(holders.into_iter().map(|holder| Wait {
                waiter: Party::Connection(waiter),
                holder,
                lock: asked.lock(),
                is_certain,
            }));
        }
    }
    found
}

/// Locks on tables that wait in front of weaker ones, the strongest first.
const STRONG: [&str; 3] = ["EXCLUSIVE", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE"];

/// Locks of MariaDB's backups that statements take. They do not exclude each other.
const OF_STATEMENTS: [&str; 7] = [
    "BACKUP_DML",
    "BACKUP_TRANS_DML",
    "BACKUP_SYS_DML",
    "BACKUP_DDL",
    "BACKUP_ALTER_COPY",
    "BACKUP_COMMIT",
    "INTENTION_EXCLUSIVE",
];

impl MetadataLock {
    /// Whether this one, which is asked for, waits for the other one.
    fn waits_for(&self, other: &MetadataLock) -> bool {
        let object = |lock: &MetadataLock| (lock.object_type.clone(), lock.schema.clone(), lock.name.clone());
        if object(self) != object(other) || !self.is_excluded_by(&other.mode) {
            return false;
        }
        // Who asks does not wait for another who asks, unless that one asks for more.
        let rank = |mode: &str| STRONG.iter().position(|strong| *strong == mode).unwrap_or(STRONG.len());
        other.is_granted || rank(&other.mode) < rank(&self.mode)
    }

    fn is_excluded_by(&self, held: &str) -> bool {
        let asked = self.mode.as_str();
        match self.object_type.as_str() {
            "TABLE" => table_excludes(asked, held),
            "BACKUP" => !(OF_STATEMENTS.contains(&asked) && OF_STATEMENTS.contains(&held)),
            // MariaDB takes them as SHARED_NO_WRITE, MySQL as EXCLUSIVE.
            "USER LEVEL LOCK" => true,
            _ => asked != held || asked == "EXCLUSIVE",
        }
    }

    fn lock(&self) -> Lock {
        let kind = match self.object_type.as_str() {
            "USER LEVEL LOCK" => LockKind::User,
            "GLOBAL" | "COMMIT" | "BACKUP" | "BACKUP LOCK" => LockKind::Server,
            _ => LockKind::Metadata,
        };
        let parts: Vec<&str> = [&self.schema, &self.name].into_iter().flatten().map(String::as_str).collect();
        let mode = match kind {
            LockKind::Server => format!("{}: {}", self.object_type, self.mode),
            _ => self.mode.clone(),
        };
        Lock { kind, object: parts.join("."), mode }
    }
}

/// Whether a lock on a table that is asked for is excluded by one that is held.
fn table_excludes(asked: &str, held: &str) -> bool {
    let strong = STRONG.contains(&held);
    match asked {
        "EXCLUSIVE" => true,
        "SHARED_NO_READ_WRITE" => !["SHARED", "SHARED_HIGH_PRIO"].contains(&held),
        "SHARED_NO_WRITE" => {
            strong || ["SHARED_WRITE", "SHARED_WRITE_LOW_PRIO", "SHARED_UPGRADABLE"].contains(&held)
        }
        "SHARED_UPGRADABLE" => strong || held == "SHARED_UPGRADABLE",
        "SHARED_READ_ONLY" => {
            ["EXCLUSIVE", "SHARED_NO_READ_WRITE", "SHARED_WRITE", "SHARED_WRITE_LOW_PRIO"].contains(&held)
        }
        "SHARED_WRITE" | "SHARED_WRITE_LOW_PRIO" => strong || held == "SHARED_READ_ONLY",
        "SHARED_READ" => ["EXCLUSIVE", "SHARED_NO_READ_WRITE"].contains(&held),
        _ => held == "EXCLUSIVE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: u64, mode: &str, is_granted: bool) -> MetadataLock {
        let (schema, name) = (Some("d".to_owned()), Some("t2".to_owned()));
        MetadataLock {
            owner: Some(owner),
            object_type: "TABLE".into(),
            schema,
            name,
            mode: mode.into(),
            is_granted,
        }
    }

    fn shown(locks: &[MetadataLock]) -> Vec<String> {
        let prepared = [Party::Prepared("80".into())];
        let all = waits(locks, &prepared, true);
        all.iter().map(|wait| format!("{}>{}", wait.waiter, wait.holder)).collect()
    }

    #[test]
    fn ddl_waits_for_the_reader_and_a_select_for_the_ddl() {
        // A transaction has read the table, an ALTER waits for it, a SELECT for the ALTER.
        let locks = [
            lock(5, "SHARED_READ", true),
            lock(6, "SHARED_UPGRADABLE", true),
            lock(6, "EXCLUSIVE", false),
            lock(7, "SHARED_READ", false),
        ];
        assert_eq!(shown(&locks), ["6>5", "7>6"]);
    }

    #[test]
    fn two_alters_do_not_wait_for_each_other_in_a_circle() {
        let locks = [
            lock(5, "SHARED_READ", true),
            lock(6, "EXCLUSIVE", false),
            lock(7, "EXCLUSIVE", false),
            lock(8, "SHARED_NO_WRITE", false),
        ];
        assert_eq!(shown(&locks), ["6>5", "7>5", "8>6", "8>7"]);
    }

    #[test]
    fn another_table_is_another_lock() {
        let other = MetadataLock { name: Some("t3".into()), ..lock(5, "EXCLUSIVE", true) };
        assert!(shown(&[other, lock(6, "EXCLUSIVE", false)]).is_empty());
    }

    #[test]
    fn names_of_get_lock_have_no_schema() {
        let named = |owner, is_granted| MetadataLock {
            object_type: "USER LEVEL LOCK".into(),
            schema: None,
            name: Some("nightly".into()),
            ..lock(owner, "SHARED_NO_WRITE", is_granted)
        };
        let locks = [named(1, true), named(2, false), named(3, false)];
        assert_eq!(shown(&locks), ["2>1", "3>1"]);
        assert_eq!(named(2, false).lock().to_string(), "the lock 'nightly' of GET_LOCK");
    }

    #[test]
    fn statements_wait_for_a_backup_and_not_for_each_other() {
        let of = |owner, mode: &str, is_granted| MetadataLock {
            object_type: "BACKUP".into(),
            schema: None,
            name: None,
            ..lock(owner, mode, is_granted)
        };
        let locks =
            [of(1, "BACKUP_FTWRL1", true), of(2, "BACKUP_ALTER_COPY", true), of(3, "BACKUP_COMMIT", false)];
        assert_eq!(shown(&locks), ["3>1"]);
    }

    #[test]
    fn a_lock_without_a_connection_is_that_of_the_prepared_transaction() {
        let left = MetadataLock { owner: None, ..lock(0, "SHARED_WRITE", true) };
        assert_eq!(shown(&[left, lock(6, "EXCLUSIVE", false)]), ["6>XA transaction 80"]);
    }

    #[test]
    fn what_a_waiter_asks_for_is_guessed_from_its_statement() {
        let waiting = |id, statement: &str| Connection {
            id,
            state: "Waiting for table metadata lock".into(),
            statement: statement.into(),
            ..Connection::default()
        };
        let held = [lock(5, "SHARED_READ", true), lock(6, "SHARED_UPGRADABLE", true)];
        let alter = guessed(&waiting(6, "ALTER TABLE `t2` ADD b INT"), &held);
        let select = guessed(&waiting(7, "select * from T2"), &held);
        assert_eq!(shown(&[&held[..], &alter, &select].concat()), ["6>5", "7>6"]);
        assert!(guessed(&waiting(7, "SELECT * FROM t22"), &held).is_empty());
    }
}
