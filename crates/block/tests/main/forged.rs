//! Files in which every hash is right, although they do not hold what was backed up. Only the last checks see
//! that.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::format::{Header, IndexEntry, Record, TRAILER_BYTES, Trailer};
use block::tree::{Files, Layout, Node, TreeSource};
use block::{BLOCK, CHUNK, Error};
use disk::faults::FaultDisk;
use disk::{Attributes, Disk, Extended, Kind};

use crate::support::{REPO, Random, back_up_bytes, damages, keep, repository, restored};

fn file(number: u64) -> PathBuf {
    Path::new(REPO).join(format!("{number:06}.blk"))
}

fn noise(random: &mut Random, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// Changes records and trailer of a file, and recomputes all hashes.
fn forge(disk: &FaultDisk, number: u64, change: impl FnOnce(&mut Record, &mut Trailer)) {
    let mut bytes = disk.bytes(&file(number)).unwrap();
    let end = bytes.len() - TRAILER_BYTES;
    let mut trailer = Trailer::decode(&bytes[end..]).unwrap();
    let index = usize::try_from(trailer.index_offset).unwrap();
    let mut entry = IndexEntry::decode(&bytes[index..index + IndexEntry::BYTES]).unwrap();
    let from = usize::try_from(entry.offset).unwrap();
    let to = from + entry.len as usize;
    let mut record = Record::decode(&bytes[from..to]).unwrap();
    change(&mut record, &mut trailer);
    let encoded = record.encode();
    entry.sum = *encoded.last_chunk().unwrap();
    entry.content = record.content;
    bytes[from..to].copy_from_slice(&encoded);
    bytes[index..index + IndexEntry::BYTES].copy_from_slice(&entry.encode());
    let header = Header::total_bytes(&bytes).unwrap();
    let mut hasher = blake3::Hasher::new();
    [&bytes[..header], &bytes[index..end], &trailer.encode_covered()].into_iter().for_each(|part| {
        hasher.update(part);
    });
    trailer.root = *hasher.finalize().as_bytes();
    bytes.truncate(end);
    bytes.extend_from_slice(&trailer.encode_covered());
    bytes.extend_from_slice(&trailer.root);
    disk.put(&file(number), &bytes);
}

/// Hash of a volume of one chunk.
fn content(len: u64, chunk: &[u8; 16]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&len.to_le_bytes());
    hasher.update(chunk);
    *hasher.finalize().as_bytes()
}

#[test]
fn a_chain_that_leads_elsewhere_is_refused() {
    let disk = FaultDisk::default();
    back_up_bytes(&disk, &Random(1).volume(20));
    forge(&disk, 1, |_, trailer| trailer.content[5] ^= 1);
    let restored = restored(&disk, None).unwrap_err().to_string();
    assert!(restored.contains("does not reproduce what was backed up"), "{restored}");
    let found = damages(&disk);
    assert!(found.len() == 1 && found[0].what.contains("does not reproduce"), "{found:?}");
    assert!(!found[0].costs_nothing(), "{found:?}");
}

#[test]
fn a_chunk_of_other_blocks_is_refused() {
    let disk = FaultDisk::default();
    let volume = Random(1).volume(20);
    back_up_bytes(&disk, &volume);
    // Two blocks change places; the hashes of chunk and volume stay the same.
    forge(&disk, 1, |record, _| {
        let mut stored = record.changes.iter_mut().filter(|(_, place)| place.is_some());
        let (one, other) = (stored.next().unwrap(), stored.next().unwrap());
        std::mem::swap(&mut one.1, &mut other.1);
    });
    let error = restored(&disk, None).unwrap_err();
    assert!(
        matches!(&error, Error::Corrupt { what, .. } if what.contains("do not match its hash")),
        "{error}"
    );
    let found = damages(&disk);
    assert!(found.len() == 1 && found[0].what.contains("chunk 0 does not match its hash"), "{found:?}");
    assert!(!found[0].costs_nothing(), "{found:?}");
    // The volume's hash agrees with the chunk's, but the chunk differs.
    forge(&disk, 1, |record, trailer| {
        record.content[0] ^= 1;
        trailer.content = content(volume.len() as u64, &record.content);
    });
    assert!(matches!(restored(&disk, None), Err(Error::Corrupt { .. })));
    assert_eq!(damages(&disk).len(), 1);
}

