//! The leases of a queue, in memory: by row, by the number in the token, and by when they are over.
//!
//! While the queue is open, times are those of a clock that never jumps; the wall clock only counts from one
//! opening to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::format::lease::{Lease, Leases, Phase, Span};
use crate::format::policy::Past;
use crate::format::record::RowId;

/// How many numbers are set aside with one write. An opening begins after those of the one before, so that
/// no number is given twice, whatever a crash has lost.
const NUMBERS: u64 = 1 << 20;

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// What the holder of a lease shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Different for all leases of a queue. A later lease of the queue has a greater one.
    pub number: u64,
    secret: u64,
}

impl Token {
    /// A token of its number and what was random in it.
    pub(crate) fn new(number: u64, secret: u64) -> Token {
        Token { number, secret }
    }

    /// Appends the text that [`Token::from_str`](std::str::FromStr::from_str) reads.
    pub fn put(&self, out: &mut String) {
        out.push_str(&self.number.to_string());
        out.push('-');
        let digits = self.secret.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        out.extend(digits.map(|digit| char::from(HEXADECIMAL[usize::from(digit)])));
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.put(&mut text);
        formatter.write_str(&text)
    }
}

impl std::str::FromStr for Token {
    type Err = ();

    /// Reads the number in decimal, a hyphen, and 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<Token, ()> {
        let (number, secret) = text.split_once('-').ok_or(())?;
        let plain = number.bytes().all(|byte| byte.is_ascii_digit());
        let hexadecimal = secret.len() == 16 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !plain || !hexadecimal {
            return Err(());
        }
        let secret = u64::from_str_radix(secret, 16).map_err(drop)?;
        Ok(Token { number: number.parse().map_err(drop)?, secret })
    }
}

/// A row, and what its lessee must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedRow {
    /// The row.
    pub row: RowId,
    /// Its token.
    pub token: Token,
    /// Which try this is: one more than have failed.
    pub tries: u64,
}

/// Two clocks at one moment, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Since 1970; it may jump.
    pub(crate) wall_ms: u64,
    /// Since some moment; it never jumps.
    pub(crate) up_ms: u64,
}

/// What a row is doing that was leased once. Times are those of the clock that never jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Free,
    Expired,
    /// Until when.
    Leased(u64),
    /// Until when.
    Delayed(u64),
    /// Expired, and nobody is given the row until then.
    Late(u64),
    /// It has no tries left.
    Dead,
    /// It is being ended. If it is not after all, its lease goes on until then.
    Ending(u64),
    /// It is being ended though its lease was over. If it is not after all, nobody is given it until then.
    EndingLate(u64),
}

/// What is known of the leases of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) token: Token,
    pub(crate) failed: u64,
    pub(crate) doing: Doing,
}

impl Entry {
    /// What is known of a row that nobody leased yet.
    pub(crate) const NONE: Entry =
        Entry { token: Token { number: 0, secret: 0 }, failed: 0, doing: Doing::Free };

    /// Whether the lease is over, though its token may still end the row.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Expired | Doing::Late(_))
    }

    /// What is known of it while somebody else than its lessee has it to end it.
    pub(crate) fn ending(self) -> Entry {
        let doing = match self.doing {
            Doing::Leased(until) => Doing::Ending(until),
            Doing::Late(until) => Doing::EndingLate(until),
            other => other,
        };
        Entry { doing, ..self }
    }

    /// What is known of it when it is not ended after all; nothing when it was not about to be. With `over`
    /// its lease is over by then.
    pub(crate) fn not_ended(self, over: Option<u64>) -> Option<Entry> {
        let doing = match self.doing {
            Doing::Ending(until) => Doing::Leased(over.map_or(until, |over| until.min(over))),
            Doing::EndingLate(until) => Doing::Late(until),
            _ => return None,
        };
        Some(Entry { doing, ..self })
    }
}

/// What the readers of a row may be shown beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// How many of its tries have failed, also in a queue that it died in.
    pub failed: u64,
    /// Why the last one failed; empty when nobody said.
    pub why: Arc<str>,
    /// What ends it, for its lessee.
    pub token: Option<Token>,
}

