//! Chooses the contexts that are worth their bytes.

use super::smooth::{Chosen, Smooth, passed_on};
use super::tree::Tree;
use crate::node::{ENTRY, HEAD, MANY, SYMBOLS};

/// Bits that avoiding one detour through the parent is worth. A detour costs time, and strings unlike the
/// training data take it more often than the estimate says. Three bits give a fifth fewer detours than half a
/// bit, and pack better.
const DETOUR: f64 = 3.0;

/// Bits that an entry or a state must save for each of its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price(pub(crate) f64);

/// Keeps what saves more than `price`, and what that requires: a kept context requires its suffixes and its
/// prefixes, a kept entry requires the parent state's entry.
pub(crate) fn prune(tree: &Tree, smooth: &Smooth, within: &Chosen, price: Price) -> Chosen {
    let mut chosen = Chosen { node: vec![false; tree.len()], entry: vec![false; tree.seen.len()] };
    chosen.node[0] = true;
    chosen.entry[tree.entries(0)].fill(true);
    chosen.node[tree.start()] = true;
    let tokens = tree.seen.iter().map(|seen| seen.count).collect();
    let mut judge = Pruner { tree, smooth, price, tokens, pairs: Vec::new() };
    for node in (1..tree.len()).rev() {
        if !within.node[node] {
            continue;
        }
        let gain = judge.worth(node, &mut chosen);
        if !chosen.node[node] && gain <= 0.0 {
            chosen.entry[tree.entries(node)].fill(false);
            continue;
        }
        chosen.node[node] = true;
        keep_one(tree, node, &mut chosen);
        require(tree, node, &mut chosen);
        judge.pass_on(&mut chosen);
    }
    chosen
}

/// Judges the nodes one by one, children before parents.
struct Pruner<'t> {
    tree: &'t Tree,
    smooth: &'t Smooth,
    price: Price,
    /// By entry: tokens that its node accounts for, given the children chosen so far.
    tokens: Vec<u32>,
    /// The entries of the current node, each with its parent's.
    pairs: Vec<(usize, usize)>,
}

impl Pruner<'_> {
    /// Marks the entries of `node` that are worth having. Returns the bits that the node saves beyond its
    /// price.
    fn worth(&mut self, node: usize, chosen: &mut Chosen) -> f64 {
        self.pairs.clear();
        self.tree.beside_parent(node, |entry, above| self.pairs.push((entry, above)));
        let smooth = self.smooth;
        let (mut own, mut parent) = (1.0, 1.0);
        for &(entry, above) in &self.pairs {
            if chosen.entry[entry] || smooth.tokens[entry] >= 2 {
                own -= f64::from(smooth.seen[entry]);
                parent -= f64::from(smooth.seen[above]);
            }
        }
        // The probabilities that the state leaves to its parent are scaled by this.
        let scale = own.max(1e-6) / parent.max(1e-6);
        let (entry_cost, head_cost) = (bytes(ENTRY) * self.price.0, bytes(HEAD - ENTRY) * self.price.0);
        let mut gain = -head_cost;
        for &(entry, above) in &self.pairs {
            let count = f64::from(self.tokens[entry]);
            let aside = scale * f64::from(smooth.left_out[above]);
            let saves = count * (f64::from(smooth.left_out[entry]) / aside).log2();
            let worth_it = smooth.tokens[entry] >= 2 && saves + count * DETOUR > entry_cost;
            if chosen.entry[entry] || worth_it {
                chosen.entry[entry] = true;
                gain += saves - entry_cost;
            } else {
                gain -= count * DETOUR;
            }
            gain += count * scale.log2();
        }
        gain
    }

    /// The current node was chosen: its parent needs the same entries, and gets the tokens that the node
    /// passes on.
    fn pass_on(&mut self, chosen: &mut Chosen) {
        for &(entry, above) in &self.pairs {
            chosen.entry[above] |= chosen.entry[entry];
            let passed = passed_on(chosen.entry[entry], self.tokens[entry]);
            self.tokens[above] = self.tokens[above] - self.tree.seen[entry].count + passed;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few bytes")]
fn bytes(count: usize) -> f64 {
    count as f64
}

/// A state has at least one entry, the hot one.
fn keep_one(tree: &Tree, node: usize, chosen: &mut Chosen) {
    let entries = tree.entries(node);
    if !chosen.entry[entries.clone()].contains(&true)
        && let Some(most) = entries.max_by_key(|&entry| tree.seen[entry].count)
    {
        chosen.entry[most] = true;
    }
}

/// Marks the suffix and the prefix of a chosen node, and the entry that leads from the prefix to it.
fn require(tree: &Tree, node: usize, chosen: &mut Chosen) {
    chosen.node[tree.parent[node] as usize] = true;
    let prefix = tree.prefix[node] as usize;
    chosen.node[prefix] = true;
    if let Some(entry) = tree.entry(prefix, tree.latest[node]) {
        chosen.entry[entry] = true;
    }
}

/// Bytes that the states of `chosen` take in the file, without chains.
pub(crate) fn size(tree: &Tree, chosen: &Chosen) -> usize {
    (0..tree.len())
        .filter(|&node| chosen.node[node])
        .map(|node| {
            let entries = tree.entries(node).filter(|&entry| chosen.entry[entry]).count();
            // The root always has every symbol.
            state_size(if node == 0 { usize::from(SYMBOLS) } else { entries })
        })
        .sum()
}

/// Bytes of a state with this many symbols, without a chain.
pub(crate) fn state_size(symbols: usize) -> usize {
    let others = symbols.saturating_sub(1);
    HEAD + if others >= usize::from(MANY) { 2 } else { 0 } + ENTRY * others
}
