//! One state of the model as it lies in the file: reading only.
//!
//! The layout is described in `docs/formats/urlpack.md`. Every offset in here was proven to be inside the
//! file when the model was loaded (`file.rs`), so the readers below give zeros instead of an error.

/// Intervals of a state are counted in slots; the last of 65,536 is never used, so that a bound fits 16 bits.
pub(crate) const SLOTS: u32 = 65_535;
/// Bytes of a state before its chain and its entries.
pub(crate) const HEAD: usize = 12;
/// Bytes of a chain.
pub(crate) const CHAIN: usize = 16;
/// Bytes of an entry beside the hot one: 2 for its first slot, 1 width, 1 symbol, 3 next state.
pub(crate) const ENTRY: usize = 7;
/// Bit of the first byte that says that a chain follows the head.
pub(crate) const HAS_CHAIN: u8 = 0x80;
/// Entry count that says that the true count follows in two bytes.
pub(crate) const MANY: u8 = 0x7f;
/// Longest chain in bytes: it is copied as one 64-bit word.
pub(crate) const CHAIN_LEN_MAX: usize = 8;
/// A next state of 0 means that the string ends here.
pub(crate) const END: u32 = 0;

/// What follows in a string: 0 is its end, `b + 1` the byte `b`. The end sorts first, as memcmp has it.
pub(crate) type Symbol = u16;
/// Number of different symbols.
pub(crate) const SYMBOLS: u16 = 257;
/// Stands where a gap begins or ends with the slots.
pub(crate) const NO_SYMBOL: Symbol = u16::MAX;
/// The end of the string.
pub(crate) const EOS: Symbol = 0;

/// A symbol with its interval of slots and the state it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    pub(crate) symbol: Symbol,
    pub(crate) next: u32,
}

/// The interval between two neighbouring slots: symbols that the parent state tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    /// The symbol whose slot ends where the gap begins, or [`NO_SYMBOL`].
    pub(crate) after: Symbol,
    /// The symbol whose slot begins where the gap ends, or [`NO_SYMBOL`].
    pub(crate) before: Symbol,
}

/// A part of a state: slots, and the entries that lie in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Within {
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    start: usize,
    end: usize,
}

impl Within {
    /// The whole state.
    #[inline(always)]
    pub(crate) fn all(node: &Node<'_>) -> Self {
        Self { lo: 0, hi: SLOTS, start: 0, end: node.count }
    }

    /// The slots below or above those of the hot symbol.
    #[inline(always)]
    pub(crate) fn beside_hot(node: &Node<'_>, below: bool) -> Self {
        let all = Self::all(node);
        if below { Self { hi: node.head.hot_lo(), ..all } } else { Self { lo: node.head.hot_hi(), ..all } }
    }
}

/// Where a slot number or a symbol was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Slot(Slot),
    Gap(Gap),
}

/// Width in slots of a one-byte width: 4 bits of exponent, 4 of mantissa, within 3 % of any width.
#[inline(always)]
pub(crate) fn width_of(code: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(code >> 4), u32::from(code & 15));
    ((16 + mantissa) << exponent) >> 4
}

/// `N` bytes at `at`, or zeros where the file ends before.
#[inline(always)]
pub(crate) fn bytes_at<const N: usize>(file: &[u8], at: usize) -> [u8; N] {
    file.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

/// Little-endian 16-bit number at `at`.
#[inline(always)]
pub(crate) fn u16_at(file: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes(bytes_at(file, at)))
}

/// Little-endian 24-bit number at `at`.
#[inline(always)]
pub(crate) fn u24_at(file: &[u8], at: usize) -> u32 {
    let [a, b, c] = bytes_at(file, at);
    u32::from_le_bytes([a, b, c, 0])
}

/// The head of a state as one word, so that reading it costs one load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head(u128);

