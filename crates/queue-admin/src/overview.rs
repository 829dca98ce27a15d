//! The queues of a server.

use std::collections::BTreeMap;

use anyhow::Context;
use progress::Progress;
use server::{Error, Session, TableName};

const STATEMENT: &str = "SELECT table_schema, table_name, waiting, owned, leased, due_later, dead, buried, behind, \
     left_out, kept, waiters, bytes, rows_written, rows_removed, keys_busy, transactions, prepared, in_doubt, paused, keys_paused, syncs, oldest_age \
     FROM information_schema.queues ORDER BY 1, 2";

/// One queue at one moment.
#[derive(Default)]
pub struct Line {
    /// `db.table`
    pub name: String,
    /// Its database.
    pub schema: String,
    /// Its table.
    pub table: String,
    /// Rows that can be taken.
    pub waiting: u64,
    /// Rows that somebody owns, that are due later, or that are dead.
    pub owned: u64,
    /// Owned rows that are leased.
    pub leased: u64,
    /// Owned rows that are due later.
    pub later: u64,
    /// Owned rows that have no tries left.
    pub dead: u64,
    /// Rows that had no tries left and went to another queue.
    pub buried: u64,
    /// Waiting rows that an earlier one of their key holds up.
    pub behind: u64,
    /// Duplicates that were left out.
    pub left_out: u64,
    /// Rows that were ended and are kept.
    pub kept: u64,
    /// Connections that wait for a row.
    pub waiters: u64,
    /// Its size on disk.
    pub bytes: u64,
    /// Rows that were written since the server's start.
    pub written: u64,
    /// Rows that were removed since the server's start.
    pub removed: u64,
    /// Keys of which somebody has a row.
    pub keys_busy: u64,
    /// Transactions that take part and are not prepared.
    pub transactions: u64,
    /// Transactions whose decision is awaited.
    pub prepared: u64,
    /// Rows of transactions in doubt: the server has forgotten their outcome, and somebody must decide it.
    pub in_doubt: u64,
    /// 1 if it is paused: nobody is given a row.
    pub paused: u64,
    /// Keys that are paused: nobody is given a row of them.
    pub keys_paused: u64,
    /// How often it was synced to the disk since the server's start.
    pub syncs: u64,
    /// `None` when there is no row.
    pub oldest_s: Option<u64>,
}

impl Line {
    /// Its name as a command line takes it: in backquotes where it needs them.
    #[must_use]
    pub fn plain_name(&self) -> String {
        TableName { schema: self.schema.clone(), table: self.table.clone() }.plain()
    }
}

/// Makes the server open these queues, because it lists only queues that were used since its start. A queue
/// that is created later is empty until it is used. Returns those that it could open, and their options.
pub fn open(
    session: &mut Session,
    is_wanted: impl Fn(&str, &str) -> bool,
    report: &dyn Progress,
) -> anyhow::Result<Vec<(TableName, String)>> {
    let mut queues = Vec::new();
    let names = session.strings(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'QUEUE' ORDER BY 1, 2",
    )?;
    for name in names {
        let Ok([Some(schema), Some(table)]) = <[Option<String>; 2]>::try_from(name) else { continue };
        if !is_wanted(&schema, &table) {
            continue;
        }
        // Unlike a SELECT from the table this needs no privilege to read, waits for no ALTER, and returns an
        // error as a comment.
        let opened = session.strings(&format!(
            "SELECT table_rows, table_comment, create_options FROM information_schema.tables \
             WHERE table_schema = {} AND table_name = {}",
            session.quote(&schema),
            session.quote(&table)
        ))?;
        match opened.first().map(Vec::as_slice) {
            Some([None, Some(why), ..]) => {
                report.warn(&format!("{} is not shown: {why}", TableName { schema, table }));
            }
            Some([.., options]) => {
                queues.push((TableName { schema, table }, options.clone().unwrap_or_default()));
            }
            // The table was dropped just now.
            _ => {}
        }
    }
    if lines(session)?.is_empty() {
        // Without the privilege PROCESS the list would be empty, and without any on a table no queue would be
        // seen; this statement fails without the first, and says what is missing.
        session.strings("SHOW ENGINE QUEUE STATUS")?;
    }
    Ok(queues)
}

/// All queues that the server has used.
pub fn lines(session: &mut Session) -> anyhow::Result<Vec<Line>> {
    let rows = session.strings(STATEMENT).map_err(|error| match error {
        // Unknown table in information_schema.
        Error::Sql { code: 1109, .. } => {
            anyhow::Error::new(error).context("the server has no ENGINE=QUEUE; run sql/queue.sql there")
        }
        error => error.into(),
    })?;
    rows.into_iter().map(|row| line(row).context("information_schema.QUEUES is of another version")).collect()
}

