//! Intervals to strings: one value at a time, or several side by side.

use crate::coder::Decoder;
use crate::error::Error;
use crate::node::{Chain, END, Found, Head, Node, SLOTS, Within, narrow};

/// Bytes gathered before they go to the caller's vector: more than most URLs, and cheap to clear.
const GATHER: usize = 256;
/// The most bytes one step can add: a chain, or the chain's bytes up to where it is left and one more, and the
/// unused rest of an eight-byte write.
const STEP_MAX: usize = 24;

/// Bytes of one string on their way out.
#[derive(Debug)]
struct Gather {
    bytes: [u8; GATHER + STEP_MAX],
    len: usize,
}

impl Gather {
    /// Appends the lowest `len` bytes of `word`. The caller made room.
    #[inline(always)]
    fn put(&mut self, word: u64, len: usize) {
        if let Some(room) = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut::<8>()) {
            *room = word.to_le_bytes();
        }
        self.len += len;
    }
}

/// One value being unpacked.
#[derive(Debug)]
struct Lane<'p> {
    decoder: Decoder<'p>,
    state: u32,
    /// The state's head and what may be its chain, read as soon as the state is known: in a batch the other lanes
    /// work while memory answers.
    head: Head,
    chain: Chain,
    failed: bool,
    gather: Gather,
}

impl<'p> Lane<'p> {
    fn new(packed: &'p [u8], model: Entry<'_>) -> Self {
        Self {
            decoder: Decoder::new(packed, model.range),
            state: model.start,
            head: Head::at(model.file, model.start),
            chain: Chain::at(model.file, model.start),
            failed: false,
            gather: Gather { bytes: [0; GATHER + STEP_MAX], len: 0 },
        }
    }

    /// Begins with another value.
    fn restart(&mut self, packed: &'p [u8], model: Entry<'_>) {
        self.decoder = Decoder::new(packed, model.range);
        self.go_to(model.file, model.start);
        self.failed = false;
        self.gather.len = 0;
    }

    #[inline(always)]
    fn go_to(&mut self, file: &[u8], state: u32) {
        self.state = state;
        (self.head, self.chain) = (Head::at(file, state), Chain::at(file, state));
    }

    /// One coding step. False when the code lies in no interval.
    #[inline(always)]
    fn step(&mut self, file: &[u8]) -> bool {
        self.failed = !self.step_in_state(file);
        self.go_to(file, self.state);
        !self.failed
    }

    #[inline(always)]
    fn step_in_state(&mut self, file: &[u8]) -> bool {
        let (head, chain) = (self.head, self.chain);
        let unit = self.decoder.range >> 16;
        if head.has_chain() {
            if self.decoder.enter(unit * u64::from(chain.lo()), unit * u64::from(chain.hi() - chain.lo())) {
                self.gather.put(chain.word(), chain.len());
                self.state = chain.next();
                return true;
            }
        } else if self
            .decoder
            .enter(unit * u64::from(head.hot_lo()), unit * u64::from(head.hot_hi() - head.hot_lo()))
        {
            self.state = head.hot_next();
            self.gather.put(u64::from(head.hot_byte()), usize::from(self.state != END));
            return true;
        }
        self.step_aside(file, head, unit)
    }

    /// A step that is not the likely one.
    #[inline(always)]
    fn step_aside(&mut self, file: &[u8], head: Head, unit: u64) -> bool {
        let Ok(x) = u32::try_from(self.decoder.code / unit) else { return false };
        if x >= SLOTS {
            return false;
        }
        if head.has_chain() && x >= head.hot_lo() && x < head.hot_hi() {
            return self.leave_chain(file, head, x);
        }
        let node = Node::with_head(file, self.state, head);
        match node.find(x, Within::all(&node)) {
            Found::Slot(slot) => {
                self.decoder.narrow(slot.lo, slot.hi);
                self.emit(slot.symbol, slot.next);
                true
            }
            Found::Gap(gap) => {
                self.decoder.narrow(gap.lo, gap.hi);
                let parent = Node::at(file, head.parent());
                self.step_within(file, parent, parent.within(&gap))
            }
        }
    }

    #[inline(always)]
    fn emit(&mut self, symbol: u16, next: u32) {
        self.gather.put(u64::from(symbol.wrapping_sub(1) & 0xff), usize::from(next != END));
        self.state = next;
    }

    /// The string shares the first symbols of a chain and leaves it where `x` says.
    #[inline(always)]
    fn leave_chain(&mut self, file: &[u8], head: Head, x: u32) -> bool {
        let len = Chain::at(file, self.state).len();
        let (mut state, mut outer) = (head.hot_next(), (head.hot_lo(), head.hot_hi()));
        self.emit(head.hot_symbol(), state);
        for _ in 0..=len {
            let head = Head::at(file, state);
            let inner = narrow(outer, (head.hot_lo(), head.hot_hi()));
            if x >= inner.0 && x < inner.1 {
                outer = inner;
                state = head.hot_next();
                self.emit(head.hot_symbol(), state);
                continue;
            }
            let below = x < inner.0;
            let side = if below { (outer.0, inner.0) } else { (inner.1, outer.1) };
            self.decoder.narrow(side.0, side.1);
            let node = Node::with_head(file, state, head);
            return self.step_within(file, node, Within::beside_hot(&node, below));
        }
        false
    }

