//! The model file: header, states, note, checksum; and the check that every offset in it is valid.

use crc_fast::CrcAlgorithm;

use crate::error::Error;
use crate::model_memory::{AddressSpace, ModelMemory, load};
use crate::node::{Chain, END, EOS, Head, Node, SLOTS, SYMBOLS, narrow};

/// First bytes of every model file.
const MAGIC: [u8; 8] = *b"urlpack\n";
/// The file version that this library writes and reads.
const VERSION: u16 = 2;
/// The version of a model whose values end with a check; readers that know only version 2 would misread it.
const VERSION_CHECKED: u16 = 3;
/// Bytes before the states.
pub(crate) const HEADER: usize = 64;
/// Zeros after the states. They are part of the format, for readers that load whole words.
const PADDING: usize = 32;
const CHECKSUM: usize = 8;
/// The states end before this offset, because they refer to each other with 24 bits.
pub(crate) const NODES_MAX: usize = 1 << 24;
/// Longest note in bytes.
pub(crate) const NOTE_MAX: usize = 64 << 10;
/// Largest model number.
pub(crate) const NUMBER_MAX: u8 = 15;
/// The longest check at the end of a model's values, in bytes.
pub(crate) const CHECK_MAX: u8 = 4;

/// The contents of a model file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u8,
    /// Bytes of the check in every value, 0 to [`CHECK_MAX`].
    pub(crate) check_bytes: u8,
    pub(crate) start: u32,
    pub(crate) nodes_end: usize,
    pub(crate) states: u32,
    pub(crate) strings: u64,
    pub(crate) bytes: u64,
    pub(crate) note_len: usize,
    pub(crate) checksum: u64,
}

fn wrong(what: &'static str, place: usize) -> Error {
    Error::Model { what, place }
}

/// Puts a file together.
pub(crate) fn assemble(header: &Header, nodes: &[u8], note: &str) -> Vec<u8> {
    let len = HEADER + nodes.len() + PADDING + note.len() + CHECKSUM;
    let mut file = Vec::with_capacity(len);
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&label(header.number, header.check_bytes));
    for value in [len, HEADER + nodes.len(), note.len()] {
        file.extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }
    file.extend_from_slice(&header.start.to_le_bytes());
    file.extend_from_slice(&header.states.to_le_bytes());
    file.extend_from_slice(&header.strings.to_le_bytes());
    file.extend_from_slice(&header.bytes.to_le_bytes());
    file.resize(HEADER, 0);
    file.extend_from_slice(nodes);
    file.resize(file.len() + PADDING, 0);
    file.extend_from_slice(note.as_bytes());
    seal(&mut file);
    file
}

fn seal(file: &mut Vec<u8>) {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, file);
    file.extend_from_slice(&sum.to_le_bytes());
}

/// Version, number and check of a file.
fn label(number: u8, check_bytes: u8) -> [u8; 4] {
    let version = if check_bytes == 0 { VERSION } else { VERSION_CHECKED };
    let [low, high] = version.to_le_bytes();
    [low, high, number, check_bytes]
}

/// The same states with another number and another check.
pub(crate) fn relabel(file: &[u8], number: u8, check_bytes: u8) -> Vec<u8> {
    let mut file = file[..file.len() - CHECKSUM].to_vec();
    file[8..12].copy_from_slice(&label(number, check_bytes));
    seal(&mut file);
    file
}

/// Reads the header and checks the whole file.
pub(crate) fn check(room: &ModelMemory) -> Result<Header, Error> {
    let (header, space) = (header(room)?, room.space());
    let starts = Starts::scan(space, &header)?;
    starts.root(space)?;
    let mut at = HEADER;
    while at < header.nodes_end {
        let node = Node::at(space, offset(at));
        starts.node(space, at, &node)?;
        at = node.end();
    }
    if !starts.has(header.start) {
        return Err(wrong("the start is not a state", 24));
    }
    Ok(header)
}

/// The number in the header of a model file, even if the rest of the file is damaged or of another version.
pub fn number_in_head(file: &[u8]) -> Option<u8> {
    file.strip_prefix(&MAGIC)?.get(2).copied().filter(|&number| number <= NUMBER_MAX)
}

fn header(room: &ModelMemory) -> Result<Header, Error> {
    let (file, space) = (room.as_ref(), room.space());
    if load::<8>(space, 0) != MAGIC {
        return Err(wrong("not a urlpack model", 0));
    }
    let known = match u16::from_le_bytes(load(space, 8)) {
        VERSION => file.get(11) == Some(&0),
        VERSION_CHECKED => file.get(11).is_some_and(|bytes| (1..=CHECK_MAX).contains(bytes)),
        _ => false,
    };
    if !known {
        return Err(wrong("a version this library does not read", 8));
    }
    let u32_at = |at| u32::from_le_bytes(load(space, at));
    if file.len() < HEADER + PADDING + CHECKSUM || u32_at(12) as usize != file.len() {
        return Err(wrong("the file is cut short or too long", file.len()));
    }
    let header = Header {
        number: file[10],
        check_bytes: file[11],
        nodes_end: u32_at(16) as usize,
        note_len: u32_at(20) as usize,
        start: u32_at(24),
        states: u32_at(28),
        strings: u64::from_le_bytes(load(space, 32)),
        bytes: u64::from_le_bytes(load(space, 40)),
        checksum: u64::from_le_bytes(load(space, file.len() - CHECKSUM)),
    };
    if crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &file[..file.len() - CHECKSUM]) != header.checksum {
        return Err(wrong("the checksum differs", file.len() - CHECKSUM));
    }
    if header.nodes_end <= HEADER || header.nodes_end > NODES_MAX {
        return Err(wrong("the states have an impossible length", 16));
    }
    if header.note_len > NOTE_MAX || header.nodes_end + PADDING + header.note_len + CHECKSUM != file.len() {
        return Err(wrong("the note has an impossible length", 20));
    }
    if header.number > NUMBER_MAX {
        return Err(wrong("the number is above 15", 10));
    }
    Ok(header)
}

