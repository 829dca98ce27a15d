//! Takes the transactions of a walk, and gathers what takes them back.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow};
use binlog::column::Type;
use binlog::event::Change;
use binlog::event::table::Table;
use binlog::row::Row;
use humanize::date_time;
use server::XaName;
use server::catalogue::Wanted;
use transactions::table_references::{Effect, TableReferences};
use transactions::{
    Again, Asked, AskedRow, Filter, Known, LogFile, Place, RowsEvent, Take, Transaction, Xa, names,
};

use crate::cascades::{Cascades, Found};
use crate::spool::Spool;
use crate::statement::{self, Statement};
use crate::table_form::{Obstacle, TableForm, TableForms};
use crate::undo_record::{Record, Records, STATEMENT_MAX};

/// Transactions whose names are kept, for people.
const NAMES_MAX: usize = 20;

/// What is gathered.
pub struct Undo<'a> {
    pub(crate) files: &'a [LogFile],
    pub(crate) filter: &'a Filter,
    pub(crate) known: &'a Known,
    /// Whether changes of a table's definition are the user's business.
    pub despite_ddl: bool,
    /// Finds the rows that foreign keys changed by cascade.
    pub cascades: Option<Cascades<'a>>,
    again: Again<'a>,
    forms: TableForms,
    records: Records,
    /// What was gathered so far.
    pub sums: Sums,
    /// Prepared transactions, and how messages call them: it is not known yet whether they are committed.
    prepared: BTreeMap<XaName, String>,
}

/// What was gathered.
#[derive(Default)]
pub struct Sums {
    /// How many transactions are taken back.
    pub transactions: u64,
    /// The first ones, with their times.
    pub names: Vec<String>,
    /// The tables whose rows are put back.
    pub tables: BTreeMap<(String, String), Sum>,
    /// Tables of the same transactions that are not asked for.
    pub others: BTreeSet<(String, String)>,
    /// Changes of definitions that the user takes responsibility for.
    pub definitions: Vec<String>,
    /// Whether rows that foreign keys changed by cascade are among them.
    pub has_cascades: bool,
    /// Whether that is not in the log of a transaction.
    pub lacks_cascades: bool,
    /// How many transactions are taken back without a check of foreign keys.
    pub unchecked: u64,
    /// Statements instead of rows that do not name what is asked for.
    pub passed_over: u64,
    /// How many transactions that the copy was given for that are logged as statements.
    pub by_statement: u64,
    /// Where the walk is, for people.
    pub end: String,
    /// No statement has more bytes than that.
    pub longest: u64,
}

/// What is done to a table.
pub struct Sum {
    /// Rows that are inserted, updated, deleted again.
    pub rows: [u64; 3],
    /// Those of them that a foreign key changed by cascade.
    pub taken_along: u64,
    /// Columns, as they were.
    columns: Vec<Column>,
    pub has_key: bool,
}

/// What the log says of a column: its name, if it says that, and its type.
type Column = (Option<String>, Type);

fn columns(table: &Table) -> Vec<Column> {
    table.columns.iter().map(|column| (column.name.clone(), column.kind)).collect()
}

/// Whether these are the columns of another table. A log may not say names.
fn differ(one: &[Column], other: &[Column]) -> bool {
    let is_other = |(one, other): (&Column, &Column)| {
        one.1 != other.1 || one.0.is_some() && other.0.is_some() && one.0 != other.0
    };
    one.len() != other.len() || one.iter().zip(other).any(is_other)
}

impl Sums {
    /// Gathers what takes a row back. The inner result is that of writing.
    fn row(
        &mut self,
        asked: &AskedRow<'_>,
        form: &TableForm,
        records: &mut Records,
        is_taken_along: bool,
    ) -> Result<Result<()>, Obstacle> {
        let table = asked.table;
        let Some(back) = statement::back(form, table, &asked.row)? else { return Ok(Ok(())) };
        let key = (table.schema.clone(), table.name.clone());
        let sum = self.tables.entry(key).or_insert_with(|| Sum {
            rows: [0; 3],
            taken_along: 0,
            columns: columns(table),
            has_key: form.has_key,
        });
        sum.rows[match asked.change {
            Change::Delete => 0,
            Change::Update => 1,
            Change::Insert => 2,
        }] += 1;
        sum.taken_along += u64::from(is_taken_along);
        Ok(match &back {
            Statement::Insert(tuple) => records.insert(form, tuple),
            Statement::Other(sql) => records.add(&Record::Statement(sql)),
        })
    }
}

/// Gathers what takes back the rows of a transaction.
struct Gather<'g, 'a> {
    name: &'g str,
    known: &'a Known,
    forms: &'g mut TableForms,
    records: &'g mut Records,
    sums: &'g mut Sums,
    cascades: Option<&'g mut Cascades<'a>>,
    /// Whether the log says which rows foreign keys changed.
    tells_cascades: bool,
}

