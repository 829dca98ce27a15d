//! All contexts of the training data: a tree whose path from the root reads a context backwards.

use crate::node::{EOS, Symbol};

/// Longest context in symbols. Twelve gain 0.1 points over ten; the sort key has room for thirteen.
pub(crate) const ORDER_MAX: u32 = 12;
/// Stands before the first byte of every string; no string contains it.
pub(crate) const START: Symbol = 257;

const BITS: u32 = 9;
const NONE: u32 = u32::MAX;

/// Every position in the training data, as the symbols before it (latest first) and the symbol that follows.
#[derive(Debug, Default)]
pub(crate) struct Positions(Vec<u128>);

impl Positions {
    /// Adds the positions of one string.
    pub(crate) fn add(&mut self, line: &[u8]) {
        let top = BITS * ORDER_MAX;
        // After the start symbol come zeros, which no context includes.
        let mut context = u128::from(START) << (top - BITS);
        for &byte in line {
            let symbol = u128::from(byte) + 1;
            self.0.push(context << BITS | symbol);
            context = (context >> BITS) | symbol << (top - BITS);
        }
        self.0.push(context << BITS | u128::from(EOS));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn sort(&mut self) {
        self.0.sort_unstable();
    }

    /// The symbol `depth` positions back, counted from 0.
    #[expect(clippy::cast_possible_truncation, reason = "cut to nine bits")]
    fn context(&self, place: usize, depth: u32) -> Symbol {
        (self.0[place] >> (BITS * (ORDER_MAX - depth))) as Symbol & 0x1ff
    }

    #[expect(clippy::cast_possible_truncation, reason = "cut to nine bits")]
    fn next(&self, place: usize) -> Symbol {
        self.0[place] as Symbol & 0x1ff
    }
}

/// A symbol that was seen after a context, and how often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SymbolCount {
    pub(crate) symbol: Symbol,
    pub(crate) count: u32,
}

/// The contexts that occur at least twice. Node 0 is the empty context; children have larger numbers.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The context without its oldest symbol.
    pub(crate) parent: Vec<u32>,
    /// The context without its latest symbol; for the empty context and the start it is the context itself.
    pub(crate) prefix: Vec<u32>,
    /// The oldest symbol.
    pub(crate) oldest: Vec<Symbol>,
    /// The latest symbol.
    pub(crate) latest: Vec<Symbol>,
    pub(crate) depth: Vec<u8>,
    /// First child. The children of a node are adjacent, in symbol order, and end where the next node's
    /// begin.
    children: Vec<u32>,
    /// First entry of each node in `seen`, and the end of the last node's.
    pub(crate) entries: Vec<u32>,
    /// The entries, in symbol order within a node.
    pub(crate) seen: Vec<SymbolCount>,
}

/// A node whose children are not made yet.
struct Range {
    start: usize,
    end: usize,
}

impl Tree {
    /// Builds the tree of all positions.
    pub(crate) fn build(mut places: Positions) -> Self {
        places.sort();
        let mut tree = Self {
            parent: vec![0],
            prefix: vec![0],
            oldest: vec![START],
            latest: vec![START],
            depth: vec![0],
            children: Vec::new(),
            entries: vec![0],
            seen: Vec::new(),
        };
        let mut level = vec![Range { start: 0, end: places.len() }];
        let mut first = 0;
        for depth in 0..=ORDER_MAX {
            let mut deeper = Vec::new();
            for (index, range) in level.iter().enumerate() {
                tree.count(&places, range);
                tree.children.push(number(tree.parent.len()));
                if depth < ORDER_MAX {
                    tree.split(&places, range, first + index, &mut deeper);
                }
            }
            first += level.len();
            level = deeper;
        }
        tree.children.push(number(tree.parent.len()));
        tree.link();
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.parent.len()
    }

    /// The indexes of the entries of `node`.
    pub(crate) fn entries(&self, node: usize) -> std::ops::Range<usize> {
        self.entries[node] as usize..self.entries[node + 1] as usize
    }

    /// The index of the entry of `symbol` in `node`.
    pub(crate) fn entry(&self, node: usize, symbol: Symbol) -> Option<usize> {
        let entries = self.entries(node);
        let found = self.seen[entries.clone()].binary_search_by_key(&symbol, |seen| seen.symbol).ok()?;
        Some(entries.start + found)
    }

    /// Calls `each` with the index of each entry of `node` and that of its parent's entry for the same
    /// symbol.
    pub(crate) fn beside_parent(&self, node: usize, mut each: impl FnMut(usize, usize)) {
        let mut above = self.entries(self.parent[node] as usize).start;
        for entry in self.entries(node) {
            while self.seen[above].symbol != self.seen[entry].symbol {
                above += 1;
            }
            each(entry, above);
        }
    }

    fn count(&mut self, places: &Positions, range: &Range) {
        let mut counts = [0u32; 257];
        let mut symbols = Vec::with_capacity(8);
        for place in range.start..range.end {
            let symbol = places.next(place);
            if counts[usize::from(symbol)] == 0 {
                symbols.push(symbol);
            }
            counts[usize::from(symbol)] += 1;
        }
        symbols.sort_unstable();
        self.seen
            .extend(symbols.iter().map(|&symbol| SymbolCount { symbol, count: counts[usize::from(symbol)] }));
        self.entries.push(number(self.seen.len()));
    }

    fn split(&mut self, places: &Positions, range: &Range, node: usize, deeper: &mut Vec<Range>) {
        // Nothing comes before the start.
        if node != 0 && self.oldest[node] == START {
            return;
        }
        let depth = u32::from(self.depth[node]);
        let mut start = range.start;
        while start < range.end {
            let symbol = places.context(start, depth);
            let mut end = start + 1;
            while end < range.end && places.context(end, depth) == symbol {
                end += 1;
            }
            if end - start >= 2 || (node == 0 && symbol == START) {
                self.parent.push(number(node));
                self.oldest.push(symbol);
                self.latest.push(if node == 0 { symbol } else { self.latest[node] });
                self.depth.push(self.depth[node] + 1);
                deeper.push(Range { start, end });
            }
            start = end;
        }
    }

    fn child(&self, node: usize, symbol: Symbol) -> Option<usize> {
        let range = self.children[node] as usize..self.children[node + 1] as usize;
        let found = self.oldest[range.clone()].binary_search(&symbol).ok()?;
        Some(range.start + found)
    }

    fn link(&mut self) {
        self.prefix = vec![0; self.len()];
        for node in 1..self.len() {
            let parent = self.parent[node] as usize;
            self.prefix[node] = match (parent, self.oldest[node]) {
                (0, START) => number(node),
                (0, _) => 0,
                (_, oldest) => self.child(self.prefix[parent] as usize, oldest).map_or(NONE, number),
            };
        }
        assert!(!self.prefix.contains(&NONE), "a prefix occurs at least as often as the whole");
    }

    /// The context of the start of a string.
    pub(crate) fn start(&self) -> usize {
        self.child(0, START).unwrap_or(0)
    }
}

/// The size of the training data is limited so that every number of a node or entry fits.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
