//! Looking for a row to take.

use crate::format::record::RowId;
use crate::index::OrderKey;
use crate::queue::state::State;
use crate::{Error, Filter};

/// Rows to look at before the lock is released for others.
pub(crate) const BUDGET: usize = 512;

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScanResult {
    /// These rows, at least one.
    Rows(Vec<RowId>),
    /// Nothing.
    Nothing,
    /// Nothing so far; there are more rows to look at.
    More,
}

/// Looks for up to `rows_max` waiting rows; with a reader, for those that it was not given. `budget` counts
/// the rows whose contents may still be looked at.
pub(crate) fn scan(
    state: &mut State,
    (filter, reader): (Option<&dyn Filter>, Option<usize>),
    rows_max: usize,
    budget: &mut usize,
) -> Result<ScanResult, Error> {
    match filter {
        None => scan_all(state, reader, rows_max),
        Some(filter) => scan_filtered(state, (filter, reader), rows_max, budget),
    }
}

fn scan_all(state: &mut State, reader: Option<usize>, rows_max: usize) -> Result<ScanResult, Error> {
    let rows = if reader.is_none() && !state.index.has_priorities() {
        state.index.first_waiting(rows_max)?
    } else {
        first_in_order(state, reader, rows_max)?
    };
    Ok(if rows.is_empty() { ScanResult::Nothing } else { ScanResult::Rows(rows) })
}

fn first_in_order(state: &mut State, reader: Option<usize>, rows_max: usize) -> Result<Vec<RowId>, Error> {
    let mut rows = Vec::new();
    let mut from = OrderKey::FIRST;
    while let Some(order_key) = if rows.len() < rows_max {
        state.readers.next_in_order(reader, &mut state.index, from)?
    } else {
        None
    } {
        rows.push(order_key.id);
        from = order_key.after();
    }
    Ok(rows)
}

fn scan_filtered(
    state: &mut State,
    (filter, reader): (&dyn Filter, Option<usize>),
    rows_max: usize,
    budget: &mut usize,
) -> Result<ScanResult, Error> {
    let mut rows = Vec::new();
    while let Some(order_key) = state.readers.conditions(reader).progress(filter).revisit.first().copied() {
        if rows.len() >= rows_max {
            return Ok(ScanResult::Rows(rows));
        }
        match look(state, (filter, reader), order_key.id) {
            Ok(true) => rows.push(order_key.id),
            Ok(false) => {}
            Err(error) if rows.is_empty() => return Err(error),
            Err(_) => return Ok(ScanResult::Rows(rows)),
        }
        state.readers.conditions(reader).progress(filter).revisit.remove(&order_key);
    }
    let mut from = state.readers.conditions(reader).progress(filter).next;
    let mut more = false;
    while rows.len() < rows_max {
        let Some(order_key) = state.readers.next_in_order(reader, &mut state.index, from)? else { break };
        if *budget == 0 {
            more = true;
            break;
        }
        *budget -= 1;
        match look(state, (filter, reader), order_key.id) {
            Ok(true) => rows.push(order_key.id),
            Ok(false) => {}
            // The rows that were found are returned first; the next consumer gets the error.
            Err(_) if !rows.is_empty() => break,
            Err(error) => {
                state.readers.conditions(reader).progress(filter).next = order_key;
                return Err(error);
            }
        }
        from = order_key.after();
    }
    state.readers.conditions(reader).progress(filter).next = from;
    Ok(match (rows.is_empty(), more) {
        (false, _) => ScanResult::Rows(rows),
        (true, true) => ScanResult::More,
        (true, false) => ScanResult::Nothing,
    })
}

/// Whether a row may be given and matches.
fn look(state: &mut State, (filter, reader): (&dyn Filter, Option<usize>), id: RowId) -> Result<bool, Error> {
    if !state.readers.is_available(reader, &mut state.index, id)? {
        return Ok(false);
    }
    state.counters.evaluations += 1;
    let Some(location) = state.index.locate(id)? else { return Ok(false) };
    let row = location.read(id)?;
    Ok(state.is_wanted(filter, id, &row))
}