impl Gather<'_, '_> {
    fn event(&mut self, event: &RowsEvent<'_>) -> Result<()> {
        let Gather { name, known, forms, records, sums, cascades, tells_cascades } = self;
        let is_along = *tells_cascades && event.rows.is_unchecked();
        match is_along {
            true => records.begin_order()?,
            false => records.end_order()?,
        }
        let mut own = |asked: &AskedRow<'_>, records: &mut Records, sums: &mut Sums| {
            if is_along && is_redone(&asked.row) {
                return Ok(());
            }
            let form = forms.of(asked.table, known);
            let done = form.and_then(|form| sums.row(asked, &form, records, is_along));
            written(done, name, asked)
        };
        let is_logged = event.rows.logs_cascades();
        let Some(cascades) = cascades.as_mut().filter(|it| !is_logged && it.concerns(event)) else {
            return event.asked(|_, asked| own(asked, records, sums));
        };
        let take = |found: Found<'_>| match found {
            Found::Own(asked) => own(asked, records, sums),
            Found::Along(asked, form) => written(sums.row(asked, form, records, true), name, asked),
        };
        cascades.event(event, take).with_context(|| (*name).to_owned())
    }
}

/// Whether the foreign key that changed a row changes it back: ON UPDATE CASCADE does, SET NULL does not.
fn is_redone(row: &Row<'_>) -> bool {
    let (Some(before), Some(after)) = (row.before, row.after) else { return false };
    before
        .cells()
        .zip(after.cells())
        .any(|(before, after)| before.bytes != after.bytes && after.bytes.is_some())
}

fn written(done: Result<Result<()>, Obstacle>, transaction: &str, asked: &AskedRow<'_>) -> Result<()> {
    done.map_err(|obstacle| refusal(&obstacle, transaction, asked.table))?
        .with_context(|| "the temporary file")
}

