//! The graph of waits, and the tree that shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Who holds a lock or waits for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Party {
    /// A connection, by its number.
    Connection(u64),
    /// A prepared XA transaction whose client is gone, by InnoDB's number of it.
    Prepared(String),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Connection(id) => write!(f, "{id}"),
            Party::Prepared(id) => write!(f, "XA transaction {id}"),
        }
    }
}

/// What a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// Rows of InnoDB.
    Row,
    /// The definition of a table or of another object.
    Metadata,
    /// A name of `GET_LOCK`.
    User,
    /// The server as a whole: FLUSH TABLES WITH READ LOCK, BACKUP STAGE and the like.
    Server,
    /// A table of an engine that locks whole tables.
    Table,
    /// A table that FLUSH TABLES waits to see closed.
    Flush,
}

impl LockKind {
    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Row => "row",
            LockKind::Metadata => "metadata",
            LockKind::User => "user",
            LockKind::Server => "server",
            LockKind::Table => "table",
            LockKind::Flush => "flush",
        }
    }
}

/// A lock that somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// What it is on.
    pub kind: LockKind,
    /// The object: a table, a table and an index, a name; empty for the server as a whole.
    pub object: String,
    /// What is asked for, in the server's words.
    pub mode: String,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lock { kind, object, mode } = self;
        match kind {
            LockKind::Row => write!(f, "a row of {object} ({mode})"),
            LockKind::Metadata => write!(f, "the metadata lock of {object} ({mode})"),
            LockKind::User => write!(f, "the lock '{object}' of GET_LOCK"),
            LockKind::Server => write!(f, "the lock of the server ({mode})"),
            LockKind::Table => write!(f, "the table lock of {object}"),
            LockKind::Flush => f.write_str("statements that use tables to be flushed"),
        }
    }
}

/// Somebody waits for a lock that somebody else holds or has asked for before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Who waits.
    pub waiter: Party,
    /// For whom.
    pub holder: Party,
    /// For which lock.
    pub lock: Lock,
    /// Whether the server says so; otherwise it is concluded from statements and times.
    pub is_certain: bool,
}

/// A place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Who it is.
    pub party: Party,
    /// How many holders are above it.
    pub depth: usize,
    /// Whether it was shown before, under another holder; its waiters are there.
    pub is_repeated: bool,
    /// What it waits for that the holder above it has; none of a root.
    pub wait: Option<Wait>,
}

impl Node {
    /// Somebody who is in no tree.
    #[must_use]
    pub fn alone(party: Party, depth: usize) -> Node {
        Node { party, depth, is_repeated: false, wait: None }
    }
}

/// The waits as a tree in the order of its lines: those who wait for nobody first, each followed by those who
/// wait for it, the one with the most waiters first. If all of a group wait for each other, the first of them
/// is the root.
#[must_use]
pub fn tree(waits: &[Wait]) -> Vec<Node> {
    let behind = behind(waits);
    let waiters: BTreeSet<&Party> = waits.iter().map(|wait| &wait.waiter).collect();
    let mut roots: Vec<&Party> = behind.keys().copied().filter(|party| !waiters.contains(party)).collect();
    roots.sort_by_cached_key(|root| std::cmp::Reverse(below(&behind, root).len()));
    let mut walk = Walk { behind: &behind, seen: BTreeSet::new(), nodes: Vec::new() };
    // What no root leads to is in a circle.
    for root in roots.into_iter().chain(behind.keys().copied()) {
        if !walk.seen.contains(root) {
            walk.visit(root);
        }
    }
    walk.nodes
}

/// Everybody who waits for somebody, directly or behind others.
#[must_use]
pub(crate) fn waiting_behind(waits: &[Wait], party: &Party) -> usize {
    below(&behind(waits), party).len()
}

/// Those who wait for each holder, each with its first wait for it.
type Behind<'a> = BTreeMap<&'a Party, BTreeMap<&'a Party, &'a Wait>>;

