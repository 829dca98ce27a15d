//! Backups of a volume on the far side.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::backup::{ChangedRanges, Request, Summary};
use block::{
    BLOCK, CHUNK, ChunkRequest, ChunkSource, Error, Folder, Repository, RunContext, backup, restore, verify,
};
use disk::faults::FaultDisk;
use far::Connection;
use progress::Silent;

use crate::support::{connect, connected};

const VOLUME: &str = "/volume";
static NEVER: AtomicBool = AtomicBool::new(false);
const WORLD: RunContext<'static> = RunContext { stop: &NEVER, progress: &Silent };

fn repository(disk: &FaultDisk) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(disk.clone()), "/repo".into())))
}

fn back_up(connection: &Connection, here: &FaultDisk) -> Result<Summary, Error> {
    back_up_tracked(connection, here, None)
}

fn back_up_tracked(
    connection: &Connection,
    here: &FaultDisk,
    changed: Option<ChangedRanges>,
) -> Result<Summary, Error> {
    let failed = |source| Error::Source { name: VOLUME.to_owned(), source };
    let mut feed = connection.scan(Path::new(VOLUME)).map_err(failed)?;
    let request = Request { changed, jobs: 2, ..Request::new(VOLUME) };
    backup(&repository(here), &mut feed, &request, WORLD)
}

fn restored(here: &FaultDisk) -> Vec<u8> {
    let request = restore::Request::new(None, 2);
    restore::to_new_file(&repository(here), here, Path::new("/restored"), request, WORLD).unwrap();
    let bytes = here.bytes(Path::new("/restored")).unwrap();
    disk::Disk::remove(here, Path::new("/restored")).unwrap();
    bytes
}

/// Blocks of text, each different, with some zeros between.
fn volume(blocks: usize, seed: usize) -> Vec<u8> {
    let block = |number: usize| match (number + seed) % 5 {
        0 => vec![0; BLOCK],
        _ => format!("block {number} of {seed} ").repeat(BLOCK / 8).into_bytes()[..BLOCK].to_vec(),
    };
    (0..blocks).flat_map(block).collect()
}

#[test]
fn generations_of_a_volume_elsewhere() {
    let (there, here) = (FaultDisk::default(), FaultDisk::default());
    let mut bytes = volume(3000, 1);
    let change = |bytes: &mut Vec<u8>, round: usize| match round {
        1 => bytes[CHUNK + 5] ^= 1,
        2 => bytes.truncate(2 * CHUNK + BLOCK + 77),
        3 => bytes.extend(volume(700, 3)),
        4 => bytes[..3 * BLOCK].fill(0),
        _ => {}
    };
    for round in 0..6 {
        change(&mut bytes, round);
        there.put(Path::new(VOLUME), &bytes);
        let (connection, count) = connect(&there, u64::MAX);
        let made = back_up(&connection.unwrap(), &here).unwrap();
        assert_eq!(made.generation, round as u64 + 1);
        assert!(restored(&here) == bytes, "round {round}");
        if round == 1 || round == 5 {
            let travelled = count.load(Ordering::Relaxed);
            assert!(travelled < 20_000, "what did not change does not travel: {travelled} bytes");
        }
    }
    assert_eq!(verify(&repository(&here), 2, None, WORLD).unwrap().damages, []);
}

#[test]
fn a_connection_that_breaks_is_no_backup_and_harms_none() {
    let (there, here) = (FaultDisk::default(), FaultDisk::default());
    let bytes = volume(600, 1);
    there.put(Path::new(VOLUME), &bytes);
    back_up(&connected(&there), &here).unwrap();
    let second = volume(600, 2);
    there.put(Path::new(VOLUME), &second);
    for cut in [100, 200, 1000, 5000, 10_000] {
        let (connection, _) = connect(&there, cut);
        let Ok(connection) = connection else { continue };
        assert!(matches!(back_up(&connection, &here), Err(Error::Source { .. })), "cut after {cut}");
        assert_eq!(repository(&here).list().unwrap().generations.len(), 1);
        assert!(restored(&here) == bytes);
    }
    back_up(&connected(&there), &here).unwrap();
    assert!(restored(&here) == second);
}

