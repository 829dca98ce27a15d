//! How much remora's own statements add to a server's counters, so that it can be subtracted.
//!
//! A server counts for each session what it counts globally. So reading our own session's counters before and
//! after a statement shows the statement's effect. Reading has an effect too, which reading twice shows. A
//! statement with the same effect each time is measured once; only the length of its answer, which varies
//! with the digits, is taken into account each time.

use std::collections::BTreeMap;
use std::ops::Sub;

use server::{Error, RowSink, Session};

use super::kind::{self, Kind, Unit};
use super::number::Number;
use super::status_query::{PLACES, Place, Queries};

/// Counters of one session, by name.
pub(crate) type Counts = BTreeMap<Box<str>, Number>;

/// A row as pairs of column and text.
pub(crate) type NamedRow = Vec<(String, String)>;

/// What a SHOW STATUS with this many rows adds to the global counters and not to those of its session, as
/// measured on MySQL 9.7: it writes the rows into a temporary table and reads each of them twice.
fn unseen(rows: usize) -> [(&'static str, u64); 7] {
    let rows = rows as u64;
    [
        ("Created_tmp_tables", 1),
        ("Handler_external_lock", 2),
        ("Handler_read_rnd_next", 2 * rows + 2),
        ("Handler_write", rows),
        ("Select_scan", 2),
        ("Table_locks_immediate", 1),
        ("Table_open_cache_hits", 2),
    ]
}

/// What other statements add to the global counters only, as measured on MariaDB 10.11 and MySQL 9.7.
fn unseen_of(statement: &str, is_show: bool) -> Vec<(&'static str, u64)> {
    let tables = statement.matches("performance_schema.").count() as u64;
    let mut unseen = vec![("Table_locks_immediate", tables)];
    if is_show {
        unseen
            .push(("Option_tracker_usage:traditional optimizer", u64::from(statement.starts_with("SELECT"))));
        unseen.push(("Deprecated_use_i_s_processlist_count", u64::from(statement.contains("PROCESSLIST"))));
    }
    unseen.retain(|(_, count)| *count > 0);
    unseen
}

/// A table of text as received.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    /// Where each cell ends; `None` for NULL.
    cells: Vec<Option<usize>>,
    rows: usize,
    /// The bytes of the rows on the wire.
    wire: usize,
    /// Where the current cell begins.
    from: usize,
}

impl Answer {
    /// The rows; NULL is `None`.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Option<&str>>> {
        let mut from = 0;
        let columns = self.cells.len().checked_div(self.rows).unwrap_or(1).max(1);
        self.cells.chunks(columns).map(move |row| {
            row.iter()
                .map(|end| {
                    let cell = end.map(|end| &self.bytes[from..end]);
                    from = end.unwrap_or(from);
                    cell.map(|cell| std::str::from_utf8(cell).unwrap_or("?"))
                })
                .collect()
        })
    }

    /// Pairs of name and value, the first two columns.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = |from: usize, to: usize| std::str::from_utf8(&self.bytes[from..to]).unwrap_or("?");
        let mut from = 0;
        self.cells.chunks_exact(2).map(move |row| {
            let name_end = row[0].unwrap_or(from);
            let end = row[1].unwrap_or(name_end);
            let pair = (text(from, name_end), text(name_end, end));
            from = end;
            pair
        })
    }
}

impl RowSink for Answer {
    fn part(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end_value(&mut self) {
        let length = self.bytes.len() - self.from;
        // A length-encoded integer comes before each text.
        self.wire += length
            + match length {
                0..=250 => 1,
                251..=0xffff => 3,
                0x1_0000..=0xff_ffff => 4,
                _ => 9,
            };
        self.from = self.bytes.len();
        self.cells.push(Some(self.from));
    }

    fn null(&mut self) {
        self.wire += 1;
        self.cells.push(None);
    }

    fn end_row(&mut self) -> std::io::Result<()> {
        // The head of its packet.
        self.wire += 4;
        self.rows += 1;
        Ok(())
    }
}

/// What a statement adds to the counters.
#[derive(Clone, Debug, Default)]
struct Effect {
    counts: Counts,
    /// The bytes of the answer's rows when it was measured.
    answer: usize,
}

/// Whether a statement has the same effect each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Yes, except for the length of its answer: it is measured once.
    Same,
    /// No, it depends on the contents: it is measured each time.
    Varies,
}

