//! Roles, users and their privileges. Accounts that are already on the target stay as they are and get
//! nothing: a dump must not widen anybody's rights.

use std::collections::BTreeSet;

use server::catalogue::{Kind, Object, without_default_roles};
use server::definition::closing;
use server::{Session, quote_name};

use super::Load;
use super::ledger::{ACCOUNTS, mark};
use crate::Error;

/// An account of that name exists.
const EXISTS: u16 = 1396;
/// The role of everybody, which always exists.
const PUBLIC: &str = "`PUBLIC`";

impl Load<'_> {
    /// Creates a role or a user, or grants it its privileges.
    pub(super) fn account(&mut self, session: &mut Session, object: &Object) -> Result<(), server::Error> {
        if object.kind == Kind::Grant {
            return self.grant(session, object);
        }
        let Some(statement) = object.statements.first() else { return Ok(()) };
        match session.execute(statement) {
            Err(error) if error.code() == Some(EXISTS) => {
                // Before MySQL 5.7 the grants contain everything about an account; for a role they always do.
                let there = user(session, &object.name)?.map(|made| without_default_roles(&made).0);
                let is_user = object.kind == Kind::User && !self.is_made(session, &object.name)?;
                if is_user && there.is_some_and(|there| there != *statement) {
                    self.leave(
                        object.kind,
                        &object.name,
                        "it already exists; it and its grants were not changed",
                    );
                }
                Ok(())
            }
            Err(error) => Err(error),
            // If a run is killed between the two statements, the next one takes the account for somebody
            // else's, and reports that.
            Ok(_) => self.ledger.add(session, ACCOUNTS, mark(&object.name)),
        }
    }

    fn leave(&mut self, kind: Kind, name: &str, why: &str) {
        self.summary.omitted.push(format!("{} {name}: {why}", kind.word()));
    }

    /// Whether an account is listed as one that stays as it is.
    fn is_left(&self, name: &str) -> bool {
        let begins = |line: &String| {
            [Kind::Role, Kind::User].iter().any(|kind| line.starts_with(&format!("{} {name}: ", kind.word())))
        };
        self.summary.omitted.iter().any(begins)
    }

    /// Whether this load, perhaps in an earlier run, has created an account.
    pub(super) fn is_made(&self, session: &mut Session, name: &str) -> Result<bool, server::Error> {
        self.ledger.has(session, ACCOUNTS, mark(name))
    }

    fn grant(&mut self, session: &mut Session, object: &Object) -> Result<(), server::Error> {
        if self.is_left(&object.name) {
            return Ok(());
        }
        let there = grants(session, &object.name)?;
        // An account that is there has at least USAGE. Why this one could not be made is said elsewhere.
        if there.is_empty() && object.name != PUBLIC {
            return Ok(());
        }
        let wanted: BTreeSet<&String> = object.statements.iter().collect();
        let is_bare = object.name == PUBLIC && there.iter().all(|line| line.starts_with("GRANT USAGE "));
        if !is_bare && !self.is_made(session, &object.name)? {
            let more = there.iter().filter(|line| !wanted.contains(line));
            let less = object.statements.iter().filter(|line| !there.contains(*line));
            for line in more.chain(less) {
                let role = line.strip_prefix("GRANT ").and_then(|rest| rest.split(" TO ").next());
                let role = role.filter(|role| role.starts_with('`')).unwrap_or_default();
                // A role that this load has created is new to everybody.
                if !self.is_made(session, role)? {
                    let kind = if is_role(&object.name) { Kind::Role } else { Kind::User };
                    self.leave(
                        kind,
                        &object.name,
                        "it already exists with other grants, and was not changed",
                    );
                    return Ok(());
                }
            }
        }
        // Privileges that an account already has are not granted again: MariaDB would then list GRANT PROXY
        // twice.
        for statement in object.statements.iter().filter(|statement| !there.contains(*statement)) {
            match grant_alone(session, statement) {
                // What it is about may be gone at the source, too, where grants outlive their tables.
                Err(server::Error::Sql { message, code, .. }) => {
                    let grant = statement.split(" IDENTIFIED ").next().unwrap_or_default();
                    self.summary
                        .omitted
                        .push(format!("{}: {grant}: {message} (error {code})", object.title()));
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Whoever creates a role may grant it to others; this is revoked unless the dump says so.
    pub(super) fn give_roles_back(&self, session: &mut Session, objects: &[Object]) -> Result<(), Error> {
        let account = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
        let (user, host) = account.rsplit_once('@').unwrap_or((&account, "%"));
        let own = format!("{}@{}", quote_name(user), quote_name(host));
        let grants = objects.iter().find(|object| object.kind == Kind::Grant && object.name == own);
        for role in objects.iter().filter(|object| object.kind == Kind::Role) {
            let given = |line: &String| line.starts_with(&format!("GRANT {} TO ", role.name));
            let is_wanted = grants.is_some_and(|grants| grants.statements.iter().any(given));
            if is_wanted || !self.is_made(session, &role.name)? {
                continue;
            }
            match session.execute(&format!("REVOKE {} FROM {own}", role.name)) {
                // It had not been granted.
                Err(error) if error.code().is_some() => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}

/// Runs one GRANT. Packages exist only in Oracle's mode.
fn grant_alone(session: &mut Session, statement: &str) -> Result<(), server::Error> {
    if !statement.contains(" ON PACKAGE ") {
        return session.execute(statement).map(drop);
    }
    let mode = session.value("SELECT @@SESSION.sql_mode")?.unwrap_or_default();
    session.execute("SET SESSION sql_mode = 'ORACLE'")?;
    let granted = session.execute(statement).map(drop);
    session.execute(&format!("SET SESSION sql_mode = {}", session.quote(&mode)))?;
    granted
}

/// The statement that creates a user; none if the server or this account does not see it.
fn user(session: &mut Session, name: &str) -> Result<Option<String>, server::Error> {
    match session.value(&format!("SHOW CREATE USER {name}")) {
        Err(error) if error.code().is_some() => Ok(None),
        made => made,
    }
}

/// The privileges of an account itself, without those of its roles; none if our account may not see them.
fn grants(session: &mut Session, name: &str) -> Result<BTreeSet<String>, server::Error> {
    let shown = if name == PUBLIC { "PUBLIC" } else { name };
    let rows = match session.strings(&format!("SHOW GRANTS FOR {shown}")) {
        Err(error) if error.code().is_none() => return Err(error),
        rows => rows.unwrap_or_default(),
    };
    let lines = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    let own = |line: &String| {
        let to = line.rsplit(" TO ").next().unwrap_or_default();
        !is_role(name) || to.starts_with(name) || to.starts_with(shown)
    };
    let mut lines: BTreeSet<String> = lines.filter(own).collect();
    if !is_role(name) {
        let roles = user(session, name)?.and_then(|made| without_default_roles(&made).1);
        lines.extend(roles.map(|roles| format!("SET DEFAULT ROLE {roles} TO {name}")));
    }
    Ok(lines)
}

/// Whether a quoted account has no host.
pub(super) fn is_role(name: &str) -> bool {
    name.starts_with('`') && closing(name, '`') == name.len()
}
