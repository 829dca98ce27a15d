//! How far each condition has looked through a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::record::RowId;
use crate::{Condition, Filter};

/// Conditions whose progress is kept.
const CONDITIONS_MAX: usize = 256;

/// Rows that came back behind a condition's progress, before it starts over from the first of them.
const LATE_MAX: usize = 4096;

/// How far a condition has looked through the queue.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Rows before this one do not match, but for those that were not looked at: they are in `late`.
    pub(crate) next: u64,
    /// Rows before `next` that came back to the queue.
    pub(crate) late: BTreeSet<RowId>,
    used: u64,
    /// What it was compiled to.
    compiled: Option<Arc<Condition>>,
}

/// The progress of each condition, by its text.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    known: BTreeMap<Arc<str>, Progress>,
    uses: u64,
}

impl Conditions {
    /// A condition that was compiled before.
    pub(crate) fn compiled(&mut self, text: &str) -> Option<Arc<Condition>> {
        self.known.get(text).and_then(|progress| progress.compiled.clone())
    }

    /// Keeps a condition, to be compiled once.
    pub(crate) fn keep(&mut self, condition: &Arc<Condition>) {
        self.of(condition.text()).compiled = Some(condition.clone());
    }

    /// How far a condition has come.
    pub(crate) fn progress(&mut self, filter: &dyn Filter) -> &mut Progress {
        self.of(filter.text())
    }

    fn of(&mut self, text: &str) -> &mut Progress {
        self.uses += 1;
        if self.known.len() >= CONDITIONS_MAX && !self.known.contains_key(text) {
            let oldest = self.known.iter().min_by_key(|(_, progress)| progress.used);
            oldest.map(|(text, _)| text.clone()).into_iter().for_each(|text| {
                self.known.remove(&text);
            });
        }
        let progress = self.known.entry(text.into()).or_default();
        progress.used = self.uses;
        progress
    }

    /// A row came back: whoever has passed it must look at it.
    pub(crate) fn came_back(&mut self, id: RowId) {
        for progress in self.known.values_mut().filter(|progress| id.0 < progress.next) {
            progress.late.insert(id);
            if progress.late.len() > LATE_MAX {
                progress.next = progress.late.first().map_or(0, |first| first.0);
                progress.late.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
