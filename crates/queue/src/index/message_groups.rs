//! Message groups: of the rows with the same key only the first ones may be given: as many as may be owned at
//! the same time, which is usually one, and as many as the rate of the key leaves.

use std::collections::{BTreeMap, BTreeSet};

use super::key_rate::KeyRate;
use super::{OrderKey, RowState};
use crate::Definition;
use crate::format::record::RowId;

/// The message groups of a queue. Every change takes O(log n) in the number of all rows, however large
/// the group is; without a rate, for each row of it that may be owned at once.
#[derive(Debug)]
pub(crate) struct MessageGroups {
    /// How many rows of a group may be owned at the same time, if that is limited.
    concurrency: Option<usize>,
    /// The waiting rows that may be given, by group, and in it in the order in which they are given.
    heads: BTreeSet<(u64, OrderKey)>,
    /// The other waiting rows. All of a group come after those that may be given.
    behind: BTreeSet<(u64, OrderKey)>,
    /// The owned rows, by group, if it matters how many there are.
    busy: BTreeSet<(u64, RowId)>,
    /// How many rows of a group may be given within a time, if that is limited.
    rate: Option<KeyRate>,
    /// The groups of which no row may be given.
    paused: BTreeSet<u64>,
    /// How many rows of each group may be given, if there may be many of one.
    counts: BTreeMap<u64, usize>,
}

/// Which rows may be given after a change of a group and could not before, and the other way round.
#[derive(Debug, Default)]
pub(super) struct GroupChange {
    pub(super) came: Vec<RowId>,
    pub(super) gone: Vec<RowId>,
}

impl GroupChange {
    fn come(&mut self, row: RowId) {
        self.came.push(row);
    }

    fn go(&mut self, row: RowId) {
        match self.came.iter().position(|came| *came == row) {
            Some(at) => drop(self.came.swap_remove(at)),
            None => self.gone.push(row),
        }
    }
}

impl MessageGroups {
    /// The groups of a queue; nothing when its rows are in none.
    pub(super) fn of(definition: &Definition) -> Option<MessageGroups> {
        let order = definition.order;
        order.group()?;
        let concurrency = usize::try_from(order.concurrency).unwrap_or(usize::MAX).max(1);
        Some(MessageGroups {
            concurrency: order.fifo.map(|_| concurrency),
            heads: BTreeSet::new(),
            behind: BTreeSet::new(),
            busy: BTreeSet::new(),
            rate: definition.rate.filter(|_| order.rate_key.is_some()).map(KeyRate::new),
            paused: BTreeSet::new(),
            counts: BTreeMap::new(),
        })
    }

    /// Limits groups as these do, which are given up.
    pub(super) fn adopt_limits(&mut self, old: &mut MessageGroups) {
        self.rate = old.rate.take();
        self.paused = std::mem::take(&mut old.paused);
    }

    /// The groups of which no row may be given.
    pub(super) fn paused(&self) -> &BTreeSet<u64> {
        &self.paused
    }

    /// Pauses or resumes a group.
    pub(super) fn set_paused(&mut self, group: u64, paused: bool) -> GroupChange {
        if paused {
            self.paused.insert(group);
        } else {
            self.paused.remove(&group);
        }
        let mut change = GroupChange::default();
        self.settle(group, &mut change);
        change
    }

    pub(super) fn has_rate(&self) -> bool {
        self.rate.is_some()
    }

    /// Notes that a row of a group is given, before it is taken.
    pub(super) fn note_given(&mut self, group: u64, up_ms: u64) {
        if group != 0 {
            self.rate.iter_mut().for_each(|rate| rate.note(group, up_ms));
        }
    }

    /// Forgets the first row that was given a span ago; nothing when there is none.
    pub(super) fn forget_given(&mut self, up_ms: u64) -> Option<GroupChange> {
        let group = self.rate.as_mut()?.forget_one(up_ms)?;
        let mut change = GroupChange::default();
        self.settle(group, &mut change);
        Some(change)
    }

    /// When to look again whether more rows may be given.
    pub(super) fn due(&self) -> Option<u64> {
        self.rate.as_ref().and_then(KeyRate::due)
    }

    /// Whether as many rows of this group are owned as may be.
    pub(super) fn is_busy(&self, group: u64) -> bool {
        self.concurrency.is_some_and(|most| of_busy(&self.busy, group).nth(most - 1).is_some())
    }

    /// The number of groups with an owned row.
    pub(super) fn busy(&self) -> u64 {
        let mut before = None;
        self.busy.iter().filter(|(group, _)| before.replace(*group) != Some(*group)).count() as u64
    }

