//! Which contexts are worth their bytes.

use super::smooth::{Chosen, Smooth, passed_on};
use super::tree::Tree;
use crate::node::{ENTRY, HEAD};

/// Bits that an entry or state must save for each of its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Price(pub(crate) f64);

/// Keeps what saves more than `price`, and what that needs: every kept context needs its suffixes and its
/// prefixes, every kept entry the one of the parent state.
pub(crate) fn prune(tree: &Tree, smooth: &Smooth, within: &Chosen, price: Price) -> Chosen {
    let mut chosen =
        Chosen { node: vec![false; tree.len()], entry: vec![false; tree.seen.len()] };
    let mut tokens: Vec<u32> = tree.seen.iter().map(|seen| seen.count).collect();
    chosen.node[0] = true;
    chosen.entry[tree.entries(0)].fill(true);
    chosen.node[tree.start()] = true;
    for node in (1..tree.len()).rev() {
        if !within.node[node] {
            continue;
        }
        let gain = worth(tree, smooth, node, &tokens, price, &mut chosen);
        if !chosen.node[node] && gain <= 0.0 {
            chosen.entry[tree.entries(node)].fill(false);
            continue;
        }
        chosen.node[node] = true;
        keep_one(tree, node, &mut chosen);
        require(tree, node, &mut chosen);
        tree.beside_parent(node, |entry, above| {
            chosen.entry[above] |= chosen.entry[entry];
            tokens[above] = tokens[above] - tree.seen[entry].count + passed_on(chosen.entry[entry], tokens[entry]);
        });
    }
    chosen
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

/// Marks the entries of `node` worth having, and gives what the node saves beyond its price in bits.
fn worth(
    tree: &Tree,
    smooth: &Smooth,
    node: usize,
    tokens: &[u32],
    price: Price,
    chosen: &mut Chosen,
) -> f64 {
    let mut pairs = Vec::new();
    tree.beside_parent(node, |entry, above| pairs.push((entry, above)));
    let (mut own, mut parent) = (1.0, 1.0);
    for &(entry, above) in &pairs {
        if chosen.entry[entry] || smooth.tokens[entry] >= 2 {
            own -= f64::from(smooth.seen[entry]);
            parent -= f64::from(smooth.seen[above]);
        }
    }
    // What the state leaves to its parent is scaled by this.
    let scale = own.max(1e-6) / parent.max(1e-6);
    let (entry_cost, head_cost) = (bytes(ENTRY) * price.0, bytes(HEAD - ENTRY) * price.0);
    let mut gain = -head_cost;
    for (entry, above) in pairs {
        let count = f64::from(tokens[entry]);
        let aside = scale * f64::from(smooth.left_out[above]);
        let saves = count * (f64::from(smooth.left_out[entry]) / aside).log2();
        if chosen.entry[entry] || (smooth.tokens[entry] >= 2 && saves > entry_cost) {
            chosen.entry[entry] = true;
            gain += saves - entry_cost;
        }
        gain += count * scale.log2();
    }
    gain
}

fn bytes(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few bytes")]
    let bytes = count as f64;
    bytes
}

/// Bytes that the states of `chosen` take in the file, chains not counted.
pub(crate) fn size(tree: &Tree, chosen: &Chosen) -> usize {
    (0..tree.len())
        .filter(|&node| chosen.node[node])
        .map(|node| {
            let entries = tree.entries(node).filter(|&entry| chosen.entry[entry]).count();
            HEAD + ENTRY * entries.saturating_sub(1)
        })
        .sum()
}
