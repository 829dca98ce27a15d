//! The leases of a queue in memory: by row, by token number, and by expiry.
//!
//! While the queue is open, times are those of the monotonic clock; the wall clock only counts across
//! restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::format::lease_record::{Lease, Leases, Phase, Span};
use crate::format::record::RowId;
use crate::format::retry_policy::FailureInfo;

/// How many numbers one checkpoint reserves. Each opening starts after those reserved before, so that no
/// number is used twice whatever a crash has lost.
const NUMBERS: u64 = 1 << 20;

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// The token of a lease, which its holder presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Unique within the queue; later leases have greater numbers.
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

/// A leased row and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedRow {
    /// The row.
    pub row: RowId,
    /// Its token.
    pub token: Token,
    /// The number of this try: one more than have failed.
    pub tries: u64,
}

/// Both clocks at one moment, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Wall clock, since 1970; it may jump.
    pub(crate) wall_ms: u64,
    /// Monotonic clock.
    pub(crate) up_ms: u64,
}

/// The lease state of a row. Times are those of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStatus {
    Free,
    Expired,
    /// Until when.
    Leased(u64),
    /// Until when.
    Delayed(u64),
    /// Expired, with a delay until then.
    ExpiredDelayed(u64),
    /// It has no tries left.
    Dead,
    /// It is being acknowledged. If that is undone, its lease continues until then.
    EndKind(u64),
    /// It is being acknowledged after its lease expired. If that is undone, the delay continues until then.
    EndingExpired(u64),
}

/// The lease of a row, past or present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseEntry {
    pub(crate) token: Token,
    pub(crate) failed: u64,
    pub(crate) status: LeaseStatus,
}

impl LeaseEntry {
    /// What is known of a row that nobody leased yet.
    pub(crate) const NONE: LeaseEntry =
        LeaseEntry { token: Token { number: 0, secret: 0 }, failed: 0, status: LeaseStatus::Free };

    /// Whether the lease is over, though its token may still end the row.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.status, LeaseStatus::Expired | LeaseStatus::ExpiredDelayed(_))
    }

    /// What is known of it while somebody else than its lessee has it to end it.
    pub(crate) fn ending(self) -> LeaseEntry {
        let status = match self.status {
            LeaseStatus::Leased(until) => LeaseStatus::EndKind(until),
            LeaseStatus::ExpiredDelayed(until) => LeaseStatus::EndingExpired(until),
            other => other,
        };
        LeaseEntry { status, ..self }
    }

    /// What is known of it when it is not ended after all; nothing when it was not about to be. With `over`
    /// its lease is over by then.
    pub(crate) fn not_ended(self, over: Option<u64>) -> Option<LeaseEntry> {
        let status = match self.status {
            LeaseStatus::EndKind(until) => LeaseStatus::Leased(over.map_or(until, |over| until.min(over))),
            LeaseStatus::EndingExpired(until) => LeaseStatus::ExpiredDelayed(until),
            _ => return None,
        };
        Some(LeaseEntry { status, ..self })
    }
}

/// What may be shown with a row: failed tries, reason and token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryInfo {
    /// Failed tries, including those in the queue it came from as a dead letter.
    pub failed: u64,
    /// The reason of the last failure; may be empty.
    pub why: Arc<str>,
    /// The token, for the holder of the lease.
    pub token: Option<Token>,
}

/// The leases of a queue.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    /// The number of the next lease.
    next: u64,
    /// Numbers below this one may be given: they will not be given after the next opening.
    ceiling: u64,
    /// Like `ceiling`, for the next checkpoint.
    wanted: u64,
    rows: BTreeMap<RowId, LeaseEntry>,
    /// The rows with valid tokens, by number.
    numbers: BTreeMap<u64, RowId>,
    /// When leases and delays end.
    due: BTreeSet<(u64, RowId)>,
    leased: u64,
    delayed: u64,
    /// The rows that have no tries left.
    dead: BTreeSet<RowId>,
    /// Earlier failures of rows.
    failures: BTreeMap<RowId, FailureInfo>,
    /// When the next check of what is due is scheduled.
    pub(crate) next_check_ms: Option<u64>,
}

impl LeaseTable {
    /// The leases that recovery found.
    pub(crate) fn opened(leases: Leases, failures: Vec<(RowId, FailureInfo)>, clock: Clock) -> LeaseTable {
        let (next, ceiling) = (leases.ceiling, leases.ceiling);
        let mut book = LeaseTable { next, ceiling, wanted: ceiling, ..LeaseTable::default() };
        book.failures.extend(failures);
        book.adopt(leases.rows, clock);
        book
    }