/// The leases of a queue.
#[derive(Debug, Default)]
pub(crate) struct LeaseBook {
    /// The number of the next lease.
    next: u64,
    /// Numbers below this one may be given: they will not be given after the next opening.
    ceiling: u64,
    /// Like `ceiling`, for the next checkpoint.
    wanted: u64,
    rows: BTreeMap<RowId, Entry>,
    /// The rows whose tokens are good, by number.
    numbers: BTreeMap<u64, RowId>,
    /// When leases and delays are over.
    due: BTreeSet<(u64, RowId)>,
    leased: u64,
    delayed: u64,
    /// The rows that have no tries left.
    dead: BTreeSet<RowId>,
    /// What is known of rows besides.
    pasts: BTreeMap<RowId, Past>,
    /// For when somebody is asked to look what is due.
    pub(crate) scheduled: Option<u64>,
}

impl LeaseBook {
    /// The leases that recovery found.
    pub(crate) fn opened(leases: Leases, pasts: Vec<(RowId, Past)>, clock: Clock) -> LeaseBook {
        let (next, ceiling) = (leases.ceiling, leases.ceiling);
        let mut book = LeaseBook { next, ceiling, wanted: ceiling, ..LeaseBook::default() };
        book.pasts.extend(pasts);
        book.adopt(leases.rows, clock);
        book
    }

    /// Takes over leases from a file or from another queue.
    pub(crate) fn adopt(&mut self, rows: Vec<Lease>, clock: Clock) {
        for lease in rows {
            let until = |span: Span| clock.up_ms.saturating_add(span.left_ms(clock.wall_ms));
            let doing = match lease.phase {
                Phase::Free => Doing::Free,
                Phase::Expired => Doing::Expired,
                Phase::Leased(span) => Doing::Leased(until(span)),
                Phase::Delayed(span) => Doing::Delayed(until(span)),
                Phase::Late(span) => Doing::Late(until(span)),
                Phase::Dead => Doing::Dead,
            };
            let token = Token { number: lease.number, secret: lease.secret };
            self.set(lease.row, Some(Entry { token, failed: lease.failed, doing }));
        }
    }

    /// Makes room for numbers: the next checkpoint sets them aside. False when there is room already.
    pub(crate) fn want(&mut self, count: u64) -> bool {
        if self.ceiling.saturating_sub(self.next.max(1)) >= count {
            return false;
        }
        self.wanted = self.next.saturating_add(count.max(NUMBERS));
        true
    }

    /// Notes that a checkpoint has set them aside.
    pub(crate) fn allow(&mut self) {
        self.ceiling = self.wanted;
        self.next = self.next.max(1);
    }

    /// Begins after the numbers of another queue, once a checkpoint says so.
    pub(crate) fn follow(&mut self, ceiling: u64) {
        self.wanted = self.wanted.max(ceiling);
        self.next = self.next.max(ceiling);
    }

    /// Forgets all rows, which are gone. Numbers go on growing.
    pub(crate) fn clear(&mut self) {
        let (next, ceiling, wanted) = (self.next, self.ceiling, self.wanted);
        *self = LeaseBook { next, ceiling, wanted, ..LeaseBook::default() };
    }

    /// The number for a new lease; there must be room for it.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Notes that somebody else than its lessee has the row, to end it.
    pub(crate) fn begin_to_end(&mut self, row: RowId) {
        let entry = self.get(row).map(Entry::ending);
        if entry.is_some() {
            self.set(row, entry);
        }
    }

    /// What is known of a row.
    pub(crate) fn get(&self, row: RowId) -> Option<Entry> {
        self.rows.get(&row).copied()
    }

    /// The row that a good token is for.
    pub(crate) fn find(&self, token: Token) -> Option<(RowId, Entry)> {
        let row = *self.numbers.get(&token.number)?;
        self.get(row).filter(|entry| entry.token == token).map(|entry| (row, entry))
    }

    /// Replaces what is known of a row. A row that is free and never failed is forgotten.
    pub(crate) fn set(&mut self, row: RowId, entry: Option<Entry>) {
        if let Some(old) = self.rows.remove(&row) {
            self.numbers.remove(&old.token.number);
            self.count(row, old.doing, false);
        }
        let kept = |entry: &Entry| entry.failed > 0 || entry.doing != Doing::Free;
        let Some(entry) = entry.filter(kept) else { return };
        if matches!(entry.doing, Doing::Leased(_) | Doing::Expired | Doing::Late(_)) {
            self.numbers.insert(entry.token.number, row);
        }
        self.count(row, entry.doing, true);
        self.rows.insert(row, entry);
    }

