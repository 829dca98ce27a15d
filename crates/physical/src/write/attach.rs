//! The steps with the server, and how they are undone.

use std::path::PathBuf;

use disk::{Disk, Tree};
use innodb::table::RowFormat;
use server::{Session, definition, quote_name};

use super::probe::{self, Way};
use super::twin::{self, Names, Twin};
use super::{Input, Outcome, Request, barrier, fill};
use crate::Error;
use crate::error::io;

/// The owner of the twin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The server's, if there is one.
    Server,
    /// remora: the server does not use it.
    Us,
}

/// A table that is being filled.
pub(super) struct Attach<'a, D> {
    session: &'a mut Session,
    disk: &'a D,
    request: &'a Request<'a>,
    names: Names,
    way: Way,
    format: RowFormat,
    data: PathBuf,
    owner: Owner,
    /// Whether the target exists.
    is_there: bool,
    /// Whether the session writes to the binary log again afterwards.
    logs: bool,
}

impl<'a, D: Disk + Tree> Attach<'a, D> {
    /// Checks whether the server and the table qualify, and takes the lock. Nothing is changed.
    pub(super) fn begin(
        session: &'a mut Session,
        disk: &'a D,
        request: &'a Request<'a>,
    ) -> Result<Attach<'a, D>, Error> {
        let way = probe::server(session, request)?;
        let format = probe::row_format(session)?;
        let table = twin::parse(session, request.definition).map_err(refusal)?;
        probe::table(&table, format, request).map_err(refusal)?;
        let is_there = probe::target(session, request)?;
        let data = PathBuf::from(&session.about.datadir);
        if disk.list(&data).is_err() {
            return Err(Error::Refused(format!("the server's data folder {} is not here", data.display())));
        }
        let names = Names::of(request.target);
        if !session.lock(&names.lock, 0)? {
            return Err(Error::Refused(format!("another session fills {}", request.target)));
        }
        let owner = Owner::Server;
        let mut attach =
            Attach { session, disk, request, names, way, format, data, owner, is_there, logs: false };
        match attach.quiet().and_then(|()| attach.sweep()) {
            Ok(()) => Ok(attach),
            Err(error) => attach.end(Err(error)),
        }
    }

    /// Keeps the session's statements out of the binary log, because no other server has the files.
    fn quiet(&mut self) -> Result<(), Error> {
        let logs = self.session.about.log_bin
            && self.session.value("SELECT @@SESSION.sql_log_bin")?.as_deref() == Some("1");
        if logs {
            self.session.execute("SET SESSION sql_log_bin = 0")?;
        }
        self.logs = logs;
        Ok(())
    }

    /// Removes what a killed run left.
    fn sweep(&mut self) -> Result<(), Error> {
        let old = self.names.old.clone();
        if self.session.execute(&format!("SELECT 1 FROM {old} LIMIT 0")).is_ok() {
            if self.session.value(&format!("SELECT 1 FROM {old} LIMIT 1"))?.is_some() {
                return Err(Error::Refused(format!(
                    "{old} has rows: it was {} until a run that was killed put another in its place",
                    self.request.target
                )));
            }
            self.session.execute(&format!("DROP TABLE {old}"))?;
        }
        self.discard()
    }

    /// Removes the twin and its files.
    fn discard(&mut self) -> Result<(), Error> {
        if self.owner == Owner::Us {
            self.remove_files()?;
        }
        // The server removes a table that it knows, with its file.
        self.session.execute(&format!("DROP TABLE IF EXISTS {}", self.names.twin))?;
        self.remove_files()
    }

    fn remove_files(&self) -> Result<(), Error> {
        for path in twin::files(self.disk, &self.data, &self.names.twin.table)? {
            // The server does not drop a table with a discarded file if the definition is gone.
            let is_definition = path.extension().is_some_and(|end| end == "frm");
            if !is_definition || self.way == Way::Stranger || self.owner == Owner::Server {
                self.disk.remove(&path).map_err(io(&path))?;
            }
        }
        Ok(())
    }

    /// Fills the twin and gives it the target's name.
    pub(super) fn run<P: Send>(&mut self, input: &mut Input<'_, P>) -> Result<Outcome, Error> {
        let name = self.names.twin.clone();
        self.session.execute(&twin::renamed(self.request.definition, &name)?)?;
        let files = twin::files(self.disk, &self.data, &name.table)?;
        let ibd = files.iter().find(|path| path.extension().is_some_and(|end| end == "ibd"));
        let Some(ibd) = ibd.cloned() else {
            let data = self.data.display();
            return Err(Error::Refused(format!(
                "{data} is not the data folder of this server, or not readable"
            )));
        };
        let definition = twin::definition(self.session, &name)?;
        let next = definition::counter(&definition).unwrap_or(1);
        let added = self.drop_keys(&definition)?;
        let twin = Twin::read(self.session, self.disk, &name, ibd)?;
        match self.way {
            Way::Discard => self.session.execute(&format!("ALTER TABLE {name} DISCARD TABLESPACE"))?,
            Way::Stranger => self.session.execute(&format!("DROP TABLE {name}"))?,
        };
        self.owner = Owner::Us;
        let filled = fill::fill(self.disk, &twin, (self.format, next), self.request, input)?;
        let last = filled.written.last_auto_increment;
        self.import(&twin, last.saturating_add(1))?;
        self.check(filled.rows)?;
        self.add_keys(&added)?;
        self.constraints()?;
        let made = twin::definition(self.session, &name)?;
        if definition::sorted(&made) != definition::sorted(&definition) {
            return Err(Error::Rejected(format!("the table is not what it should be, but {made}")));
        }
        let counter = definition::counter(&made).unwrap_or(1);
        let wanted = if definition::counted(&made).is_some() { last.saturating_add(1) } else { 1 };
        if counter != wanted {
            return Err(Error::Rejected(format!("the table counts on from {counter}, not from {wanted}")));
        }
        self.session.rows(&format!("ANALYZE TABLE {name}"))?;
        if self.way == Way::Discard {
            self.request.progress.phase("checkpoint", None);
            barrier::pass(self.session)?;
        }
        self.place()?;
        let bytes = u64::from(filled.written.pages) * innodb::page::PAGE_BYTES as u64;
        Ok(Outcome { rows: filled.rows, bytes, added: added.into_iter().map(|key| key.0).collect() })
    }

    /// Drops the keys of the empty twin that the server must build; returns their names and clauses.
    fn drop_keys(&mut self, definition: &str) -> Result<Vec<(String, String)>, Error> {
        let table = twin::parse(self.session, definition)?;
        let keys = probe::table(&table, self.format, self.request)?.added;
        let mut added = Vec::new();
        for key in keys {
            let Some(clause) = probe::clause(definition, &key) else {
                return Err(Error::Refused(format!("the key `{key}` is in none of the definition's lines")));
            };
            added.push((key, clause.to_owned()));
        }
        if !added.is_empty() {
            let drops: Vec<String> =
                added.iter().map(|key| format!("DROP KEY {}", quote_name(&key.0))).collect();
            self.session.execute(&format!("ALTER TABLE {} {}, FORCE", self.names.twin, drops.join(", ")))?;
        }
        Ok(added)
    }

    /// Lets the server import the file.
    fn import(&mut self, twin: &Twin, next: u64) -> Result<(), Error> {
        twin.write_export(self.disk, next)?;
        if self.way == Way::Stranger {
            twin.write_definition(self.disk)?;
        }
        let folder = twin.ibd.parent().unwrap_or(&self.data);
        self.disk.sync_folder(folder).map_err(io(folder))?;
        self.request.progress.phase("import", None);
        self.owner = Owner::Server;
        self.session.execute(&format!("ALTER TABLE {} IMPORT TABLESPACE", self.names.twin))?;
        let path = twin.ibd.with_extension("cfg");
        self.disk.remove(&path).and_then(|()| self.disk.sync_folder(folder)).map_err(io(&path))
    }

    /// Lets the server check the table and count its rows.
    fn check(&mut self, rows: u64) -> Result<(), Error> {
        let name = &self.names.twin;
        self.request.progress.phase("check", None);
        let said = self.session.strings(&format!("CHECK TABLE {name}"))?;
        let lines: Vec<String> = said
            .into_iter()
            .map(|row| row.into_iter().skip(2).flatten().collect::<Vec<_>>().join(": "))
            .collect();
        if lines != ["status: OK"] {
            return Err(Error::Rejected(format!(
                "CHECK TABLE does not find the rows in order: {}",
                lines.join("; ")
            )));
        }
        let found = self.session.value(&format!("SELECT COUNT(*) FROM {name}"))?;
        if found != Some(rows.to_string()) {
            let found = found.unwrap_or_default();
            return Err(Error::Rejected(format!("the server finds {found} rows in a file with {rows}")));
        }
        Ok(())
    }

    fn add_keys(&mut self, added: &[(String, String)]) -> Result<(), Error> {
        if added.is_empty() {
            return Ok(());
        }
        self.request.progress.phase("indexes", None);
        let adds: Vec<String> = added.iter().map(|key| format!("ADD {}", key.1)).collect();
        self.session.execute(&format!("ALTER TABLE {} {}", self.names.twin, adds.join(", ")))?;
        Ok(())
    }

    /// Looks for rows that break a CHECK constraint, which IMPORT does not.
    fn constraints(&mut self) -> Result<(), Error> {
        let twin = &self.names.twin;
        let found = self.session.strings(&format!(
            "SELECT constraint_name, check_clause FROM information_schema.check_constraints \
             WHERE constraint_schema = {} AND table_name = {}",
            self.session.quote(&twin.schema),
            self.session.quote(&twin.table)
        ))?;
        for row in found {
            let mut cells = row.into_iter().flatten();
            let (Some(name), Some(clause)) = (cells.next(), cells.next()) else { continue };
            let broken = self.session.value(&format!("SELECT COUNT(*) FROM {twin} WHERE NOT ({clause})"))?;
            if broken.as_deref() != Some("0") {
                let rows = broken.unwrap_or_default();
                return Err(Error::Rejected(format!("{rows} rows break the constraint `{name}`: {clause}")));
            }
        }
        Ok(())
    }

    /// Gives the twin the target's name. Waits for sessions that have written to the target meanwhile; their
    /// rows win.
    fn place(&mut self) -> Result<(), Error> {
        let (Names { twin, old, .. }, target) = (&self.names, self.request.target);
        if !self.is_there {
            self.session.execute(&format!("RENAME TABLE {twin} TO {target}"))?;
            return Ok(());
        }
        self.session.execute(&format!("RENAME TABLE {target} TO {old}, {twin} TO {target}"))?;
        let written = self.session.value(&format!("SELECT 1 FROM {old} LIMIT 1"));
        if let Ok(None) = written {
            self.session.execute(&format!("DROP TABLE {old}"))?;
            return Ok(());
        }
        self.session.execute(&format!("RENAME TABLE {target} TO {twin}, {old} TO {target}"))?;
        written?;
        Err(Error::Rejected(format!("somebody has written to {target} meanwhile; it has their rows only")))
    }

    /// Releases everything. Of two errors the first one is returned.
    pub(super) fn end<T>(mut self, made: Result<T, Error>) -> Result<T, Error> {
        let mut ended = Ok(());
        if made.is_err() {
            // It fails if the session holds no locks.
            self.session.execute("UNLOCK TABLES").ok();
            ended = self.discard();
        }
        if self.logs {
            ended =
                ended.and(self.session.execute("SET SESSION sql_log_bin = 1").map(drop).map_err(Error::from));
        }
        ended = ended.and(self.session.unlock(&self.names.lock).map_err(Error::from));
        if let (Err(_), Err(error)) = (&made, &ended) {
            self.request.progress.warn(&format!("what was begun could not be removed: {error}"));
        }
        let made = made?;
        ended.map(|()| made)
    }
}

/// A definition that is not understood is a refusal: nothing was changed.
fn refusal(error: Error) -> Error {
    match error {
        Error::Bytes(error) => Error::Refused(error.to_string()),
        other => other,
    }
}
