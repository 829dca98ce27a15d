//! How far each condition has looked through a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::index::Turn;
use crate::{Condition, Filter};

/// How many conditions have their progress kept.
const CONDITIONS_MAX: usize = 256;

/// The most rows that may come back before a condition's progress; with more, it starts over from the first
/// of them.
const LATE_MAX: usize = 4096;

/// How far a condition has looked through the queue.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Rows before this one do not match, except those in `late`, which were not looked at.
    pub(crate) next: Turn,
    /// Rows before `next` that came back to the queue, or came to it.
    pub(crate) late: BTreeSet<Turn>,
    used: u64,
    /// The compiled condition.
    compiled: Option<Arc<Condition>>,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { next: Turn::FIRST, late: BTreeSet::new(), used: 0, compiled: None }
    }
}

/// The progress of each condition, by its text.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    known: BTreeMap<Arc<str>, Progress>,
    uses: u64,
}

impl Conditions {
    /// A condition that was already compiled.
    pub(crate) fn compiled(&mut self, text: &str) -> Option<Arc<Condition>> {
        self.known.get(text).and_then(|progress| progress.compiled.clone())
    }

    /// Keeps a condition, so that it is compiled only once.
    pub(crate) fn keep(&mut self, condition: &Arc<Condition>) {
        self.of(condition.text()).compiled = Some(condition.clone());
    }

    /// The progress of a condition.
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

    /// A row came back, or is new: conditions that have passed its place must look at it.
    pub(crate) fn came_back(&mut self, turn: Turn) {
        for progress in self.known.values_mut().filter(|progress| turn < progress.next) {
            progress.late.insert(turn);
            if progress.late.len() > LATE_MAX {
                progress.next = progress.late.first().copied().unwrap_or(Turn::FIRST);
                progress.late.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }
}