#[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
impl Head {
    #[inline(always)]
    pub(crate) fn at(file: &[u8], offset: u32) -> Self {
        Self(u128::from_le_bytes(bytes_at(file, offset as usize)))
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
    #[inline(always)]
    pub(crate) fn hot(self) -> Slot {
        Slot { lo: self.hot_lo(), hi: self.hot_hi(), symbol: self.hot_symbol(), next: self.hot_next() }
    }
}

/// An entry that leads nowhere is the end of the string; every other one is its byte.
#[inline(always)]
fn symbol_of(byte: u8, next: u32) -> Symbol {
    if next == END { EOS } else { Symbol::from(byte) + 1 }
}

/// The likely continuation of a state, coded in one step: up to eight bytes, perhaps the end after them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain(u128);

#[expect(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
impl Chain {
    /// The chain of a state whose head says that it has one.
    #[inline(always)]
    pub(crate) fn at(file: &[u8], offset: u32) -> Self {
        Self(u128::from_le_bytes(bytes_at(file, offset as usize + HEAD)))
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
    /// 1 to 8; the five upper bits of the byte are proven zero when the file is loaded.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        ((self.0 >> 56) as usize & 7) + 1
    }
    pub(crate) fn len_byte(self) -> u8 {
        (self.0 >> 56) as u8
    }
    /// The bytes, first one lowest.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        (self.0 >> 64) as u64
    }
    #[inline(always)]
    pub(crate) fn bytes(self) -> [u8; CHAIN_LEN_MAX] {
        self.word().to_le_bytes()
    }
    /// The symbol at `index`: a byte of the chain, or the end behind its last byte.
    pub(crate) fn symbol(self, index: usize) -> Symbol {
        if index < self.len() { Symbol::from(self.bytes()[index & 7]) + 1 } else { EOS }
    }
}

/// The interval left for a chain after one more of its symbols, and what is cut off on both sides.
///
/// `outer` is the interval so far, `hot` the one of the symbol in its own state. Both sides keep at least one
/// slot when any string lies there, so that nothing becomes uncodable.
pub(crate) fn narrow(outer: (u32, u32), hot: (u32, u32)) -> (u32, u32) {
    let span = u64::from(outer.1 - outer.0);
    let share = |slots: u32| if slots == 0 { 0 } else { ((span * u64::from(slots)) >> 16).max(1) };
    #[expect(clippy::cast_possible_truncation, reason = "a share of a span is at most the span")]
    let (below, above) = (share(hot.0) as u32, share(SLOTS - hot.1) as u32);
    (outer.0 + below, outer.1.saturating_sub(above))
}

/// A state with its entries, for everything that is not the hot path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'m> {
    file: &'m [u8],
    pub(crate) head: Head,
    count: usize,
    entries: usize,
}

impl<'m> Node<'m> {
    #[inline(always)]
    pub(crate) fn at(file: &'m [u8], offset: u32) -> Self {
        Self::with_head(file, offset, Head::at(file, offset))
    }

    #[inline(always)]
    pub(crate) fn with_head(file: &'m [u8], offset: u32, head: Head) -> Self {
        let mut entries = offset as usize + HEAD + if head.has_chain() { CHAIN } else { 0 };
        let mut count = usize::from(head.short_count());
        if count == usize::from(MANY) {
            count = u16_at(file, entries) as usize;
            entries += 2;
        }
        Self { file, head, count, entries }
    }

    /// Number of entries beside the hot one.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Offset of the first byte after the state.
    pub(crate) fn end(&self) -> usize {
        self.entries + self.count * ENTRY
    }

    #[inline(always)]
    fn lo(&self, index: usize) -> u32 {
        u16_at(self.file, self.entries + 2 * index)
    }

    #[inline(always)]
    fn symbol(&self, index: usize) -> Symbol {
        let [byte] = bytes_at(self.file, self.entries + 3 * self.count + index);
        // Only the first entry can be the end.
        if index == 0 { symbol_of(byte, self.next(0)) } else { Symbol::from(byte) + 1 }
    }

    #[inline(always)]
    fn next(&self, index: usize) -> u32 {
        u24_at(self.file, self.entries + 4 * self.count + 3 * index)
    }

    /// The entry at `index`, in symbol order, the hot one left out.
    #[inline(always)]
    pub(crate) fn slot(&self, index: usize) -> Slot {
        let (lo, hi) = self.bounds(index);
        Slot { lo, hi, symbol: self.symbol(index), next: self.next(index) }
    }

    #[inline(always)]
    fn bounds(&self, index: usize) -> (u32, u32) {
        let lo = self.lo(index);
        let [width] = bytes_at(self.file, self.entries + 2 * self.count + index);
        (lo, lo + width_of(width))
    }

