//! The privileges that an account needs for tasks on a whole server, checked before the task begins.

use crate::{About, Error, Flavour, Grants, Session, Version};

/// A task that needs global privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Backup: lock the server, copy its files, and read its binary log position.
    Copy,
    /// Receive its binary log.
    Archive,
    /// Dump everything.
    Dump,
    /// Read the replication position of a replica.
    Source,
}

/// A privilege, and the other names under which servers list it.
type Privilege = &'static [&'static str];

const SINCE_MONITORS: Version = Version { major: 10, minor: 5, patch: 0 };

/// The privilege to see the binary log.
fn monitor(about: &About) -> Privilege {
    match about.flavour {
        Flavour::MariaDb if about.version >= SINCE_MONITORS => &["BINLOG MONITOR", "REPLICATION CLIENT"],
        _ => &["REPLICATION CLIENT"],
    }
}

/// Whether the server has LOCK INSTANCE FOR BACKUP, with a privilege of its own.
fn has_instance_lock(about: &About) -> bool {
    about.flavour == Flavour::MySql && about.version.major >= 8
}

impl Task {
    /// The global privileges for it.
    fn privileges(self, about: &About) -> Vec<Privilege> {
        const LOCKS: [Privilege; 2] = [&["RELOAD"], &["PROCESS"]];
        let is_mariadb = about.flavour == Flavour::MariaDb;
        match self {
            Task::Copy => {
                let instance: Option<Privilege> = has_instance_lock(about).then_some(&["BACKUP_ADMIN"]);
                LOCKS.into_iter().chain([monitor(about)]).chain(instance).collect()
            }
            Task::Archive => vec![&["REPLICATION SLAVE"], monitor(about)],
            Task::Dump => {
                let objects: [Privilege; 6] =
                    [&["SELECT"], &["SHOW VIEW"], &["TRIGGER"], &["EVENT"], &["LOCK TABLES"], &["RELOAD"]];
                objects.into_iter().chain([monitor(about)]).collect()
            }
            Task::Source if is_mariadb && about.version >= SINCE_MONITORS => {
                vec![&["SLAVE MONITOR", "REPLICA MONITOR"]]
            }
            Task::Source => vec![&["REPLICATION CLIENT"]],
        }
    }
}

/// The privileges that an account lacks for these tasks, each once.
#[must_use]
pub fn missing(grants: &Grants, about: &About, tasks: &[Task]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for privilege in tasks.iter().flat_map(|task| task.privileges(about)) {
        if let Some(name) = privilege.first().filter(|_| !grants.has_global(privilege))
            && !missing.contains(name)
        {
            missing.push(*name);
        }
    }
    missing
}

/// Fails if the account of a session lacks a privilege for these tasks; the error has one GRANT for all.
///
/// # Errors
/// [`Error::Privilege`], and errors of the server.
pub fn require(session: &mut Session, tasks: &[Task]) -> Result<(), Error> {
    let grants = Grants::of(session)?;
    let missing = missing(&grants, &session.about, tasks);
    if missing.is_empty() { Ok(()) } else { Err(grants.lacking(&missing)) }
}
