//! The tree without a kernel.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::tree::{self, Layout, TreeSource};
use block::{BLOCK, Folder, GenerationReader, Repository, RepositoryReader, RunContext, Scan};
use disk::{Disk, RealDisk};
use progress::Silent;
use repository::location::Location;
use rustix::io::Errno;
use tempfile::TempDir;

use crate::file_data::{FileData, WriteFolder};
use crate::inode_table::{InodeTable, ROOT};
use crate::overlay::{Change, NewNode, NodeKind, Overlay, Rights, TOP};

static NEVER: AtomicBool = AtomicBool::new(false);

fn repository(folder: &Path) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.join("data"))))
}

/// Numbers that look random and are the same every time.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn below(state: &mut u64, limit: u64) -> u64 {
    random(state) % limit
}

/// A generation with the file `a/file`, which has these bytes, and another name of it, `name`.
fn backed_up(bytes: &[u8]) -> (TempDir, GenerationReader) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    RealDisk.make_folder(&top.join("a")).unwrap();
    std::io::Write::write_all(&mut RealDisk.create(&top.join("a/file")).unwrap(), bytes).unwrap();
    std::fs::hard_link(top.join("a/file"), top.join("name")).unwrap();
    let layout = Layout::new(tree::list(&RealDisk, &top).unwrap().0, None);
    let reader = TreeSource::of(Arc::new(RealDisk), &layout, &top);
    let note = r#"{"tree":true}"#.to_owned();
    let request = block::backup::Request { note, ..block::backup::Request::new("data") };
    let world = RunContext { stop: &NEVER, progress: &Silent };
    block::backup(&repository(folder.path()), &mut Scan::new(Box::new(reader)), &request, world).unwrap();
    let content = RepositoryReader::open(repository(folder.path())).unwrap().content(None).unwrap();
    (folder, content)
}

#[test]
fn writes_cover_the_backup_without_changing_it() {
    let mut state = 0x1234_5678_9abc_def1;
    let bytes: Vec<u8> = (0..5 * BLOCK + 100).map(|_| random(&mut state).to_le_bytes()[3]).collect();
    let (folder, content) = backed_up(&bytes);
    let nodes = tree::nodes(&content).unwrap();
    let node = nodes.iter().find(|node| node.len > 0).unwrap();
    let (write_folder, tell) = (WriteFolder::new(folder.path()), |error: &block::Error| panic!("{error}"));
    for _ in 0..30 {
        let (data, mut model) = (FileData::new(node.blocks.clone(), node.len), bytes.clone());
        for _ in 0..40 {
            let reach = 8 * BLOCK as u64;
            match below(&mut state, 8) {
                0 => {
                    let len = below(&mut state, reach);
                    data.set_len(len).unwrap();
                    model.resize(usize::try_from(len).unwrap(), 0);
                }
                1..=4 => {
                    let at = below(&mut state, reach);
                    // Some are whole blocks.
                    let at = if below(&mut state, 3) == 0 { at / BLOCK as u64 * BLOCK as u64 } else { at };
                    let len = below(&mut state, 2 * BLOCK as u64 + 2);
                    let part: Vec<u8> = (0..len).map(|_| random(&mut state).to_le_bytes()[2]).collect();
                    data.write(&content, &write_folder, (at, &part), &tell).unwrap();
                    let (at, end) = (usize::try_from(at).unwrap(), usize::try_from(at + len).unwrap());
                    if !part.is_empty() {
                        model.resize(model.len().max(end), 0);
                        model[at..end].copy_from_slice(&part);
                    }
                }
                _ => {
                    let at = usize::try_from(below(&mut state, reach)).unwrap();
                    let len = usize::try_from(below(&mut state, 3 * BLOCK as u64)).unwrap();
                    let read = data.read(&content, at as u64, len, &tell).unwrap();
                    let end = model.len().min(at + len);
                    assert!(read == model[at.min(end)..end], "{len} bytes at {at} of {}", model.len());
                }
            }
        }
        assert!(data.read(&content, 0, usize::MAX / 2, &tell).unwrap() == model);
    }
    let left: Vec<_> = RealDisk.list(folder.path()).unwrap();
    assert_eq!(left.len(), 2, "what is written has no name: {left:?}");
}

