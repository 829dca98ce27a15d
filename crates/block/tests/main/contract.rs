//! The contract of stores, run on folders, and what only folders do.

use std::sync::Arc;

use block::{Folder, Store};
use disk::RealDisk;
use disk::faults::FaultDisk;

use crate::store_contract::contract;

#[test]
fn a_folder_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = Folder::new(Arc::new(RealDisk), folder.path().join("new/repo"));
    contract(&store);
    keeps_what_is_left(&store);
}

#[test]
fn a_folder_of_the_disk_with_faults_keeps_the_contract() {
    let store = Folder::new(Arc::new(FaultDisk::default()), "/new/repo".into());
    contract(&store);
    keeps_what_is_left(&store);
}

pub(crate) fn keeps_what_is_left(store: &dyn Store) {
    let mut part = [0; 3];
    assert!(store.leftover("c").unwrap().is_none());
    let mut upload = store.create("c").unwrap();
    upload.write_all(b"left").unwrap();
    upload.leave();
    assert_eq!(store.list().unwrap(), ["b"], "what is left is no file");
    let left = store.leftover("c").unwrap().unwrap();
    drop(store.create("c").unwrap());
    assert!(store.leftover("c").unwrap().is_none(), "it is taken over");
    assert_eq!(left.read_at(0, &mut part).unwrap(), 3, "and read all the same");
}
