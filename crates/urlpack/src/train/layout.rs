//! Turns the chosen contexts into the bytes of a model.

use super::prune::state_size;
use super::smooth::{Chosen, Smooth};
use super::tree::{Tree, number};
use crate::file::{HEADER, NODES_MAX};
use crate::node::{
    CHAIN, CHAIN_LEN_MAX, END, EOS, HAS_CHAIN, MANY, SLOTS, SYMBOLS, Symbol, narrow, width_of,
};

/// A chain must be followed by at least this share of its state's slots.
const CHAIN_SLOTS_MIN: u32 = SLOTS / 2;
/// No state.
const NONE: u32 = u32::MAX;

/// A state before it is written: its slots, and the numbers of the states that they lead to.
#[derive(Debug, Clone, Default)]
struct State {
    parent: u32,
    slots: Vec<Slot>,
    hot: usize,
    /// How often training was in this state and in no longer one.
    visits: u64,
    chain: Option<Chain>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    symbol: Symbol,
    lo: u32,
    hi: u32,
    width: u8,
    next: u32,
}

#[derive(Debug, Clone)]
struct Chain {
    slots: (u32, u32),
    bytes: Vec<u8>,
    next: u32,
}

/// The states of a model, as bytes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) nodes: Vec<u8>,
    /// Offset of the state that every string starts in.
    pub(crate) start: u32,
    pub(crate) count: u32,
}

/// Lays out the states of `chosen` with chains in at most `chain_bytes`.
pub(crate) fn lay_out(tree: &Tree, smooth: &Smooth, chosen: &Chosen, chain_bytes: usize) -> Written {
    let (mut states, start) = states(tree, smooth, chosen);
    add_chains(&mut states, chain_bytes / CHAIN);
    write(&states, start)
}

fn states(tree: &Tree, smooth: &Smooth, chosen: &Chosen) -> (Vec<State>, u32) {
    let mut state_of = vec![NONE; tree.len()];
    let mut nodes = Vec::new();
    for (node, state) in state_of.iter_mut().enumerate() {
        if chosen.node[node] {
            *state = number(nodes.len());
            nodes.push(node);
        }
    }
    // Maps the entry of a context's last symbol to the context.
    let mut longer = vec![NONE; tree.seen.len()];
    for &node in &nodes {
        if let Some(entry) = tree.entry(tree.prefix[node] as usize, tree.latest[node]) {
            longer[entry] = state_of[node];
        }
    }
    let build = Build { tree, smooth, chosen, longer };
    let mut states: Vec<State> = Vec::with_capacity(nodes.len());
    for &node in &nodes {
        let state = if node == 0 {
            root(&build)
        } else {
            let suffix = state_of[tree.parent[node] as usize];
            inner(&build, node, suffix, &states)
        };
        states.push(state);
    }
    count_visits(tree, chosen, &state_of, &mut states);
    let start = state_of[tree.start()];
    (states, start)
}

/// What states are made from.
struct Build<'t> {
    tree: &'t Tree,
    smooth: &'t Smooth,
    chosen: &'t Chosen,
    /// By entry: the state of the context which the entry's symbol extends by one, or `NONE`.
    longer: Vec<u32>,
}

/// The state of the empty context, which knows all symbols.
fn root(build: &Build<'_>) -> State {
    let (tree, smooth) = (build.tree, build.smooth);
    let entries = tree.entries(0);
    let seen: f64 = entries.clone().map(|entry| f64::from(smooth.seen[entry])).sum();
    let unseen = usize::from(SYMBOLS) - entries.len();
    #[expect(clippy::cast_precision_loss, reason = "at most 257")]
    let rest = (1.0 - seen).max(0.0) / unseen.max(1) as f64;
    let mut shares: Vec<SlotShare> = (0..SYMBOLS)
        .map(|symbol| {
            let entry = tree.entry(0, symbol);
            let share = entry.map_or(rest, |entry| f64::from(smooth.seen[entry]));
            let next = entry.map_or(NONE, |entry| build.longer[entry]);
            SlotShare { symbol, share, gap: 0.0, next: if next == NONE && symbol != EOS { 0 } else { next } }
        })
        .collect();
    let (slots, hot) = allocate_slots(&mut shares, 0.0);
    State { parent: 0, slots, hot, ..State::default() }
}

