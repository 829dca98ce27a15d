//! Rows that a relay brings to a queue.

use anyhow::{Result, bail};
use server::{Session, TableName, Target, quote_name};

use crate::column::{self, Column};
use crate::queue_table::table_engine;

/// A connection to the server whose queue gets rows. The queue notes where a row is from in the same record
/// of its log as the row: so each arrives exactly once.
pub(crate) struct Inserts {
    session: Session,
    columns: Vec<Column>,
    insert: String,
}

impl Inserts {
    /// Connects, and refuses a table that is no queue or lacks a column, and the very queue that rows come
    /// from.
    pub(crate) fn connect(
        target: &Target,
        source: &mut Session,
        [queue, into]: [&TableName; 2],
        columns: Vec<Column>,
    ) -> Result<Inserts> {
        let mut session = target.connect()?;
        session.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")?;
        let like = format!("the columns of {queue}");
        must_be_destination(&mut session, into, &like)?;
        must_be_another(source, &mut session, [queue, into])?;
        let there = column::columns(&mut session, into)?;
        let is_there = |column: &Column| {
            let name = column.name.to_lowercase();
            there.iter().any(|other| other.name.to_lowercase() == name)
        };
        if let Some(column) = columns.iter().find(|column| !is_there(column)) {
            bail!(
                "{into} has no column {} as {queue} has: add it with ALTER TABLE {into} ADD {} {}",
                column.name,
                quote_name(&column.name),
                column.written
            );
        }
        let names: Vec<String> = columns.iter().map(|column| quote_name(&column.name)).collect();
        let insert = format!("INSERT INTO {into} ({}) VALUES ", names.join(", "));
        Ok(Inserts { session, columns, insert })
    }

    pub(crate) fn reads(&self) -> Vec<String> {
        self.columns.iter().map(Column::read).collect()
    }

    pub(crate) fn send(&mut self, origin: &str, values: &[Option<String>]) -> Result<()> {
        let pairs = self.columns.iter().zip(values);
        let literals: Vec<String> = pairs.map(|(column, value)| column.literal(value.as_deref())).collect();
        let insert = format!("{}({})", self.insert, literals.join(", "));
        insert_from(&mut self.session, origin, &insert)
    }
}

/// Inserts a row, unless the queue has had the row of this origin already.
pub(crate) fn insert_from(session: &mut Session, origin: &str, insert: &str) -> Result<()> {
    let armed = format!("SELECT queue_set_origin({})", session.quote(origin));
    if session.value(&armed)?.as_deref() != Some("1") {
        bail!("the destination does not understand {origin}: is its engine of the same version?");
    }
    session.execute(insert)?;
    Ok(())
}

/// Only a queue knows which rows have already arrived. `like` says which columns one needs.
pub(crate) fn must_be_destination(session: &mut Session, into: &TableName, like: &str) -> Result<()> {
    let engine = match table_engine(session, into)? {
        Some(Some(name)) if name == "QUEUE" => return Ok(()),
        Some(Some(name)) => format!("ENGINE={name}"),
        Some(None) => "no engine: a view, or a table that cannot be opened".to_owned(),
        None => bail!(
            "the destination {into} is not there, or you have no privilege to see it: make it with ENGINE=QUEUE and {like}"
        ),
    };
    bail!(
        "the destination {into} is no queue ({engine}), and nothing there would know which rows came already: make it \
         with ENGINE=QUEUE and {like}"
    )
}

/// A queue that receives its own rows would never become empty.
fn must_be_another(source: &mut Session, destination: &mut Session, tables: [&TableName; 2]) -> Result<()> {
    // Addresses do not tell whether two servers are the same. A lock that one session holds and the other
    // sees does.
    let lock = source.value("SELECT CONCAT('remora forward ', UUID())")?.unwrap_or_default();
    let lock = source.quote(&lock);
    source.value(&format!("SELECT GET_LOCK({lock}, 0)"))?;
    let owner = destination.value(&format!("SELECT IS_USED_LOCK({lock})"))?;
    source.value(&format!("SELECT RELEASE_LOCK({lock})"))?;
    if owner.is_none() {
        return Ok(());
    }
    let folded = source.value("SELECT @@lower_case_table_names")?.as_deref() != Some("0");
    let [from, into] = tables.map(|table| {
        let name = table.to_string();
        if folded { name.to_lowercase() } else { name }
    });
    if from == into {
        bail!("{from} is source and destination: name another queue, or another server");
    }
    Ok(())
}
