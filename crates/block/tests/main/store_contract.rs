//! The contract that every store keeps.

use std::io::ErrorKind;

use block::Store;
use disk::Share;

pub(crate) fn contract(store: &dyn Store) {
    assert_eq!(store.list().unwrap(), Vec::<String>::new(), "a missing folder has no files");
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

    let guard = store.lock("x", Share::Exclusive).unwrap().unwrap();
    assert!(store.lock("x", Share::Shared).unwrap().is_none());
    assert!(store.lock("y", Share::Exclusive).unwrap().is_some(), "another lock");
    drop(guard);
    assert!(store.lock("x", Share::Shared).unwrap().is_some());
    assert_eq!(store.list().unwrap(), ["b"], "locks are no files");
    assert!(store.shown("b").ends_with("new/repo/b"));
}
