//! How far each condition has looked through a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use condition::Condition;

use crate::Filter;
use crate::index::OrderKey;

/// How many conditions have their progress kept.
const CONDITIONS_MAX: usize = 256;

/// The most rows that may come back before a condition's progress; with more, it starts over from the first
/// of them.
const REVISIT_MAX: usize = 4096;

/// How far a condition has looked through the queue.
#[derive(Debug)]
pub(crate) struct ScanProgress {
    /// Rows before this one do not match, except those in `revisit`, which were not looked at.
    pub(crate) next: OrderKey,
    /// Rows before `next` that came back to the queue, or came to it.
    pub(crate) revisit: BTreeSet<OrderKey>,
    used: u64,
    /// The compiled condition.
    compiled: Option<Arc<Condition>>,
}

impl Default for ScanProgress {
    fn default() -> ScanProgress {
        ScanProgress { next: OrderKey::FIRST, revisit: BTreeSet::new(), used: 0, compiled: None }
    }
}

/// The progress of each condition, by its text.
#[derive(Debug, Default)]
pub(crate) struct ConditionCache {
    by_text: BTreeMap<Arc<str>, ScanProgress>,
    uses: u64,
}

impl ConditionCache {
    /// A condition that was already compiled.
    pub(crate) fn compiled(&mut self, text: &str) -> Option<Arc<Condition>> {
        self.by_text.get(text).and_then(|progress| progress.compiled.clone())
    }

    /// Keeps a condition, so that it is compiled only once.
    pub(crate) fn keep(&mut self, condition: &Arc<Condition>) {
        self.of(condition.text()).compiled = Some(condition.clone());
    }

    /// The progress of a condition.
    pub(crate) fn progress(&mut self, filter: &dyn Filter) -> &mut ScanProgress {
        self.of(filter.text())
    }

    fn of(&mut self, text: &str) -> &mut ScanProgress {
        self.uses += 1;
        if self.by_text.len() >= CONDITIONS_MAX && !self.by_text.contains_key(text) {
            let oldest = self.by_text.iter().min_by_key(|(_, progress)| progress.used);
            oldest.map(|(text, _)| text.clone()).into_iter().for_each(|text| {
                self.by_text.remove(&text);
            });
        }
        let progress = self.by_text.entry(text.into()).or_default();
        progress.used = self.uses;
        progress
    }

    /// A row came back, or is new: conditions that have passed its place must look at it.
    pub(crate) fn revisit(&mut self, order_key: OrderKey) {
        for progress in self.by_text.values_mut().filter(|progress| order_key < progress.next) {
            progress.revisit.insert(order_key);
            if progress.revisit.len() > REVISIT_MAX {
                progress.next = progress.revisit.first().copied().unwrap_or(OrderKey::FIRST);
                progress.revisit.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_text.clear();
    }
}
