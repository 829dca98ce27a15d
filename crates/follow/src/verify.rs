//! Compares all rows of both servers while both are written, without a lock.
//!
//! Sums of rows can be subtracted. So two snapshots that are not of the same moment can be compared: the rows
//! that the log has changed between them are left out on both sides. The parts of the tables are compared one
//! after the other, each in snapshots of its own, which are short therefore.
//!
//! What was left out was changed meanwhile, and so counts as changed since it was compared.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use dump::{CopiedTable, CopySide, Sum, TablePart};
use progress::count;
use server::{Position, Session, TableName, snapshot};

use crate::form::condition;
use crate::shared::Shared;
use crate::state::Verified;
use crate::touched::{Changed, Place, place};
use crate::{Error, Followed, Request, check};

/// Estimated bytes of what is compared in one pair of snapshots.
const STEP_BYTES: u64 = 64 << 20;
/// Keys in a condition: for more a server may scan the table.
const KEYS_MAX: usize = 500;
/// Bytes of keys that are left out of a part in one statement, where several texts may stand for the same
/// row.
const TEXT_KEYS_BYTES_MAX: usize = 1 << 20;
/// How often what can't be decided is tried again, and after which time: the follower is behind, rows are
/// changed by foreign keys, or there are too many changes.
const TRIES: u32 = 300;
const PAUSE: Duration = Duration::from_millis(200);
/// Differing rows that are named.
const NAMED_MAX: usize = 3;
/// The rows of a larger part are not held in memory to find those that differ.
const NAMED_BYTES_MAX: u64 = 512 << 20;
/// Characters of a row that are shown.
const SHOWN_CHARS: usize = 100;

/// A table that is compared.
struct Compared {
    rows: CopiedTable,
    source: TableName,
    /// Its name on the target, quoted.
    target: String,
    /// The columns of its key, quoted.
    key: Vec<String>,
    /// Whether only one SQL text stands for each key.
    is_exact: bool,
    /// Whether foreign keys change its rows.
    is_child: bool,
}

/// A part of a table, or some of its rows.
struct Piece {
    table: usize,
    part: TablePart,
    /// The keys of the rows, if not all.
    keys: Option<Vec<String>>,
}

/// What was compared and equal.
struct Found {
    sum: Sum,
    /// What transactions changed that began there or later was left out, or not compared.
    from: Place,
}

impl Found {
    fn add(&mut self, other: &Found) {
        self.sum.add(other.sum);
        self.from = self.from.min(other.from);
    }
}

/// Compares rows.
pub(crate) struct Verifier<'a> {
    request: &'a Request<'a>,
    shared: &'a Shared<'a>,
    context: dump::Context,
    tables: Vec<Compared>,
}

