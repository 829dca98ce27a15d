//! Rows that foreign keys deleted or changed along with those of a transaction, which the logs of MariaDB and
//! of MySQL before 9.6 do not have. A private server on a copy of the data is brought to just before the
//! transaction. Then it applies the transaction event by event, and is asked after each what became of the
//! rows that refer to those of the event. Nothing of that is committed; the next step is made from the
//! archived log.

mod apply;
mod foreign_keys;
mod own_log;
mod seeds;
mod span;
mod tracking;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use binlog::event::Change;
use binlog::event::rows::Rows;
use binlog::event::table::Table;
use instance::requirements::Requirements;
use instance::{Files, Wanted};
use pitr::{Folders, Log, Recovery, RecoveryTarget, Steps, StepsRequest};
use progress::{Progress, Shared, Silent};
use repository::Named;
use server::{TableName, quote_name};
use tempfile::TempDir;
use transactions::table_references::{Effect, TableReferences};
use transactions::{
    AskedRow, Filter, Known, LogFile, Place, RowsEvent, Transaction, Walk, logged, names, slot,
};

use self::apply::Apply;
use self::own_log::OwnLog;
use self::seeds::Seeds;
use self::span::Span;
use self::tracking::{Cause, Notes};
use crate::table_form::{Obstacle, TableForm};

/// InnoDB tells again how much a transaction has changed when it was not asked for 0.1 s (`trx0i_s.cc`).
const TOLD_ANEW: Duration = Duration::from_millis(150);

/// Where a copy of the data comes from.
pub struct Origin {
    /// The backups.
    pub named: Named,
    /// The generation to begin with; none: the newest that fits.
    pub generation: Option<u64>,
    /// The log that is archived beside them.
    pub log: Log,
}

/// Which transactions are asked for.
pub struct Query<'a> {
    /// Leaves others out.
    pub filter: &'a Filter,
    /// The definitions of their tables.
    pub known: &'a Known,
    /// A folder to work in.
    pub work: &'a Path,
}

/// A row of a transaction.
pub enum Found<'a> {
    /// The log has it, and it is asked for.
    Own(&'a AskedRow<'a>),
    /// A foreign key changed it by cascade.
    Along(&'a AskedRow<'a>, &'a TableForm),
}

/// The private server.
pub struct Cascades<'a> {
    // Dropped in this order: the server ends before its files go.
    apply: Apply,
    notes: Notes,
    own: OwnLog,
    steps: Steps,
    files: Files,
    _work: TempDir,
    /// Where the first transaction begins that is asked for.
    first: Place,
    /// Whether the foreign keys are known, and nothing has changed a definition since.
    has_graph: bool,
    /// The tables that were found sound.
    checked: BTreeSet<TableName>,
    open: Option<Open>,
    stop: &'a AtomicBool,
    report: &'a Shared,
}

/// The transaction that is looked at.
struct Open {
    /// The tables that depend on its rows by foreign keys, as they are defined at that point in time.
    tables: BTreeMap<TableName, Rc<innodb::table::Table>>,
    known: Known,
    /// The most rows that InnoDB should have changed.
    changes: u64,
}