    fn count(&mut self, row: RowId, doing: Doing, there: bool) {
        let (counter, until) = match doing {
            Doing::Leased(until) => (&mut self.leased, Some(until)),
            Doing::Ending(_) | Doing::EndingLate(_) => (&mut self.leased, None),
            Doing::Delayed(until) | Doing::Late(until) => (&mut self.delayed, Some(until)),
            Doing::Dead => {
                if there {
                    self.dead.insert(row)
                } else {
                    self.dead.remove(&row)
                };
                return;
            }
            Doing::Free | Doing::Expired => return,
        };
        match (there, until) {
            (true, Some(until)) => drop(self.due.insert((until, row))),
            (false, Some(until)) => drop(self.due.remove(&(until, row))),
            (_, None) => {}
        }
        *counter = if there { *counter + 1 } else { *counter - 1 };
    }

    /// A row whose lease or delay is over.
    pub(crate) fn next_due(&self, up_ms: u64) -> Option<RowId> {
        self.due.first().filter(|(until, _)| *until <= up_ms).map(|(_, row)| *row)
    }

    /// When the next lease or delay is over.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Only numbers below this one have been given; 0 when there never was a lease.
    pub(crate) fn ceiling(&self) -> u64 {
        self.ceiling
    }

    /// Rows that are leased.
    pub(crate) fn leased(&self) -> u64 {
        self.leased
    }

    /// Rows that were given back and do not wait yet.
    pub(crate) fn delayed(&self) -> u64 {
        self.delayed
    }

    /// Rows that have no tries left.
    pub(crate) fn dead(&self) -> &BTreeSet<RowId> {
        &self.dead
    }

    /// What is known of a row besides.
    pub(crate) fn past(&self, row: RowId) -> Option<&Past> {
        self.pasts.get(&row)
    }

    /// What may be shown beside a row; its token only to whoever leases it.
    pub(crate) fn known(&self, row: RowId, to_lessee: bool) -> Known {
        let (entry, past) = (self.get(row), self.past(row));
        let failed = entry.map_or(0, |entry| entry.failed) + past.map_or(0, |past| past.tries);
        let why = past.map(|past| past.why.clone()).unwrap_or_default();
        let leased = entry.filter(|entry| to_lessee && matches!(entry.doing, Doing::Leased(_)));
        Known { failed, why, token: leased.map(|entry| entry.token) }
    }

    /// Notes what is known of a row besides.
    pub(crate) fn set_past(&mut self, row: RowId, past: Past) {
        if past.is_empty() {
            self.pasts.remove(&row)
        } else {
            self.pasts.insert(row, past)
        };
    }

    /// Forgets a row, which is gone.
    pub(crate) fn forget(&mut self, row: RowId) {
        self.set(row, None);
        self.pasts.remove(&row);
    }

    /// Whether nothing is known of any row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.pasts.is_empty()
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory(&self) -> usize {
        let entry = size_of::<(RowId, Entry)>();
        let pasts: usize = self.pasts.values().map(|past| size_of::<(RowId, Past)>() + past.why.len()).sum();
        let numbers = (self.numbers.len() + self.due.len()) * size_of::<(u64, RowId)>();
        self.rows.len() * entry + numbers + self.dead.len() * size_of::<RowId>() + pasts
    }

    /// What is written about a row.
    pub(crate) fn written(&self, row: RowId, clock: Clock) -> Lease {
        let Entry { token, failed, doing } = self.get(row).unwrap_or(Entry::NONE);
        let span = |until: u64| Span { since_ms: clock.wall_ms, for_ms: until.saturating_sub(clock.up_ms) };
        let phase = match doing {
            Doing::Free => Phase::Free,
            Doing::Expired => Phase::Expired,
            Doing::Leased(until) | Doing::Ending(until) => Phase::Leased(span(until)),
            Doing::Delayed(until) => Phase::Delayed(span(until)),
            // Once that is over it only has to be noticed, and files without policies have no such leases.
            Doing::Late(until) | Doing::EndingLate(until) if until > clock.up_ms => Phase::Late(span(until)),
            Doing::Late(_) | Doing::EndingLate(_) => Phase::Expired,
            Doing::Dead => Phase::Dead,
        };
        Lease { row, number: token.number, secret: token.secret, failed, phase }
    }

