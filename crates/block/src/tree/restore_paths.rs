//! Restores a part of a tree: some files or folders, without reading the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use disk::{Kind, Volume};

use super::Node;
use super::files::Files;
use super::new_folder::{NewFolder, join};
use crate::Error;
use crate::backup::RunContext;
use crate::format::{BLOCK, is_zero};
use crate::restore::Summary;

/// Bytes per read and write: several groups of blocks.
const PIECE_BYTES: usize = 1 << 20;

/// Restores the selected paths of a tree, and the folders above them, into a new folder, which gets its name
/// only when everything in it is complete and durable. Only the blocks of these files are fetched, and each
/// is checked against its hash.
///
/// # Errors
/// If the folder exists or can't be written, or if one of the files is damaged. Then nothing has the name.
pub fn restore_paths(
    files: &Files,
    target: NewFolder<'_>,
    is_wanted: impl Fn(&Path) -> bool,
    context: RunContext<'_>,
) -> Result<Summary, Error> {
    target.is_free()?;
    let nodes = part(files, is_wanted);
    let len = nodes.iter().map(|node| node.len).sum();
    target.fill(|partial| {
        target.build(&nodes, partial, |syncs| {
            context.progress.phase("restoring", Some(len));
            let mut written = 0;
            let is_file = |node: &&Node| node.kind == Kind::File && node.same_as.is_none();
            for node in nodes.iter().filter(is_file) {
                let path = join(partial, &node.path);
                let failed = |source| Error::Target { name: path.display().to_string(), source };
                let volume = target.disk.volume(&path).map_err(failed)?;
                written += copy(files, node, (&*volume, &path), context)?;
                if syncs {
                    volume.sync().map_err(failed)?;
                }
            }
            let generation = files.generation();
            let (losses, damages, altered) = (Vec::new(), Vec::new(), Vec::new());
            Ok(Summary { generation, len, written, losses, is_verified: true, damages, altered })
        })
    })
}

/// The selected entries, and the folders above them.
fn part(files: &Files, is_wanted: impl Fn(&Path) -> bool) -> Vec<Node> {
    let mut paths: BTreeSet<&Path> = BTreeSet::new();
    for node in files.nodes().filter(|node| is_wanted(&node.path)) {
        paths.extend(node.path.ancestors());
    }
    let mut nodes: Vec<Node> = files.nodes().filter(|node| paths.contains(&*node.path)).cloned().collect();
    // A hard link to a file that is not selected gets the content itself, and further ones are links to it.
    let mut instead: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for node in &mut nodes {
        let Some(first) = node.same_as.clone().filter(|first| !paths.contains(&**first)) else { continue };
        if let Some(other) = instead.get(&first) {
            node.same_as = Some(other.clone());
        } else if let Some(real) = files.nodes().find(|real| real.path == first) {
            (node.len, node.blocks, node.same_as) = (real.len, real.blocks.clone(), None);
            instead.insert(first, node.path.clone());
        }
    }
    nodes
}

/// Writes the content of a file that is zeros. Returns how many bytes were written.
fn copy(
    files: &Files,
    node: &Node,
    (volume, path): (&dyn Volume, &Path),
    context: RunContext<'_>,
) -> Result<u64, Error> {
    let (mut at, mut written, mut piece) = (0, 0, vec![0; PIECE_BYTES]);
    loop {
        if context.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let count = files.content().read(&node.blocks, node.len, at, &mut piece)?;
        let Some(bytes) = piece.get(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(written) };
        let mut place = at;
        for block in bytes.chunks(BLOCK) {
            if !is_zero(block) {
                let failed = |source| Error::Target { name: path.display().to_string(), source };
                volume.write_at(place, block).map_err(failed)?;
                written += block.len() as u64;
            }
            place += block.len() as u64;
        }
        at = place;
        context.progress.read(count as u64);
    }
}
