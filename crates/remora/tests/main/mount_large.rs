//! A mounted volume of many gigabytes.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use block::{BLOCK, Folder, Repository, RunContext, Scan};
use disk::RealDisk;
use progress::Silent;

use crate::extract::folder;
use crate::mount::{Mounted, NEVER, is_possible};

/// A volume of this many bytes, whose blocks differ and take no room.
struct Large(u64);

impl Read for Large {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl std::io::Seek for Large {
    fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// The bytes of a block of it.
fn of_block(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

impl disk::Source for Large {
    fn stat(&self) -> std::io::Result<disk::Stat> {
        Ok(disk::Stat::of_volume(self.0))
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(usize::try_from(self.0 - at).unwrap());
        for (word, place) in buffer[..count].chunks_mut(8).zip((at..).step_by(8)) {
            word.copy_from_slice(&of_block(place / BLOCK as u64)[..word.len()]);
        }
        Ok(count)
    }

    fn absent(&self, _: u64, _: usize) -> std::io::Result<Vec<std::ops::Range<u64>>> {
        Ok(Vec::new())
    }

    fn skip_hole(&self, at: u64) -> std::io::Result<Option<u64>> {
        Ok((at < self.0).then_some(at))
    }

    fn prefetch(&self, _: u64, _: u64) {}

    fn forget(&self, _: u64, _: u64) {}
}

/// `REMORA_MOUNT_GIB=16` makes it that large, and how long it took is shown with `--nocapture`.
#[test]
fn the_first_bytes_of_a_large_volume_fetch_little() {
    if !is_possible() {
        return;
    }
    let folder = folder();
    let folder = folder.path();
    let gib: u64 = std::env::var("REMORA_MOUNT_GIB").map_or(1, |gib| gib.parse().unwrap());
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.join("repo/data"))));
    let request = block::backup::Request { jobs: 2, ..block::backup::Request::new("data") };
    let world = RunContext { stop: &NEVER, progress: &Silent };
    block::backup(&repository, &mut Scan::new(Box::new(Large(gib << 30))), &request, world).unwrap();
    let began = std::time::Instant::now();
    let mounted = Mounted::new(folder, &["--json"]);
    let after = began.elapsed();
    let volume = fs::File::open(mounted.top.join("data/1/volume.img")).unwrap();
    let (mut bytes, number) = ([0; 8], gib * 40_000);
    volume.read_exact_at(&mut bytes, number * BLOCK as u64).unwrap();
    crate::support::tell(format!("mounted {after:?}, first bytes {:?}", began.elapsed()));
    assert_eq!(bytes, of_block(number));
    let ended = mounted.end().exits(0);
    let fetched = ended.out.split(r#""bytes_fetched":"#).nth(1).unwrap().split([',', '}']).next().unwrap();
    let fetched: u64 = fetched.parse().unwrap();
    assert!(fetched < 100_000 + gib * 40_000, "{fetched} bytes");
}