/// A session that knows its own effect on the counters.
#[derive(Debug)]
pub(crate) struct MeasuredSession {
    session: Session,
    place: Place,
    queries: Queries,
    effects: BTreeMap<Box<str>, Effect>,
    /// The effect of reading our session's counters.
    look: Effect,
    /// The bytes of the rows of the last look, which its own result does not have.
    looked: usize,
    /// The last result, with the effects of what was asked since. A look costs a server a millisecond, so
    /// what is known is not looked at again; the next look is exact in any case, as it counts all that was
    /// asked.
    seen: Option<Counts>,
    /// Effects that were not subtracted yet.
    own: Counts,
}

impl MeasuredSession {
    /// `names`: the status variables that are wanted, or none for all.
    pub(crate) fn new(mut session: Session, names: &[&str]) -> Result<MeasuredSession, Error> {
        let place = find(&mut session)?;
        let (queries, own) = (place.queries(names), Counts::new());
        let (effects, look, looked, seen) = (BTreeMap::new(), Effect::default(), 0, None);
        let mut new = MeasuredSession { session, place, queries, effects, look, looked, seen, own };
        new.measure_look()?;
        new.take();
        Ok(new)
    }

    /// Changes which status variables are wanted: those with these names, or with none all. What statements
    /// add to the others is measured again.
    pub(crate) fn want(&mut self, names: &[&str]) -> Result<(), Error> {
        self.queries = self.place.queries(names);
        self.effects.clear();
        self.measure_look()
    }

    /// Measures what a look adds.
    fn measure_look(&mut self) -> Result<(), Error> {
        let (first, answer) = counts(&mut self.session, &self.queries)?;
        let (second, last) = counts(&mut self.session, &self.queries)?;
        self.look = Effect { counts: less(&second, &first), answer: answer.wire };
        self.looked = last.wire;
        for answer in [answer, last] {
            add(&mut self.own, &self.look, answer.wire);
            self.add_unseen(&answer);
        }
        self.seen = Some(second);
        Ok(())
    }

    /// Asks for the global status.
    pub(crate) fn status(&mut self) -> Result<Answer, Error> {
        let query = self.queries.global.clone();
        self.ask(&query, Cost::Same)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Runs a query and records its effect.
    pub(crate) fn ask(&mut self, statement: &str, cost: Cost) -> Result<Answer, Error> {
        self.add_counts(&unseen_of(statement, self.place.is_show));
        if cost == Cost::Same && self.effects.contains_key(statement) {
            // If it fails, it is not known what it has added.
            let seen = self.seen.take();
            let answer = stream(&mut self.session, statement)?;
            let effect = &self.effects[statement];
            add(&mut self.own, effect, answer.wire);
            self.seen = seen.map(|seen| with(seen, effect, answer.wire));
            if statement.starts_with(self.place.global) {
                self.add_unseen(&answer);
            }
            return Ok(answer);
        }
        let (asked, counts) = self.counted(|session| stream(session, statement))?;
        if let Some(answer) = asked.as_ref().ok().filter(|_| statement.starts_with(self.place.global)) {
            self.add_unseen(answer);
        }
        let answer = asked.as_ref().map_or(0, |answer| answer.wire);
        let effect = Effect { counts, answer };
        add(&mut self.own, &effect, answer);
        self.effects.insert(statement.into(), effect);
        asked
    }

    /// Lets somebody else ask over the session, and records the effect.
    pub(crate) fn measure<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (asked, counts) = self.counted(ask)?;
        let effect = Effect { counts, answer: 0 };
        add(&mut self.own, &effect, 0);
        asked
    }

    /// Asks, and returns the answer with what it added to the counters of our session.
    fn counted<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<(Result<T, Error>, Counts), Error> {
        let before = match self.seen.take() {
            Some(seen) => seen,
            None => self.look()?,
        };
        let asked = ask(&mut self.session);
        // The look before it is not in its own result.
        let mut look = Counts::new();
        add(&mut look, &self.look, self.looked);
        let after = self.look()?;
        let mut counts = less(&after, &before);
        for (name, count) in &look {
            let entry = counts.entry(name.clone()).or_default();
            *entry = floor(*entry - *count);
        }
        self.seen = Some(after);
        Ok((asked, counts))
    }

