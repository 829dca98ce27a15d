//! One suite for every store there is.

use std::io::ErrorKind;
use std::sync::Arc;

use block::{Folder, Store};
use disk::faults::FaultDisk;
use disk::{RealDisk, Share};

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    contract(&Folder::new(Arc::new(RealDisk), folder.path().join("new/repo")));
}

#[test]
fn a_folder_of_the_disk_with_faults_keeps_the_contract() {
    contract(&Folder::new(Arc::new(FaultDisk::default()), "/new/repo".into()));
}

pub(crate) fn contract(store: &dyn Store) {
    assert_eq!(store.list().unwrap(), Vec::<String>::new(), "what is not there has no files");
    assert_eq!(store.open("a").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    assert_eq!(store.remove("a").err().map(|error| error.kind()), Some(ErrorKind::NotFound));

    let mut dropped = store.create("a").unwrap();
    dropped.write_all(b"half").unwrap();
    assert_eq!(store.list().unwrap(), Vec::<String>::new(), "half a file has no name");
    drop(dropped);
    assert!(store.open("a").is_err());

    for name in ["b", "a"] {
        let mut upload = store.create(name).unwrap();
        upload.write_all(b"whole").unwrap();
        upload.finish().unwrap();
    }
    assert_eq!(store.list().unwrap(), ["a", "b"]);
    let source = store.open("a").unwrap();
    let mut part = [0; 3];
    assert_eq!(source.read_at(2, &mut part).unwrap(), 3);
    assert_eq!(&part, b"ole");
    store.remove("a").unwrap();
    assert_eq!(store.list().unwrap(), ["b"]);
    assert_eq!(source.read_at(0, &mut part).unwrap(), 3, "an open file outlives its name");

    assert!(store.leftover("c").unwrap().is_none());
    let mut upload = store.create("c").unwrap();
    upload.write_all(b"left").unwrap();
    upload.leave();
    assert_eq!(store.list().unwrap(), ["b"], "what is left is no file");
    let left = store.leftover("c").unwrap().unwrap();
    drop(store.create("c").unwrap());
    assert!(store.leftover("c").unwrap().is_none(), "it is taken over");
    assert_eq!(left.read_at(0, &mut part).unwrap(), 3, "and read all the same");

    let guard = store.lock("x", Share::Exclusive).unwrap().unwrap();
    assert!(store.lock("x", Share::Shared).unwrap().is_none());
    assert!(store.lock("y", Share::Exclusive).unwrap().is_some(), "another lock");
    drop(guard);
    assert!(store.lock("x", Share::Shared).unwrap().is_some());
    assert_eq!(store.list().unwrap(), ["b"], "locks are no files");
    assert!(store.shown("b").ends_with("new/repo/b"));
}