/// The state of a context; `suffix` is the state of the context without its oldest symbol.
fn inner(build: &Build<'_>, node: usize, suffix: u32, states: &[State]) -> State {
    let (tree, chosen) = (build.tree, build.chosen);
    let entries: Vec<usize> = tree.entries(node).filter(|&entry| chosen.entry[entry]).collect();
    // A suffix with the same symbols would distinguish none of the symbols that this state leaves to it.
    let mut parent = suffix;
    while parent != 0 && states[parent as usize].slots.len() == entries.len() {
        parent = states[parent as usize].parent;
    }
    let (mut near, mut above) = (Cursor::of(&states[suffix as usize]), Cursor::of(&states[parent as usize]));
    let mut shares = Vec::with_capacity(entries.len());
    let (mut from, mut own, mut gaps) = (0, 0.0, 0.0);
    for entry in entries {
        let symbol = tree.seen[entry].symbol;
        let share = f64::from(build.smooth.seen[entry]);
        let slot = above.at(symbol);
        let gap = f64::from(slot.lo - from);
        let longer = build.longer[entry];
        let next = if longer == NONE { near.at(symbol).next } else { longer };
        shares.push(SlotShare { symbol, share, gap, next });
        from = slot.hi;
        own += share;
        gaps += gap;
    }
    let last = f64::from(SLOTS - from);
    // The parent's slots in the gaps are scaled to what this state leaves to the parent.
    let scale = (1.0 - own).max(1e-7) / (gaps + last).max(1.0);
    for slot_share in &mut shares {
        slot_share.gap *= scale;
    }
    let (slots, hot) = allocate_slots(&mut shares, last * scale);
    State { parent, slots, hot, ..State::default() }
}

/// Finds symbols, in ascending order, among those of a state that knows them all.
struct Cursor<'s> {
    slots: &'s [Slot],
}

impl<'s> Cursor<'s> {
    fn of(state: &'s State) -> Self {
        Self { slots: &state.slots }
    }

    fn at(&mut self, symbol: Symbol) -> Slot {
        let skip = self.slots.partition_point(|slot| slot.symbol < symbol);
        self.slots = &self.slots[skip..];
        self.slots[0]
    }
}

/// A symbol, the share of the slots that it should get, and the share of the gap before it.
struct SlotShare {
    symbol: Symbol,
    share: f64,
    gap: f64,
    next: u32,
}

/// Turns shares into slots. Everything possible gets at least one slot; the likeliest symbol absorbs the
/// rounding.
fn allocate_slots(shares: &mut [SlotShare], last_gap: f64) -> (Vec<Slot>, usize) {
    let hot = (0..shares.len()).max_by(|&a, &b| shares[a].share.total_cmp(&shares[b].share)).unwrap_or(0);
    let mut scale = f64::from(SLOTS);
    loop {
        let mut slots = Vec::with_capacity(shares.len());
        let mut at = 0;
        for (index, slot_share) in shares.iter().enumerate() {
            at += whole(slot_share.gap * scale);
            let width = if index == hot { 0 } else { nearest_width(slot_share.share * scale) };
            let hi = if index == hot { at } else { at + width_of(width) };
            slots.push(Slot { symbol: slot_share.symbol, lo: at, hi, width, next: slot_share.next });
            at = hi;
        }
        at += whole(last_gap * scale);
        // Many rare symbols may leave no room: shrink what is above one slot.
        if at < SLOTS {
            let rest = SLOTS - at;
            slots[hot].hi += rest;
            for slot in &mut slots[hot + 1..] {
                slot.lo += rest;
                slot.hi += rest;
            }
            return (slots, hot);
        }
        scale *= 0.95;
    }
}