    /// What a checkpoint says about all rows.
    pub(crate) fn snapshot(&self, clock: Clock) -> Leases {
        let rows = self.rows.keys().map(|row| self.written(*row, clock)).collect();
        Leases { ceiling: self.wanted, rows }
    }

    /// What a checkpoint says about rows besides.
    pub(crate) fn pasts(&self) -> Vec<(RowId, Past)> {
        self.pasts.iter().map(|(row, past)| (*row, past.clone())).collect()
    }

    /// The feature flags that a new segment needs. The checkpoint has them before.
    pub(crate) fn features(&self) -> u64 {
        Leases { ceiling: self.ceiling, rows: Vec::new() }.features()
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Doing, Entry, LeaseBook, NUMBERS, Past, Token};
    use crate::format::record::RowId;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for token in [Token::new(1, 0), Token::new(u64::MAX, u64::MAX), Token::new(0, 5)] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for wrong in [
            "",
            "1",
            "1-",
            "-0000000000000000",
            "+1-0000000000000000",
            "1-00000000000000000",
            "1-000000000000000g",
            "1-+00000000000000f",
            "18446744073709551616-0000000000000000",
        ] {
            assert_eq!(wrong.parse::<Token>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_given_after_they_were_set_aside_and_never_again() {
        let clock = Clock { wall_ms: 0, up_ms: 0 };
        let mut book = LeaseBook::default();
        assert_eq!(book.features(), 0);
        assert!(book.want(1));
        book.allow();
        assert_eq!(book.take_number(), 1);
        assert!(!book.want(NUMBERS - 2));
        assert!(book.want(NUMBERS), "more than are left");
        book.allow();
        book.clear();
        let mut again = LeaseBook::opened(book.snapshot(clock), Vec::new(), clock);
        assert!(again.want(1), "nobody knows which of them were given");
        again.allow();
        assert!(again.take_number() > NUMBERS);
    }

    #[test]
    fn a_row_that_is_gone_is_forgotten() {
        let mut book = LeaseBook::default();
        let entry = |doing| Some(Entry { failed: 2, doing, ..Entry::NONE });
        book.set(RowId(1), entry(Doing::Dead));
        book.set(RowId(2), entry(Doing::Late(30)));
        book.set_past(RowId(1), Past::new(3, "why"));
        let known = book.known(RowId(1), false);
        assert_eq!((known.failed, &*known.why, known.token), (5, "why", None));
        assert_eq!((book.dead().len(), book.delayed(), book.due()), (1, 1, Some(30)));
        book.forget(RowId(1));
        assert_eq!((book.dead().len(), book.past(RowId(1))), (0, None));
        assert!(!book.is_empty());
        book.forget(RowId(2));
        assert_eq!((book.delayed(), book.due(), book.is_empty()), (0, None, true));
        book.set_past(RowId(3), Past::new(0, "why"));
        assert!(!book.is_empty());
        book.set_past(RowId(3), Past::default());
        assert!(book.is_empty());
    }

    #[test]
    fn what_is_due_first_comes_first_and_counts_stay_exact() {
        let mut book = LeaseBook::default();
        let entry = |number, doing| Some(Entry { token: Token::new(number, 9), failed: 0, doing });
        book.set(RowId(1), entry(1, Doing::Leased(50)));
        book.set(RowId(2), entry(2, Doing::Delayed(40)));
        book.set(RowId(3), entry(3, Doing::Leased(60)));
        assert_eq!((book.leased(), book.delayed(), book.due()), (2, 1, Some(40)));
        assert_eq!((book.next_due(39), book.next_due(40)), (None, Some(RowId(2))));
        assert_eq!(book.find(Token::new(2, 9)).map(|(row, _)| row), None, "a delayed row has no holder");
        assert_eq!(book.find(Token::new(3, 9)).map(|(row, _)| row), Some(RowId(3)));
        assert_eq!(book.find(Token::new(3, 8)).map(|(row, _)| row), None, "a wrong secret");
        book.set(RowId(1), entry(4, Doing::Ending(50)));
        assert_eq!((book.leased(), book.due()), (2, Some(40)));
        book.set(RowId(1), None);
        book.set(RowId(2), entry(2, Doing::Free));
        book.set(RowId(3), None);
        assert_eq!((book.leased(), book.delayed(), book.due(), book.is_empty()), (0, 0, None, true));
        assert!(book.numbers.is_empty());
    }
}
