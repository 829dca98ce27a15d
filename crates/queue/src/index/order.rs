//! The order in which rows are given, where it is not that of their ids, and the keys of rows that wait.

use std::collections::BTreeSet;

use super::lines::Lines;
use super::{Doing, Index, Standing, Turn};
use crate::Error;
use crate::format::record::RowId;

impl Index {
    /// Whether a row with this key waits or is due later.
    pub(crate) fn waits(&self, key: u128) -> bool {
        let from = (key, RowId(0));
        let next = self.waits.as_ref().and_then(|waits| waits.range(from..).next());
        next.is_some_and(|(of, _)| *of == key)
    }

    /// The keys of rows by which rows are left out; 0 for a row without one.
    pub(crate) fn keys(&mut self, rows: &[RowId]) -> Result<Vec<u128>, Error> {
        let key = |id: &RowId| self.segment_with(*id).map_or(Ok(0), |of| of.standing(*id).map(|row| row.key));
        rows.iter().map(key).collect()
    }

    /// Whether it matters for other rows what a row does.
    pub(super) fn is_ordered(&self) -> bool {
        self.turns.is_some() || self.waits.is_some()
    }

    /// Whether rows of the same key are given one after the other.
    pub(crate) fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// The place of a row that is not gone in the order in which rows are given.
    pub(crate) fn turn(&mut self, id: RowId) -> Result<Turn, Error> {
        Ok(self.standing(id)?.turn)
    }

    pub(super) fn standing(&mut self, id: RowId) -> Result<Standing, Error> {
        let segment = if self.is_ordered() { self.segment_with(id) } else { None };
        let first = Standing { turn: Turn { priority: 0, id }, line: 0, key: 0 };
        segment.map_or(Ok(first), |segment| segment.standing(id))
    }

    /// Whether a row may be given: it waits, and it is the first of its key, of which nobody has a row.
    pub(crate) fn is_ready(&mut self, id: RowId) -> Result<bool, Error> {
        if self.lines.is_none() {
            return Ok(self.doing(id)? == Doing::Waiting);
        }
        let turn = self.turn(id)?;
        Ok(self.turns.as_ref().is_some_and(|turns| turns.contains(&turn)))
    }

    /// Whether nobody has a row of the same key.
    pub(crate) fn is_line_free(&mut self, id: RowId) -> Result<bool, Error> {
        let line = self.standing(id)?.line;
        Ok(self.lines.as_ref().is_none_or(|lines| !lines.is_busy(line)))
    }

    /// Lets the rows behind a row that somebody owns be given before it: it has no tries left.
    pub(crate) fn let_pass(&mut self, id: RowId) -> Result<(), Error> {
        let standing = self.standing(id)?;
        self.stand(standing, Doing::Gone)
    }

    /// The rows that may be given since the last call, and still may, in a queue with keys.
    pub(crate) fn take_ready(&mut self) -> BTreeSet<Turn> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|turn| self.turns.as_ref().is_some_and(|turns| turns.contains(turn)));
        ready
    }

    /// How many rows wait for another one of their key.
    pub(crate) fn behind(&self) -> u64 {
        let waiting = self.live - self.owned - self.later;
        let ready = self.lines.as_ref().and(self.turns.as_ref()).map(|turns| turns.len() as u64);
        ready.map_or(0, |ready| waiting - ready)
    }

    /// How many keys there are of which somebody has a row.
    pub(crate) fn keys_busy(&self) -> u64 {
        self.lines.as_ref().map_or(0, Lines::busy)
    }

    /// Puts all rows that wait in order, for an index that recovery has filled.
    pub(crate) fn order(&mut self) -> Result<(), Error> {
        if !self.is_ordered() {
            return Ok(());
        }
        let mut waiting = Vec::new();
        for segment in self.segments.values_mut().filter(|segment| segment.waiting() > 0) {
            waiting.extend(segment.waiting_rows()?);
        }
        waiting.into_iter().try_for_each(|standing| self.stand(standing, Doing::Waiting))
    }

    /// Notes what a row is doing, for the order in which rows are given.
    pub(super) fn stand(&mut self, row: Standing, doing: Doing) -> Result<(), Error> {
        if let Some(waits) = self.waits.as_mut().filter(|_| row.key != 0) {
            let entry = (row.key, row.turn.id);
            if matches!(doing, Doing::Waiting | Doing::Later) {
                waits.insert(entry)
            } else {
                waits.remove(&entry)
            };
        }
        let Some(lines) = self.lines.as_mut().filter(|_| row.line != 0) else {
            let waits = doing == Doing::Waiting;
            if self.lines.is_some() && waits {
                self.ready.insert(row.turn);
            }
            self.turns.iter_mut().for_each(|turns| {
                if waits {
                    turns.insert(row.turn)
                } else {
                    turns.remove(&row.turn)
                };
            });
            return Ok(());
        };
        let before = lines.head(row.line);
        lines.set(row.line, row.turn.id, doing);
        let after = lines.head(row.line);
        if before != after {
            // What is known of the row itself may be forgotten already.
            let mut turn = |head| if head == row.turn.id { Ok(row.turn) } else { self.turn(head) };
            let before = before.map(&mut turn).transpose()?;
            let after = after.map(turn).transpose()?;
            let turns = self.turns.get_or_insert_default();
            before.map(|head| turns.remove(&head));
            turns.extend(after);
            self.ready.extend(after);
        }
        Ok(())
    }
}
