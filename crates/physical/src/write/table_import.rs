//! The steps with the server.

use std::io::Write;
use std::path::PathBuf;

use disk::Files;
use innodb::table::RowFormat;
use server::{Session, definition, quote_name};

use super::fill::{Filled, TableOptions};
use super::preconditions::{self, CheckedTarget, ImportMethod};
use super::template_table::{self, Names, TemplateTable};
use super::verify::WrittenFile;
use super::workspace::{Owner, Workspace};
use super::{Input, Outcome, Request, checkpoint_wait, fill, verify};
use crate::Error;
use crate::error::io;
use crate::pipeline::joined;

/// Takes the rows that are read back.
type Back<'a> = dyn Write + Send + 'a;

/// A table that is being filled.
pub(super) struct TableImport<'a> {
    workspace: Workspace<'a>,
    request: &'a Request<'a>,
    format: RowFormat,
    /// Whether the target exists.
    is_there: bool,
}

impl<'a> TableImport<'a> {
    /// Checks whether the server and the table qualify, and takes the lock. Nothing is changed.
    pub(super) fn begin(
        session: &'a mut Session,
        disk: &'a dyn Files,
        request: &'a Request<'a>,
    ) -> Result<TableImport<'a>, Error> {
        let CheckedTarget { format, is_there } = preconditions::all(session, request)?;
        let mut workspace = Workspace::take(session, disk, request.target, request.progress)?;
        match workspace.clear() {
            Ok(()) => Ok(TableImport { workspace, request, format, is_there }),
            Err(error) => workspace.end(Err(error)),
        }
    }

    /// Fills the template and gives it the target's name.
    pub(super) fn run<P: Send>(&mut self, input: &mut Input<'_, P>) -> Result<Outcome, Error> {
        let name = self.workspace.names.template.clone();
        self.workspace.session.execute(&template_table::renamed(self.request.definition, &name)?)?;
        let files = template_table::files(self.workspace.disk, &self.workspace.data, &name)?;
        // If the folder is another server's, a file of that name is its own.
        let is_elsewhere = self.workspace.is_here == Some(false);
        let is_twin = |path: &PathBuf| !is_elsewhere && path.extension().is_some_and(|end| end == "ibd");
        let ibd = files.into_iter().find(is_twin);
        self.workspace.is_here = Some(ibd.is_some());
        let Some(ibd) = ibd else {
            let data = self.workspace.data.display();
            return Err(Error::Refused(format!("{data} is not the data folder of this server")));
        };
        let definition = self.workspace.session.definition(&name)?;
        let lines = |text: &str| Ok::<_, Error>(definition::sorted(&template_table::renamed(text, &name)?));
        let made = lines(&definition)?;
        let is_made = |line: &String| made.iter().any(|made| made.starts_with(line));
        if let Some(line) = lines(self.request.definition)?.iter().find(|line| !is_made(line)) {
            return Err(Error::Refused(format!("the server can't create a second table with this: {line}")));
        }
        let next = definition::counter(&definition).unwrap_or(1);
        let added = self.drop_keys(&definition)?;
        let template = TemplateTable::read(self.workspace.session, self.workspace.disk, &name, ibd)?;
        match self.workspace.method {
            ImportMethod::Discard => {
                self.workspace.session.execute(&format!("ALTER TABLE {name} DISCARD TABLESPACE"))?
            }
            ImportMethod::NewTable => self.workspace.session.execute(&format!("DROP TABLE {name}"))?,
        };
        self.workspace.owner = Owner::Remora;
        let options = TableOptions { format: self.format, counter: next };
        let filled = fill::fill(&mut self.workspace, &template, options, self.request, input)?;
        let last = filled.written.last_auto_increment;
        self.import(&template, last.saturating_add(1))?;
        self.check(&template, &filled, input.back.as_deref_mut())?;
        self.add_keys(&added)?;
        self.constraints()?;
        let made = self.workspace.session.definition(&name)?;
        if definition::sorted(&made) != definition::sorted(&definition) {
            return Err(Error::Rejected(format!("the imported table has another definition: {made}")));
        }
        let counter = definition::counter(&made).unwrap_or(1);
        let wanted = if definition::counted(&made).is_some() { last.saturating_add(1) } else { 1 };
        if counter != wanted {
            return Err(Error::Rejected(format!(
                "the next AUTO_INCREMENT value is {counter} instead of {wanted}"
            )));
        }
        self.request.progress.phase("statistics", None);
        self.workspace.session.rows(&format!("ANALYZE TABLE {name}"))?;
        if self.workspace.method == ImportMethod::Discard {
            self.request.progress.phase("checkpoint", None);
            checkpoint_wait::pass(self.workspace.session)?;
        }
        self.place(filled.rows)?;
        let bytes = u64::from(filled.written.pages) * innodb::page::PAGE_BYTES as u64;
        Ok(Outcome { rows: filled.rows, bytes, added: added.into_iter().map(|key| key.0).collect() })
    }

    /// Drops the keys of the empty template that the server must build; returns their names and clauses.
    fn drop_keys(&mut self, definition: &str) -> Result<Vec<(String, String)>, Error> {
        let table = template_table::parse(self.workspace.session, definition)?;
        let keys = preconditions::table(&table, self.format, self.request)?.added;
        let mut added = Vec::new();
        for key in keys {
            let Some(clause) = preconditions::clause(definition, &key) else {
                return Err(Error::Refused(format!("the key `{key}` is in none of the definition's lines")));
            };
            added.push((key, clause.to_owned()));
        }
        if !added.is_empty() {
            let drops: Vec<String> =
                added.iter().map(|key| format!("DROP KEY {}", quote_name(&key.0))).collect();
            self.workspace.session.execute(&format!(
                "ALTER TABLE {} {}, FORCE",
                self.workspace.names.template,
                drops.join(", ")
            ))?;
        }
        Ok(added)
    }

    /// Lets the server import the file.
    fn import(&mut self, template: &TemplateTable, next: u64) -> Result<(), Error> {
        template.write_export(self.workspace.disk, next)?;
        if self.workspace.method == ImportMethod::NewTable {
            template.write_definition(self.workspace.disk)?;
        }
        let folder = template.ibd.parent().unwrap_or(&self.workspace.data);
        self.workspace.disk.sync_folder(folder).map_err(io(folder))?;
        self.request.progress.phase("import", None);
        self.workspace.owner = Owner::Server;
        self.workspace
            .session
            .execute(&format!("ALTER TABLE {} IMPORT TABLESPACE", self.workspace.names.template))?;
        let path = template.ibd.with_extension("cfg");
        self.workspace
            .disk
            .remove(&path)
            .and_then(|()| self.workspace.disk.sync_folder(folder))
            .map_err(io(&path))
    }

    /// Lets the server check the table and count its rows, and reads the file that it has meanwhile.
    fn check(
        &mut self,
        template: &TemplateTable,
        filled: &Filled,
        back: Option<&mut Back<'_>>,
    ) -> Result<(), Error> {
        self.request.progress.phase("check", None);
        let name = self.workspace.names.template.clone();
        self.workspace.session.execute(&format!("FLUSH TABLES {name} FOR EXPORT"))?;
        let (disk, request) = (self.workspace.disk, self.request);
        let count = format!("SELECT COUNT(*) FROM {name}");
        let (checked, unlocked, counted, proven) = std::thread::scope(|scope| {
            let written = WrittenFile {
                builders: &filled.builders,
                written: &filled.written,
                digests: &filled.digests,
            };
            let proof = scope.spawn(move || {
                verify::imported(disk, template, &written, request)?;
                back.map_or(Ok(()), |back| verify::read_back(disk, template, back, request))
            });
            // The server takes one processor for each.
            let counted = scope.spawn(|| {
                let mut session = (request.connect)()?;
                session.execute("SET SESSION max_statement_time = 0")?;
                session.value(&count)
            });
            let (checked, proven) = (self.checked(filled), joined(proof));
            // If the table is not in order, whoever counts waits until it is let go.
            let unlocked = self.workspace.session.execute("UNLOCK TABLES");
            (checked, unlocked, joined(counted), proven)
        });
        unlocked?;
        checked.and(proven)?;
        let rows = match counted {
            Ok(rows) => rows,
            // Such as one session too many.
            Err(_) => self.workspace.session.value(&count)?,
        };
        if rows != Some(filled.rows.to_string()) {
            let (found, rows) = (rows.unwrap_or_default(), filled.rows);
            return Err(Error::Rejected(format!("the server counts {found} rows in a file of {rows}")));
        }
        Ok(())
    }

    /// Lets the server check the table.
    fn checked(&mut self, filled: &Filled) -> Result<(), Error> {
        let said =
            self.workspace.session.strings(&format!("CHECK TABLE {}", self.workspace.names.template))?;
        let lines: Vec<String> = said
            .into_iter()
            .map(|row| row.into_iter().skip(2).flatten().collect::<Vec<_>>().join(": "))
            .collect();
        if lines == ["status: OK"] {
            return Ok(());
        }
        let what = format!("CHECK TABLE reports: {}", lines.join("; "));
        let is_unproven = filled.builders.first().is_some_and(|builder| builder.order().is_none());
        Err(if is_unproven && self.request.sorted { Error::Unsorted(what) } else { Error::Rejected(what) })
    }

    fn add_keys(&mut self, added: &[(String, String)]) -> Result<(), Error> {
        if added.is_empty() {
            return Ok(());
        }
        self.request.progress.phase("indexes", None);
        let adds: Vec<String> = added.iter().map(|key| format!("ADD {}", key.1)).collect();
        let strict = self.as_an_insert();
        let added = self.workspace.session.execute(&format!(
            "{strict} ALTER TABLE {} {}",
            self.workspace.names.template,
            adds.join(", ")
        ));
        match added {
            // Such as two texts that are the same key. If rows go to the server, it tells which of them.
            Err(error @ server::Error::Sql { .. }) if !error.is_passing() => {
                Err(Error::Rejected(format!("the server can't build its keys: {error}")))
            }
            added => Ok(added.map(drop)?),
        }
    }

    /// Goes before a statement whose values are to be judged as those of an INSERT. The statement itself is
    /// read under the session's modes.
    fn as_an_insert(&self) -> String {
        let modes = format!("{},STRICT_ALL_TABLES", self.workspace.session.about.sql_mode);
        format!("SET STATEMENT sql_mode = '{}' FOR", modes.trim_start_matches(','))
    }

    /// Looks for rows that break a CHECK constraint, which IMPORT does not. What a SELECT only warns of, such
    /// as a division by zero, is an error of an INSERT.
    fn constraints(&mut self) -> Result<(), Error> {
        let template = &self.workspace.names.template;
        let found = self.workspace.session.strings(&format!(
            "SELECT constraint_name, check_clause FROM information_schema.check_constraints \
             WHERE constraint_schema = {} AND table_name = {}",
            self.workspace.session.quote(&template.schema),
            self.workspace.session.quote(&template.table)
        ))?;
        let strict = self.as_an_insert();
        for row in found {
            let mut cells = row.into_iter().flatten();
            let (Some(name), Some(clause)) = (cells.next(), cells.next()) else { continue };
            // Of every row, where a WHERE may leave rows out by a key.
            let broken = self.workspace.session.value(&format!(
                "{strict} SELECT COUNT(CASE WHEN NOT ({clause}) THEN 1 END) FROM {template}"
            ))?;
            let warnings = self.workspace.session.value("SELECT @@warning_count")?;
            if broken.as_deref() == Some("0") && warnings.as_deref() != Some("0") {
                return Err(Error::Rejected(format!(
                    "the server can't tell of all rows whether they keep the constraint `{name}`: {clause}"
                )));
            }
            if broken.as_deref() != Some("0") {
                let rows = broken.unwrap_or_default();
                return Err(Error::Rejected(format!("{rows} rows break the constraint `{name}`: {clause}")));
            }
        }
        Ok(())
    }

    /// Gives the template, which has `rows` rows, the target's name. Waits for sessions that have written to
    /// the target meanwhile; their rows win.
    fn place(&mut self, rows: u64) -> Result<(), Error> {
        let (Names { template, old, kept, .. }, target) = (&self.workspace.names, self.request.target);
        let session = &mut *self.workspace.session;
        if !self.is_there {
            session.execute(&format!("RENAME TABLE {template} TO {target}"))?;
            return Ok(());
        }
        let theirs =
            || Error::Taken(format!("somebody has written to {target} meanwhile; it has only their rows"));
        if session.value(&format!("SELECT 1 FROM {target} LIMIT 1"))?.is_some() {
            return Err(theirs());
        }
        session.execute(&format!("RENAME TABLE {target} TO {old}, {template} TO {target}"))?;
        // What was not committed before is seen now.
        let written = session.value(&format!("SELECT 1 FROM {old} LIMIT 1"));
        if let Ok(None) = written {
            session.execute(&format!("DROP TABLE {old}"))?;
            return Ok(());
        }
        // Whoever waited for the first RENAME has written to the template.
        session.execute(&format!("RENAME TABLE {target} TO {kept}, {old} TO {target}"))?;
        let count = session.value(&format!("SELECT COUNT(*) FROM {kept}"))?;
        if count == Some(rows.to_string()) {
            session.execute(&format!("DROP TABLE {kept}"))?;
            written?;
            return Err(theirs());
        }
        Err(Error::Taken(format!(
            "{}. Rows that others wrote while the new table had its name are in {kept}, together with the imported rows",
            theirs()
        )))
    }

    /// Releases everything. Of two errors the first one is returned.
    pub(super) fn end<T>(self, made: Result<T, Error>) -> Result<T, Error> {
        self.workspace.end(made)
    }
}
