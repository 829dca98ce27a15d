//! Where a generation is in the log of another server, which has the same transactions in other files and at
//! other offsets: that of a replica, for example, on which everybody continues after a failover.
//!
//! MariaDB's numbers show the place. That it is the same history is shown by the newest transaction before
//! it: both logs have the same statements and rows of it, made in the same second.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use binlog::archive::{GtidState, PositionTracker};
use binlog::event::gtid::Number;
use binlog::event::{Body, Change, Event};
use binlog::reader::Reader;
use binlog::tables::Tables;
use instance::binary_log::Position;
use transactions::{FileSource, LogFile, is_frame, names};

use crate::Log;
use crate::recovery_target::Unreachable;

/// Where the first event of a file is.
const FIRST: u64 = 4;

/// What every server logs of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    number: Number,
    hash: blake3::Hash,
}

/// A transaction that is being read.
#[derive(Default)]
struct Printing {
    number: Option<Number>,
    hasher: blake3::Hasher,
    /// What the rows were that came last. One server may write in several events what another one has in one.
    rows: Option<(String, String, Change)>,
}

impl Printing {
    /// Takes the next event; hashes it if its transaction is one that is compared.
    fn take(
        &mut self,
        event: &Event<'_>,
        body: &Body<'_>,
        tables: &Tables,
        is_compared: &dyn Fn(Number) -> bool,
    ) {
        if let Body::Gtid(gtid) = body {
            *self = Printing { number: Some(gtid.number), ..Printing::default() };
        }
        if !self.number.is_some_and(is_compared) {
            return;
        }
        let made = event.header.timestamp.to_le_bytes();
        match body {
            Body::Query(query) if !is_frame(&query.sql) => {
                self.hasher.update(&made).update(&plain(&query.sql));
            }
            Body::ExecuteLoad(_) => {
                self.hasher.update(&made);
            }
            Body::Rows(rows) => {
                let table =
                    tables.get(rows.table_id).map(|it| (it.schema.clone(), it.name.clone(), rows.change));
                if table.is_some() && self.rows != table {
                    self.hasher.update(&made).update(format!("{table:?}").as_bytes());
                    self.rows = table;
                }
                self.hasher.update(&rows.data);
            }
            _ => {}
        }
    }
}

/// A statement without what a replica adds to it: it drops what there is no more.
fn plain(sql: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(sql);
    if text.starts_with("DROP ") { text.replacen("IF EXISTS ", "", 1).into_bytes() } else { sql.to_vec() }
}

/// Where only numbers and places matter.
const NONE: &dyn Fn(Number) -> bool = &|_| false;

/// A place between transactions.
struct Spot<'a> {
    at: u64,
    /// The transactions before it.
    state: &'a GtidState,
    /// The one that ends here.
    number: Option<Number>,
    /// The same, if it is compared.
    print: Option<Print>,
}