    /// Reads a symbol that lies in the slots `within` of `node`.
    #[inline(always)]
    fn step_within<'m>(&mut self, file: &'m [u8], mut node: Node<'m>, mut within: Within) -> bool {
        loop {
            let unit = self.decoder.range / u64::from(within.hi - within.lo);
            let x = self.decoder.code / unit + u64::from(within.lo);
            let Ok(x) = u32::try_from(x) else { return false };
            if x >= within.hi {
                return false;
            }
            let found = node.find(x, within);
            let (lo, hi) = match &found {
                Found::Slot(slot) => (slot.lo, slot.hi),
                Found::Gap(gap) => (gap.lo, gap.hi),
            };
            self.decoder.enter(unit * u64::from(lo - within.lo), unit * u64::from(hi - lo));
            match found {
                Found::Slot(slot) => {
                    self.emit(slot.symbol, slot.next);
                    return true;
                }
                Found::Gap(gap) => {
                    node = Node::at(file, node.head.parent());
                    within = node.within(&gap);
                }
            }
        }
    }

    /// Moves what was gathered to `out`, which held `before` bytes when this value began.
    fn flush(&mut self, out: &mut Vec<u8>, before: usize, max_len: usize) -> Result<(), Error> {
        let gathered = self.gather.bytes.get(..self.gather.len).unwrap_or(&[]);
        if out.len() - before + gathered.len() > max_len {
            return Err(Error::TooLong { max_len });
        }
        out.extend_from_slice(gathered);
        self.gather.len = 0;
        Ok(())
    }

    /// The whole value was read, if it is one.
    fn check_end(&self) -> Result<(), Error> {
        if self.decoder.unread() { Err(self.corrupt("bytes follow the end of the string")) } else { Ok(()) }
    }

    fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { what, place: self.decoder.place() }
    }
}

/// Where a model's values begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'m> {
    pub(crate) file: &'m [u8],
    pub(crate) start: u32,
    pub(crate) range: u64,
}

const NO_INTERVAL: &str = "the value lies in no interval";

/// Appends the string of one code to `out`; `out` is as before when it fails.
pub(crate) fn unpack(
    model: Entry<'_>,
    packed: &[u8],
    out: &mut Vec<u8>,
    max_len: usize,
) -> Result<(), Error> {
    let before = out.len();
    let mut lane = Lane::new(packed, model);
    let outcome = loop {
        if !lane.step(model.file) {
            break Err(lane.corrupt(NO_INTERVAL));
        }
        if lane.state == END {
            break lane.flush(out, before, max_len).and_then(|()| lane.check_end());
        }
        if lane.gather.len >= GATHER
            && let Err(error) = lane.flush(out, before, max_len)
        {
            break Err(error);
        }
    };
    if outcome.is_err() {
        out.truncate(before);
    }
    outcome
}

/// Values unpacked side by side: while one waits for memory, the others go on.
const LANES: usize = 8;

/// A lane of a batch: which value it has, and what did not fit its gathering place.
struct Busy<'p> {
    index: usize,
    lane: Lane<'p>,
    long: Vec<u8>,
}

/// Unpacks the values that `next` gives, several at once; `each` gets index and outcome in no fixed order.
pub(crate) fn unpack_batch<'p>(
    model: Entry<'_>,
    mut next: impl FnMut() -> Option<(usize, &'p [u8])>,
    max_len: usize,
    each: &mut impl FnMut(usize, Result<&[u8], Error>),
) {
    let mut busy: Vec<Busy<'p>> = Vec::with_capacity(LANES);
    while busy.len() < LANES
        && let Some((index, packed)) = next()
    {
        busy.push(Busy { index, lane: Lane::new(packed, model), long: Vec::new() });
    }
    while !busy.is_empty() {
        let mut at = 0;
        while let Some(work) = busy.get_mut(at) {
            let going_on =
                work.lane.step(model.file) && work.lane.state != END && work.lane.gather.len < GATHER;
            at += 1;
            if going_on || !work.advance(max_len, each) {
                continue;
            }
            if let Some((index, packed)) = next() {
                work.restart(index, packed, model);
            } else {
                // There are no more values: one lane less.
                at -= 1;
                busy.swap_remove(at);
            }
        }
    }
}

impl<'p> Busy<'p> {
    fn restart(&mut self, index: usize, packed: &'p [u8], model: Entry<'_>) {
        self.index = index;
        self.long.clear();
        self.lane.restart(packed, model);
    }

    /// After a step that did not simply go on: true when the value is done.
    #[inline(never)]
    fn advance(&mut self, max_len: usize, each: &mut impl FnMut(usize, Result<&[u8], Error>)) -> bool {
        if self.lane.failed {
            each(self.index, Err(self.lane.corrupt(NO_INTERVAL)));
            return true;
        }
        if self.lane.state == END && self.long.is_empty() {
            let len = self.lane.gather.len;
            let outcome = if len > max_len { Err(Error::TooLong { max_len }) } else { self.lane.check_end() };
            each(self.index, outcome.map(|()| self.lane.gather.bytes.get(..len).unwrap_or(&[])));
            return true;
        }
        if let Err(error) = self.lane.flush(&mut self.long, 0, max_len) {
            each(self.index, Err(error));
            return true;
        }
        if self.lane.state == END {
            each(self.index, self.lane.check_end().map(|()| self.long.as_slice()));
        }
        self.lane.state == END
    }
}