    /// The counters of our session. Reading them has an effect too.
    fn look(&mut self) -> Result<Counts, Error> {
        let (counts, answer) = counts(&mut self.session, &self.queries)?;
        add(&mut self.own, &self.look, answer.wire);
        self.looked = answer.wire;
        self.add_unseen(&answer);
        Ok(counts)
    }

    /// Adds the part of a look at the status that our session's counters do not show.
    fn add_unseen(&mut self, answer: &Answer) {
        if !self.place.is_show {
            return;
        }
        self.add_counts(&unseen(answer.rows));
    }

    fn add_counts(&mut self, counts: &[(&str, u64)]) {
        for (name, count) in counts {
            let entry = self.own.entry((*name).into()).or_default();
            *entry = *entry + Number::from(*count);
        }
    }

    /// Repeats a statement that was asked before. Returns the answer with column names.
    pub(crate) fn named(&mut self, statement: &str) -> Result<Vec<NamedRow>, Error> {
        let seen = self.seen.take();
        let rows = self.session.named_rows(statement)?;
        if let Some(effect) = self.effects.get(statement) {
            add(&mut self.own, effect, effect.answer);
            self.seen = seen.map(|seen| with(seen, effect, effect.answer));
        }
        Ok(rows)
    }

    /// The effects since the last call.
    pub(crate) fn take(&mut self) -> Counts {
        std::mem::take(&mut self.own)
    }
}

/// The first place that this server has.
fn find(session: &mut Session) -> Result<Place, Error> {
    let mut last = Err(Error::Protocol { what: "the server has no status".to_owned() });
    for place in PLACES {
        last = match stream(session, place.global) {
            Ok(answer) if answer.rows > 0 => return Ok(place),
            Ok(_) => continue,
            Err(error) if error.code().is_none() || error.is_connection_lost() => return Err(error),
            Err(error) => Err(error),
        };
    }
    last
}

fn floor(number: Number) -> Number {
    number.max(Number::default())
}

fn less(after: &Counts, before: &Counts) -> Counts {
    let zero = Number::default();
    let changes = after
        .iter()
        .map(|(name, after)| (name.clone(), after.sub(before.get(name).copied().unwrap_or(zero))));
    changes.filter(|(_, change)| *change > zero).collect()
}

/// Adds an effect whose answer had this length.
fn add(own: &mut Counts, effect: &Effect, answer: usize) {
    for (name, count) in &effect.counts {
        let entry = own.entry(name.clone()).or_default();
        *entry = *entry + *count;
    }
    if let Some(sent) = own.get_mut("Bytes_sent") {
        let length = |bytes: usize| Number::from(bytes as u64);
        *sent = floor(*sent + length(answer) - length(effect.answer));
    }
}

/// Counters after an effect.
fn with(mut counts: Counts, effect: &Effect, answer: usize) -> Counts {
    add(&mut counts, effect, answer);
    counts
}

fn stream(session: &mut Session, statement: &str) -> Result<Answer, Error> {
    let mut answer = Answer::default();
    session.stream(statement, &mut answer)?;
    Ok(answer)
}

/// The counters of our session, and the answer that has them.
fn counts(session: &mut Session, queries: &Queries) -> Result<(Counts, Answer), Error> {
    let answer = stream(session, &queries.session)?;
    Ok((counts_of(&answer), answer))
}

/// The counters of an answer. Times are left out, because they always differ.
fn counts_of(answer: &Answer) -> Counts {
    let mut counts = Counts::new();
    for (name, value) in answer.pairs() {
        let ty = kind::of(name);
        if ty.kind != Kind::Counter || !ty.per_session || matches!(ty.unit, Unit::Time(_)) {
            continue;
        }
        if let Some(number) = Number::parse(value) {
            let name = kind::written(name);
            if name == "Questions" {
                // Per session the server counts only Questions; each of ours is one query.
                counts.insert("Queries".into(), number);
            }
            counts.insert(name.into(), number);
        }
    }
    counts
}

