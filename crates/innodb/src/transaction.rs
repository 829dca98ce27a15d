//! Transactions that were neither committed nor rolled back when a server stopped.
//!
//! Facts: `trx0sys.h`, `trx0rseg.h` and `trx0undo.h` of MariaDB's source. A page of the system tablespace
//! lists the rollback segments; a rollback segment lists the first pages of undo logs; such a page has the
//! state of its transaction. MySQL 8 and later keeps the list in each undo tablespace (`trx0rseg.h` of its
//! source).

use crate::Error;
use crate::page::{self, DATA, Kind, NO_PAGE, Page, corrupt, u16_at, u32_at};

/// The page of the system tablespace that lists the rollback segments.
pub const TRX_SYS_PAGE: u32 = 5;
/// Where the list begins in it, and how many entries it has.
const SEGMENTS: usize = DATA + 18;
const SEGMENTS_MAX: usize = 128;
/// Where the list of undo logs begins in the page of a rollback segment, and how many entries it has.
const LOGS: usize = DATA + 34;
const LOGS_MAX: usize = 1024;
/// Where an undo log has the state of its transaction.
const STATE: usize = DATA + 18;

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is neither committed nor prepared.
    Active,
    /// After XA PREPARE, with its outcome undecided.
    Prepared,
    /// It is over.
    Finished,
}

/// The rollback segments of a server: tablespace and page of each.
///
/// # Errors
/// [`Error::Corrupt`]
pub fn rollback_segments(trx_sys: &Page) -> Result<Vec<(u32, u32)>, Error> {
    if page::kind(trx_sys) != Kind::TRX_SYS {
        return Err(corrupt(TRX_SYS_PAGE, 24, "the page of rollback segments is something else"));
    }
    let slot = |at: usize| (u32_at(trx_sys, at), u32_at(trx_sys, at + 4));
    let slots = (0..SEGMENTS_MAX).map(|number| slot(SEGMENTS + 8 * number));
    Ok(slots.filter(|&(_, page)| page != NO_PAGE).collect())
}

/// The page of an undo tablespace of MySQL 8 and later that lists its rollback segments.
pub const ROLLBACK_SEGMENTS_PAGE: u32 = 3;
/// Where the list begins in it, behind its version, its size and its segment.
const OWN_SEGMENTS: usize = DATA + 18;

/// The rollback segments of an undo tablespace of MySQL 8 and later: the page of each.
///
/// # Errors
/// [`Error::Corrupt`]
pub fn own_rollback_segments(list: &Page) -> Result<Vec<u32>, Error> {
    if page::kind(list) != Kind::ROLLBACK_SEGMENTS {
        return Err(corrupt(ROLLBACK_SEGMENTS_PAGE, 24, "the page of rollback segments is something else"));
    }
    let slots = (0..SEGMENTS_MAX).map(|number| u32_at(list, OWN_SEGMENTS + 4 * number));
    Ok(slots.filter(|&page| page != NO_PAGE).collect())
}

/// The first pages of a rollback segment's undo logs.
#[must_use]
pub fn undo_logs(segment: &Page) -> Vec<u32> {
    let slots = (0..LOGS_MAX).map(|number| u32_at(segment, LOGS + 4 * number));
    slots.filter(|&page| page != NO_PAGE).collect()
}

/// The state of the transaction of an undo log, whose first page is `number`.
///
/// # Errors
/// [`Error::Corrupt`]
pub fn state(undo: &Page, number: u32) -> Result<State, Error> {
    match u16_at(undo, STATE) {
        1 => Ok(State::Active),
        // 6 and 7 are those of MySQL 8.0.29 and later.
        5..=7 => Ok(State::Prepared),
        2..=4 => Ok(State::Finished),
        state => Err(corrupt(number, STATE, format!("a transaction has the state {state}"))),
    }
}
