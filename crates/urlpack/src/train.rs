//! Training: makes a model file from strings.

mod layout;
mod prune;
mod smooth;
mod tree;

use crate::error::Error;
use crate::file::{self, Header, NODES_MAX, NOTE_MAX};
use crate::model::check_label;
use prune::{Price, prune, size};
use smooth::{Chosen, Smooth};
use tree::{Positions, Tree};

/// Bytes of a model that are not states.
const FRAME: usize = 256;
/// Share of the bytes for chains, which cost some compression and gain speed.
const CHAIN_SHARE: f64 = 0.06;
/// Sizes of the successive selections, in quarters of the room.
const TARGETS: [usize; 3] = [8, 6, 4];
/// Most bytes of training data, so that the numbers of entries fit into 32 bits.
const BYTES_MAX: usize = 1 << 28;

/// What to train.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Largest model in bytes, in the file and in memory.
    pub size_max: usize,
    /// Number in packed values, 0 to 15; only 0 takes no space.
    pub number: u8,
    /// Bytes of a check in every value, 0 to 4; see [`Model::relabelled`](crate::Model::relabelled).
    pub check_bytes: u8,
    /// A note about the data and its licence, kept in the model.
    pub note: String,
}

impl Options {
    /// The memory that the tables of 2010 took.
    pub const SMALL: usize = 2_600_000;
    /// From this size on more bytes gain little.
    pub const STANDARD: usize = 16_000_000;

    /// A model of at most `size_max` bytes, number 0, without a note.
    pub fn new(size_max: usize) -> Self {
        Self { size_max, number: 0, check_bytes: 0, note: String::new() }
    }
}

/// The progress of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Strings read so far.
    Read {
        /// Number of strings.
        strings: u64,
    },
    /// Contexts counted.
    Counted {
        /// Number of different contexts.
        contexts: usize,
    },
    /// A selection of contexts was tried.
    Selected {
        /// Its size in bytes.
        size: usize,
    },
    /// The model is written.
    Written {
        /// Its size in bytes.
        size: usize,
    },
}

/// Trains a model on `strings`, which are used as they are: strip line ends first.
///
/// The result depends on the strings, but not on their order. Training takes about 60 bytes of memory for
/// each byte of data.
///
/// # Errors
/// [`Error::Train`] if there are no strings, too many bytes, or no room for a model.
pub fn train<I>(strings: I, options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Vec<u8>, Error>
where
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    check_label(options.number, options.check_bytes)?;
    if options.note.len() > NOTE_MAX {
        return Err(Error::Train { what: "the note is longer than 64 KiB" });
    }
    let (mut places, mut count, mut bytes) = (Positions::default(), 0u64, 0usize);
    for string in strings {
        let string = string.as_ref();
        places.add(string);
        count += 1;
        bytes += string.len();
        if places.len() > BYTES_MAX {
            return Err(Error::Train { what: "more than 256 MiB of data; train on a sample" });
        }
        if count.is_multiple_of(10_000) {
            progress(Progress::Read { strings: count });
        }
    }
    if count == 0 {
        return Err(Error::Train { what: "no strings were given" });
    }
    let room = options.size_max.min(NODES_MAX).saturating_sub(FRAME + options.note.len());
    let written = states(places, room, progress)?;
    let header = Header {
        number: options.number,
        check_bytes: options.check_bytes,
        start: written.start,
        states: written.count,
        strings: count,
        bytes: bytes as u64,
        nodes_end: 0,
        note_len: 0,
        checksum: 0,
    };
    let file = file::assemble(&header, &written.nodes, &options.note);
    progress(Progress::Written { size: file.len() });
    Ok(file)
}

fn states(
    places: Positions,
    room: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<layout::Written, Error> {
    let tree = Tree::build(places);
    progress(Progress::Counted { contexts: tree.len() });
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of the room"
    )]
    let for_chains = (room as f64 * CHAIN_SHARE) as usize;
    let room = room - for_chains;
    let mut chosen = Chosen::all(&tree);
    let mut smooth = Smooth::estimate(&tree, &chosen);
    // Each round judges contexts by the counts that the selection before it leaves them.
    for share in TARGETS {
        let target = room / 4 * share;
        chosen = select(&tree, &smooth, &chosen, target, progress)
            .ok_or(Error::Train { what: "the size allows no model; 64 KiB is a sensible minimum" })?;
        smooth = Smooth::estimate(&tree, &chosen);
    }
    Ok(layout::lay_out(&tree, &smooth, &chosen, for_chains))
}

/// The best selection that fits into `room` bytes: searches for the price of a byte.
fn select(
    tree: &Tree,
    smooth: &Smooth,
    within: &Chosen,
    room: usize,
    progress: &mut dyn FnMut(Progress),
) -> Option<Chosen> {
    let (mut low, mut high) = (-12.0f64, 16.0f64);
    let mut best = None;
    for _ in 0..14 {
        let middle = f64::midpoint(low, high);
        let chosen = prune(tree, smooth, within, Price(middle.exp2()));
        let size = size(tree, &chosen);
        progress(Progress::Selected { size });
        if size <= room {
            high = middle;
            best = Some(chosen);
            if size > room - room / 500 {
                break;
            }
        } else {
            low = middle;
        }
    }
    best
}
