//! Transactions that were neither committed nor rolled back when a server stopped.
//!
//! Facts: `trx0sys.h`, `trx0rseg.h` and `trx0undo.h` of MariaDB's source. A page of the system tablespace has
//! the rollback segments; a rollback segment the first pages of undo logs; such a page what its transaction
//! does.

use crate::Error;
use crate::page::{self, DATA, Kind, NO_PAGE, Page, corrupt, u16_at, u32_at};

/// The page of the system tablespace that has the rollback segments.
pub const TRX_SYS_PAGE: u32 = 5;
/// Where they begin in it, and how many there are.
const SEGMENTS: usize = DATA + 18;
const SEGMENTS_MAX: usize = 128;
/// Where undo logs begin in the page of a rollback segment, and how many there are.
const LOGS: usize = DATA + 34;
const LOGS_MAX: usize = 1024;
/// Where an undo log says what its transaction does.
const STATE: usize = DATA + 18;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is neither committed nor prepared.
    Active,
    /// XA PREPARE was said, and its end is not decided.
    Prepared,
    /// It is over.
    Over,
}

/// The rollback segments of a server: the tablespace and the page of each.
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

/// The first pages of a rollback segment's undo logs.
#[must_use]
pub fn undo_logs(segment: &Page) -> Vec<u32> {
    let slots = (0..LOGS_MAX).map(|number| u32_at(segment, LOGS + 4 * number));
    slots.filter(|&page| page != NO_PAGE).collect()
}

/// What the transaction of an undo log does, whose first page is `number`.
///
/// # Errors
/// [`Error::Corrupt`]
pub fn state(undo: &Page, number: u32) -> Result<State, Error> {
    match u16_at(undo, STATE) {
        1 => Ok(State::Active),
        5 => Ok(State::Prepared),
        2..=4 => Ok(State::Over),
        state => Err(corrupt(number, STATE, format!("a transaction has the state {state}"))),
    }
}
