//! One suite, run over every disk there is.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use disk::faults::FaultDisk;
use disk::{Disk, Output, RealDisk, Share, Tree as _};

#[test]
fn the_real_disk_keeps_the_contract() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    contract(&RealDisk, folder.path());
}

#[test]
fn the_room_on_a_disk_is_what_df_says() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said: u64 = text.lines().last().unwrap().trim().parse().unwrap();
    // Others write to it meanwhile.
    assert!(RealDisk.free(folder.path()).unwrap().abs_diff(said) < said / 10, "df says {said}");
    let nowhere = RealDisk.free(&folder.path().join("nowhere"));
    assert_eq!(nowhere.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
}

#[test]
fn the_fault_disk_keeps_the_contract() {
    contract(&FaultDisk::default(), Path::new("/folder"));
}

fn contract(disk: &dyn Disk, folder: &Path) {
    let (one, two) = (folder.join("one"), folder.join("two"));
    assert_eq!(disk.open(&one).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    assert_eq!(disk.stat(&one).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    assert_eq!(disk.remove(&one).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    assert_eq!(disk.rename(&one, &two).err().map(|e| e.kind()), Some(ErrorKind::NotFound));

    let mut sink = disk.create(&one).unwrap();
    sink.write_all(b"hello ").unwrap();
    sink.write_all(b"world").unwrap();
    sink.sync().unwrap();
    assert_eq!(disk.create(&one).err().map(|e| e.kind()), Some(ErrorKind::AlreadyExists));
    let before = disk.stat(&one).unwrap();
    assert_eq!((before.len, before.regular), (11, true));

    let mut source = disk.open(&one).unwrap();
    assert_eq!(source.stat().unwrap(), before);
    source.seek(SeekFrom::Start(6)).unwrap();
    let mut text = String::new();
    source.read_to_string(&mut text).unwrap();
    assert_eq!(text, "world");

    disk.create(&two).unwrap().write_all(b"old").unwrap();
    assert_ne!(disk.stat(&two).unwrap().inode, before.inode);
    disk.rename(&one, &two).unwrap();
    assert_eq!(disk.stat(&two).unwrap().inode, before.inode, "a file keeps its number when it gets a name");
    disk.sync_folder(folder).unwrap();
    assert_eq!(disk.stat(&two).unwrap().len, 11, "rename replaces what had the name");
    assert!(disk.stat(&one).is_err());
    assert_eq!(source.stat().unwrap().len, 11, "an open file outlives its name");
    disk.remove(&two).unwrap();
    output(disk, &two);
    grown_and_cut(disk, &folder.join("log"));
    folders(disk, folder);
    volume(disk, &two);
    direct(disk, &folder.join("direct"));
    lock(disk, &folder.join("lock"));
    disk.make_folder(folder).unwrap();
    assert!(disk.list(folder).unwrap().contains(&"two".into()));
}

fn grown_and_cut(disk: &dyn Disk, name: &Path) {
    assert_eq!(disk.append(name, 0).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    assert_eq!(disk.open(name).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    disk.create(name).unwrap().write_all(b"0123456789").unwrap();
    let file = disk.open(name).unwrap();
    let mut sink = disk.append(name, 8).unwrap();
    sink.write_all(b"abc").unwrap();
    sink.sync().unwrap();
    let mut buffer = [0; 6];
    assert_eq!(file.read_at(6, &mut buffer).unwrap(), 5);
    assert_eq!(&buffer[..5], b"67abc");
    drop(disk.append(name, 100).unwrap());
    assert_eq!(disk.stat(name).unwrap().len, 11, "a file is not made longer by opening it");
    disk.remove(name).unwrap();
    assert_eq!(file.read_at(10, &mut buffer).unwrap(), 1, "an open file outlives its name");
    assert_eq!(file.read_at(11, &mut buffer).unwrap(), 0);
}

fn folders(disk: &dyn Disk, folder: &Path) {
    let (one, two) = (folder.join("sub"), folder.join("other"));
    assert_eq!(disk.list(&one).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    disk.create_folder(&one).unwrap();
    assert_eq!(disk.create_folder(&one).err().map(|e| e.kind()), Some(ErrorKind::AlreadyExists));
    assert!(disk.list(&one).unwrap().is_empty());
    disk.create(&one.join("b")).unwrap().write_all(b"b").unwrap();
    disk.create(&one.join("a")).unwrap();
    assert_eq!(disk.list(&one).unwrap(), [Path::new("a"), Path::new("b")]);
    disk.rename(&one, &two).unwrap();
    disk.sync_folder(folder).unwrap();
    assert_eq!(disk.stat(&two.join("b")).unwrap().len, 1);
    assert!(disk.list(&one).is_err());
    assert!(disk.remove_folder(&two).is_err(), "it is not empty");
    disk.remove(&two.join("a")).unwrap();
    disk.remove(&two.join("b")).unwrap();
    disk.remove_folder(&two).unwrap();
    assert!(disk.list(&two).is_err());
}

/// Any part of a file can be read around the cache, whatever its length is.
fn direct(disk: &dyn Disk, name: &Path) {
    assert_eq!(disk.open_direct(name).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    let bytes: Vec<u8> = (0..(2_usize << 20) + 5003).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let mut sink = disk.create(name).unwrap();
    sink.write_all(&bytes).unwrap();
    sink.sync().unwrap();
    let mut file = disk.open_direct(name).unwrap();
    assert_eq!(file.stat().unwrap(), disk.stat(name).unwrap());
    let ends = [0, 1, 511, 4096, 4097, 16_384, 1 << 20, (1 << 20) + 1, bytes.len() - 5003, bytes.len() - 1];
    for (at, len) in ends.iter().flat_map(|at| ends.map(|len| (*at, len))) {
        let mut buffer = vec![0; len];
        let count = file.read_full_at(at as u64, &mut buffer).unwrap();
        assert_eq!(count, len.min(bytes.len() - at), "{len} bytes at {at}");
        assert!(buffer[..count] == bytes[at..at + count], "{len} bytes at {at}");
    }
    for at in [0, 1, 4096, 5000] {
        assert_eq!(file.read_at((bytes.len() + at) as u64, &mut [0; 9]).unwrap(), 0);
    }
    file.seek(SeekFrom::End(-3)).unwrap();
    let mut end = Vec::new();
    file.read_to_end(&mut end).unwrap();
    assert!(end == bytes[bytes.len() - 3..]);
    disk.append(name, 10).unwrap();
    assert_eq!(file.read_full_at(7, &mut [0; 100]).unwrap(), 3, "it was cut meanwhile");
    disk.remove(name).unwrap();
}

/// A file of five bytes, read and written in place.
fn volume(disk: &dyn Disk, name: &Path) {
    assert!(disk.volume(&name.with_extension("none")).is_err());
    let volume = disk.volume(name).unwrap();
    volume.set_len(10_000).unwrap();
    volume.write_at(9_000, b"far").unwrap();
    volume.write_at(4, b"E!").unwrap();
    let source = disk.open(name).unwrap();
    let mut bytes = [1; 8];
    assert_eq!(source.read_at(0, &mut bytes).unwrap(), 8);
    assert_eq!(&bytes, b"wholE!\0\0");
    assert_eq!(source.read_at(9_999, &mut bytes).unwrap(), 1, "a read at the end is short");
    assert_eq!(source.read_at(10_000, &mut bytes).unwrap(), 0);
    volume.clear(0, 9_001).unwrap();
    assert_eq!(volume.read_at(9_000, &mut bytes).unwrap(), 8);
    assert_eq!(&bytes[..3], b"\0ar");
    assert!(source.skip_hole(0).unwrap().unwrap() <= 9_001);
    assert_eq!(source.skip_hole(10_000).unwrap(), None);
    let absent = source.absent(0, 10_000).unwrap();
    assert!(absent.iter().all(|range| range.start < range.end && range.end <= 10_000), "{absent:?}");
    source.prefetch(0, 100);
    source.forget(0, 100);
    volume.set_len(3).unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.stat().unwrap().len, 3);
}

fn lock(disk: &dyn Disk, name: &Path) {
    let one = disk.lock(name, Share::Shared).unwrap().unwrap();
    let two = disk.lock(name, Share::Shared).unwrap().unwrap();
    assert!(disk.lock(name, Share::Exclusive).unwrap().is_none());
    drop(one);
    assert!(disk.lock(name, Share::Exclusive).unwrap().is_none());
    drop(two);
    let alone = disk.lock(name, Share::Exclusive).unwrap().unwrap();
    assert!(disk.lock(name, Share::Shared).unwrap().is_none());
    drop(alone);
    disk.lock(name, Share::Exclusive).unwrap().unwrap();
}

fn output(disk: &dyn Disk, name: &Path) {
    let mut dropped = Output::create(disk, name).unwrap();
    dropped.write_all(b"half").unwrap();
    drop(dropped);
    assert!(disk.stat(name).is_err(), "a dropped output leaves nothing");
    let mut whole = Output::create(disk, name).unwrap();
    whole.write_all(b"whole").unwrap();
    assert!(disk.stat(name).is_err(), "nothing has the name before finish");
    whole.finish().unwrap();
    assert_eq!(disk.stat(name).unwrap().len, 5);
    assert!(disk.stat(&Output::partial(name)).is_err());
    let mut left = Output::create(disk, name).unwrap();
    left.write_all(b"left").unwrap();
    left.leave();
    assert_eq!(disk.stat(&Output::partial(name)).unwrap().len, 4);
    assert_eq!(disk.stat(name).unwrap().len, 5);
    drop(Output::create(disk, name).unwrap());
    assert!(disk.stat(&Output::partial(name)).is_err(), "what was left is taken over");
}

#[test]
fn a_copy_has_all_bytes_and_leaves_room() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to, other] = ["from", "to", "other"].map(|name| folder.path().join(name));
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    RealDisk.create(&from).unwrap().write_all(&bytes).unwrap();
    disk::copy(&from, &to, 0).unwrap();
    assert!(std::fs::read(&to).unwrap() == bytes);
    assert_eq!(disk::copy(&from, &to, 0).unwrap_err().kind(), ErrorKind::AlreadyExists);
    match disk::copy(&from, &other, u64::MAX) {
        // The file system shares blocks.
        Ok(()) => assert!(std::fs::read(&other).unwrap() == bytes),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            assert_eq!(std::fs::metadata(&other).unwrap().len(), 0);
        }
    }
}