impl<'a> Cascades<'a> {
    /// Starts the server, on the generation before the first transaction that is asked for. `None` if none
    /// is. The data are put into a new folder in [`Query::work`] if they can't be mounted.
    pub fn start(
        Origin { named, generation, log }: Origin,
        query: &Query<'_>,
        stop: &'a AtomicBool,
        report: &'a Shared,
    ) -> Result<Option<Cascades<'a>>> {
        let Query { filter, known, work } = *query;
        let mut span = Span::default();
        let files: Vec<LogFile> = log.files.clone();
        // What is wrong with the log is reported when it is read again.
        Walk::new(&files, filter, known, &mut span, &Silent).all()?;
        let Some((first, last)) = span.ends else { return Ok(None) };
        let file = files.get(first.file).map(|path| names::file(path)).unwrap_or_default();
        let goal = RecoveryTarget::Position(file, first.at);
        let recovery = Recovery::find_in((&named, generation), &goal, log, report)?;
        let generation = Some(recovery.generation);
        let needs = Requirements::of(&named.repository, generation)?;
        let options: Vec<String> =
            instance::FRUGAL.map(str::to_owned).into_iter().chain(needs.options(&[])?).collect();
        let wanted = Wanted {
            data_folder: None,
            server: None,
            options: &options,
            work: Some(work),
            needs: &needs,
            account: None,
        };
        let folder = wanted.work_folder()?;
        let work = folder.path();
        report.phase("opening the backup", None);
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let to = instance::Work { folder: work, jobs, is_lazy: !needs.has_outside() };
        let (_, files) = instance::readable(&named, generation, &to, stop, report)?;
        let served = data(&files, wanted, report).and_then(|data| {
            let folders = Folders { data: &data, work };
            let options = own_log::options(work)?;
            let request = StepsRequest { wanted, options, last: last.file, servers: &span.servers };
            serve(recovery, folders, request, stop, report)
        });
        let (steps, notes, own, apply) = served.map_err(|error| blamed(&files, error))?;
        let (checked, open, has_graph) = (BTreeSet::new(), None, false);
        let _work = folder;
        Ok(Some(Cascades {
            apply,
            notes,
            own,
            steps,
            files,
            _work,
            first,
            has_graph,
            checked,
            open,
            stop,
            report,
        }))
    }

    /// A transaction of the log is behind us.
    pub fn passes(&mut self, whole: &Transaction) {
        if whole.start >= self.first {
            self.steps.count(whole);
            self.has_graph &= whole.statements.is_empty();
        }
    }

    /// Brings the server to just before a transaction that is asked for.
    pub fn begin(&mut self, whole: &Transaction) -> Result<()> {
        let name =
            |schema: &str, table: &str| TableName { schema: schema.to_owned(), table: table.to_owned() };
        let of = |changes: &[Change]| -> BTreeSet<TableName> {
            let tables = whole.tables.iter();
            let tables = tables.filter(|table| {
                changes.iter().any(|change| table.rows.get(slot(*change)).is_some_and(|rows| *rows > 0))
            });
            tables.map(|table| name(&table.schema, &table.name)).collect()
        };
        let taking = of(&[Change::Update, Change::Delete]);
        if taking.is_empty() || whole.logs_cascades {
            return Ok(());
        }
        if self.has_graph && self.notes.graph().below(&taking).is_empty() {
            return Ok(());
        }
        self.steps.go(self.stop, self.report)?;
        self.report.phase("looking for rows that foreign keys changed by cascade", None);
        let graph = self.notes.look()?;
        self.has_graph = true;
        if graph.below(&taking).is_empty() {
            return Ok(());
        }
        let mut all = of(&[Change::Insert, Change::Update, Change::Delete]);
        all.extend(whole.others.iter().map(|table| name(&table.schema, &table.name)));
        let mut wanted = graph.below(&all);
        // Foreign keys that do nothing decide whether rows can be applied.
        let has_any = |table: &TableName| graph.to(table).chain(graph.of(table)).next().is_some();
        wanted.extend(all.into_iter().filter(has_any));
        refuse_statements(whole, &wanted)?;
        let (known, tables) = self.defined(&wanted)?;
        let unchecked: Vec<TableName> =
            tables.keys().filter(|table| !self.checked.contains(table)).cloned().collect();
        self.steps.check(&unchecked, self.stop, self.report)?;
        self.checked.extend(unchecked);
        self.notes.begin(&tables)?;
        self.apply.begin()?;
        self.open = Some(Open { tables, known, changes: 0 });
        Ok(())
    }

    /// The definitions of tables.
    fn defined(
        &mut self,
        wanted: &BTreeSet<TableName>,
    ) -> Result<(Known, BTreeMap<TableName, Rc<innodb::table::Table>>)> {
        let mut text = String::new();
        for table in wanted {
            let definition = self.notes.session().definition(table)?;
            text.push_str(&format!("USE {};\n{definition};\n", quote_name(&table.schema)));
        }
        let known = Known::of(text);
        let mut tables = BTreeMap::new();
        for table in wanted {
            let definition = known.by_name(&table.schema, &table.table);
            let definition = definition.with_context(|| format!("{table} has no definition"))?;
            let understood = definition
                .map_err(|why| anyhow::anyhow!("the definition of {table} is not understood: {why}"))?;
            tables.insert(table.clone(), understood);
        }
        Ok((known, tables))
    }

    /// Whether foreign keys may have to do with the rows of an event of the transaction.
    pub fn concerns(&self, event: &RowsEvent<'_>) -> bool {
        self.open.as_ref().is_some_and(|open| open.tables.contains_key(&named(event.table)))
    }

    /// Applies an event, and gives the rows of it that are asked for, and those that foreign keys changed by
    /// cascade with them: what must come back last is first.
    pub fn event(
        &mut self,
        event: &RowsEvent<'_>,
        mut take: impl FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let name = named(event.table);
        let table = open.table(event.table, &name)?;
        let form = TableForm::new(&table, &open.known).map_err(|obstacle| refusal(&obstacle, &name))?;
        let seeds = Seeds::new(self.notes.graph(), (&name, &table), event.rows);
        // A row that one of its rows changes by cascade may be another one of them, or one that another of
        // them refers to.
        let graph = self.notes.graph();
        let below = graph.below(&BTreeSet::from([name.clone()]));
        let is_single = below.contains(&name) || graph.of(&name).any(|key| below.contains(&key.parent));
        let mut parts: Vec<Part> = Vec::new();
        event.each(&table, |row, is_asked| {
            let seed = seeds.of(row, (&form, &table)).map_err(|obstacle| refusal(&obstacle, &name))?;
            let is_behind = parts.last().is_some_and(|part| !part.seeds.is_empty());
            if parts.is_empty() || is_single && (seed.is_some() || is_behind) {
                parts.push(Part::default());
            }
            if let Some(part) = parts.last_mut() {
                part.rows += 1;
                part.seeds.extend(seed.map(|tuple| (tuple, is_asked)));
                if is_single {
                    part.data.get_or_insert_default().extend(row.stored());
                }
            }
            Ok(())
        })?;
        let mut first = 0;
        for part in &parts {
            self.part(&AppliedPart { name: &name, form: &form, event, part, cause: seeds.cause }, &mut take)?;
            let own = first..first + part.rows;
            first = own.end;
            event.asked(|number, asked| match own.contains(&number) {
                true => take(Found::Own(asked)),
                false => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Applies a part of an event.
    fn part(
        &mut self,
        applied: &AppliedPart<'_>,
        take: &mut impl FnMut(Found<'_>) -> Result<()>,
    ) -> Result<()> {
        let AppliedPart { name, form, event, part, cause } = *applied;
        if self.stop.load(Ordering::Relaxed) {
            return Err(block::Error::Stopped.into());
        }
        let Cascades { notes, own, apply, open: Some(open), .. } = self else { return Ok(()) };
        // A changed row is another one to InnoDB if its primary key is.
        open.changes += part.rows as u64 * if event.rows.change == Change::Update { 2 } else { 1 };
        let mut apply = || {
            let data = part.data.as_deref().unwrap_or(&event.rows.data);
            let rows = Rows { data: data.into(), ..*event.rows };
            let done = apply.rows(event.described, &rows);
            done.with_context(|| format!("the private server can't apply rows of {name}"))
        };
        let Some(cause) = cause.filter(|_| !part.seeds.is_empty()) else { return apply() };
        let columns: Vec<&str> = form.columns.iter().map(|column| column.name.as_str()).collect();
        notes.seed((name, &columns.join(", ")), &part.seeds, cause)?;
        let levels = notes.follow(cause)?;
        apply()?;
        open.changes += notes.observe(levels, cause)?;
        let mut forms: BTreeMap<&TableName, (Rc<Table>, TableForm)> = BTreeMap::new();
        own.read(|own, change, row| {
            let Some(name) = notes.original(&own.schema, &own.name) else { return Ok(()) };
            if !forms.contains_key(name) {
                let table =
                    Table { schema: name.schema.clone(), name: name.table.clone(), ..Table::clone(own) };
                let form =
                    TableForm::new(&table, &open.known).map_err(|obstacle| refusal(&obstacle, name))?;
                forms.insert(name, (Rc::new(table), form));
            }
            let Some((table, form)) = forms.get(name) else { return Ok(()) };
            take(Found::Along(&AskedRow { row, table, change }, form))
        })
    }

    /// Takes back what was applied, when the transaction is at its end. Fails if InnoDB changed more rows
    /// than were found.
    pub fn end(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if !progress::pause(TOLD_ANEW, self.stop) {
            return Err(block::Error::Stopped.into());
        }
        let changed = self.notes.session().value(&format!(
            "SELECT trx_rows_modified FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = {}",
            self.apply.id()
        ))?;
        let changed: u64 = changed.map_or(Ok(0), |text| text.parse())?;
        ensure!(
            changed <= open.changes,
            "foreign keys changed more rows along than were found ({changed} changes, and {} are known); restore --tables --before \
             gives the tables as they were",
            open.changes
        );
        self.apply.end()?;
        self.notes.end()
    }

    /// How many transactions that were replayed are logged as statements.
    pub fn by_statement(&self) -> u64 {
        self.steps.by_statement()
    }

    /// Ends the server, and turns what was read meanwhile into an error if a block that the server needed is
    /// damaged: a server may go on after an error that it was given.
    pub fn judge<T>(self, read: Result<T>) -> Result<T> {
        match read {
            Ok(_) if is_damaged(&self.files) => Err(failure::damage(DAMAGED)),
            read => read.map_err(|error| blamed(&self.files, error)),
        }
    }
}

const DAMAGED: &str = "what the private server needs of the backup is damaged, so nothing is written";

fn is_damaged(files: &Files) -> bool {
    matches!(files, Files::Lazy(lazy) if lazy.inodes.is_damaged())
}

/// An error of a server, or that of the blocks which it was to read.
fn blamed(files: &Files, error: anyhow::Error) -> anyhow::Error {
    if is_damaged(files) { failure::damage(format!("{DAMAGED}: {error:#}")) } else { error }
}

/// The data folder, from which nothing leads outside.
fn data(files: &Files, wanted: Wanted<'_>, report: &Shared) -> Result<PathBuf> {
    report.phase("recovering", None);
    let data = instance::data(files, wanted)?;
    instance::refuse_outside(&data)?;
    Ok(data)
}

/// Starts the server on a copy, with all that asks it.
fn serve(
    recovery: Recovery<'_>,
    folders: Folders<'_>,
    request: StepsRequest<'_>,
    stop: &AtomicBool,
    report: &Shared,
) -> Result<(Steps, Notes, OwnLog, Apply)> {
    let steps = recovery.steps(folders, request, stop, report)?;
    let notes = Notes::new(steps.session()?)?;
    let own = OwnLog::open(folders.work)?;
    let apply = Apply::new(steps.session()?, &own.described)?;
    Ok((steps, notes, own, apply))
}

impl Open {
    /// A table of the log, with all that the copy knows of it.
    fn table(&self, logged_table: &Table, name: &TableName) -> Result<Table> {
        let Some(defined) = self.tables.get(name) else { bail!("{name} is not known") };
        let mut table = logged_table.clone();
        let is_same = logged(defined).count() == table.columns.len()
            && table
                .columns
                .iter()
                .zip(logged(defined))
                .all(|(own, defined)| own.name.as_ref().is_none_or(|name| *name == defined.name));
        ensure!(
            is_same,
            "{name} has other columns in the log than in the copy at that moment: is the archive of this server? restore --tables \
             --before gives it as it was"
        );
        self.known.complete(&mut table);
        Ok(table)
    }
}

fn named(table: &Table) -> TableName {
    TableName { schema: table.schema.clone(), table: table.name.clone() }
}

/// Rows of an event that are applied at once.
#[derive(Default)]
struct Part {
    /// Their images, if they are not all of the event.
    data: Option<Vec<u8>>,
    /// How many they are.
    rows: usize,
    /// The values of those from which foreign keys are followed, and whether they are asked for.
    seeds: Vec<(String, bool)>,
}

/// A part of an event, with what is known of its table.
struct AppliedPart<'a> {
    name: &'a TableName,
    form: &'a TableForm,
    event: &'a RowsEvent<'a>,
    part: &'a Part,
    /// What its rows are seeds of.
    cause: Option<Cause>,
}

/// What a statement changed is not in the log, so nobody knows from where the foreign keys went on.
fn refuse_statements(whole: &Transaction, tables: &BTreeSet<TableName>) -> Result<()> {
    for said in &whole.statements {
        let mention = TableReferences::of(&said.sql);
        let is_meant = |schema: &str, table: Option<&str>| {
            tables
                .iter()
                .any(|known| known.schema == schema && table.is_none_or(|table| known.table == table))
        };
        ensure!(
            mention.effect == Effect::None || !mention.is_about(&said.schema, is_meant),
            "a statement changed tables among which foreign keys change rows, and it is in the log instead of its rows: {}; restore \
             --tables --before gives these tables as they were",
            said.sql
        );
    }
    Ok(())
}

fn refusal(obstacle: &Obstacle, name: &TableName) -> anyhow::Error {
    anyhow::anyhow!("{name}: {}; {}", obstacle.what, obstacle.help)
}