/// A histogram of durations: the upper limit of each class in milliseconds, none for the last, and its count.
pub type Times = Vec<(Option<u64>, u64)>;

/// How old rows of a queue were when they were given, and how long they were worked on.
#[derive(Default)]
pub struct Spans {
    /// How old they were when they were given.
    pub waited: Times,
    /// How long they were worked on.
    pub worked: Times,
}

/// The durations of all queues that the server has used, by their names.
pub fn spans(session: &mut Session) -> anyhow::Result<BTreeMap<String, Spans>> {
    let rows = session.strings(
        "SELECT CONCAT(table_schema, '.', table_name), kind, below_ms, count FROM information_schema.queue_times \
         ORDER BY 1, 2, below_ms IS NULL, below_ms",
    );
    let rows = match rows {
        // Unknown table: the server has functions of an older sql/queue.sql, without times.
        Err(Error::Sql { code: 1109, .. }) => return Ok(BTreeMap::new()),
        rows => rows?,
    };
    let mut all: BTreeMap<String, Spans> = BTreeMap::new();
    for row in rows {
        let class = |row: Vec<Option<String>>| {
            let [Some(name), Some(kind), end, Some(count)] = <[_; 4]>::try_from(row).ok()? else {
                return None;
            };
            let end = end.map(|text: String| text.parse()).transpose().ok()?;
            Some((name, kind, (end, count.parse().ok()?)))
        };
        let (name, kind, class) =
            class(row).context("information_schema.QUEUE_TIMES is of another version")?;
        let spans = all.entry(name).or_default();
        if kind == "waited" { &mut spans.waited } else { &mut spans.worked }.push(class);
    }
    Ok(all)
}

/// How far a reader of a queue is.
pub struct Reader {
    /// `db.table@reader`
    pub name: String,
    /// Rows that wait for it.
    pub waiting: u64,
    /// Rows that it was given and has not ended.
    pub owned: u64,
    /// The age of the first row that it has not ended; none if there is no such row.
    pub oldest_s: Option<u64>,
}

/// The readers of all queues that the server has used.
pub fn readers(session: &mut Session) -> anyhow::Result<Vec<Reader>> {
    let rows = session.strings(
        "SELECT CONCAT(table_schema, '.', table_name, '@', reader), waiting, owned, oldest_age \
         FROM information_schema.queue_readers ORDER BY 1",
    );
    let rows = match rows {
        // Unknown table: the server has functions of an older sql/queue.sql, without readers.
        Err(Error::Sql { code: 1109, .. }) => return Ok(Vec::new()),
        rows => rows?,
    };
    rows.into_iter()
        .map(|row| reader(row).context("information_schema.QUEUE_READERS is of another version"))
        .collect()
}

fn reader(row: Vec<Option<String>>) -> Option<Reader> {
    let [Some(name), Some(waiting), Some(owned), oldest] = <[Option<String>; 4]>::try_from(row).ok()? else {
        return None;
    };
    let oldest_s = oldest.map(|text| text.parse()).transpose().ok()?;
    Some(Reader { name, waiting: waiting.parse().ok()?, owned: owned.parse().ok()?, oldest_s })
}

fn line(row: Vec<Option<String>>) -> Option<Line> {
    let [Some(schema), Some(table), numbers @ ..] = row.as_slice() else { return None };
    let number = |text: &Option<String>| text.as_deref().map(str::parse).transpose().ok();
    let numbers: Vec<Option<u64>> = numbers.iter().map(number).collect::<Option<_>>()?;
    let (oldest_s, numbers) = numbers.split_last()?;
    let numbers: Vec<u64> = numbers.iter().copied().collect::<Option<_>>()?;
    let [
        waiting,
        owned,
        leased,
        later,
        dead,
        buried,
        behind,
        left_out,
        kept,
        waiters,
        bytes,
        written,
        removed,
        keys_busy,
        transactions,
        prepared,
        in_doubt,
        paused,
        keys_paused,
        syncs,
    ] = numbers[..]
    else {
        return None;
    };
    let (name, oldest_s) = (format!("{schema}.{table}"), *oldest_s);
    Some(Line {
        name,
        schema: schema.clone(),
        table: table.clone(),
        waiting,
        owned,
        leased,
        later,
        dead,
        buried,
        behind,
        left_out,
        kept,
        waiters,
        bytes,
        written,
        removed,
        keys_busy,
        transactions,
        prepared,
        in_doubt,
        paused,
        keys_paused,
        syncs,
        oldest_s,
    })
}
