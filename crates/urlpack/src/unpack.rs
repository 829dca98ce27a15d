//! Turns intervals into strings: one value at a time, or several side by side.

use crate::check::Check;
use crate::coder::Decoder;
use crate::error::Error;
use crate::model_memory::{AddressSpace, prefetch};
use crate::node::{CHAIN_LEN_MAX, Chain, END, Head, Lookup, Node, SLOTS, Symbol, narrow};

/// Bytes gathered before they go to the caller's vector: longer than most URLs, and cheap to clear.
const GATHER: usize = 128;
/// Size of the gathering buffer: one step adds at most eight bytes of a chain and one more.
const PLACES: usize = 2 * GATHER;
/// A step writes whole words.
const WORD: usize = size_of::<u64>();

/// Output bytes of one string.
#[derive(Debug)]
struct Gather {
    bytes: [u8; PLACES + WORD],
    len: usize,
}

impl Gather {
    fn new() -> Self {
        Self { bytes: [0; PLACES + WORD], len: 0 }
    }

    /// Appends the lowest `len` bytes of `word`. The caller has made room.
    #[inline(always)]
    fn put(&mut self, word: u64, len: usize) {
        let at = self.len % PLACES;
        self.bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        self.len += len;
    }

    fn is_full(&self) -> bool {
        self.len >= GATHER
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Moves the gathered bytes to `out`, which held `before` bytes when this value began.
    fn flush(&mut self, out: &mut Vec<u8>, before: usize, max_len: usize) -> Result<(), Error> {
        if out.len() - before + self.len > max_len {
            return Err(Error::TooLong { max_len });
        }
        out.extend_from_slice(self.bytes());
        self.len = 0;
        Ok(())
    }
}

/// The progress in unpacking one value.
#[derive(Debug, Clone, Copy)]
struct Cursor<'p> {
    decoder: Decoder<'p>,
    state: u32,
    /// The symbols between which the next one lies, when the last state has left the choice to this one.
    between: Option<(Symbol, Symbol)>,
}

impl<'p> Cursor<'p> {
    #[inline(always)]
    fn new(packed: &'p [u8], model: Entry<'_>) -> Self {
        Self { decoder: Decoder::new(packed, model.range), state: model.start, between: None }
    }

    /// Does one coding step and appends its bytes to `gather`. False when the code lies in no interval.
    ///
    /// The next state is prefetched: in a batch the other lanes work while memory answers.
    #[inline(always)]
    fn step(&mut self, space: &AddressSpace, gather: &mut Gather) -> bool {
        let mut sound = self.step_in_state(space, gather);
        while sound && let Some((after, before)) = self.between {
            sound = self.step_between(space, gather, after, before);
        }
        prefetch(space, self.state as usize);
        sound
    }

    #[inline(always)]
    fn step_in_state(&mut self, space: &AddressSpace, gather: &mut Gather) -> bool {
        let (head, chain) = (Head::at(space, self.state), Chain::at(space, self.state));
        let unit = self.decoder.range >> 16;
        if head.has_chain() {
            if self.decoder.enter(unit * u64::from(chain.lo()), unit * u64::from(chain.hi() - chain.lo())) {
                gather.put(chain.word(), chain.len());
                self.state = chain.next();
                return true;
            }
        } else if self
            .decoder
            .enter(unit * u64::from(head.hot_lo()), unit * u64::from(head.hot_hi() - head.hot_lo()))
        {
            self.go(gather, head.hot_byte(), head.hot_next());
            return true;
        }
        self.step_aside(space, gather, head, unit)
    }