/// Walks over a file of MariaDB, as long as `goes_on`.
fn walk(
    file: &LogFile,
    is_compared: &dyn Fn(Number) -> bool,
    mut goes_on: impl FnMut(&Spot<'_>) -> bool,
) -> Result<()> {
    let mut read = || -> Result<()> {
        let mut reader = Reader::open(FileSource::open(file, 0)?)?;
        let (mut track, mut tables, mut printing) =
            (PositionTracker::default(), Tables::default(), Printing::default());
        while let Some(event) = reader.next()? {
            tables.take(&event, |_| ())?;
            printing.take(&event, &event.parse()?, &tables, is_compared);
            track.take(&event)?;
            let (at, before) = (event.end(), track.end());
            let Some(state) = track.state.as_ref().filter(|_| before == Some(at)) else { continue };
            let number = printing.number.take();
            let print = |number: Number| Print { number, hash: printing.hasher.finalize() };
            let print = number.filter(|number| is_compared(*number)).map(print);
            if !goes_on(&Spot { at, state, number, print }) {
                break;
            }
        }
        Ok(())
    };
    read().with_context(|| file.display().to_string())
}

/// The transactions before a file.
fn head(file: &LogFile) -> Result<Option<GtidState>> {
    let mut state = None;
    walk(file, NONE, |spot| {
        state = Some(spot.state.clone());
        false
    })?;
    Ok(state)
}

/// The transactions in a log and before it.
fn end(log: &Log) -> Result<GtidState> {
    let mut state = GtidState::new();
    if let Some(last) = log.files.last() {
        walk(last, NONE, |spot| {
            state.clone_from(spot.state);
            true
        })?;
    }
    Ok(state)
}

/// The numbers of the transactions in these files that end behind a place in the first one.
fn behind(files: &[LogFile], at: u64) -> Result<Numbers> {
    let mut numbers = Numbers::default();
    for (number, file) in files.iter().enumerate() {
        walk(file, NONE, |spot| {
            if let Some(last) = spot.number.filter(|_| number > 0 || spot.at > at) {
                numbers.add(last);
            }
            true
        })?;
    }
    Ok(numbers)
}

/// The newest transaction in these files for which the question is answered with yes.
fn newest(files: &[LogFile], is_wanted: &dyn Fn(Number) -> bool) -> Result<Option<Print>> {
    for file in files.iter().rev() {
        let mut print = None;
        walk(file, is_wanted, |spot| {
            print = spot.print.or(print);
            true
        })?;
        if print.is_some() {
            return Ok(print);
        }
    }
    Ok(None)
}

/// The transactions that a generation has, by the log of the server that it was made of.
pub(crate) struct LoggedState {
    state: GtidState,
    newest: Option<Print>,
}

/// A place in the log of another server.
pub(crate) struct Found {
    pub place: Position,
    /// The transactions that the generation's own server logged behind it and the other one did not.
    pub lacks: Vec<String>,
}

impl LoggedState {
    /// Reads it in that log. `None` if the log has no such place between transactions, or if the generation
    /// says another `gtid` than the log.
    pub(crate) fn read(log: &Log, (file, at): &Position, gtid: &str) -> Result<Option<LoggedState>> {
        let files = log.from(file).unwrap_or_default();
        let Some(own) = files.first() else { return Ok(None) };
        let (mut state, mut print, mut is_first) = (None, None, true);
        walk(own, &|_| true, |spot| {
            // Before the first one there is only what every file begins with.
            if spot.at == *at || is_first && spot.at > *at {
                state = Some(spot.state.clone());
            }
            print = spot.print.filter(|_| spot.at <= *at).or(print);
            is_first = false;
            spot.at < *at
        })?;
        let Some(state) = state else { return Ok(None) };
        let mut numbers = gtid.split(',').filter_map(|number| number.parse::<Number>().ok());
        if !numbers.all(|it| state.get(&(it.domain, it.server_id)) == Some(&it.sequence)) {
            return Ok(None);
        }
        if print.is_none() {
            let earlier = log.files.len() - files.len();
            print = newest(log.files.get(..earlier).unwrap_or_default(), &|_| true)?;
        }
        Ok(Some(LoggedState { state, newest: print }))
    }

    /// The place in `log` behind the same transactions. `own` is the log of the generation's server, in which
    /// the generation is at that position.
    ///
    /// # Errors
    /// [`Unreachable`] if there is none, or if it is not proven that it is the same history.
    pub(crate) fn place(&self, (own_file, own_at): &Position, own: &Log, log: &Log) -> Result<Found> {
        let no_way = |why: &str| {
            let (own, timeline) = (&own.timeline, &log.timeline);
            Unreachable(format!(
                "the generation is in the log of another server, timeline {own} of the archive, and its place in timeline {timeline} is \
                 not known: {why}. '--timeline {own}' replays timeline {own} to its end; a generation that was made since \
                 timeline {timeline} began needs no place in another one"
            ))
        };
        let mut chosen = None;
        for (number, file) in log.files.iter().enumerate().rev() {
            if head(file)?.is_some_and(|head| self.covers(&head)) {
                chosen = Some((number, file));
                break;
            }
        }
        let Some((number, file)) = chosen else {
            return Err(no_way(&format!(
                "timeline {} begins behind the generation, or with transactions that it lacks",
                log.timeline
            ))
            .into());
        };
        let (mut at, mut here) = (FIRST, GtidState::new());
        walk(file, NONE, |spot| {
            let is_before = self.covers(spot.state);
            if is_before {
                at = spot.at;
                here.clone_from(spot.state);
            }
            is_before
        })?;
        let (later, end) = (end(own)?, end(log)?);
        self.prove_equal(&here, (&later, &end)).map_err(|why| no_way(&why))?;
        let files = log.files.get(..=number).unwrap_or_default();
        let same = match self.newest {
            Some(own) => newest(files, &|number| number == own.number)?.map(|print| print == own),
            None => None,
        };
        match same {
            Some(true) => {}
            Some(false) => {
                let newest = self.newest.map(|print| print.number.to_string()).unwrap_or_default();
                return Err(no_way(&format!(
                    "{newest} is logged otherwise there: it is another history with the same GTIDs, or that server logs in another way \
                     (binlog_format, binlog_row_image)"
                ))
                .into());
            }
            None => {
                return Err(
                    no_way("no transaction that both logs have shows that it is the same history").into()
                );
            }
        }
        let of_own = behind(own.from(own_file).unwrap_or_default(), *own_at)?;
        let of_other = behind(log.files.get(number..).unwrap_or_default(), at)?;
        if let Some(name) = of_other.any_of(&self.state) {
            return Err(no_way(&format!(
                "that server logged {name}, which the generation has, behind others that it lacks"
            ))
            .into());
        }
        let lacks = of_own.without(of_other);
        Ok(Found { place: (names::file(file), at), lacks })
    }

    /// Whether the generation has this one.
    pub(crate) fn has(&self, Number { domain, server_id, sequence }: Number) -> bool {
        self.state.get(&(domain, server_id)).is_some_and(|last| sequence <= *last)
    }

    /// The newest transaction that the generation has, if the log reaches back to it.
    pub(crate) fn newest(&self) -> Option<Number> {
        self.newest.map(|print| print.number)
    }

    /// Whether the generation has all of these.
    fn covers(&self, state: &GtidState) -> bool {
        state.iter().all(|(of, last)| self.state.get(of).is_some_and(|own| own >= last))
    }

    /// The transactions before the place, which the generation has, are all that it has. `later` is the end
    /// of its own log, `end` that of the other one. Else why not.
    fn prove_equal(&self, here: &GtidState, (later, end): (&GtidState, &GtidState)) -> Result<(), String> {
        let mut domains: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        for ((domain, server), last) in &self.state {
            let newest = domains.entry(*domain).or_default();
            if newest.1 <= *last {
                *newest = (*server, *last);
            }
        }
        for (domain, (server, last)) in domains {
            let of = |state: &GtidState| -> GtidState {
                state.iter().filter(|((own, _), _)| *own == domain).map(|(of, last)| (*of, *last)).collect()
            };
            let (own, here) = (of(&self.state), of(here));
            // Nothing has happened in it since the other log began.
            if here.is_empty() && of(end).is_empty() && of(later) == own {
                continue;
            }
            let name = format!("{domain}-{server}-{last}");
            if end.get(&(domain, server)).is_none_or(|end| *end < last) {
                return Err(format!("the generation has {name}, which that server has not logged"));
            }
            if here.is_empty() {
                return Err(format!(
                    "it does not reach back to {name}, the generation's last one of that domain"
                ));
            }
            let is_equal = here.iter().all(|(of, last)| own.get(of) == Some(last));
            if !is_equal || !here.contains_key(&(domain, server)) {
                return Err(format!(
                    "that server logged {name} in another order with those of other domains, or not all before it"
                ));
            }
        }
        Ok(())
    }
}

/// Numbers of transactions, by domain and server.
#[derive(Default)]
struct Numbers(BTreeMap<(u32, u32), Vec<RangeInclusive<u64>>>);

impl Numbers {
    fn add(&mut self, Number { domain, server_id, sequence }: Number) {
        let runs = self.0.entry((domain, server_id)).or_default();
        match runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(sequence) => *run = *run.start()..=sequence,
            _ => runs.push(sequence..=sequence),
        }
    }

    /// The name of one that is among these transactions, if there is one.
    fn any_of(&self, state: &GtidState) -> Option<String> {
        self.0.iter().find_map(|(of, runs)| {
            let last = state.get(of)?;
            let run = runs.iter().find(|run| run.start() <= last)?;
            Some(format!("{}-{}-{}", of.0, of.1, run.start()))
        })
    }

    /// Those that the others do not have: `0-1-5`, or `0-1-5 to 0-1-9`.
    fn without(mut self, mut others: Numbers) -> Vec<String> {
        let mut lacks = Vec::new();
        for ((domain, server), runs) in &mut self.0 {
            let mut others = others.0.remove(&(*domain, *server)).unwrap_or_default();
            for runs in [&mut *runs, &mut others] {
                runs.sort_by_key(|run| *run.start());
            }
            let mut tell = |from: u64, to: u64| {
                let name = |number: u64| format!("{domain}-{server}-{number}");
                lacks.push(if from == to { name(from) } else { format!("{} to {}", name(from), name(to)) });
            };
            for run in runs {
                let mut next = *run.start();
                for other in
                    others.iter().filter(|other| other.end() >= run.start() && other.start() <= run.end())
                {
                    if next < *other.start() {
                        tell(next, other.start() - 1);
                    }
                    next = next.max(other.end().saturating_add(1));
                }
                if next <= *run.end() {
                    tell(next, *run.end());
                }
            }
        }
        lacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_log_lacks_is_named_wherever_it_is() {
        let of = |numbers: &[(u32, u64)]| {
            let mut all = Numbers::default();
            for &(domain, sequence) in numbers {
                all.add(Number { domain, server_id: 1, sequence });
            }
            all
        };
        let own = || of(&[(0, 5), (0, 6), (0, 7), (0, 8), (0, 9), (2, 1)]);
        assert!(own().without(own()).is_empty());
        assert_eq!(own().without(of(&[])), ["0-1-5 to 0-1-9", "2-1-1"]);
        assert_eq!(own().without(of(&[(0, 8), (0, 5), (0, 6), (2, 1), (0, 30)])), ["0-1-7", "0-1-9"]);
        assert_eq!(own().without(of(&[(0, 1), (0, 2), (0, 9), (0, 10), (2, 1)])), ["0-1-5 to 0-1-8"]);
    }

    #[test]
    fn a_replica_drops_what_there_is_no_more() {
        assert_eq!(plain(b"DROP TABLE IF EXISTS `t`"), b"DROP TABLE `t`");
        assert_eq!(plain(b"INSERT INTO t VALUES ('IF EXISTS ')"), b"INSERT INTO t VALUES ('IF EXISTS ')");
    }
}