/// Slots of a gap: none if nothing can lie in it, at least one otherwise.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the slots")]
fn whole(slots: f64) -> u32 {
    if slots <= 0.0 { 0 } else { (slots.round() as u32).clamp(1, SLOTS) }
}

/// The one-byte width nearest to `slots`.
fn nearest_width(slots: f64) -> u8 {
    let mut code = 0;
    let mut best = f64::MAX;
    for candidate in 0..=u8::MAX {
        let off = (f64::from(width_of(candidate)) - slots).abs();
        if off < best {
            (code, best) = (candidate, off);
        }
    }
    code
}

/// Counts the training places whose longest chosen context is the state's.
fn count_visits(tree: &Tree, chosen: &Chosen, state_of: &[u32], states: &mut [State]) {
    let total =
        |node: usize| -> u64 { tree.seen[tree.entries(node)].iter().map(|s| u64::from(s.count)).sum() };
    for node in (0..tree.len()).rev() {
        if !chosen.node[node] {
            continue;
        }
        let seen = total(node);
        let own = &mut states[state_of[node] as usize].visits;
        // The chosen children came before and took their share.
        *own = own.wrapping_add(seen);
        if node > 0 {
            let parent = state_of[tree.parent[node] as usize] as usize;
            states[parent].visits = states[parent].visits.wrapping_sub(seen);
        }
    }
}

/// Gives chains to the most visited states that can have one.
fn add_chains(states: &mut [State], most: usize) {
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by_key(|&state| std::cmp::Reverse(states[state].visits));
    let mut given = 0;
    for state in order {
        if given == most {
            break;
        }
        if let Some(chain) = chain(states, state) {
            states[state].chain = Some(chain);
            given += 1;
        }
    }
}

fn chain(states: &[State], state: usize) -> Option<Chain> {
    let first = states[state].slots[states[state].hot];
    if first.symbol == EOS {
        return None;
    }
    let mut chain = Chain { slots: (first.lo, first.hi), bytes: vec![byte(first.symbol)], next: first.next };
    let mut steps = 1;
    loop {
        let here = &states[chain.next as usize];
        let hot = here.slots[here.hot];
        let slots = narrow(chain.slots, (hot.lo, hot.hi));
        let ends = hot.symbol == EOS;
        if slots.1.saturating_sub(slots.0) < CHAIN_SLOTS_MIN || (!ends && chain.bytes.len() == CHAIN_LEN_MAX)
        {
            break;
        }
        chain.slots = slots;
        chain.next = hot.next;
        steps += 1;
        if ends {
            break;
        }
        chain.bytes.push(byte(hot.symbol));
    }
    (steps > 1).then_some(chain)
}

#[expect(clippy::cast_possible_truncation, reason = "symbols of bytes are 1 to 256")]
fn byte(symbol: Symbol) -> u8 {
    symbol.wrapping_sub(1) as u8
}

/// The order of the states in the file: states that are read together lie together.
///
/// Starting from the most visited state without a place, follows the likeliest next state as long as most
/// visits of that state come this way. Then moves states within a short distance so that few of them span two
/// cache lines.
fn order(states: &[State]) -> Vec<usize> {
    let mut by_visits: Vec<usize> = (1..states.len()).collect();
    by_visits.sort_by_key(|&state| std::cmp::Reverse(states[state].visits));
    let mut placed = vec![false; states.len()];
    let mut order = vec![0];
    placed[0] = true;
    for state in by_visits {
        let mut next = Some(state).filter(|&state| !placed[state]);
        while let Some(state) = next {
            placed[state] = true;
            order.push(state);
            next = way_on(states, state).filter(|&next| !placed[next]);
        }
    }
    fit_lines(states, order)
}

/// The most frequent next state, if most of its visits come from this state.
fn way_on(states: &[State], state: usize) -> Option<usize> {
    let here = &states[state];
    let hot = here.slots[here.hot];
    let (lo, hi, next) =
        here.chain.as_ref().map_or((hot.lo, hot.hi, hot.next), |c| (c.slots.0, c.slots.1, c.next));
    let next = next as usize;
    if next >= states.len() {
        return None;
    }
    let come = u128::from(here.visits) * u128::from(hi - lo) / u128::from(SLOTS);
    (come * 2 >= u128::from(states[next].visits)).then_some(next)
}