    /// Does a step that is not the likely one.
    #[inline(always)]
    fn step_aside(&mut self, space: &AddressSpace, gather: &mut Gather, head: Head, unit: u64) -> bool {
        let Ok(x) = u16::try_from(self.decoder.code / unit) else { return false };
        if u32::from(x) >= SLOTS {
            return false;
        }
        if head.has_chain() && u32::from(x) >= head.hot_lo() && u32::from(x) < head.hot_hi() {
            return self.leave_chain(space, gather, head, u32::from(x));
        }
        match Node::with_head(space, self.state, head).find(x) {
            Lookup::Slot(slot) => {
                self.decoder.narrow(slot.lo, slot.hi);
                self.go(gather, slot.byte, slot.next);
            }
            Lookup::Gap(gap) => {
                self.decoder.narrow(gap.lo, gap.hi);
                self.state = head.parent();
                self.between = Some((gap.after, gap.before));
            }
        }
        true
    }

    /// The string shares the first symbols of a chain and departs from it where `x` says.
    #[inline(always)]
    fn leave_chain(&mut self, space: &AddressSpace, gather: &mut Gather, mut head: Head, x: u32) -> bool {
        let chain = Chain::at(space, self.state);
        let mut outer = (head.hot_lo(), head.hot_hi());
        for shared in 1..=CHAIN_LEN_MAX {
            self.state = head.hot_next();
            head = Head::at(space, self.state);
            let inner = narrow(outer, (head.hot_lo(), head.hot_hi()));
            if x >= inner.0 && x < inner.1 {
                outer = inner;
                continue;
            }
            let below = x < inner.0;
            let side = if below { (outer.0, inner.0) } else { (inner.1, outer.1) };
            self.decoder.narrow(side.0, side.1);
            gather.put(chain.word(), shared);
            self.between = Some(head.beside_hot(below));
            return true;
        }
        false
    }

    /// Reads a symbol that lies between two that this state knows.
    #[inline(always)]
    fn step_between(
        &mut self,
        space: &AddressSpace,
        gather: &mut Gather,
        after: Symbol,
        before: Symbol,
    ) -> bool {
        let node = Node::at(space, self.state);
        let within = node.within(after, before);
        let unit = self.decoder.range / u64::from(within.hi - within.lo);
        let x = self.decoder.code / unit + u64::from(within.lo);
        let Ok(x) = u16::try_from(x) else { return false };
        if u32::from(x) >= within.hi {
            return false;
        }
        let (lo, hi) = match node.find(x) {
            Lookup::Slot(slot) => {
                self.between = None;
                self.go(gather, slot.byte, slot.next);
                (slot.lo, slot.hi)
            }
            Lookup::Gap(gap) => {
                self.between = Some((gap.after, gap.before));
                self.state = node.head.parent();
                (gap.lo, gap.hi)
            }
        };
        self.decoder.enter(unit * u64::from(lo - within.lo), unit * u64::from(hi - lo))
    }

    #[inline(always)]
    fn go(&mut self, gather: &mut Gather, byte: u8, next: u32) {
        gather.put(u64::from(byte), usize::from(next != END));
        self.state = next;
    }

    /// Checks that the whole value was read and is valid.
    #[inline(always)]
    fn check_end(&mut self, check: Check, string: &[u8]) -> Result<(), Error> {
        if !check.is_none() && !check.decode(string, &mut self.decoder) {
            return Err(self.corrupt("its check bytes do not match the string and this model"));
        }
        if self.decoder.unread() { Err(self.corrupt("bytes follow the end of the string")) } else { Ok(()) }
    }

    fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { what, place: self.decoder.place() }
    }
}

/// Where every string of a model begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'m> {
    pub(crate) space: &'m AddressSpace,
    pub(crate) start: u32,
    pub(crate) range: u64,
    pub(crate) check: Check,
}

const NO_INTERVAL: &str = "the value lies in no interval";

/// Appends the string of one code to `out`, which stays as it was on failure.
pub(crate) fn unpack(
    model: Entry<'_>,
    packed: &[u8],
    out: &mut Vec<u8>,
    max_len: usize,
) -> Result<(), Error> {
    let before = out.len();
    let (mut cursor, mut gather) = (Cursor::new(packed, model), Gather::new());
    let outcome = loop {
        if !cursor.step(model.space, &mut gather) {
            break Err(cursor.corrupt(NO_INTERVAL));
        }
        if cursor.state == END {
            let whole = gather.flush(out, before, max_len);
            break whole.and_then(|()| cursor.check_end(model.check, out.get(before..).unwrap_or_default()));
        }
        if gather.is_full()
            && let Err(error) = gather.flush(out, before, max_len)
        {
            break Err(error);
        }
    };
    if outcome.is_err() {
        out.truncate(before);
    }
    outcome
}

