//! One state of the model as it lies in the file, for reading only.
//!
//! `docs/formats/urlpack.md` describes the layout. Nothing here can fail, even while a model is still being
//! checked (`file.rs`): no offset is outside a `AddressSpace`.

use std::hint::select_unpredictable;

use crate::model_memory::{AddressSpace, load};
use crate::search::{WINDOW, run_at_most, run_below};

/// A state divides its interval into slots. The last of 65,536 is never used, so that a bound fits into 16
/// bits.
pub(crate) const SLOTS: u32 = 65_535;
/// Bytes of a state before its chain and its entries.
pub(crate) const HEAD: usize = 12;
/// Bytes of a chain.
pub(crate) const CHAIN: usize = 16;
/// Bytes of an entry, which every symbol but the hot one has: 2 for its first slot, 1 for the symbol, 1 for
/// the width, 3 for the next state.
pub(crate) const ENTRY: usize = 7;
/// This bit of the first byte says that a chain follows the head.
pub(crate) const HAS_CHAIN: u8 = 0x80;
/// This entry count says that the true count follows in two bytes.
pub(crate) const MANY: u8 = 0x7f;
/// Longest chain in bytes: it is copied as one 64-bit word.
pub(crate) const CHAIN_LEN_MAX: usize = 8;
/// As the next state this means that the string ends here.
pub(crate) const END: u32 = 0;

/// What follows in a string: 0 is its end, `b + 1` is the byte `b`. The end sorts first, as in memcmp.
pub(crate) type Symbol = u16;
/// Number of different symbols.
pub(crate) const SYMBOLS: u16 = 257;
/// Stands for the neighbour of a gap at the first or the last slot.
pub(crate) const NO_SYMBOL: Symbol = u16::MAX;
/// The end of the string.
pub(crate) const EOS: Symbol = 0;

/// A symbol with its interval of slots and the state it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    pub(crate) byte: u8,
    pub(crate) next: u32,
}

impl Slot {
    #[inline(always)]
    pub(crate) fn symbol(&self) -> Symbol {
        symbol_of(self.byte, self.next)
    }
}

/// The interval between two adjacent slots: its symbols are distinguished by the parent state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    /// The symbol whose slot ends where the gap begins, or [`NO_SYMBOL`].
    pub(crate) after: Symbol,
    /// The symbol whose slot begins where the gap ends, or [`NO_SYMBOL`].
    pub(crate) before: Symbol,
}

/// A part of a state, in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Within {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
}

/// What holds a slot number or a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    Slot(Slot),
    Gap(Gap),
}

/// Decodes a one-byte width into slots: 4 bits of exponent, 4 of mantissa, within 3 % of any width.
#[inline(always)]
pub(crate) fn width_of(code: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(code >> 4), u32::from(code & 15));
    ((16 + mantissa) << exponent) >> 4
}

/// Little-endian 16-bit number at `at`.
#[inline(always)]
fn u16_at(space: &AddressSpace, at: usize) -> u32 {
    u32::from(u16::from_le_bytes(load(space, at)))
}

/// The head of a state as one word, so that one load reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head(u128);

#[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
impl Head {
    #[inline(always)]
    pub(crate) fn at(space: &AddressSpace, offset: u32) -> Self {
        Self(u128::from_le_bytes(load(space, offset as usize)))
    }
    #[inline(always)]
    pub(crate) fn has_chain(self) -> bool {
        self.0 as u8 & HAS_CHAIN != 0
    }
    #[inline(always)]
    pub(crate) fn short_count(self) -> u8 {
        self.0 as u8 & MANY
    }
    #[inline(always)]
    pub(crate) fn parent(self) -> u32 {
        (self.0 >> 8) as u32 & 0xff_ffff
    }
    #[inline(always)]
    pub(crate) fn hot_byte(self) -> u8 {
        (self.0 >> 32) as u8
    }
    #[inline(always)]
    pub(crate) fn hot_next(self) -> u32 {
        (self.0 >> 40) as u32 & 0xff_ffff
    }
    #[inline(always)]
    pub(crate) fn hot_lo(self) -> u32 {
        u32::from((self.0 >> 64) as u16)
    }
    #[inline(always)]
    pub(crate) fn hot_hi(self) -> u32 {
        u32::from((self.0 >> 80) as u16)
    }
    #[inline(always)]
    pub(crate) fn hot_symbol(self) -> Symbol {
        symbol_of(self.hot_byte(), self.hot_next())
    }
    /// The symbols around one that sorts below or above the hot one, as a gap names them.
    #[inline(always)]
    pub(crate) fn beside_hot(self, below: bool) -> (Symbol, Symbol) {
        if below { (NO_SYMBOL, self.hot_symbol()) } else { (self.hot_symbol(), NO_SYMBOL) }
    }
    #[inline(always)]
    pub(crate) fn hot(self) -> Slot {
        Slot { lo: self.hot_lo(), hi: self.hot_hi(), byte: self.hot_byte(), next: self.hot_next() }
    }
}

