//! Strings to intervals.

use crate::coder::Encoder;
use crate::model_memory::AddressSpace;
use crate::node::{Chain, END, EOS, Head, Lookup, Node, Symbol, Within, narrow};

/// Narrows `encoder` along `bytes` from state `start`, and along the end of the string if `whole`.
///
/// False if `bytes` stop inside a chain: the chain's interval has no free slot.
pub(crate) fn encode(
    space: &AddressSpace,
    start: u32,
    bytes: &[u8],
    whole: bool,
    encoder: &mut Encoder<'_>,
) -> bool {
    let (mut state, mut rest) = (start, bytes);
    loop {
        let head = Head::at(space, state);
        if head.has_chain() {
            let chain = Chain::at(space, state);
            match match_chain(chain, rest, whole) {
                ChainMatch::Complete => {
                    encoder.narrow(chain.lo(), chain.hi());
                    state = chain.next();
                    rest = rest.get(chain.len()..).unwrap_or(&[]);
                    if state == END {
                        return true;
                    }
                    continue;
                }
                ChainMatch::Leaves(0) => {}
                ChainMatch::Leaves(after) => {
                    let symbol = symbol_at(rest, after);
                    state = leave_chain(space, head, after, symbol, encoder);
                    rest = rest.get(after + 1..).unwrap_or(&[]);
                    if state == END {
                        return true;
                    }
                    continue;
                }
                ChainMatch::Prefix(0) => return true,
                ChainMatch::Prefix(after) => {
                    let (_, outer) = walk(space, head, after);
                    encoder.narrow(outer.0, outer.1);
                    return false;
                }
            }
        }
        let symbol = match rest.split_first() {
            Some((&byte, tail)) => {
                rest = tail;
                Symbol::from(byte) + 1
            }
            None if whole => EOS,
            None => return true,
        };
        state = if symbol == head.hot_symbol() {
            encoder.narrow(head.hot_lo(), head.hot_hi());
            head.hot_next()
        } else {
            step(space, state, head, symbol, encoder)
        };
        if state == END {
            return true;
        }
    }
}

/// How a string and a chain agree.
enum ChainMatch {
    /// The string contains the whole chain.
    Complete,
    /// It agrees with this many symbols of the chain and continues with another one.
    Leaves(usize),
    /// It is a prefix that ends after this many symbols of the chain.
    Prefix(usize),
}

#[inline(always)]
fn match_chain(chain: Chain, rest: &[u8], whole: bool) -> ChainMatch {
    let len = chain.len();
    let word = match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(word)
        }
    };
    let same = ((word ^ chain.word()).trailing_zeros() / 8) as usize;
    if same < len && same < rest.len() {
        return ChainMatch::Leaves(same);
    }
    if rest.len() < len {
        return if whole { ChainMatch::Leaves(rest.len()) } else { ChainMatch::Prefix(rest.len()) };
    }
    match chain.next() {
        END if rest.len() > len => ChainMatch::Leaves(len),
        END if !whole => ChainMatch::Prefix(len),
        _ => ChainMatch::Complete,
    }
}

fn symbol_at(rest: &[u8], index: usize) -> Symbol {
    rest.get(index).map_or(EOS, |&byte| Symbol::from(byte) + 1)
}

/// The state after `after` symbols of a chain, and the slots of the chain's state that remain.
pub(crate) fn walk(space: &AddressSpace, head: Head, after: usize) -> (u32, (u32, u32)) {
    let (mut state, mut outer) = (head.hot_next(), (head.hot_lo(), head.hot_hi()));
    for _ in 1..after {
        let head = Head::at(space, state);
        outer = narrow(outer, (head.hot_lo(), head.hot_hi()));
        state = head.hot_next();
    }
    (state, outer)
}

/// Codes `symbol`, which departs from the chain of the state with `head` after `after` of its symbols.
#[inline(always)]
fn leave_chain(
    space: &AddressSpace,
    head: Head,
    after: usize,
    symbol: Symbol,
    encoder: &mut Encoder<'_>,
) -> u32 {
    let (state, outer) = walk(space, head, after);
    let head = Head::at(space, state);
    let inner = narrow(outer, (head.hot_lo(), head.hot_hi()));
    let below = symbol < head.hot_symbol();
    let side = if below { (outer.0, inner.0) } else { (inner.1, outer.1) };
    encoder.narrow(side.0, side.1);
    let node = Node::with_head(space, state, head);
    let (after, before) = head.beside_hot(below);
    step_within(space, node, symbol, node.within(after, before), encoder)
}

/// Codes a symbol that is not the hot one.
#[inline(always)]
fn step(space: &AddressSpace, state: u32, head: Head, symbol: Symbol, encoder: &mut Encoder<'_>) -> u32 {
    let node = Node::with_head(space, state, head);
    match node.find_symbol(symbol) {
        Lookup::Slot(slot) => {
            encoder.narrow(slot.lo, slot.hi);
            slot.next
        }
        Lookup::Gap(gap) => {
            encoder.narrow(gap.lo, gap.hi);
            let parent = Node::at(space, head.parent());
            step_within(space, parent, symbol, parent.within(gap.after, gap.before), encoder)
        }
    }
}

/// Codes a symbol known to lie in the slots `within` of `node`.
#[inline(always)]
fn step_within<'m>(
    space: &'m AddressSpace,
    mut node: Node<'m>,
    symbol: Symbol,
    mut within: Within,
    encoder: &mut Encoder<'_>,
) -> u32 {
    loop {
        match node.find_symbol(symbol) {
            Lookup::Slot(slot) => {
                encoder.narrow_within((slot.lo, slot.hi), (within.lo, within.hi));
                return slot.next;
            }
            Lookup::Gap(gap) => {
                encoder.narrow_within((gap.lo, gap.hi), (within.lo, within.hi));
                node = Node::at(space, node.head.parent());
                within = node.within(gap.after, gap.before);
            }
        }
    }
}