/// Appends the string of a random code; false if there is none or it is longer than `max_len`.
pub(crate) fn draw(model: Entry<'_>, code: &[u8], out: &mut Vec<u8>, max_len: usize) -> bool {
    let (mut cursor, mut gather) = (Cursor::new(code, Entry { range: u64::MAX, ..model }), Gather::new());
    while cursor.step(model.space, &mut gather) && cursor.state != END {
        if gather.is_full() && gather.flush(out, 0, max_len).is_err() {
            return false;
        }
    }
    cursor.state == END && gather.flush(out, 0, max_len).is_ok()
}

/// Values unpacked in an interleaved way: while one waits for memory, the others continue.
const LANES: usize = 8;

/// A lane of a batch: the value that it unpacks, and the output that its buffer could not hold.
struct Lane<'p> {
    index: usize,
    cursor: Cursor<'p>,
    gather: Gather,
    long: Vec<u8>,
}

/// Unpacks the values that `next` returns, several at once; `each` gets index and result in no fixed order.
pub(crate) fn unpack_batch<'p>(
    model: Entry<'_>,
    mut next: impl FnMut() -> Option<(usize, &'p [u8])>,
    max_len: usize,
    each: &mut impl FnMut(usize, Result<&[u8], Error>),
) {
    let mut lanes: Vec<Lane<'p>> = Vec::with_capacity(LANES);
    while lanes.len() < LANES
        && let Some((index, packed)) = next()
    {
        let cursor = Cursor::new(packed, model);
        lanes.push(Lane { index, cursor, gather: Gather::new(), long: Vec::new() });
    }
    while !lanes.is_empty() {
        let mut at = 0;
        while let Some(lane) = lanes.get_mut(at) {
            let sound = lane.cursor.step(model.space, &mut lane.gather);
            at += 1;
            if sound && lane.cursor.state != END && !lane.gather.is_full() {
                continue;
            }
            if !lane.advance(sound, model.check, max_len, each) {
                continue;
            }
            if let Some((index, packed)) = next() {
                lane.restart(index, packed, model);
            } else {
                // There are no more values: drop this lane.
                at -= 1;
                lanes.swap_remove(at);
            }
        }
    }
}

impl<'p> Lane<'p> {
    fn restart(&mut self, index: usize, packed: &'p [u8], model: Entry<'_>) {
        self.index = index;
        self.cursor = Cursor::new(packed, model);
        self.gather.len = 0;
        self.long.clear();
    }

    /// Handles a step that did not simply continue: true when the value is finished.
    #[inline(never)]
    fn advance(
        &mut self,
        sound: bool,
        check: Check,
        max_len: usize,
        each: &mut impl FnMut(usize, Result<&[u8], Error>),
    ) -> bool {
        if !sound {
            each(self.index, Err(self.cursor.corrupt(NO_INTERVAL)));
            return true;
        }
        if self.cursor.state == END && self.long.is_empty() {
            let fits = self.gather.len <= max_len;
            let string = self.gather.bytes();
            let outcome =
                if fits { self.cursor.check_end(check, string) } else { Err(Error::TooLong { max_len }) };
            each(self.index, outcome.map(|()| string));
            return true;
        }
        if let Err(error) = self.gather.flush(&mut self.long, 0, max_len) {
            each(self.index, Err(error));
            return true;
        }
        if self.cursor.state == END {
            let string = self.long.as_slice();
            each(self.index, self.cursor.check_end(check, string).map(|()| string));
        }
        self.cursor.state == END
    }
}
