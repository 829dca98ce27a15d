//! Turns counts into probabilities: interpolated Kneser-Ney, over any subset of the contexts.
//!
//! A context passes on to its parent one token for each symbol that it has an entry for, and every token of
//! the other symbols. So a parent is trained on the symbols for which it will be used.

use super::tree::Tree;
use crate::node::SYMBOLS;

/// Which contexts and entries the model has.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// By node: whether it is a state.
    pub(crate) node: Vec<bool>,
    /// By entry: whether the state has a slot for the symbol.
    pub(crate) entry: Vec<bool>,
}

impl Chosen {
    /// Everything.
    pub(crate) fn all(tree: &Tree) -> Self {
        Self { node: vec![true; tree.len()], entry: vec![true; tree.seen.len()] }
    }
}

/// Probabilities of every entry of every chosen node.
#[derive(Debug)]
pub(crate) struct Smooth {
    /// Tokens of each entry that its node accounts for.
    pub(crate) tokens: Vec<u32>,
    /// Probability of the symbol after the context.
    pub(crate) seen: Vec<f32>,
    /// The same with one token removed: what a string outside the training data meets.
    pub(crate) left_out: Vec<f32>,
}

impl Smooth {
    /// Estimates all probabilities for `chosen`.
    pub(crate) fn estimate(tree: &Tree, chosen: &Chosen) -> Self {
        let tokens = tokens(tree, chosen);
        let discounts = Discounts::of(tree, chosen, &tokens);
        let mut smooth = Self { seen: vec![0.0; tokens.len()], left_out: vec![0.0; tokens.len()], tokens };
        for node in 0..tree.len() {
            if chosen.node[node] {
                smooth.node(tree, node, discounts.at(tree.depth[node]));
            }
        }
        smooth
    }

    fn node(&mut self, tree: &Tree, node: usize, discount: &Discount) {
        let entries = tree.entries(node);
        let total: f64 = entries.clone().map(|entry| f64::from(self.tokens[entry])).sum();
        let held: f64 = entries.map(|entry| discount.of(self.tokens[entry])).sum();
        let uniform = 1.0 / f32::from(SYMBOLS);
        let (root, mut pairs) = (node == 0, Vec::new());
        tree.beside_parent(node, |entry, above| pairs.push((entry, above)));
        for (entry, above) in pairs {
            let count = self.tokens[entry];
            let (parent, parent_left) =
                if root { (uniform, uniform) } else { (self.seen[above], self.left_out[above]) };
            let own = f64::from(count) - discount.of(count);
            self.seen[entry] = narrow((own + held * f64::from(parent)) / total);
            self.left_out[entry] = if count >= 2 {
                let own = f64::from(count - 1) - discount.of(count - 1);
                let held = held - discount.of(count) + discount.of(count - 1);
                narrow((own + held * f64::from(parent)) / (total - 1.0))
            } else if total > 1.0 {
                narrow((held - discount.of(1)) * f64::from(parent_left) / (total - 1.0))
            } else {
                parent_left
            };
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "probabilities of 24 bits are finer than the slots")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Tokens that a node passes on to its parent for an entry.
pub(crate) fn passed_on(chosen: bool, tokens: u32) -> u32 {
    if chosen { 1 } else { tokens }
}

fn tokens(tree: &Tree, chosen: &Chosen) -> Vec<u32> {
    let mut tokens: Vec<u32> = tree.seen.iter().map(|seen| seen.count).collect();
    for node in (1..tree.len()).rev() {
        if chosen.node[node] {
            tree.beside_parent(node, |entry, above| {
                let passed = passed_on(chosen.entry[entry], tokens[entry]);
                tokens[above] = tokens[above] - tree.seen[entry].count + passed;
            });
        }
    }
    tokens
}

/// How much is taken off a count for unseen symbols, for counts 1, 2 and more.
#[derive(Debug, Clone, Copy)]
struct Discount([f64; 3]);

impl Discount {
    fn of(&self, count: u32) -> f64 {
        match count {
            0 => 0.0,
            1..=3 => self.0[count as usize - 1],
            _ => self.0[2],
        }
    }
}

/// Discounts by the length of the context, from the numbers of entries seen once, twice, three and four times
/// (Chen and Goodman 1998, equation 26).
struct Discounts(Vec<Discount>);

impl Discounts {
    fn of(tree: &Tree, chosen: &Chosen, tokens: &[u32]) -> Self {
        let depths = tree.depth.iter().copied().max().unwrap_or(0);
        let mut seen = vec![[0.0f64; 5]; usize::from(depths) + 1];
        for node in 0..tree.len() {
            if chosen.node[node] {
                for entry in tree.entries(node) {
                    if let Some(times) = seen[usize::from(tree.depth[node])].get_mut(tokens[entry] as usize) {
                        *times += 1.0;
                    }
                }
            }
        }
        Self(seen.iter().map(Self::formula).collect())
    }

    fn formula(n: &[f64; 5]) -> Discount {
        let y = n[1] / (n[1] + 2.0 * n[2]).max(1.0);
        let at = |count: usize| {
            let more = if n[count] > 0.0 { n[count + 1] / n[count] } else { 0.5 };
            #[expect(clippy::cast_precision_loss, reason = "1 to 3")]
            let count = count as f64;
            (count - (count + 1.0) * y * more).clamp(0.05, count - 0.05)
        };
        Discount([at(1), at(2), at(3)])
    }

    fn at(&self, depth: u8) -> &Discount {
        &self.0[usize::from(depth)]
    }
}
