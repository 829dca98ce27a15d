//! Intervals to strings: one value at a time, or several side by side.

use crate::coder::Decoder;
use crate::error::Error;
use crate::node::{Chain, END, Found, Head, Node, SLOTS, narrow};

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

    /// One coding step. False when the code lies in no interval.
    #[inline(always)]
    fn step(&mut self, file: &[u8]) -> bool {
        let done = self.step_within_state(file);
        (self.head, self.chain) = (Head::at(file, self.state), Chain::at(file, self.state));
        done
    }

    #[inline(always)]
    fn step_within_state(&mut self, file: &[u8]) -> bool {
        let (head, chain) = (self.head, self.chain);
        let unit = self.decoder.range >> 16;
        if head.has_chain() {
            let base = unit * u64::from(chain.lo());
            if self.decoder.enter(base, unit * u64::from(chain.hi() - chain.lo())) {
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
        self.failed = !self.step_aside(file, head, unit);
        !self.failed
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
        match node.find(x) {
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

    #[inline(always)]
    /// The string shares the first symbols of a chain and leaves it where `x` says.
    fn leave_chain(&mut self, file: &[u8], head: Head, x: u32) -> bool {
        let len = Chain::at(file, self.state).len();
        let (mut state, mut outer) = (head.hot_next(), (head.hot_lo(), head.hot_hi()));
        self.emit(head.hot_symbol(), state);
        for _ in 0..=len {
            let head = Head::at(file, state);
            let inner = narrow(outer, (head.hot_lo(), head.hot_hi()));
            let (side, within) = if x < inner.0 {
                ((outer.0, inner.0), (0, head.hot_lo()))
            } else if x >= inner.1 {
                ((inner.1, outer.1), (head.hot_hi(), SLOTS))
            } else {
                outer = inner;
                state = head.hot_next();
                self.emit(head.hot_symbol(), state);
                continue;
            };
            self.decoder.narrow(side.0, side.1);
            return self.step_within(file, Node::with_head(file, state, head), within);
        }
        false
    }

    #[inline(always)]
    /// Reads a symbol that lies in the slots `within` of `node`.
    fn step_within<'m>(&mut self, file: &'m [u8], mut node: Node<'m>, mut within: (u32, u32)) -> bool {
        loop {
            let unit = self.decoder.range / u64::from(within.1 - within.0);
            let x = self.decoder.code / unit + u64::from(within.0);
            let Ok(x) = u32::try_from(x) else { return false };
            if x >= within.1 {
                return false;
            }
            let found = node.find(x);
            let (lo, hi) = match &found {
                Found::Slot(slot) => (slot.lo, slot.hi),
                Found::Gap(gap) => (gap.lo, gap.hi),
            };
            self.decoder.enter(unit * u64::from(lo - within.0), unit * u64::from(hi - lo));
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
    let mut busy: [Option<Busy<'p>>; LANES] = [const { None }; LANES];
    let mut begin = |slot: &mut Option<Busy<'p>>| {
        *slot = next().map(|(index, packed)| {
            let mut long = slot.take().map_or_else(Vec::new, |done| done.long);
            long.clear();
            Busy { index, lane: Lane::new(packed, model), long }
        });
        slot.is_some()
    };
    let mut working = busy.iter_mut().filter_map(|slot| begin(slot).then_some(())).count();
    while working > 0 {
        for slot in &mut busy {
            let Some(work) = slot else { continue };
            if work.lane.step(model.file) && work.lane.state != END && work.lane.gather.len < GATHER {
                continue;
            }
            if work.advance(max_len, each) && !begin(slot) {
                working -= 1;
            }
        }
    }
}

impl Busy<'_> {
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