    /// Notes the state of a row of a group.
    pub(super) fn set(&mut self, group: u64, row: OrderKey, row_state: RowState) -> GroupChange {
        // Within a key the order is that of insertion, also for urgent rows.
        let place = if self.concurrency.is_some() { OrderKey { priority: 0, ..row } } else { row };
        let (entry, mut change) = ((group, place), GroupChange::default());
        if self.concurrency.is_some() {
            if row_state == RowState::Owned {
                self.busy.insert((group, row.id));
            } else {
                self.busy.remove(&(group, row.id));
            }
        }
        if row_state == RowState::Waiting {
            let is_first = first_of(&self.behind, group).is_none_or(|next| place < next);
            if is_first && self.heads_of(group) < self.room(group) && self.heads.insert(entry) {
                // What is usual is not put behind the others first.
                self.count_heads(group, |count| count + 1);
                change.come(row.id);
                return change;
            }
            if !self.heads.contains(&entry) {
                self.behind.insert(entry);
            }
        } else if self.heads.remove(&entry) {
            self.count_heads(group, |count| count - 1);
            change.go(row.id);
        } else {
            self.behind.remove(&entry);
        }
        self.settle(group, &mut change);
        change
    }

    /// Has the first rows of a group be those that may be given, and as many as may be.
    fn settle(&mut self, group: u64, change: &mut GroupChange) {
        let (room, before) = (self.room(group), self.heads_of(group));
        let mut count = before;
        loop {
            let (last, next) = (last_of(&self.heads, group), first_of(&self.behind, group));
            match (last, next) {
                (_, Some(next)) if count < room => {
                    self.behind.remove(&(group, next));
                    self.heads.insert((group, next));
                    change.come(next.id);
                    count += 1;
                }
                // One too many, or one that came before it.
                (Some(last), _) if count > room || next.is_some_and(|next| next < last) => {
                    self.heads.remove(&(group, last));
                    self.behind.insert((group, last));
                    change.go(last.id);
                    count -= 1;
                }
                _ => break,
            }
        }
        if count != before {
            self.count_heads(group, |_| count);
        }
    }

    /// How many waiting rows of a group may be given now.
    fn room(&self, group: u64) -> usize {
        if self.paused.contains(&group) {
            return 0;
        }
        let left = self.rate.as_ref().map_or(usize::MAX, |rate| rate.left(group));
        let free = self.concurrency.map(|most| most - of_busy(&self.busy, group).take(most).count());
        left.min(free.unwrap_or(usize::MAX))
    }

    /// How many rows of a group are among those that may be given.
    fn heads_of(&self, group: u64) -> usize {
        match self.concurrency {
            // They are few.
            Some(_) => of_group(&self.heads, group).count(),
            None => self.counts.get(&group).copied().unwrap_or(0),
        }
    }

    fn count_heads(&mut self, group: u64, count: impl FnOnce(usize) -> usize) {
        if self.concurrency.is_some() {
            return;
        }
        let count = count(self.heads_of(group));
        if count == 0 {
            self.counts.remove(&group);
        } else {
            self.counts.insert(group, count);
        }
    }

    /// Bytes of memory that they take, about.
    pub(super) fn memory(&self) -> usize {
        // Nodes of the sets are half full.
        (self.heads.len() + self.behind.len()) * 2 * size_of::<(u64, OrderKey)>()
            + self.busy.len() * 2 * size_of::<(u64, RowId)>()
            + self.paused.len() * 2 * size_of::<u64>()
            + self.counts.len() * 2 * size_of::<(u64, usize)>()
            + self.rate.as_ref().map_or(0, KeyRate::memory)
    }
}

fn of_group(set: &BTreeSet<(u64, OrderKey)>, group: u64) -> impl DoubleEndedIterator<Item = OrderKey> {
    set.range((group, OrderKey::FIRST)..=(group, OrderKey::LAST)).map(|(_, row)| *row)
}

fn first_of(set: &BTreeSet<(u64, OrderKey)>, group: u64) -> Option<OrderKey> {
    of_group(set, group).next()
}

fn last_of(set: &BTreeSet<(u64, OrderKey)>, group: u64) -> Option<OrderKey> {
    of_group(set, group).next_back()
}

fn of_busy(set: &BTreeSet<(u64, RowId)>, group: u64) -> impl Iterator<Item = RowId> {
    set.range((group, RowId(0))..=(group, RowId(u64::MAX))).map(|(_, row)| *row)
}