    /// Takes over leases from a file or from another queue.
    pub(crate) fn adopt(&mut self, rows: Vec<Lease>, clock: Clock) {
        for lease in rows {
            let until = |span: Span| clock.up_ms.saturating_add(span.left_ms(clock.wall_ms));
            let status = match lease.phase {
                Phase::Free => LeaseStatus::Free,
                Phase::Expired => LeaseStatus::Expired,
                Phase::Leased(span) => LeaseStatus::Leased(until(span)),
                Phase::Delayed(span) => LeaseStatus::Delayed(until(span)),
                Phase::ExpiredDelayed(span) => LeaseStatus::ExpiredDelayed(until(span)),
                Phase::Dead => LeaseStatus::Dead,
            };
            let token = Token { number: lease.number, secret: lease.secret };
            self.set(lease.row, Some(LeaseEntry { token, failed: lease.failed, status }));
        }
    }

    /// Makes room for numbers: the next checkpoint reserves them. False when there is room already.
    pub(crate) fn want(&mut self, count: u64) -> bool {
        if self.ceiling.saturating_sub(self.next.max(1)) >= count {
            return false;
        }
        self.wanted = self.next.saturating_add(count.max(NUMBERS));
        true
    }

    /// Notes that a checkpoint has reserved them.
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
        *self = LeaseTable { next, ceiling, wanted, ..LeaseTable::default() };
    }

    /// The number for a new lease; there must be room for it.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Notes that somebody else than its lessee has the row, to end it.
    pub(crate) fn begin_to_end(&mut self, row: RowId) {
        let entry = self.get(row).map(LeaseEntry::ending);
        if entry.is_some() {
            self.set(row, entry);
        }
    }

    /// What is known of a row.
    pub(crate) fn get(&self, row: RowId) -> Option<LeaseEntry> {
        self.rows.get(&row).copied()
    }

    /// The row that a good token is for.
    pub(crate) fn find(&self, token: Token) -> Option<(RowId, LeaseEntry)> {
        let row = *self.numbers.get(&token.number)?;
        self.get(row).filter(|entry| entry.token == token).map(|entry| (row, entry))
    }

    /// Replaces what is known of a row. A row that is free and never failed is forgotten.
    pub(crate) fn set(&mut self, row: RowId, entry: Option<LeaseEntry>) {
        if let Some(old) = self.rows.remove(&row) {
            self.numbers.remove(&old.token.number);
            self.count(row, old.status, false);
        }
        let kept = |entry: &LeaseEntry| entry.failed > 0 || entry.status != LeaseStatus::Free;
        let Some(entry) = entry.filter(kept) else { return };
        if matches!(
            entry.status,
            LeaseStatus::Leased(_) | LeaseStatus::Expired | LeaseStatus::ExpiredDelayed(_)
        ) {
            self.numbers.insert(entry.token.number, row);
        }
        self.count(row, entry.status, true);
        self.rows.insert(row, entry);
    }

    fn count(&mut self, row: RowId, status: LeaseStatus, there: bool) {
        let (counter, until) = match status {
            LeaseStatus::Leased(until) => (&mut self.leased, Some(until)),
            LeaseStatus::EndKind(_) | LeaseStatus::EndingExpired(_) => (&mut self.leased, None),
            LeaseStatus::Delayed(until) | LeaseStatus::ExpiredDelayed(until) => {
                (&mut self.delayed, Some(until))
            }
            LeaseStatus::Dead => {
                if there {
                    self.dead.insert(row)
                } else {
                    self.dead.remove(&row)
                };
                return;
            }
            LeaseStatus::Free | LeaseStatus::Expired => return,
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
    pub(crate) fn failure(&self, row: RowId) -> Option<&FailureInfo> {
        self.failures.get(&row)
    }

    /// What may be shown beside a row; its token only to whoever leases it.
    pub(crate) fn delivery_info(&self, row: RowId, to_lessee: bool) -> DeliveryInfo {
        let (entry, failure) = (self.get(row), self.failure(row));
        let failed = entry.map_or(0, |entry| entry.failed) + failure.map_or(0, |failure| failure.tries);
        let why = failure.map(|failure| failure.why.clone()).unwrap_or_default();
        let leased = entry.filter(|entry| to_lessee && matches!(entry.status, LeaseStatus::Leased(_)));
        DeliveryInfo { failed, why, token: leased.map(|entry| entry.token) }
    }

    /// Notes what is known of a row besides.
    pub(crate) fn set_failure(&mut self, row: RowId, failure: FailureInfo) {
        if failure.is_empty() {
            self.failures.remove(&row)
        } else {
            self.failures.insert(row, failure)
        };
    }

    /// Forgets a row, which is gone.
    pub(crate) fn forget(&mut self, row: RowId) {
        self.set(row, None);
        self.failures.remove(&row);
    }

    /// Whether nothing is known of any row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.failures.is_empty()
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory(&self) -> usize {
        let entry = size_of::<(RowId, LeaseEntry)>();
        let failures: usize =
            self.failures.values().map(|failure| size_of::<(RowId, FailureInfo)>() + failure.why.len()).sum();
        let numbers = (self.numbers.len() + self.due.len()) * size_of::<(u64, RowId)>();
        self.rows.len() * entry + numbers + self.dead.len() * size_of::<RowId>() + failures
    }

    /// What is written about a row.
    pub(crate) fn written(&self, row: RowId, clock: Clock) -> Lease {
        let LeaseEntry { token, failed, status } = self.get(row).unwrap_or(LeaseEntry::NONE);
        let span = |until: u64| Span { since_ms: clock.wall_ms, for_ms: until.saturating_sub(clock.up_ms) };
        let phase = match status {
            LeaseStatus::Free => Phase::Free,
            LeaseStatus::Expired => Phase::Expired,
            LeaseStatus::Leased(until) | LeaseStatus::EndKind(until) => Phase::Leased(span(until)),
            LeaseStatus::Delayed(until) => Phase::Delayed(span(until)),
            // Once that is over it only has to be noticed, and files without policies have no such leases.
            LeaseStatus::ExpiredDelayed(until) | LeaseStatus::EndingExpired(until) if until > clock.up_ms => {
                Phase::ExpiredDelayed(span(until))
            }
            LeaseStatus::ExpiredDelayed(_) | LeaseStatus::EndingExpired(_) => Phase::Expired,
            LeaseStatus::Dead => Phase::Dead,
        };
        Lease { row, number: token.number, secret: token.secret, failed, phase }
    }

    /// What a checkpoint says about all rows.
    pub(crate) fn snapshot(&self, clock: Clock) -> Leases {
        let rows = self.rows.keys().map(|row| self.written(*row, clock)).collect();
        Leases { ceiling: self.wanted, rows }
    }

    /// What a checkpoint says about rows besides.
    pub(crate) fn failures(&self) -> Vec<(RowId, FailureInfo)> {
        self.failures.iter().map(|(row, failure)| (*row, failure.clone())).collect()
    }

    /// The feature flags that a new segment needs. The checkpoint has them before.
    pub(crate) fn features(&self) -> u64 {
        Leases { ceiling: self.ceiling, rows: Vec::new() }.features()
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, FailureInfo, LeaseEntry, LeaseStatus, LeaseTable, NUMBERS, Token};
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
        let mut book = LeaseTable::default();
        assert_eq!(book.features(), 0);
        assert!(book.want(1));
        book.allow();
        assert_eq!(book.take_number(), 1);
        assert!(!book.want(NUMBERS - 2));
        assert!(book.want(NUMBERS), "more than are left");
        book.allow();
        book.clear();
        let mut again = LeaseTable::opened(book.snapshot(clock), Vec::new(), clock);
        assert!(again.want(1), "nobody knows which of them were given");
        again.allow();
        assert!(again.take_number() > NUMBERS);
    }

    #[test]
    fn a_row_that_is_gone_is_forgotten() {
        let mut book = LeaseTable::default();
        let entry = |status| Some(LeaseEntry { failed: 2, status, ..LeaseEntry::NONE });
        book.set(RowId(1), entry(LeaseStatus::Dead));
        book.set(RowId(2), entry(LeaseStatus::ExpiredDelayed(30)));
        book.set_failure(RowId(1), FailureInfo::new(3, "why"));
        let known = book.delivery_info(RowId(1), false);
        assert_eq!((known.failed, &*known.why, known.token), (5, "why", None));
        assert_eq!((book.dead().len(), book.delayed(), book.due()), (1, 1, Some(30)));
        book.forget(RowId(1));
        assert_eq!((book.dead().len(), book.failure(RowId(1))), (0, None));
        assert!(!book.is_empty());
        book.forget(RowId(2));
        assert_eq!((book.delayed(), book.due(), book.is_empty()), (0, None, true));
        book.set_failure(RowId(3), FailureInfo::new(0, "why"));
        assert!(!book.is_empty());
        book.set_failure(RowId(3), FailureInfo::default());
        assert!(book.is_empty());
    }

    #[test]
    fn what_is_due_first_comes_first_and_counts_stay_exact() {
        let mut book = LeaseTable::default();
        let entry = |number, status| Some(LeaseEntry { token: Token::new(number, 9), failed: 0, status });
        book.set(RowId(1), entry(1, LeaseStatus::Leased(50)));
        book.set(RowId(2), entry(2, LeaseStatus::Delayed(40)));
        book.set(RowId(3), entry(3, LeaseStatus::Leased(60)));
        assert_eq!((book.leased(), book.delayed(), book.due()), (2, 1, Some(40)));
        assert_eq!((book.next_due(39), book.next_due(40)), (None, Some(RowId(2))));
        assert_eq!(book.find(Token::new(2, 9)).map(|(row, _)| row), None, "a delayed row has no holder");
        assert_eq!(book.find(Token::new(3, 9)).map(|(row, _)| row), Some(RowId(3)));
        assert_eq!(book.find(Token::new(3, 8)).map(|(row, _)| row), None, "a wrong secret");
        book.set(RowId(1), entry(4, LeaseStatus::EndKind(50)));
        assert_eq!((book.leased(), book.due()), (2, Some(40)));
        book.set(RowId(1), None);
        book.set(RowId(2), entry(2, LeaseStatus::Free));
        book.set(RowId(3), None);
        assert_eq!((book.leased(), book.delayed(), book.due(), book.is_empty()), (0, 0, None, true));
        assert!(book.numbers.is_empty());
    }
}