fn behind(waits: &[Wait]) -> Behind<'_> {
    let mut behind = Behind::new();
    for wait in waits {
        behind.entry(&wait.holder).or_default().entry(&wait.waiter).or_insert(wait);
    }
    behind
}

fn below<'a>(behind: &Behind<'a>, party: &'a Party) -> BTreeSet<&'a Party> {
    let (mut found, mut next) = (BTreeSet::new(), vec![party]);
    while let Some(party) = next.pop() {
        let more = behind.get(party).into_iter().flat_map(|waiters| waiters.keys().copied());
        next.extend(more.filter(|one| found.insert(*one)));
    }
    found.remove(party);
    found
}

struct Walk<'a> {
    behind: &'a Behind<'a>,
    seen: BTreeSet<&'a Party>,
    nodes: Vec<Node>,
}

impl<'a> Walk<'a> {
    /// Adds somebody and all who wait for it, without recursion: a chain may be as long as the process list.
    fn visit(&mut self, root: &'a Party) {
        let mut next: Vec<(&Party, usize, Option<&Wait>)> = vec![(root, 0, None)];
        while let Some((party, depth, wait)) = next.pop() {
            let is_repeated = !self.seen.insert(party);
            self.nodes.push(Node { party: party.clone(), depth, is_repeated, wait: wait.cloned() });
            if !is_repeated {
                let waiters = self.behind.get(party).into_iter().flatten();
                next.extend(waiters.rev().map(|(waiter, wait)| (*waiter, depth + 1, Some(*wait))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(pairs: &[(u64, u64)]) -> Vec<Wait> {
        let lock = Lock { kind: LockKind::Row, object: "d.t".into(), mode: "X".into() };
        let [waiter, holder] = [0, 1].map(|_| Party::Connection);
        let one = |(w, h): &(u64, u64)| Wait {
            waiter: waiter(*w),
            holder: holder(*h),
            lock: lock.clone(),
            is_certain: true,
        };
        pairs.iter().map(one).collect()
    }

    /// Indented numbers; a repeated one has a plus.
    fn shown(pairs: &[(u64, u64)]) -> String {
        let line = |node: &Node| {
            let plus = if node.is_repeated { "+" } else { "" };
            format!("{}{}{plus}", " ".repeat(node.depth), node.party)
        };
        tree(&waits(pairs)).iter().map(line).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_place_has_the_wait_for_the_one_above_it() {
        let waits = waits(&[(3, 1), (3, 2), (4, 3)]);
        let of =
            |node: &Node| node.wait.as_ref().map(|wait| (wait.waiter.to_string(), wait.holder.to_string()));
        let pair = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        let expected = [None, pair("3", "1"), pair("4", "3"), None, pair("3", "2")];
        assert_eq!(tree(&waits).iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_root_of_a_chain_is_first() {
        assert_eq!(shown(&[(3, 2), (2, 9), (4, 9)]), "9, 2,  3, 4");
        // The one with the most waiters first, whatever its number.
        assert_eq!(shown(&[(3, 1), (5, 8), (6, 5)]), "8, 5,  6,1, 3");
    }

    #[test]
    fn a_waiter_with_two_holders_is_expanded_once() {
        assert_eq!(shown(&[(3, 1), (3, 2), (4, 3)]), "1, 3,  4,2, 3+");
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(shown(&[(1, 2), (2, 1), (3, 2)]), "1, 2,  1+,  3");
        assert_eq!(waiting_behind(&waits(&[(1, 2), (2, 1), (3, 2)]), &Party::Connection(2)), 2);
    }

    #[test]
    fn queue_100_waiters_linear() {
        let pairs: Vec<(u64, u64)> = (2..=101).map(|waiter| (waiter, 1)).collect();
        assert_eq!(tree(&waits(&pairs)).len(), 101);
        assert_eq!(waiting_behind(&waits(&pairs), &Party::Connection(1)), 100);
    }
}
