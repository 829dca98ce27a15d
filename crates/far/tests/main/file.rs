//! Files on the far side behave like local files.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use disk::Disk;
use disk::faults::FaultDisk;

use crate::support::connected;

#[test]
fn each_operation_is_done_there() {
    let there = FaultDisk::default();
    let connection = connected(&there);
    assert_eq!((connection.greeting().uid, connection.greeting().program), (3, [7; 32]));
    let far = connection.disk();
    let path = Path::new("/folder/file");
    far.make_folder(Path::new("/folder")).unwrap();
    let mut sink = far.create(path).unwrap();
    sink.write_all(&[5; 9_000_000]).unwrap();
    sink.sync().unwrap();
    drop(sink);
    assert_eq!(far.create(path).err().unwrap().kind(), ErrorKind::AlreadyExists);
    assert!(there.bytes(path).unwrap() == [5; 9_000_000]);
    let mut sink = far.append(path, 10).unwrap();
    sink.write_all(b"end").unwrap();
    sink.sync().unwrap();
    assert_eq!(far.stat(path).unwrap().len, 13);

    let volume = far.volume(path).unwrap();
    volume.set_len(100).unwrap();
    volume.write_at(50, b"middle").unwrap();
    volume.clear(0, 5).unwrap();
    volume.sync().unwrap();
    let mut expected = [vec![0; 5], vec![5; 5], b"end".to_vec(), vec![0; 37], b"middle".to_vec()].concat();
    expected.resize(100, 0);
    assert_eq!(there.bytes(path).unwrap(), expected);
    let mut part = [0; 8];
    assert_eq!(volume.read_at(49, &mut part).unwrap(), 8);
    assert_eq!(&part, b"\0middle\0");

    let mut source = far.open(path).unwrap();
    let mut all = Vec::new();
    source.seek(SeekFrom::End(-52)).unwrap();
    source.read_to_end(&mut all).unwrap();
    assert_eq!(all, expected[48..]);
    assert_eq!(source.skip_hole(3).unwrap(), there.open(path).unwrap().skip_hole(3).unwrap());
    assert_eq!(source.stat().unwrap(), there.stat(path).unwrap());

    far.rename(path, Path::new("/folder/other")).unwrap();
    far.sync_folder(Path::new("/folder")).unwrap();
    assert_eq!(far.list(Path::new("/folder")).unwrap(), ["other"]);
    assert_eq!(far.stat(path).err().unwrap().kind(), ErrorKind::NotFound);
    far.remove(Path::new("/folder/other")).unwrap();
    far.remove_folder(Path::new("/folder")).unwrap();
    assert_eq!(far.list(Path::new("/folder")).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn a_write_error_comes_with_the_next_answer() {
    let there = FaultDisk::default();
    let far = connected(&there).disk();
    let mut sink = far.create(Path::new("/file")).unwrap();
    there.limit(100);
    sink.write_all(&[1; 1000]).unwrap();
    assert_eq!(sink.sync().unwrap_err().kind(), ErrorKind::StorageFull);
    drop(sink);
    let volume = far.volume(Path::new("/file")).unwrap();
    volume.write_at(0, &[2; 1000]).unwrap();
    volume.write_at(0, &[2; 1]).unwrap();
    assert_eq!(volume.sync().unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn commands_are_run_there_and_their_arguments_are_no_shells() {
    let connection = connected(&FaultDisk::default());
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let ran = connection.run(&words(&["echo", "$(id)", "'; x"])).unwrap();
    assert_eq!((ran.code, ran.output.as_slice()), (0, b"$(id) '; x".as_slice()));
    assert_eq!(connection.run(&words(&["nothing"])).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(connection.run(&[]).is_err());
}