    /// The slot or gap that holds slot number `x`, which lies in `within`.
    #[inline(always)]
    pub(crate) fn find(&self, x: u32, within: Within) -> Found {
        let hot = self.head.hot();
        if x.wrapping_sub(hot.lo) < hot.hi - hot.lo {
            return Found::Slot(hot);
        }
        let above = within.start + self.count_from(x, within);
        if above > 0 {
            let (lo, hi) = self.bounds(above - 1);
            if x < hi {
                return Found::Slot(Slot {
                    lo,
                    hi,
                    symbol: self.symbol(above - 1),
                    next: self.next(above - 1),
                });
            }
        }
        Found::Gap(self.gap(above, x < hot.lo))
    }

    /// Number of entries in `within` whose first slot is at most `x`.
    #[inline(always)]
    fn count_from(&self, x: u32, within: Within) -> usize {
        let range = self.entries + 2 * within.start..self.entries + 2 * within.end;
        let los = self.file.get(range).unwrap_or(&[]);
        los.as_chunks::<2>().0.partition_point(|&lo| u32::from(u16::from_le_bytes(lo)) <= x)
    }

    /// The gap between the entry before index `above` and the one at it, cut at the hot symbol.
    #[inline(always)]
    fn gap(&self, above: usize, before_hot: bool) -> Gap {
        let hot = self.head.hot();
        let mut gap = Gap { lo: 0, hi: SLOTS, after: NO_SYMBOL, before: NO_SYMBOL };
        if above > 0 {
            (_, gap.lo) = self.bounds(above - 1);
            gap.after = self.symbol(above - 1);
        }
        if above < self.count {
            gap.hi = self.lo(above);
            gap.before = self.symbol(above);
        }
        if before_hot && hot.lo <= gap.hi {
            (gap.hi, gap.before) = (hot.lo, hot.symbol);
        }
        if !before_hot && hot.hi >= gap.lo {
            (gap.lo, gap.after) = (hot.hi, hot.symbol);
        }
        gap
    }

    /// The slot of `symbol`, or the gap it lies in.
    #[inline(always)]
    pub(crate) fn find_symbol(&self, symbol: Symbol) -> Found {
        let hot = self.head.hot();
        if hot.symbol == symbol {
            return Found::Slot(hot);
        }
        let above = self.count_before(symbol);
        if above < self.count {
            let slot = self.slot(above);
            if slot.symbol == symbol {
                return Found::Slot(slot);
            }
        }
        Found::Gap(self.gap(above, symbol < hot.symbol))
    }

    /// Number of entries whose symbol sorts before `symbol`.
    #[inline(always)]
    fn count_before(&self, symbol: Symbol) -> usize {
        let Some(byte) = symbol.checked_sub(1) else { return 0 };
        let at = self.entries + 3 * self.count;
        let symbols = self.file.get(at..at + self.count).unwrap_or(&[]);
        let count = symbols.partition_point(|&have| u16::from(have) < byte);
        // The end is stored as byte 0 and sorts before the true byte 0.
        count + usize::from(byte == 0 && self.count > 0 && self.next(0) == END)
    }

    /// What of this state lies in `gap` of a child, which knows less symbols.
    #[inline(always)]
    pub(crate) fn within(&self, gap: &Gap) -> Within {
        let hot = self.head.hot();
        let mut within = Within::all(self);
        if gap.after != NO_SYMBOL {
            within.start = self.count_before(gap.after);
            within.lo = hot.hi;
            if gap.after != hot.symbol {
                (_, within.lo) = self.bounds(within.start);
                within.start += 1;
            }
        }
        if gap.before != NO_SYMBOL {
            within.end = self.count_before(gap.before);
            within.hi = if gap.before == hot.symbol { hot.lo } else { self.lo(within.end) };
        }
        within
    }

    /// All slots in symbol order, the hot one among them.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let hot = self.head.hot();
        let split = (0..self.count).position(|index| self.lo(index) > hot.lo).unwrap_or(self.count);
        let (below, above) = (0..split, split..self.count);
        below
            .map(|index| self.slot(index))
            .chain(std::iter::once(hot))
            .chain(above.map(|index| self.slot(index)))
    }

    /// The end of the string, as an entry, has the byte 0, which is what searching the entries relies on.
    pub(crate) fn end_is_zero(&self) -> bool {
        let [byte] = bytes_at(self.file, self.entries + 3 * self.count);
        self.count == 0 || self.next(0) != END || byte == 0
    }

    /// Whether the state has a slot for `symbol`.
    pub(crate) fn knows(&self, symbol: Symbol) -> bool {
        matches!(self.find_symbol(symbol), Found::Slot(_))
    }
}
