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
    grown_and_cut(disk, &folder.join("log"));
    folders(disk, folder);
}

fn grown_and_cut(disk: &dyn Disk, name: &Path) {
    assert_eq!(disk.append(name, 0).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    assert_eq!(disk.open_random(name).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    disk.create(name).unwrap().write_all(b"0123456789").unwrap();
    let file = disk.open_random(name).unwrap();
    let mut sink = disk.append(name, 8).unwrap();
    sink.write_all(b"abc").unwrap();
    sink.sync().unwrap();
    let mut buffer = [0; 6];
    assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 5);
    assert_eq!(&buffer[..5], b"67abc");
    drop(disk.append(name, 100).unwrap());
    assert_eq!(disk.stat(name).unwrap().len, 11, "a file is not made longer by opening it");
    disk.remove(name).unwrap();
    assert_eq!(file.read_at(&mut buffer, 10).unwrap(), 1, "an open file outlives its name");
    assert_eq!(file.read_at(&mut buffer, 11).unwrap(), 0);
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