/// An entry without a next state is the end of the string; every other entry is its byte.
#[inline(always)]
fn symbol_of(byte: u8, next: u32) -> Symbol {
    if next == END { EOS } else { Symbol::from(byte) + 1 }
}

/// The likely continuation of a state, coded in one step: up to eight bytes, and perhaps the end after them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain(u128);

#[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
impl Chain {
    /// The chain of a state whose head says that it has one.
    #[inline(always)]
    pub(crate) fn at(space: &AddressSpace, offset: u32) -> Self {
        Self(u128::from_le_bytes(load(space, offset as usize + HEAD)))
    }
    #[inline(always)]
    pub(crate) fn lo(self) -> u32 {
        u32::from(self.0 as u16)
    }
    #[inline(always)]
    pub(crate) fn hi(self) -> u32 {
        u32::from((self.0 >> 16) as u16)
    }
    #[inline(always)]
    pub(crate) fn next(self) -> u32 {
        (self.0 >> 32) as u32 & 0xff_ffff
    }
    /// 1 to 8; loading the file has checked that the five upper bits of the byte are zero.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        ((self.0 >> 56) as usize & 7) + 1
    }
    pub(crate) fn len_byte(self) -> u8 {
        (self.0 >> 56) as u8
    }
    /// The bytes, the first one lowest.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        (self.0 >> 64) as u64
    }
    #[inline(always)]
    pub(crate) fn bytes(self) -> [u8; CHAIN_LEN_MAX] {
        self.word().to_le_bytes()
    }
    /// The symbol at `index`: a byte of the chain, or the end after its last byte.
    pub(crate) fn symbol(self, index: usize) -> Symbol {
        if index < self.len() { Symbol::from(self.bytes()[index & 7]) + 1 } else { EOS }
    }
}

/// The interval that a chain keeps after one more of its symbols; what it loses on both sides is for other
/// strings.
///
/// `outer` is the interval so far, `hot` that of the symbol in its own state. Each side keeps at least one
/// slot if any string lies there, so that every string can be coded.
pub(crate) fn narrow(outer: (u32, u32), hot: (u32, u32)) -> (u32, u32) {
    let span = u64::from(outer.1 - outer.0);
    let share = |slots: u32| if slots == 0 { 0 } else { ((span * u64::from(slots)) >> 16).max(1) };
    #[expect(clippy::cast_possible_truncation, reason = "a share of a span is at most the span")]
    let (below, above) = (share(hot.0) as u32, share(SLOTS - hot.1) as u32);
    (outer.0 + below, outer.1.saturating_sub(above))
}

/// A state with its entries, for everything off the hot path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'m> {
    pub(crate) head: Head,
    space: &'m AddressSpace,
    count: usize,
    entries: usize,
}

impl<'m> Node<'m> {
    #[inline(always)]
    pub(crate) fn at(space: &'m AddressSpace, offset: u32) -> Self {
        Self::with_head(space, offset, Head::at(space, offset))
    }

    #[inline(always)]
    pub(crate) fn with_head(space: &'m AddressSpace, offset: u32, head: Head) -> Self {
        let mut entries = offset as usize + HEAD + if head.has_chain() { CHAIN } else { 0 };
        let mut count = usize::from(head.short_count());
        if count == usize::from(MANY) {
            count = u16_at(space, entries) as usize;
            entries += 2;
        }
        Self { head, space, count, entries }
    }

    /// Number of entries, without the hot one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Offset of the first byte after the state.
    pub(crate) fn end(&self) -> usize {
        self.entries + self.count * ENTRY
    }

    #[inline(always)]
    fn lo(&self, index: usize) -> u32 {
        u16_at(self.space, self.entries + 2 * index)
    }

    #[inline(always)]
    fn byte(&self, index: usize) -> u8 {
        let [byte] = load(self.space, self.entries + 2 * self.count + index);
        byte
    }

    /// The symbol of an entry. Its next state is read only if the symbol may be the end.
    #[inline(always)]
    fn symbol(&self, index: usize) -> Symbol {
        let byte = self.byte(index);
        if byte == 0 { symbol_of(byte, self.next(index)) } else { Symbol::from(byte) + 1 }
    }

    /// Width and next state, which are stored together.
    #[inline(always)]
    fn width_and_next(&self, index: usize) -> (u32, u32) {
        let [width, next @ ..] = load::<4>(self.space, self.entries + 3 * self.count + 4 * index);
        let [a, b, c] = next;
        (width_of(width), u32::from_le_bytes([a, b, c, 0]))
    }

    #[inline(always)]
    fn next(&self, index: usize) -> u32 {
        self.width_and_next(index).1
    }

    /// The entry at `index`, in symbol order, without the hot one.
    #[inline(always)]
    pub(crate) fn slot(&self, index: usize) -> Slot {
        let (lo, (width, next)) = (self.lo(index), self.width_and_next(index));
        Slot { lo, hi: lo + width, byte: self.byte(index), next }
    }

