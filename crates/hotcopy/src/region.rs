//! A region of the volume, while it is read.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use block::tree::{ConcurrentUse, Layout, LayoutBuilder, Node, Part, TreeSource};
use block::{BLOCK, ChunkSource, Scan};
use disk::RealDisk;

use crate::data_files::DataFiles;
use crate::spool::Spool;

/// A file that is in a spool from an offset on.
pub(crate) struct SpooledFile<'a> {
    pub node: &'a Node,
    pub spool: &'a Spool,
    pub offset: u64,
}

/// A region of the volume.
pub(crate) struct Region {
    /// Reads it.
    pub reader: Box<dyn ChunkSource>,
    /// The end of the volume in bytes, as far as that is known.
    pub end: u64,
}

impl Region {
    /// The first region. Gives blocks to its files, and begins to read them from the server.
    pub(crate) fn first(
        files: &DataFiles<'_>,
        layout: &mut LayoutBuilder,
        nodes: &mut [Node],
    ) -> io::Result<Region> {
        let end = layout.add(nodes);
        let mut parts = parts_of(nodes);
        parts.push((0..BLOCK as u64, Part::Bytes(LayoutBuilder::first_block())));
        Ok(Region { reader: files.scan(end, parts)?, end })
    }

    /// The second region, in the same way.
    pub(crate) fn second(
        files: &DataFiles<'_>,
        layout: &mut LayoutBuilder,
        nodes: &mut [Node],
    ) -> io::Result<Region> {
        let end = layout.add(nodes);
        Ok(Region { reader: files.scan(end, parts_of(nodes))?, end })
    }

    /// The last region, whose files are in spools. The layout has all files.
    pub(crate) fn last<'a>(layout: &Layout, files: impl Iterator<Item = SpooledFile<'a>>) -> Region {
        let end = layout.volume_len();
        let mut reader = TreeSource::new(Arc::new(RealDisk), end);
        for (place, part) in layout.parts() {
            if let Part::Bytes(bytes) = part {
                reader.add_bytes(place.start, bytes);
            }
        }
        for SpooledFile { node, spool, offset } in files {
            for (place, part_offset) in node.places() {
                reader.add_file(place, spool.path(), offset + part_offset, ConcurrentUse::Unchanging);
            }
        }
        Region { reader: Box::new(Scan::new(Box::new(reader))), end }
    }
}

/// The places of files in the volume.
pub(crate) fn parts_of(nodes: &[Node]) -> Vec<(Range<u64>, Part<'_>)> {
    let files = nodes
        .iter()
        .flat_map(|node| node.places().map(|(place, offset)| (place, Part::File(&node.path, offset))));
    files.collect()
}
