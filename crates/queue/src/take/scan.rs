//! Looking for a row to take.

use crate::format::record::RowId;
use crate::index::Turn;
use crate::queue::state::State;
use crate::{Error, Filter};

/// Rows to look at before the lock is released for others.
pub(crate) const BUDGET: usize = 512;

/// The result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
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
) -> Result<Found, Error> {
    match filter {
        None => scan_all(state, reader, rows_max),
        Some(filter) => scan_filtered(state, (filter, reader), rows_max, budget),
    }
}

fn scan_all(state: &mut State, reader: Option<usize>, rows_max: usize) -> Result<Found, Error> {
    let rows = if reader.is_none() && !state.index.has_priorities() {
        state.index.first_waiting(rows_max)?
    } else {
        first_turns(state, reader, rows_max)?
    };
    Ok(if rows.is_empty() { Found::Nothing } else { Found::Rows(rows) })
}

fn first_turns(state: &mut State, reader: Option<usize>, rows_max: usize) -> Result<Vec<RowId>, Error> {
    let mut rows = Vec::new();
    let mut from = Turn::FIRST;
    while let Some(turn) = if rows.len() < rows_max { state.next_turn(reader, from)? } else { None } {
        rows.push(turn.id);
        from = turn.after();
    }
    Ok(rows)
}

fn scan_filtered(
    state: &mut State,
    (filter, reader): (&dyn Filter, Option<usize>),
    rows_max: usize,
    budget: &mut usize,
) -> Result<Found, Error> {
    let mut rows = Vec::new();
    while let Some(turn) = state.conditions(reader).progress(filter).late.first().copied() {
        if rows.len() >= rows_max {
            return Ok(Found::Rows(rows));
        }
        match look(state, (filter, reader), turn.id) {
            Ok(true) => rows.push(turn.id),
            Ok(false) => {}
            Err(error) if rows.is_empty() => return Err(error),
            Err(_) => return Ok(Found::Rows(rows)),
        }
        state.conditions(reader).progress(filter).late.remove(&turn);
    }
    let mut from = state.conditions(reader).progress(filter).next;
    let mut more = false;
    while rows.len() < rows_max {
        let Some(turn) = state.next_turn(reader, from)? else { break };
        if *budget == 0 {
            more = true;
            break;
        }
        *budget -= 1;
        match look(state, (filter, reader), turn.id) {
            Ok(true) => rows.push(turn.id),
            Ok(false) => {}
            // The rows that were found are returned first; the next taker gets the error.
            Err(_) if !rows.is_empty() => break,
            Err(error) => {
                state.conditions(reader).progress(filter).next = turn;
                return Err(error);
            }
        }
        from = turn.after();
    }
    state.conditions(reader).progress(filter).next = from;
    Ok(match (rows.is_empty(), more) {
        (false, _) => Found::Rows(rows),
        (true, true) => Found::More,
        (true, false) => Found::Nothing,
    })
}

/// Whether a row may be given and matches.
fn look(state: &mut State, (filter, reader): (&dyn Filter, Option<usize>), id: RowId) -> Result<bool, Error> {
    if !state.may_be_given(reader, id)? {
        return Ok(false);
    }
    state.counters.evaluations += 1;
    let Some(place) = state.index.locate(id)? else { return Ok(false) };
    let row = place.read(id)?;
    Ok(state.is_wanted(filter, id, &row))
}
