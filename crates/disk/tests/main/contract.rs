//! One suite, run over every disk there is.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use disk::faults::FaultDisk;
use disk::{Disk, Output, RealDisk};

#[test]
fn the_real_disk_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    contract(&RealDisk, folder.path());
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
    disk.rename(&one, &two).unwrap();
    disk.sync_folder(folder).unwrap();
    assert_eq!(disk.stat(&two).unwrap().len, 11, "rename replaces what had the name");
    assert!(disk.stat(&one).is_err());
    assert_eq!(source.stat().unwrap().len, 11, "an open file outlives its name");
    disk.remove(&two).unwrap();
    output(disk, &two);
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
    assert!(disk.stat(&name.with_extension("partial")).is_err());
}