/// Two sessions on the source, and one on the target.
struct Sessions {
    source: Session,
    other: Session,
    target: Session,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(
        request: &'a Request<'a>,
        shared: &'a Shared<'a>,
        followed: &[Followed],
    ) -> Result<Verifier<'a>, Error> {
        let children = check::children(&mut request.from.connect()?)?;
        let context = dump::Context {
            stop: std::sync::Arc::clone(&shared.stop),
            progress: std::sync::Arc::new(progress::Silent),
            ..request.context.clone()
        };
        let of = |followed| Compared::new(&request.copy.read, followed, &children);
        let tables = followed.iter().map(of).collect::<Result<_, Error>>()?;
        Ok(Verifier { request, shared, context, tables })
    }

    /// Where nothing is told of what is read.
    pub(crate) fn context(&self) -> &dump::Context {
        &self.context
    }

    fn sessions(&self) -> Result<Sessions, Error> {
        let mut source = snapshot::connect(self.request.from)?;
        self.request.copy.read.masks.prepare(&mut source)?;
        Ok(Sessions {
            source,
            other: self.request.from.connect()?,
            target: snapshot::connect(self.request.to)?,
        })
    }

    /// Compares all rows. Returns what was compared, and from where on changes are not.
    ///
    /// # Errors
    /// [`Error::Different`] names rows; those of the servers.
    pub(crate) fn round(&self) -> Result<(Verified, Place), Error> {
        let mut sessions = self.sessions()?;
        let mut found = Found { sum: Sum::default(), from: self.reached(&mut sessions)? };
        let (mut step, mut bytes) = (Vec::new(), 0);
        for (at, table) in self.tables.iter().enumerate() {
            for part in self.parts(&mut sessions, table)? {
                if bytes + part.bytes > STEP_BYTES && !step.is_empty() {
                    found.add(&self.decide(&mut sessions, &std::mem::take(&mut step))?);
                    bytes = 0;
                }
                bytes += part.bytes;
                step.push(Piece { table: at, part, keys: None });
            }
            self.shared.say(format!(", comparing table {} of {}", at + 1, self.tables.len()));
        }
        found.add(&self.decide(&mut sessions, &step)?);
        let verified = Verified { tables: self.tables.len(), rows: found.sum.rows, at: String::new() };
        Ok((verified, found.from))
    }

    /// Compares the rows that were changed since a place. Returns from where on changes are not compared.
    ///
    /// # Errors
    /// As [`Verifier::round`].
    pub(crate) fn changed(&self, since: Place) -> Result<Place, Error> {
        let mut sessions = self.sessions()?;
        let mut found = Found { sum: Sum::default(), from: self.reached(&mut sessions)? };
        let (pieces, whole) = self.pieces(since);
        found.add(&self.decide(&mut sessions, &pieces)?);
        for at in whole {
            for part in self.parts(&mut sessions, &self.tables[at])? {
                found.add(&self.decide(&mut sessions, &[Piece { table: at, part, keys: None }])?);
            }
        }
        Ok(found.from)
    }

    /// Compares the rows that were changed since a place, while nobody writes, until a time.
    ///
    /// # Errors
    /// As [`Verifier::round`]; [`Error::NotCutOver`] if it would take too long.
    pub(crate) fn last(
        &self,
        since: Place,
        deadline: Instant,
        (source, target): (&mut Session, &mut Session),
    ) -> Result<(), Error> {
        let (pieces, whole) = self.pieces(since);
        let is_large = |at: &&usize| self.tables[**at].rows.whole().bytes > STEP_BYTES;
        if let Some(at) = whole.iter().find(is_large) {
            let table = &self.tables[*at].source;
            return Err(Error::NotCutOver(format!(
                "too much of table {table} was changed at the last moment"
            )));
        }
        let whole =
            whole.into_iter().map(|at| Piece { table: at, part: self.tables[at].rows.whole(), keys: None });
        for piece in pieces.into_iter().chain(whole) {
            if Instant::now() > deadline {
                return Err(Error::NotCutOver(
                    "it takes too long to compare what was changed last".to_owned(),
                ));
            }
            self.compare_now((source, target), &piece)?;
        }
        Ok(())
    }

    /// The parts of a table.
    fn parts(&self, sessions: &mut Sessions, table: &Compared) -> Result<Vec<TablePart>, Error> {
        let is_same_order = sessions.source.about.release() == sessions.target.about.release();
        Ok(table.rows.parts(&mut sessions.source, STEP_BYTES, is_same_order)?)
    }

    /// Where everything before is applied.
    fn reached(&self, sessions: &mut Sessions) -> Result<Place, Error> {
        Ok(place(&self.position(sessions)?))
    }

    fn position(&self, sessions: &mut Sessions) -> Result<Position, Error> {
        self.request.state.position(&mut sessions.target)
    }

    /// The rows that were changed since a place, in pieces, and the tables of which any row may be changed.
    fn pieces(&self, since: Place) -> (Vec<Piece>, Vec<usize>) {
        let (mut pieces, mut whole) = (Vec::new(), Vec::new());
        let touched = &self.shared.touched;
        let has_cascaded = touched.has_cascaded_since(since);
        for (at, table) in self.tables.iter().enumerate() {
            match touched.since(&table.target, since) {
                Changed::Keys(keys) if !(has_cascaded && table.is_child) => {
                    let of = |keys: &[String]| Piece {
                        table: at,
                        part: table.rows.whole(),
                        keys: Some(keys.to_vec()),
                    };
                    pieces.extend(keys.chunks(KEYS_MAX).map(of));
                }
                _ => whole.push(at),
            }
        }
        (pieces, whole)
    }

    /// Compares pieces until it is known whether they are equal.
    fn decide(&self, sessions: &mut Sessions, pieces: &[Piece]) -> Result<Found, Error> {
        for _ in 0..TRIES {
            let found = self.step(sessions, pieces);
            // MariaDB would log a COMMIT: a snapshot takes part in the log, and so does its savepoint.
            let ended = sessions.source.execute("ROLLBACK").and_then(|_| sessions.target.execute("ROLLBACK"));
            if let Some(found) = found? {
                ended?;
                return Ok(found);
            }
            if !self.shared.pause(PAUSE) {
                return Err(dump::Error::Stopped("the comparison is incomplete").into());
            }
        }
        let names: BTreeSet<String> =
            pieces.iter().map(|piece| self.tables[piece.table].source.to_string()).collect();
        let names: Vec<String> = names.into_iter().take(NAMED_MAX).collect();
        Err(Error::Undecided(names.join(", ")))
    }

    /// Compares pieces in two snapshots; `None` if it can't be known whether they are equal.
    fn step(&self, sessions: &mut Sessions, pieces: &[Piece]) -> Result<Option<Found>, Error> {
        let (lowest, highest) = snapshot::begin_between(&mut sessions.source, &mut sessions.other)?;
        sessions.target.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        let applied = place(&self.position(sessions)?);
        let (from, upto) = (place(&lowest).min(applied), place(&highest).max(applied));
        for session in [&mut sessions.source, &mut sessions.target] {
            session.execute("SAVEPOINT remora")?;
        }
        let mut sums = self.sums(sessions, pieces)?;
        // Nobody's DDL waits for us any more.
        for session in [&mut sessions.source, &mut sessions.target] {
            session.execute("ROLLBACK TO SAVEPOINT remora")?;
        }
        if !self.wait(upto) {
            return Ok(None);
        }
        let mut total = Sum::default();
        for (piece, (source, target)) in pieces.iter().zip(&mut sums) {
            total.add(*source);
            let Some(left_out) = self.left_out(piece, from) else { return Ok(None) };
            for keys in &left_out {
                source.subtract(self.sum((&mut sessions.source, CopySide::Source), piece, Some(keys))?);
                target.subtract(self.sum((&mut sessions.target, CopySide::Target), piece, Some(keys))?);
            }
            if source == target {
                continue;
            }
            if self.tables[piece.table].is_child && self.shared.touched.has_cascaded_since(from) {
                return Ok(None);
            }
            let sides = (&mut sessions.source, &mut sessions.target);
            let what = self.difference(sides, piece, &left_out)?;
            return Err(Error::Different { place: highest.to_string(), what });
        }
        Ok(Some(Found { sum: total, from }))
    }

    /// Waits until all changes up to there are known.
    fn wait(&self, upto: Place) -> bool {
        (0..TRIES).any(|_| self.shared.is_stopped() || self.shared.touched.wait_received(upto, PAUSE))
            && !self.shared.is_stopped()
    }

    /// The sums of pieces on both sides, which are read at the same time.
    fn sums(&self, sessions: &mut Sessions, pieces: &[Piece]) -> Result<Vec<(Sum, Sum)>, Error> {
        let Sessions { source, target, .. } = sessions;
        let of = |session: &mut Session, side| -> Result<Vec<Sum>, Error> {
            pieces.iter().map(|piece| self.sum((&mut *session, side), piece, None)).collect()
        };
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| of(source, CopySide::Source));
            let targets = of(target, CopySide::Target);
            let sources = reading.join().unwrap_or(Err(Error::Again("a comparison has ended early")))?;
            Ok(sources.into_iter().zip(targets?).collect())
        })
    }

    fn sum(
        &self,
        side: (&mut Session, CopySide),
        piece: &Piece,
        further: Option<&str>,
    ) -> Result<Sum, Error> {
        let condition = self.condition(piece, further.map(str::to_owned));
        let table = &self.tables[piece.table].rows;
        Ok(table.sum(&self.context, side, &piece.part, condition.as_deref())?)
    }

    /// The condition of a piece's rows, with others; `None` for all rows.
    fn condition(&self, piece: &Piece, others: impl IntoIterator<Item = String>) -> Option<String> {
        let own = piece.keys.as_ref().map(|keys| self.tables[piece.table].condition(keys));
        let all = own.into_iter().chain(others).map(|sql| format!("({sql})")).collect::<Vec<_>>();
        (!all.is_empty()).then(|| all.join(" AND "))
    }

    /// The conditions of the rows that are left out of a piece, since transactions changed them that began
    /// there or later; `None` if these are too many.
    fn left_out(&self, piece: &Piece, from: Place) -> Option<Vec<String>> {
        let table = &self.tables[piece.table];
        let Changed::Keys(mut keys) = self.shared.touched.since(&table.target, from) else { return None };
        if let Some(own) = piece.keys.as_ref().filter(|_| table.is_exact) {
            let own: BTreeSet<&String> = own.iter().collect();
            keys.retain(|key| own.contains(key));
        }
        let at_once = if table.is_exact { KEYS_MAX } else { usize::MAX };
        if !table.is_exact && keys.iter().map(String::len).sum::<usize>() > TEXT_KEYS_BYTES_MAX {
            return None;
        }
        Some(keys.chunks(at_once).map(|keys| table.condition(keys)).collect())
    }

    /// Names rows that differ.
    fn difference(
        &self,
        (source, target): (&mut Session, &mut Session),
        piece: &Piece,
        left_out: &[String],
    ) -> Result<String, Error> {
        let table = &self.tables[piece.table];
        if piece.keys.is_none() && piece.part.bytes > NAMED_BYTES_MAX {
            return Ok(format!("table {} has differing rows", table.source));
        }
        let condition = self.condition(piece, left_out.iter().map(|keys| format!("NOT ({keys})")));
        let of = |session, side| table.rows.rows((session, side), &piece.part, condition.as_deref());
        let (ours, theirs) = (of(source, CopySide::Source)?, of(target, CopySide::Target)?);
        let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let differing: Vec<&&String> =
            keys.iter().filter(|key| ours.get(**key) != theirs.get(**key)).collect();
        let row = |row: Option<&String>| row.map_or_else(|| "no row".to_owned(), |row| cut(row));
        let named = differing.iter().take(NAMED_MAX).map(|key| {
            format!(
                "key {}: {} on the source, {} on the target",
                cut(key),
                row(ours.get(**key)),
                row(theirs.get(**key))
            )
        });
        let named = named.collect::<Vec<_>>().join("; ");
        Ok(format!("table {} has {}, {named}", table.source, count(differing.len(), "differing row")))
    }

    /// Compares a piece while nobody writes.
    fn compare_now(
        &self,
        (source, target): (&mut Session, &mut Session),
        piece: &Piece,
    ) -> Result<(), Error> {
        let ours = self.sum((source, CopySide::Source), piece, None)?;
        let theirs = self.sum((target, CopySide::Target), piece, None)?;
        if ours == theirs {
            return Ok(());
        }
        let what = self.difference((source, target), piece, &[])?;
        Err(Error::Different { place: "at the cut-over".to_owned(), what })
    }
}

impl Compared {
    fn new(
        read: &dump::ReadRequest,
        followed: &Followed,
        children: &BTreeSet<TableName>,
    ) -> Result<Compared, Error> {
        let Followed { table, target, .. } = followed;
        let in_key = || table.columns.iter().filter(|column| table.key.contains(&column.name));
        let is_exact = in_key().all(|column| {
            column.character_set.is_none() && !["float", "double"].contains(&column.data_type.as_str())
        });
        Ok(Compared {
            rows: CopiedTable::new(read, table, target)?,
            source: table.name.clone(),
            target: target.to_string(),
            key: in_key().map(|column| server::quote_name(&column.name)).collect(),
            is_exact,
            is_child: children.contains(&table.name),
        })
    }

    /// The condition of the rows with these keys.
    fn condition(&self, keys: &[String]) -> String {
        condition(&self.key, &keys.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A text that is not too long, in quotes.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{:?}...", text.get(..at).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}
