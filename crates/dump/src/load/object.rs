//! Making databases, tables, programs and accounts, and making sure that they are there.

use server::catalogue::{Catalogue, Kind, Object, Settings};
use server::definition::{counter, plain_indexes, sorted};
use server::{Session, quote_name, snapshot};

use super::data::AGAIN;
use super::{Load, connect};
use crate::manifest::TableEntry;
use crate::{Error, parallel};

/// From this size on plain indexes of a table are built when its rows are in; below, that costs more than it saves.
const DEFER_FROM_BYTES: u64 = 4 << 20;

/// The settings tables are made under.
const SQL_MODE: &str = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";

/// What a view is on is not there: database, table, function, or part of it.
const LACKS: [u16; 4] = [1049, 1146, 1305, 1356];

/// There is one of that name already: database, table, trigger, routine, event, account, package, sequence.
const EXISTS: [u16; 7] = [1007, 1050, 1359, 1304, 1537, 1396, 4127];

impl Load<'_> {
    /// Makes the objects of some kinds. What needs another that is not there yet is tried again after it: views on
    /// views, triggers that precede others.
    pub(super) fn make(&mut self, session: &mut Session, wanted: fn(Kind) -> bool) -> Result<(), Error> {
        let objects = std::mem::take(&mut self.manifest.objects);
        let mut open: Vec<&Object> = objects.iter().filter(|object| wanted(object.kind)).collect();
        let mut made = Ok(());
        while !open.is_empty() && made.is_ok() {
            let before = open.len();
            let mut first = None;
            let mut again = Vec::new();
            for object in open {
                match self.one(session, object, &objects) {
                    Ok(()) => self.summary.objects += 1,
                    Err(error) if error.code().is_some() => {
                        first.get_or_insert((object, error));
                        again.push(object);
                    }
                    Err(error) => made = made.and(Err(Error::Server(error))),
                }
            }
            open = again;
            if open.len() < before {
                continue;
            }
            if let Some((object, source)) = first {
                // A dump of a part of a server may have views on what is not in it.
                let lacks =
                    object.kind == Kind::View && source.code().is_some_and(|code| LACKS.contains(&code));
                let may_lack = |open: &&Object| open.kind >= Kind::Role || (lacks && open.kind == Kind::View);
                if !open.iter().all(may_lack) {
                    made = made.and(Err(Error::Object { object: object.title(), source: Box::new(source) }));
                } else {
                    self.leave_out(session, &open, &objects);
                }
                break;
            }
        }
        if wanted(Kind::Role) && made.is_ok() {
            made = give_roles_back(session, &objects);
        }
        self.manifest.objects = objects;
        made
    }

    /// Names what this server does not take: accounts with another's ways to log in, views without their tables.
    fn leave_out(&mut self, session: &mut Session, open: &[&Object], all: &[Object]) {
        for object in open {
            let why = self.one(session, object, all).err().map(|error| error.to_string()).unwrap_or_default();
            self.summary.omitted.push(format!("{}: {why}", object.title()));
        }
    }

    fn one(&mut self, session: &mut Session, object: &Object, all: &[Object]) -> Result<(), server::Error> {
        if matches!(object.kind, Kind::User | Kind::Grant) {
            return self.account(session, object, all);
        }
        let collation = enter(session, object)?;
        let made = object.statements.iter().try_for_each(|statement| match session.execute(statement) {
            Err(error) if self.request.resume && error.code().is_some_and(|code| EXISTS.contains(&code)) => {
                Ok(())
            }
            other => other.map(drop),
        });
        let left = leave(session, object, collation.as_deref());
        made.and(left)
    }

    /// An account that is there already stays as it is; where it is another than the dump's, that is named.
    fn account(
        &mut self,
        session: &mut Session,
        object: &Object,
        all: &[Object],
    ) -> Result<(), server::Error> {
        let known =
            self.summary.omitted.iter().any(|line| line.starts_with(&format!("user {}:", object.name)));
        if object.kind == Kind::Grant {
            if known {
                return Ok(());
            }
            // What an account has already is not given again: MariaDB would then list GRANT PROXY twice.
            let there = match session.strings(&format!("SHOW GRANTS FOR {}", object.name)) {
                Err(error) if error.code().is_none() => return Err(error),
                there => there.unwrap_or_default(),
            };
            let has = |statement: &str| there.iter().flatten().flatten().any(|grant| grant == statement);
            let mut missing = object.statements.iter().filter(|statement| !has(statement));
            return missing.try_for_each(|statement| session.execute(statement).map(drop));
        }
        let Some(statement) = object.statements.first() else { return Ok(()) };
        match session.execute(statement) {
            Err(error) if error.code() == Some(1396) => {
                let there = session.value(&format!("SHOW CREATE USER {}", object.name)).unwrap_or_default();
                let same = match there {
                    Some(there) => there == *statement,
                    // Before MySQL 5.7 the grants hold all there is to an account.
                    None => has_grants(session, &object.name, all)?,
                };
                if !same && !self.request.resume {
                    self.summary.omitted.push(format!(
                        "user {}: there is one already, and it stays as it is, its grants too",
                        object.name
                    ));
                }
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Makes the tables, without the indexes that are built later.
    pub(super) fn make_tables(&mut self, session: &mut Session) -> Result<(), Error> {
        for entry in &self.manifest.tables {
            let name = &entry.table.name;
            let told = |source| Error::Object { object: format!("table {name}"), source: Box::new(source) };
            session.execute(&format!("USE {}", quote_name(&name.schema))).map_err(told)?;
            match session.execute(&entry.table.definition) {
                Err(error) if self.request.resume && error.code() == Some(1050) => continue,
                other => other.map_err(told)?,
            };
            let worthwhile = self.request.data && may_be_deferred(entry, self.follow.is_some());
            let indexes = plain_indexes(&entry.table.definition);
            if worthwhile && !indexes.is_empty() && entry.table.is_transactional() {
                let drops: Vec<_> = indexes.iter().map(|index| format!("DROP KEY {}", index.name)).collect();
                // A foreign key of another table may lean on one of them; then they stay.
                match session.execute(&format!("ALTER TABLE {name} {}", drops.join(", "))) {
                    Err(error) if error.code().is_none() => return Err(told(error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Builds the indexes that tables have not, of several tables at a time.
    pub(super) fn build_indexes(&self) -> Result<(), Error> {
        self.world.progress.phase("building indexes", None);
        let mut entries: Vec<&TableEntry> = self.manifest.tables.iter().collect();
        entries.retain(|entry| {
            let left_out = may_be_deferred(entry, false) || may_be_deferred(entry, true);
            left_out && !plain_indexes(&entry.table.definition).is_empty()
        });
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.sum.rows));
        let connect = || connect(self.target, self.request);
        parallel::each(&entries, self.request.sessions, &connect, &|session, _, entry| {
            if self.world.is_stopped() {
                return Err(Error::Stopped(AGAIN));
            }
            build(session, entry)
        })
    }

    /// Puts back the AUTO_INCREMENT counters that filling a table has moved: MyISAM's goes behind the largest value then.
    pub(super) fn set_counters(&self, session: &mut Session) -> Result<(), Error> {
        for entry in self.manifest.tables.iter().filter(|entry| !entry.table.is_transactional()) {
            let name = &entry.table.name;
            let Some(counter) = counter(&entry.table.definition) else { continue };
            let set = session.execute(&format!("ALTER TABLE {name} AUTO_INCREMENT = {counter}"));
            set.map_err(|source| Error::Object {
                object: format!("table {name}"),
                source: Box::new(source),
            })?;
        }
        Ok(())
    }

    /// Everything of the dump is on the server, and, where both are of one version, is the same to the letter.
    pub(super) fn prove_objects(&self) -> Result<(), Error> {
        // Without a default database, in which the server would leave names out.
        let mut session = snapshot::connect(self.target)?;
        let there = Catalogue::read(&mut session, &self.request.selection)?;
        let exact = session.about.version_text == self.manifest.source.server_version
            && self.summary.rewrites.is_empty();
        let mut differences = Vec::new();
        for object in &self.manifest.objects {
            let title = object.title();
            let left_out = self.summary.omitted.iter().any(|line| line.starts_with(&format!("{title}: ")));
            if object.kind >= Kind::Role || left_out {
                continue;
            }
            let found = there.objects.iter().find(|known| {
                known.kind == object.kind && known.schema == object.schema && known.name == object.name
            });
            match found {
                None => differences.push(format!("{} is not there", object.title())),
                Some(found) if exact && found.statements != object.statements => {
                    differences.push(format!("{} is another", object.title()));
                }
                Some(_) => {}
            }
        }
        for entry in &self.manifest.tables {
            let name = &entry.table.name;
            match there.tables.iter().find(|known| known.name == *name) {
                None => differences.push(format!("table {name} is not there")),
                Some(found) if exact && sorted(&found.definition) != sorted(&entry.table.definition) => {
                    differences.push(format!("the definition of table {name} is another"));
                }
                Some(_) => {}
            }
        }
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Error::Different { tables: self.manifest.tables.len(), differences })
        }
    }
}

/// Builds the indexes that a table has not.
fn build(session: &mut Session, entry: &TableEntry) -> Result<(), Error> {
    let name = &entry.table.name;
    let told = |source| Error::Object { object: format!("table {name}"), source: Box::new(source) };
    let rows = session.strings(&format!("SHOW CREATE TABLE {name}")).map_err(told)?;
    let now = rows.into_iter().next().and_then(|row| row.into_iter().nth(1)).flatten().unwrap_or_default();
    let there: Vec<_> = plain_indexes(&now).iter().map(|index| index.name.to_owned()).collect();
    let adds: Vec<_> = plain_indexes(&entry.table.definition)
        .into_iter()
        .filter(|index| !there.iter().any(|known| known == index.name))
        .map(|index| format!("ADD {}", index.clause))
        .collect();
    if !adds.is_empty() {
        session.execute(&format!("ALTER TABLE {name} {}", adds.join(", "))).map_err(told)?;
    }
    Ok(())
}

/// Whether a table is large enough for its plain indexes to be built when its rows are in. What is still being dumped has
/// no chunks yet, and is judged by what the source's server estimates.
fn may_be_deferred(entry: &TableEntry, followed: bool) -> bool {
    if followed {
        return entry.table.bytes >= DEFER_FROM_BYTES;
    }
    entry.chunks.iter().map(|chunk| chunk.text_bytes).sum::<u64>() >= DEFER_FROM_BYTES
}

/// Sets what an object is to be made under; returns the collation its database is to have again.
pub(super) fn enter(session: &mut Session, object: &Object) -> Result<Option<String>, server::Error> {
    if !matches!(object.kind, Kind::Database | Kind::Role) {
        session.execute(&format!("USE {}", quote_name(&object.schema)))?;
    }
    let Settings { sql_mode, character_set, collation, database_collation, time_zone } = &object.settings;
    let mut set = Vec::new();
    if let Some(mode) = sql_mode {
        set.push(format!("sql_mode = {}", session.quote(mode)));
    }
    if let Some(zone) = time_zone {
        set.push(format!("time_zone = {}", session.quote(zone)));
    }
    if let Some(set_name) = character_set {
        set.push(format!("character_set_client = {set_name}"));
    }
    if let Some(collation) = collation {
        set.push(format!("collation_connection = {collation}"));
    }
    let old = match database_collation {
        Some(wanted) => alter_database(session, &object.schema, wanted)?,
        None => None,
    };
    if !set.is_empty() {
        session.execute(&format!("SET SESSION {}", set.join(", ")))?;
    }
    Ok(old)
}

/// Puts the settings back.
pub(super) fn leave(
    session: &mut Session,
    object: &Object,
    database_collation: Option<&str>,
) -> Result<(), server::Error> {
    if let Some(collation) = database_collation {
        alter_database(session, &object.schema, collation)?;
    }
    if object.settings == Settings::default() {
        return Ok(());
    }
    session.execute("SET NAMES utf8mb4")?;
    session.execute(&format!("SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'"))?;
    Ok(())
}

/// A program remembers its database's collation: where that was another when the program was made, it is another for a
/// moment.
fn alter_database(
    session: &mut Session,
    schema: &str,
    wanted: &str,
) -> Result<Option<String>, server::Error> {
    let now = session.value("SELECT @@collation_database")?.unwrap_or_default();
    if now == wanted {
        return Ok(None);
    }
    session.execute(&format!("ALTER DATABASE {} COLLATE {wanted}", quote_name(schema)))?;
    Ok(Some(now))
}

/// Whether an account may do just what the dump says.
fn has_grants(session: &mut Session, account: &str, all: &[Object]) -> Result<bool, server::Error> {
    let rows = session.strings(&format!("SHOW GRANTS FOR {account}"))?;
    let mut there: Vec<String> =
        rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
    let grants = all.iter().find(|object| object.kind == Kind::Grant && object.name == account);
    let mut wanted = grants.map(|grants| grants.statements.clone()).unwrap_or_default();
    there.sort();
    wanted.sort();
    Ok(there == wanted)
}

/// Whoever makes a role may give it to others; that is taken back where the dump does not say so.
fn give_roles_back(session: &mut Session, objects: &[Object]) -> Result<(), Error> {
    let roles: Vec<&Object> = objects.iter().filter(|object| object.kind == Kind::Role).collect();
    if roles.is_empty() {
        return Ok(());
    }
    let account = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
    let (user, host) = account.rsplit_once('@').unwrap_or((&account, "%"));
    let own = format!("{}@{}", quote_name(user), quote_name(host));
    let grants = objects.iter().find(|object| object.kind == Kind::Grant && object.name == own);
    for role in roles {
        let given = |line: &String| line.starts_with(&format!("GRANT {} TO ", role.name));
        if !grants.is_some_and(|grants| grants.statements.iter().any(given)) {
            match session.execute(&format!("REVOKE {} FROM {own}", role.name)) {
                // It was not given.
                Err(error) if error.code().is_some() => {}
                other => drop(other?),
            }
        }
    }
    Ok(())
}