#[cfg(test)]
impl Answer {
    /// An answer of rows of the same length.
    pub(super) fn of(rows: &[&[Option<&str>]]) -> Answer {
        let mut answer = Answer::default();
        for row in rows {
            for cell in *row {
                match cell {
                    Some(text) => {
                        // A value may come in parts.
                        let (front, back) = text.split_at(text.len() / 2);
                        answer.part(front.as_bytes()).unwrap();
                        answer.part(back.as_bytes()).unwrap();
                        answer.end_value();
                    }
                    None => answer.null(),
                }
            }
            answer.end_row().unwrap();
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_came() {
        let rows: [&[_]; 3] =
            [&[Some("one"), None, Some("")], &[None, None, None], &[Some(""), Some("two"), Some("3")]];
        assert_eq!(Answer::of(&rows).rows().collect::<Vec<_>>(), rows);
        assert_eq!(Answer::of(&[]).rows().count(), 0);
        // Each row has a head of four bytes, each text its length in one byte, or more if it is long.
        assert_eq!(Answer::of(&rows).wire, 3 * 4 + 9 + "one".len() + "two".len() + "3".len());
        let long = "x".repeat(251);
        assert_eq!(Answer::of(&[&[Some(&long), None]]).wire, 4 + 3 + 251 + 1);
        let pairs = Answer::of(&[&[Some("a"), Some("1")], &[Some("b"), None], &[Some("c"), Some("22")]]);
        assert_eq!(pairs.pairs().collect::<Vec<_>>(), [("a", "1"), ("b", ""), ("c", "22")]);
        let mut broken = Answer::default();
        broken.part(b"\xff").unwrap();
        broken.end_value();
        broken.end_row().unwrap();
        assert_eq!(broken.rows().next(), Some(vec![Some("?")]));
    }

    fn counts(of: &[(&str, u64)]) -> Counts {
        of.iter().map(|(name, count)| ((*name).into(), Number::from(*count))).collect()
    }

    #[test]
    fn counters_that_sessions_have_are_counted() {
        let row = |name: &'static str| vec![Some(name), Some("7")];
        // One of its own, one of all sessions, a gauge, a time.
        let rows = ["QUESTIONS", "Innodb_data_reads", "Threads_running", "Busy_time"].map(row);
        let rows: Vec<&[_]> = rows.iter().map(Vec::as_slice).collect();
        assert_eq!(counts_of(&Answer::of(&rows)), counts(&[("Questions", 7), ("Queries", 7)]));
        let odd = Answer::of(&[&[Some("Com_select"), Some("many")], &[Some("Com_insert"), Some("2")]]);
        assert_eq!(counts_of(&odd), counts(&[("Com_insert", 2)]));
    }

    #[test]
    fn some_effects_depend_on_the_statement() {
        let digests = "SELECT a FROM performance_schema.x JOIN performance_schema.y";
        assert_eq!(unseen_of(digests, false), [("Table_locks_immediate", 2)]);
        assert_eq!(unseen_of(digests, true).len(), 2);
        assert_eq!(unseen_of("SHOW FULL PROCESSLIST", true), [("Deprecated_use_i_s_processlist_count", 1)]);
        assert!(unseen_of("SHOW FULL PROCESSLIST", false).is_empty());
    }

    #[test]
    fn an_effect_is_what_grew() {
        let before = counts(&[("Questions", 5), ("Slow_queries", 3), ("Com_select", 4)]);
        let after = counts(&[("Questions", 7), ("Slow_queries", 3), ("Com_select", 1), ("Opened_tables", 2)]);
        assert_eq!(less(&after, &before), counts(&[("Questions", 2), ("Opened_tables", 2)]));
    }

    #[test]
    fn the_length_of_an_answer_counts_as_it_is() {
        let effect = Effect { counts: counts(&[("Questions", 1), ("Bytes_sent", 500)]), answer: 100 };
        let mut own = counts(&[("Questions", 3)]);
        add(&mut own, &effect, 130);
        assert_eq!(own, counts(&[("Questions", 4), ("Bytes_sent", 530)]));
        add(&mut own, &effect, 90);
        assert_eq!(own, counts(&[("Questions", 5), ("Bytes_sent", 1020)]));
        let mut own = Counts::new();
        add(&mut own, &Effect { answer: 1000, ..effect }, 0);
        assert_eq!(own["Bytes_sent"], Number::default());
    }
}