#[test]
fn a_read_error_on_the_far_side_is_reported_here() {
    let (there, here) = (FaultDisk::default(), FaultDisk::default());
    there.put(Path::new(VOLUME), &volume(600, 1));
    there.damage(Path::new(VOLUME), CHUNK as u64 + 9);
    let error = back_up(&connected(&there), &here).unwrap_err().to_string();
    assert!(error.contains(&format!("{VOLUME} at byte {CHUNK}")), "{error}");
    assert!(connected(&there).scan(Path::new("/nothing")).is_err());
}

#[test]
fn a_restore_goes_there_too() {
    let (there, here) = (FaultDisk::default(), FaultDisk::default());
    let bytes = volume(600, 1);
    there.put(Path::new(VOLUME), &bytes);
    let connection = connected(&there);
    back_up(&connection, &here).unwrap();
    // The feed of a backup ends with the backup.
    let far = connection.disk();
    let request = restore::Request::new(None, 2);
    restore::to_new_file(&repository(&here), &far, Path::new("/copy"), request, WORLD).unwrap();
    assert!(there.bytes(Path::new("/copy")).unwrap() == bytes);
    there.put(Path::new("/copy"), &volume(600, 2));
    let volume = disk::Disk::volume(&far, Path::new("/copy")).unwrap();
    let delta = restore::Request { delta: true, ..request };
    restore::in_place(&repository(&here), &*volume, "copy", delta, WORLD).unwrap();
    assert!(there.bytes(Path::new("/copy")).unwrap() == bytes);
}

/// Only a few blocks of a volume are transferred, from its middle and its end.
#[test]
fn unchanged_blocks_are_not_read() {
    let (there, here) = (FaultDisk::default(), FaultDisk::default());
    let mut bytes = volume(256 * 11 + 3, 1);
    there.put(Path::new(VOLUME), &bytes);
    let connection = connected(&there);
    back_up(&connection, &here).unwrap();
    let at = 256 * 5 * BLOCK + 3 * BLOCK;
    bytes[at..at + 9].copy_from_slice(b"something");
    there.put(Path::new(VOLUME), &bytes);
    let changed = ChangedRanges { since: 1, ranges: std::iter::once(at as u64..at as u64 + 1).collect() };
    let made = back_up_tracked(&connection, &here, Some(changed)).unwrap();
    assert_eq!(made.changed, 1);
    assert!(restored(&here) == bytes);
}

#[test]
fn a_feed_is_asked_in_order_and_other_questions_come_between() {
    let there = FaultDisk::default();
    let bytes = volume(600, 1);
    there.put(Path::new(VOLUME), &bytes);
    let connection = connected(&there);
    let mut feed = connection.scan(Path::new(VOLUME)).unwrap();
    assert!(feed.read(&mut Vec::new()).is_err(), "nothing was announced");
    feed.expect(0, CHUNK, ChunkRequest::All(None)).unwrap();
    feed.expect(1, CHUNK, ChunkRequest::All(None)).unwrap();
    assert_eq!(feed.stat().unwrap().len, bytes.len() as u64);
    let ran = connection.run(&["echo".into(), "between".into()]).unwrap();
    assert_eq!(ran.output, b"between");
    feed.expect(2, 88 * BLOCK, ChunkRequest::All(None)).unwrap();
    let mut buffer = Vec::new();
    for chunk in bytes.chunks(CHUNK) {
        feed.read(&mut buffer).unwrap();
        assert!(buffer[..chunk.len()] == *chunk);
    }
    feed.expect(1, CHUNK, ChunkRequest::All(None)).unwrap();
    feed.expect(2, CHUNK, ChunkRequest::All(None)).unwrap();
    feed.stat().unwrap();
    feed.read(&mut buffer).unwrap();
    drop(feed);
    disk::Disk::stat(&connection.disk(), Path::new(VOLUME)).unwrap();
}