/// Much of two files is not needed any more; all they hold is still checked against its hash.
#[test]
fn blocks_that_only_other_generations_need_are_verified() {
    let disk = FaultDisk::default();
    let mut random = Random(3);
    let mut volume = noise(&mut random, 64);
    back_up_bytes(&disk, &volume);
    let gone = volume[20 * BLOCK..21 * BLOCK].to_vec();
    volume[16 * BLOCK..32 * BLOCK].copy_from_slice(&noise(&mut random, 16));
    back_up_bytes(&disk, &volume);
    keep(&disk, &[2]).unwrap();
    assert_eq!(damages(&disk), []);
    // The first file holds no generation now, and nobody refers to these blocks.
    let bytes = disk.bytes(&file(1)).unwrap();
    let at = bytes.windows(64).position(|window| window == &gone[100..164]).unwrap();
    disk.corrupt(&file(1), at, 1);
    let found = damages(&disk);
    assert!(found.len() == 1 && found[0].place.contains("000001.blk"), "{found:?}");
    assert!(found[0].costs.is_empty(), "{found:?}");
    assert!(restored(&disk, None).unwrap() == volume);
}

/// Blocks of a removed file that two generations need are copied once.
#[test]
fn a_prune_copies_shared_blocks_once() {
    let disk = FaultDisk::default();
    let mut random = Random(5);
    let first = noise(&mut random, 200);
    back_up_bytes(&disk, &first);
    // Two full generations of different blocks, and some blocks that all have.
    let mut states = Vec::new();
    let mut volume = noise(&mut random, 200);
    volume[..32 * BLOCK].copy_from_slice(&first[..32 * BLOCK]);
    back_up_bytes(&disk, &volume);
    states.push(volume.clone());
    volume[..BLOCK].fill(1);
    back_up_bytes(&disk, &volume);
    volume[..BLOCK].copy_from_slice(&first[..BLOCK]);
    volume[BLOCK..2 * BLOCK].fill(2);
    back_up_bytes(&disk, &volume);
    states.push(volume.clone());
    let pruned = keep(&disk, &[2, 4]).unwrap();
    assert!(disk.bytes(&file(1)).is_none(), "{pruned:?}");
    let shared = 32 * BLOCK as u64;
    assert!(pruned.written < shared + shared / 2, "{pruned:?}");
    for (generation, state) in [2, 4].into_iter().zip(&states) {
        assert!(restored(&disk, Some(generation)).unwrap() == *state);
    }
    assert!(volume.len() < CHUNK);
}

/// A tree with one file, as a volume.
fn tree_volume(disk: &FaultDisk) -> Vec<u8> {
    let bytes = Random(7).volume(20);
    disk.put(Path::new("/top/file"), &bytes);
    let node = |path: &str, kind, len: usize| Node {
        path: path.into(),
        kind,
        len: len as u64,
        attributes: Attributes::default(),
        extended: Extended::new(),
        same_as: None,
        blocks: Vec::new(),
    };
    let nodes = vec![node("", Kind::Folder, 0), node("file", Kind::File, bytes.len())];
    let layout = Layout::new(nodes, None);
    let mut volume = Vec::new();
    TreeSource::of(Arc::new(disk.clone()), &layout, Path::new("/top")).read_to_end(&mut volume).unwrap();
    volume
}

/// Whoever reads only some files does not see the whole, but as much of it as restore does.
#[test]
fn files_of_another_content_are_refused() {
    let disk = FaultDisk::default();
    let volume = tree_volume(&disk);
    back_up_bytes(&disk, &volume);
    let open = || Files::open(repository(&disk), None, Path::new("t"));
    let read = |files: &Files| {
        let mut bytes = Vec::new();
        files.open(Path::new("t/file")).unwrap().read_to_end(&mut bytes).map(|_| bytes)
    };
    assert!(read(&open().unwrap()).unwrap() == disk.bytes(Path::new("/top/file")).unwrap());
    forge(&disk, 1, |_, trailer| trailer.content[5] ^= 1);
    let error = open().err().unwrap().to_string();
    assert!(error.contains("does not reproduce what was backed up"), "{error}");
    forge(&disk, 1, |record, trailer| {
        record.content[3] ^= 1;
        trailer.content = content(volume.len() as u64, &record.content);
    });
    let error = read(&open().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert!(error.to_string().contains("chunk's blocks do not match"), "{error}");
}