    /// The slot or gap that holds slot number `x`.
    #[inline(always)]
    pub(crate) fn find(&self, x: u16) -> Lookup {
        let hot = self.head.hot();
        let place = u32::from(x);
        if place.wrapping_sub(hot.lo) < hot.hi - hot.lo {
            return Lookup::Slot(hot);
        }
        let above = self.count_from(x);
        // Slots before the first entry do not matter.
        let below = self.slot(above.saturating_sub(1));
        if (above > 0) & (place < below.hi) {
            Lookup::Slot(below)
        } else {
            Lookup::Gap(self.gap(above, place < hot.lo))
        }
    }

    /// Number of entries whose first slot is at most `x`.
    #[inline(always)]
    fn count_from(&self, x: u16) -> usize {
        let mut count = 0;
        loop {
            let run = run_at_most(load(self.space, self.entries + 2 * count), x);
            count += run;
            if run < WINDOW / size_of::<u16>() || count >= self.count {
                return count.min(self.count);
            }
        }
    }

    /// The gap between entry `above` and the entry before it, cut at the hot symbol.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is the symbol")]
    fn gap(&self, above: usize, before_hot: bool) -> Gap {
        let hot = self.head.hot();
        // Each neighbour is a bound and a symbol in one number: the nearest neighbour is the greatest below
        // or the least above. Which one it is can't be predicted, so all are read without a branch.
        let joined = |bound: u32, symbol: Symbol| bound << 16 | u32::from(symbol);
        let below = self.slot(above.saturating_sub(1));
        let (first, last) = (joined(0, NO_SYMBOL), joined(SLOTS, NO_SYMBOL));
        let after = select_unpredictable(above > 0, joined(below.hi, below.symbol()), first);
        let before = joined(self.lo(above), self.symbol(above));
        let before = select_unpredictable(above < self.count, before, last);
        let hot_before = select_unpredictable(before_hot, joined(hot.lo, hot.symbol()), last);
        let hot_after = select_unpredictable(before_hot, first, joined(hot.hi, hot.symbol()));
        let (after, before) = (after.max(hot_after), before.min(hot_before));
        let apart = |both: u32| (both >> 16, both as Symbol);
        let ((lo, after), (hi, before)) = (apart(after), apart(before));
        Gap { lo, hi, after, before }
    }

    /// The slot of `symbol`, or the gap that it lies in.
    #[inline(always)]
    pub(crate) fn find_symbol(&self, symbol: Symbol) -> Lookup {
        let hot = self.head.hot();
        if hot.symbol() == symbol {
            return Lookup::Slot(hot);
        }
        let above = self.count_before(symbol);
        if above < self.count {
            let slot = self.slot(above);
            if slot.symbol() == symbol {
                return Lookup::Slot(slot);
            }
        }
        Lookup::Gap(self.gap(above, symbol < hot.symbol()))
    }

    /// Number of entries whose symbol sorts before `symbol`.
    #[inline(always)]
    fn count_before(&self, symbol: Symbol) -> usize {
        let Some(byte) = symbol.checked_sub(1) else { return 0 };
        let [byte, _] = byte.to_le_bytes();
        let mut count = 0;
        loop {
            let run = run_below(load(self.space, self.entries + 2 * self.count + count), byte);
            count += run;
            if run < WINDOW || count >= self.count {
                break;
            }
        }
        // The end is stored as byte 0 and sorts before the real byte 0.
        count.min(self.count) + usize::from(byte == 0 && self.count > 0 && self.next(0) == END)
    }

    /// The slots between two symbols of this state, to which a child's gap refers.
    #[inline(always)]
    pub(crate) fn within(&self, after: Symbol, before: Symbol) -> Within {
        let hot = self.head.hot();
        let lo = self.slot(self.count_before(after)).hi;
        let lo = select_unpredictable(after == hot.symbol(), hot.hi, lo);
        let hi = self.lo(self.count_before(before));
        let hi = select_unpredictable(before == hot.symbol(), hot.lo, hi);
        Within {
            lo: select_unpredictable(after == NO_SYMBOL, 0, lo),
            hi: select_unpredictable(before == NO_SYMBOL, SLOTS, hi),
        }
    }

    /// All slots in symbol order, including the hot one.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let hot = self.head.hot();
        let split = (0..self.count).position(|index| self.lo(index) > hot.lo).unwrap_or(self.count);
        let (below, above) = (0..split, split..self.count);
        below
            .map(|index| self.slot(index))
            .chain(std::iter::once(hot))
            .chain(above.map(|index| self.slot(index)))
    }

    /// Whether the end of the string, if it is an entry, has byte 0, as the search of the entries requires.
    pub(crate) fn end_is_zero(&self) -> bool {
        self.count == 0 || self.next(0) != END || self.byte(0) == 0
    }

    /// Whether the state has a slot for `symbol`.
    pub(crate) fn knows(&self, symbol: Symbol) -> bool {
        matches!(self.find_symbol(symbol), Lookup::Slot(_))
    }
}