impl<'a> Undo<'a> {
    /// Gathers what a filter lets through.
    pub fn new(files: &'a [LogFile], filter: &'a Filter, known: &'a Known, spool: Spool) -> Undo<'a> {
        Undo {
            files,
            filter,
            known,
            despite_ddl: false,
            cascades: None,
            again: Again::new(files, filter, known),
            forms: TableForms::default(),
            records: Records::new(spool),
            sums: Sums::default(),
            prepared: BTreeMap::new(),
        }
    }

    /// What was gathered, when the walk is at its end.
    pub fn finish(self) -> Result<(Records, Sums)> {
        if let Some(name) = self.prepared.into_values().next() {
            return Err(anyhow!(
                "{name} was prepared (XA PREPARE), and these files do not say whether it was committed: name the later files of \
                 the log too, or leave it out"
            ));
        }
        let longest = self.records.longest();
        if longest > STATEMENT_MAX {
            return Err(anyhow!(
                "a row needs a statement of {}, and servers take {} at most: bring it back from a backup (remora restore)",
                progress::size(longest),
                progress::size(STATEMENT_MAX)
            ));
        }
        Ok((self.records, Sums { longest, ..self.sums }))
    }

    fn name(&self, whole: &Transaction) -> String {
        names::gtid(whole.name).unwrap_or_else(|| self.place(whole.start))
    }

    fn place(&self, place: Place) -> String {
        let file = self.files.get(place.file).map(|path| names::file(path)).unwrap_or_default();
        format!("{file}:{}", place.at)
    }

    /// Refuses statements that can't be taken back, and changes of what was taken back already.
    fn statements(&mut self, whole: &Transaction, is_asked: bool) -> Result<()> {
        for said in &whole.statements {
            let mention = TableReferences::of(&said.sql);
            if mention.effect == Effect::None {
                continue;
            }
            let redefined = self
                .sums
                .tables
                .keys()
                .find(|(schema, table)| mention.redefines(&said.schema, schema, table));
            let text = short(&said.sql);
            let name = self.name(whole);
            if let Some((schema, table)) = redefined {
                self.redefined(&format!("{schema}.{table}"), &format!("{name} changed what it is: {text}"))?;
                continue;
            }
            let tables = &self.filter.tables;
            let is_meant = tables.include.is_empty()
                || mention.is_about(&said.schema, |schema, table| match table {
                    Some(table) => tables.table(schema, table),
                    None => tables.schema(schema),
                });
            if is_asked && !is_meant && mention.effect == Effect::Rows {
                self.sums.passed_over += 1;
            }
            if is_asked && is_meant && !(self.despite_ddl && mention.effect == Effect::Definition) {
                let place = self.place(whole.start);
                let name = if name == place { name } else { format!("{name} at {place}") };
                return Err(anyhow!(
                    "{name} has a statement instead of rows, so nobody knows what was there before: {text}; choose other \
                     transactions, or tables that it does not change with --table. What it changed is only in a backup \
                     (remora restore)"
                ));
            }
        }
        Ok(())
    }

    /// A table is another one now than it was.
    fn redefined(&mut self, table: &str, how: &str) -> Result<()> {
        if !self.despite_ddl {
            return Err(anyhow!(
                "{table} is another table now than when its rows were changed: {how}. Restore a backup of before into another \
                 server (remora restore) and copy the rows from there; or, if its columns are what they were, say --despite-ddl"
            ));
        }
        self.sums.definitions.push(format!("{table}: {how}"));
        Ok(())
    }

    /// Refuses a transaction that is not known whole.
    fn known(&self, whole: &Transaction) -> Result<()> {
        let Some((kind, at)) = whole.unknown.first() else { return Ok(()) };
        Err(anyhow!(
            "{} has an event of an unknown kind ({} at {at}), which may have changed rows; leave it out",
            self.name(whole),
            kind.name()
        ))
    }

    /// Refuses a transaction whose rows say nothing certain.
    fn certain(&mut self, whole: &Transaction) -> Result<()> {
        let name = self.name(whole);
        if whole.is_rolled_back {
            return Err(anyhow!(
                "{name} was rolled back, and tables without transactions (MyISAM, Aria) kept what it did: which of its rows were \
                 kept is not in the log; leave it out, or look at it with remora log --rows"
            ));
        }
        if whole.is_partly_undone {
            return Err(anyhow!(
                "{name} has ROLLBACK TO a savepoint, so some of its rows were taken back; leave it out, or look at it with \
                 remora log --rows"
            ));
        }
        if let Xa::Prepared(xid) = &whole.xa {
            self.prepared.insert(xid.clone(), name);
        }
        Ok(())
    }

    fn asked(&mut self, whole: &Transaction) -> Result<()> {
        self.certain(whole)?;
        let name = self.name(whole);
        let Undo { again, forms, records, sums, known, cascades, .. } = self;
        if let Some(cascades) = cascades {
            cascades.begin(whole).with_context(|| name.clone())?;
        }
        let with_cascades = cascades.as_mut();
        sums.lacks_cascades |= !whole.logs_cascades;
        // Where a session checks no foreign keys, all of its rows look like those that they change; so do the
        // rows of a table that refers to itself. The log has them all, but perhaps in no order that can be
        // checked.
        let is_unchecked = whole.logs_cascades && whole.is_unchecked;
        let tells_cascades = whole.logs_cascades && !whole.is_unchecked;
        if is_unchecked {
            sums.unchecked += 1;
            records.add(&Record::Setting("foreign_key_checks = 1"))?;
        }
        let mut gather =
            Gather { name: &name, known, forms, records, sums, cascades: with_cascades, tells_cascades };
        again.events(whole, |event| gather.event(event))?;
        self.records.end_order()?;
        if is_unchecked {
            self.records.add(&Record::Setting("foreign_key_checks = 0"))?;
        }
        if let Some(cascades) = cascades {
            cascades.end().with_context(|| name.clone())?;
        }
        let time = date_time::shown(whole.time);
        let mut statements: Vec<String> =
            whole.tables.iter().filter_map(|table| table.statement.as_deref()).map(short).collect();
        statements.dedup();
        self.records.add(&Record::Note(&format!("{name}  {time}  {}", statements.join("; "))))?;
        self.sums.transactions += 1;
        if self.sums.names.len() < NAMES_MAX {
            self.sums.names.push(format!("{name}  {time}"));
        }
        for other in &whole.others {
            self.sums.others.insert((other.schema.clone(), other.name.clone()));
        }
        Ok(())
    }
}

fn refusal(obstacle: &Obstacle, transaction: &str, table: &Table) -> anyhow::Error {
    anyhow!("{}.{} in {transaction}: {}; {}", table.schema, table.name, obstacle.what, obstacle.help)
}

/// A statement in one line.
fn short(sql: &str) -> String {
    const CHARS_MAX: usize = 160;
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

impl Take for Undo<'_> {
    fn table(&mut self, table: &Table) -> Result<()> {
        let key = (table.schema.clone(), table.name.clone());
        let is_other = self.sums.tables.get(&key).is_some_and(|sum| differ(&sum.columns, &columns(table)));
        if is_other {
            self.redefined(&format!("{}.{}", key.0, key.1), "later rows in the log have other columns")?;
        }
        Ok(())
    }

    fn transaction(&mut self, whole: &Transaction, asked: Asked) -> Result<()> {
        self.statements(whole, asked != Asked::No)?;
        if asked != Asked::No {
            self.known(whole)?;
        }
        match &whole.xa {
            Xa::Committed(xid) => drop(self.prepared.remove(xid)),
            Xa::RolledBack(xid) => {
                if let Some(name) = self.prepared.remove(xid) {
                    return Err(anyhow!(
                        "{name} was prepared (XA PREPARE) and rolled back later: it changed nothing; leave it out"
                    ));
                }
            }
            Xa::No | Xa::Prepared(_) => {}
        }
        if asked == Asked::Yes && !whole.tables.is_empty() {
            self.asked(whole)?;
        }
        if let Some(cascades) = &mut self.cascades {
            cascades.passes(whole);
        }
        self.sums.end = format!("{} ({})", self.place(whole.end), date_time::shown(whole.time));
        Ok(())
    }
}