/// How many states to look ahead for one that fits into the rest of a cache line.
const LOOK_AHEAD: usize = 32;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Moves states forward so that they lie within one cache line. The file is assumed to begin at the start of
/// one.
fn fit_lines(states: &[State], order: Vec<usize>) -> Vec<usize> {
    let mut waiting: std::collections::VecDeque<usize> = order.into();
    let mut fitted = Vec::with_capacity(waiting.len());
    // The root stays first.
    fitted.extend(waiting.pop_front());
    let mut at = HEADER + size(&states[0]);
    while !waiting.is_empty() {
        let room = LINE - at % LINE;
        // A state that leaves less room than the smallest state needs would push the next one over the edge.
        let fits = |state: &usize| {
            room.checked_sub(size(&states[*state])).is_some_and(|left| left == 0 || left >= state_size(1))
        };
        let index =
            if room == LINE { 0 } else { waiting.iter().take(LOOK_AHEAD).position(fits).unwrap_or(0) };
        let Some(state) = waiting.remove(index) else { break };
        at += size(&states[state]);
        fitted.push(state);
    }
    fitted
}

fn write(states: &[State], start: u32) -> Written {
    let order = order(states);
    let mut offsets = vec![0u32; states.len()];
    let mut at = HEADER;
    for &state in &order {
        offsets[state] = number(at);
        at += size(&states[state]);
    }
    let mut nodes = Vec::with_capacity(at);
    for &state in &order {
        write_state(&states[state], &offsets, &mut nodes);
    }
    debug_assert!(nodes.len() + HEADER == at && at <= NODES_MAX);
    Written { nodes, start: offsets[start as usize], count: number(states.len()) }
}

fn size(state: &State) -> usize {
    state_size(state.slots.len()) + if state.chain.is_some() { CHAIN } else { 0 }
}

#[expect(clippy::cast_possible_truncation, reason = "slots and counts fit by construction")]
fn write_state(state: &State, offsets: &[u32], out: &mut Vec<u8>) {
    let hot = state.slots[state.hot];
    let others =
        || state.slots.iter().enumerate().filter(|&(index, _)| index != state.hot).map(|(_, slot)| slot);
    let offset = |next: u32, symbol: Symbol| if symbol == EOS { END } else { offsets[next as usize] };
    let put24 = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes()[..3]);
    let count = state.slots.len() - 1;
    let short = count.min(usize::from(MANY)) as u8;
    out.push(short | if state.chain.is_some() { HAS_CHAIN } else { 0 });
    put24(out, offsets[state.parent as usize]);
    out.push(if hot.symbol == EOS { 0 } else { byte(hot.symbol) });
    put24(out, offset(hot.next, hot.symbol));
    out.extend_from_slice(&(hot.lo as u16).to_le_bytes());
    out.extend_from_slice(&(hot.hi as u16).to_le_bytes());
    if let Some(chain) = &state.chain {
        let ends = chain.next == NONE;
        out.extend_from_slice(&(chain.slots.0 as u16).to_le_bytes());
        out.extend_from_slice(&(chain.slots.1 as u16).to_le_bytes());
        put24(out, if ends { END } else { offsets[chain.next as usize] });
        out.push(chain.bytes.len() as u8 - 1);
        let mut bytes = [0; CHAIN_LEN_MAX];
        bytes[..chain.bytes.len()].copy_from_slice(&chain.bytes);
        out.extend_from_slice(&bytes);
    }
    if short == MANY {
        out.extend_from_slice(&(count as u16).to_le_bytes());
    }
    others().for_each(|slot| out.extend_from_slice(&(slot.lo as u16).to_le_bytes()));
    others().for_each(|slot| out.push(if slot.symbol == EOS { 0 } else { byte(slot.symbol) }));
    for slot in others() {
        out.push(slot.width);
        put24(out, offset(slot.next, slot.symbol));
    }
}
