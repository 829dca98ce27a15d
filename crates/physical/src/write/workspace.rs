//! The names, files and lock beside the target with which a table is filled, and their removal.

use std::path::PathBuf;

use disk::Files;
use progress::Progress;
use server::{Session, TableName};

use super::preconditions::ImportMethod;
use super::template_table::{self, Names};
use crate::Error;
use crate::error::io;

/// Who owns the template's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The server, if the file exists.
    Server,
    /// This program: the server does not use the file.
    Remora,
}

/// The session, the names and the data folder for a target, exclusively locked.
pub(super) struct Workspace<'a> {
    pub(super) session: &'a mut Session,
    pub(super) disk: &'a dyn Files,
    pub(super) names: Names,
    pub(super) method: ImportMethod,
    /// The server's data folder.
    pub(super) data: PathBuf,
    pub(super) owner: Owner,
    /// Whether the data folder belongs to this server; none if it was not checked yet. Another server may use
    /// the same path, here or on another machine.
    pub(super) is_here: Option<bool>,
    target: TableName,
    progress: &'a dyn Progress,
    /// Whether the session writes to the binary log again afterwards.
    logs: bool,
}

impl<'a> Workspace<'a> {
    /// Takes the lock. Nothing is changed.
    pub(super) fn take(
        session: &'a mut Session,
        disk: &'a dyn Files,
        target: &TableName,
        progress: &'a dyn Progress,
    ) -> Result<Workspace<'a>, Error> {
        let data = PathBuf::from(&session.about.datadir);
        if disk.list(&data).is_err() {
            return Err(Error::Refused(format!(
                "the server's data folder {} is not on the machine where its files are looked for, or this user can't read it",
                data.display()
            )));
        }
        let names = Names::of(target);
        if !session.lock(&names.lock, 0)? {
            return Err(Error::Refused(format!("another session fills {target}")));
        }
        let (method, owner, target) = (ImportMethod::of(session), Owner::Server, target.clone());
        let (is_here, logs) = (None, false);
        Ok(Workspace { session, disk, names, method, data, owner, is_here, target, progress, logs })
    }

    /// Whether a run that was killed has left tables or files behind.
    pub(super) fn is_littered(
        session: &mut Session,
        disk: &dyn Files,
        target: &TableName,
    ) -> Result<bool, Error> {
        let Names { template, old, probe, trial: [filled, inserted], .. } = Names::of(target);
        let names = [&template, &old, &probe, &filled, &inserted];
        let names = names.map(|name| session.quote(&name.table)).join(", ");
        let tables = format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name IN ({names}) LIMIT 1",
            session.quote(&target.schema)
        );
        let data = PathBuf::from(&session.about.datadir);
        Ok(session.value(&tables)?.is_some()
            || disk.list(&data).is_ok() && !template_table::files(disk, &data, &template)?.is_empty())
    }

    /// Disables the session's binary logging, and removes what a killed run left behind.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        self.quiet()?;
        let Names { old, probe, kept, trial: [filled, inserted], .. } = self.names.clone();
        self.session.execute(&format!("DROP TABLE IF EXISTS {probe}, {filled}, {inserted}"))?;
        if self.session.execute(&format!("SELECT 1 FROM {kept} LIMIT 0")).is_ok() {
            return Err(Error::Refused(format!(
                "{kept} has rows that others wrote to {} while an earlier run failed: save them, then drop it",
                self.target
            )));
        }
        if self.session.execute(&format!("SELECT 1 FROM {old} LIMIT 0")).is_ok() {
            if self.session.value(&format!("SELECT 1 FROM {old} LIMIT 1"))?.is_some() {
                return Err(Error::Refused(format!(
                    "{old} has rows: it is the former {}, renamed by a run that was killed",
                    self.target
                )));
            }
            self.session.execute(&format!("DROP TABLE {old}"))?;
        }
        self.discard()
    }

    /// Checks whether the data folder belongs to this server, by creating a table and looking for its files.
    fn is_here(&mut self) -> Result<bool, Error> {
        if let Some(known) = self.is_here {
            return Ok(known);
        }
        let probe = self.names.probe.clone();
        self.session.execute(&format!("CREATE TABLE {probe} (a INT) ENGINE = InnoDB"))?;
        let files = template_table::files(self.disk, &self.data, &probe);
        self.session.execute(&format!("DROP TABLE {probe}"))?;
        let is_here = !files?.is_empty();
        self.is_here = Some(is_here);
        Ok(is_here)
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

    /// Removes the template and its files.
    fn discard(&mut self) -> Result<(), Error> {
        if self.owner == Owner::Remora {
            self.remove_files()?;
        }
        // The server removes a table that it knows, with its file.
        self.session.execute(&format!("DROP TABLE IF EXISTS {}", self.names.template))?;
        self.remove_files()
    }

    fn remove_files(&mut self) -> Result<(), Error> {
        let files = template_table::files(self.disk, &self.data, &self.names.template)?;
        if files.is_empty() || !self.is_here()? {
            return Ok(());
        }
        for path in files {
            // The server does not drop a table with a discarded file if the definition is gone.
            let is_definition = path.extension().is_some_and(|end| end == "frm");
            if !is_definition || self.method == ImportMethod::NewTable || self.owner == Owner::Server {
                self.disk.remove(&path).map_err(io(&path))?;
            }
        }
        Ok(())
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
            self.progress.warn(&format!("cleaning up failed: {error}"));
        }
        let made = made?;
        ended.map(|()| made)
    }
}