#[test]
fn names_are_made_moved_and_removed() {
    let (folder, content) = backed_up(b"bytes");
    let (overlay, tell) = (Overlay::open(content.clone(), true).unwrap(), |_: &block::Error| ());
    let name = OsStr::new;
    let write_folder = WriteFolder::new(folder.path());
    let a = overlay.lookup(TOP, name("a")).unwrap().node;
    let file = overlay.lookup(a, name("file")).unwrap();
    assert_eq!((file.kind, file.len, file.names), (NodeKind::File, 5, 2));
    assert_eq!(overlay.lookup(TOP, name("name")).unwrap().node, file.node);
    assert_eq!(overlay.path(file.node).to_str(), Some("a/file"));
    let rights = Rights { mode: 0o640, uid: 1, gid: 2 };
    let made = overlay.make(a, name("new"), NewNode::File, rights).unwrap();
    assert_eq!(overlay.make(a, name("new"), NewNode::File, rights), Err(Errno::EXIST));
    overlay.write(made.node, &write_folder, (3, b"x"), &tell).unwrap();
    let read = |node| overlay.data(node).unwrap().read(&content, 0, 100, &tell).unwrap();
    assert_eq!(read(made.node), b"\0\0\0x");
    assert_eq!(overlay.remove(TOP, name("a"), true), Err(Errno::NOTEMPTY));
    assert_eq!(overlay.remove(TOP, name("a"), false), Err(Errno::ISDIR));
    assert_eq!(overlay.rename((a, name("new")), (a, name("file")), false), Err(Errno::EXIST));
    // One name of the old file is gone, the other one stays.
    overlay.rename((a, name("new")), (a, name("file")), true).unwrap();
    assert_eq!(overlay.lookup(a, name("file")).unwrap().node, made.node);
    assert_eq!(overlay.lookup(a, name("new")), Err(Errno::NOENT));
    assert_eq!(overlay.known(file.node).unwrap().names, 1);
    assert_eq!(read(file.node), b"bytes");
    // What is open stays as long as it is.
    overlay.opened(made.node);
    overlay.remove(a, name("file"), false).unwrap();
    assert_eq!(read(made.node), b"\0\0\0x");
    overlay.released(made.node);
    assert_eq!(read(made.node), b"", "its space is given back");
    overlay.remove(TOP, name("a"), true).unwrap();
    let change = Change { mode: Some(0o100_600), len: Some(2), ..Change::default() };
    let known = overlay.change(file.node, change).unwrap();
    assert_eq!((known.len, known.attributes.mode), (2, 0o600));
    assert_eq!(read(file.node), b"by");
}

#[test]
fn without_an_overlay_nothing_can_be_changed() {
    let (folder, _) = backed_up(b"bytes");
    let path = folder.path().join("data");
    let inodes = InodeTable::new(
        vec![(String::new(), Location::Folder(path))],
        None,
        None,
        Box::new(|what| panic!("{what}")),
    );
    let name = OsStr::new;
    let data = inodes.lookup(ROOT, name("data")).unwrap().number;
    let top = inodes.lookup(data, name("1")).unwrap().number;
    let file = inodes.lookup(top, name("name")).unwrap().number;
    let rights = Rights { mode: 0, uid: 0, gid: 0 };
    assert_eq!(inodes.read(file, 1, 3).unwrap(), b"yte");
    for refused in [
        inodes.write(file, 0, b"x"),
        inodes.remove(top, name("name"), false),
        inodes.rename((top, name("name")), (top, name("x")), true),
        inodes.make(top, name("x"), NewNode::File, rights).map(drop),
        inodes.link(file, top, name("x")).map(drop),
        inodes.change(file, Change { len: Some(0), ..Change::default() }).map(drop),
        inodes.make(data, name("2"), NewNode::Folder, rights).map(drop),
    ] {
        assert_eq!(refused, Err(Errno::ROFS));
    }
    for nothing in ["0", "2", "01", "x", "18446744073709551616"] {
        assert!(inodes.lookup(data, name(nothing)).is_err(), "{nothing}");
    }
    assert!(inodes.known(77).is_err() && inodes.known(u64::MAX).is_err() && inodes.known(0).is_err());
}