/// The note: who trained the model, on what, and under which licence.
pub(crate) fn note<'f>(file: &'f [u8], header: &Header) -> &'f [u8] {
    let start = header.nodes_end + PADDING;
    file.get(start..start + header.note_len).unwrap_or(&[])
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Where states begin, as a bitmap over offsets.
struct Starts {
    bits: Vec<u64>,
}

impl Starts {
    fn scan(space: &AddressSpace, header: &Header) -> Result<Self, Error> {
        let mut starts = Self { bits: vec![0; header.nodes_end / 64 + 1] };
        let (mut at, mut count) = (HEADER, 0);
        while at < header.nodes_end {
            starts.bits[at / 64] |= 1 << (at % 64);
            at = Node::at(space, offset(at)).end();
            count += 1;
        }
        if at != header.nodes_end || count != header.states {
            return Err(wrong("the states do not fill their section", at));
        }
        Ok(starts)
    }

    fn has(&self, offset: u32) -> bool {
        let at = offset as usize;
        self.bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn root(&self, space: &AddressSpace) -> Result<(), Error> {
        let root = Node::at(space, offset(HEADER));
        if root.count() + 1 == usize::from(SYMBOLS) && root.head.parent() == offset(HEADER) {
            return Ok(());
        }
        Err(wrong("the root does not know every symbol", HEADER))
    }

    /// Checks that the slots are in order, that every possible symbol has room, and that every entry leads to
    /// a state.
    fn node(&self, space: &AddressSpace, at: usize, node: &Node<'_>) -> Result<(), Error> {
        let parent = node.head.parent();
        if !self.has(parent) {
            return Err(wrong("a state has no parent", at));
        }
        let above = Node::at(space, parent);
        // So every chain of parents ends at the root, which knows every symbol.
        if above.count() <= node.count() && parent as usize != HEADER {
            return Err(wrong("a parent knows no more than its child", at));
        }
        // Before the first slot: as if the symbol before the end of the string ended at slot 0.
        let (mut following, mut free) = (EOS, 0);
        for slot in node.slots() {
            // Between adjacent symbols there is no room; between others there must be room for the parent's
            // symbols.
            let fits = if slot.symbol() == following { slot.lo == free } else { slot.lo > free };
            if slot.symbol() < following || !fits || slot.hi <= slot.lo {
                return Err(wrong("slots overlap or leave no room", at));
            }
            if (slot.next == END) != (slot.symbol() == EOS) || (slot.next != END && !self.has(slot.next)) {
                return Err(wrong("a symbol leads to no state", at));
            }
            if !above.knows(slot.symbol()) {
                return Err(wrong("a symbol is unknown to the parent", at));
            }
            (following, free) = (slot.symbol() + 1, slot.hi);
        }
        let full = if following == SYMBOLS { free == SLOTS } else { free < SLOTS };
        if !full || !node.end_is_zero() {
            return Err(wrong("slots overlap or leave no room", at));
        }
        if node.head.has_chain() { self.chain(space, at, node.head) } else { Ok(()) }
    }

    /// Checks that a chain is what following the hot symbols yields.
    fn chain(&self, space: &AddressSpace, at: usize, head: Head) -> Result<(), Error> {
        let chain = Chain::at(space, offset(at));
        let bad = || wrong("a chain does not follow its states", at);
        let mut slots = (head.hot_lo(), head.hot_hi());
        let (mut symbol, mut state) = (head.hot_symbol(), head.hot_next());
        let steps = chain.len() + usize::from(chain.next() == END);
        for index in 0..steps {
            if symbol != chain.symbol(index) {
                return Err(bad());
            }
            if index + 1 < steps {
                if !self.has(state) {
                    return Err(bad());
                }
                let head = Head::at(space, state);
                slots = narrow(slots, (head.hot_lo(), head.hot_hi()));
                (symbol, state) = (head.hot_symbol(), head.hot_next());
            }
            if slots.0 >= slots.1 {
                return Err(bad());
            }
        }
        let sound = usize::from(chain.len_byte()) + 1 == chain.len() && state == chain.next();
        if sound && slots == (chain.lo(), chain.hi()) && steps > 1 { Ok(()) } else { Err(bad()) }
    }
}
