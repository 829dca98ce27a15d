//! A tree of files on the far side, backed up and restored.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::backup::Request;
use block::tree::{self, Layout};
use block::{BLOCK, Folder, Repository, RunContext, backup, restore};
use disk::{Attributes, Disk, Extent, Kind, RealDisk, Tree};
use progress::Silent;

use crate::support::{Real, connected_here, connected_to};

static NEVER: AtomicBool = AtomicBool::new(false);
const WORLD: RunContext<'static> = RunContext { stop: &NEVER, progress: &Silent };

fn write(path: &Path, bytes: &[u8]) {
    let mut sink = RealDisk.create(path).unwrap();
    std::io::Write::write_all(&mut sink, bytes).unwrap();
}

#[test]
fn a_tree_goes_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    RealDisk.create_folder(&top).unwrap();
    RealDisk.create_folder(&top.join("sub")).unwrap();
    let text = b"some text that fills blocks ".repeat(3000);
    write(&top.join("sub/table"), &text);
    write(&top.join("empty"), b"");
    let connection = connected_here();
    let there = connection.disk();
    there.make_link(&top.join("link"), Path::new("sub/table")).unwrap();
    let attributes = Attributes { mode: 0o640, uid: 0, gid: 0, modified_ns: 1_500_000_000_123_456_789 };
    there.set_attributes(&top.join("empty"), &Kind::File, attributes).unwrap();
    assert_eq!(there.entries(&top).unwrap(), RealDisk.entries(&top).unwrap());
    assert!(there.entries(Path::new("/nowhere")).is_err());
    assert_eq!(there.entry(&top.join("link")).unwrap().kind, Kind::File);
    assert_eq!(there.entry(&top).unwrap(), RealDisk.entry(&top).unwrap());
    assert!(there.entry(Path::new("/nowhere")).is_err());

    let (nodes, left) = tree::list(&there, &top).unwrap();
    assert_eq!((nodes.len(), left.len()), (5, 0));
    let layout = Layout::new(nodes.clone(), None);
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let mut feed = connection.scan_tree(&layout, &top).unwrap();
    let request = Request { jobs: 2, ..Request::new("tree") };
    backup(&repository, &mut feed, &request, WORLD).unwrap();
    drop(feed);
    assert_eq!(tree::layout_of(&repository, None).unwrap(), layout);
    let request = restore::Request::new(None, 2);
    let disk: Arc<dyn Disk> = Arc::new(connection.disk());
    let back = folder.path().join("back");
    tree::restore(&repository, tree::NewFolder { disk: &disk, tree: &there, path: &back }, request, WORLD)
        .unwrap();
    assert_eq!(tree::list(&RealDisk, &back).unwrap().0, nodes);
    let mut bytes = vec![0; text.len() + BLOCK];
    let count = RealDisk.open(&back.join("sub/table")).unwrap().read_full_at(0, &mut bytes).unwrap();
    assert!(bytes[..count] == text);
}

#[test]
fn extents_equal_those_of_the_local_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(&path, &[7; 100_000]);
    let there = connected_here().disk();
    match (there.extents(&path), RealDisk.extents(&path)) {
        (Ok(found), Ok(known)) => {
            assert_eq!(found, known);
            let end = |extent: &Extent| extent.logical + extent.len;
            assert!(found.iter().map(end).max() >= Some(100_000), "{found:?}");
        }
        (found, known) => assert!(found.is_err() && known.is_err(), "{found:?} {known:?}"),
    }
}

/// Syncing a hundred thousand small files one by one would mean a hundred thousand waits for the disk.
#[test]
fn small_files_are_made_durable_together() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    RealDisk.create_folder(&top).unwrap();
    for number in 0..50 {
        write(&top.join(format!("small-{number}")), format!("file {number}").as_bytes());
    }
    let machine = Real::default();
    let connection = connected_to(&machine);
    let (there, disk) = (connection.disk(), Arc::new(connection.disk()) as Arc<dyn Disk>);
    let can = RealDisk.batch(folder.path()).unwrap().is_some();
    assert_eq!(disk.batch(folder.path()).unwrap().is_some(), can);
    assert!(disk.batch(Path::new("/nowhere")).is_err() || !can);
    let (nodes, _) = tree::list(&there, &top).unwrap();
    let layout = Layout::new(nodes.clone(), None);
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.path().join("repo"))));
    let mut feed = connection.scan_tree(&layout, &top).unwrap();
    backup(&repository, &mut feed, &Request { jobs: 2, ..Request::new("tree") }, WORLD).unwrap();
    drop(feed);
    assert_eq!(machine.0.load(Ordering::Relaxed), 0);
    let back = folder.path().join("back");
    tree::restore(
        &repository,
        tree::NewFolder { disk: &disk, tree: &there, path: &back },
        restore::Request::new(None, 2),
        WORLD,
    )
    .unwrap();
    assert_eq!(tree::list(&RealDisk, &back).unwrap().0, nodes);
    // The new name at the end, and its folder.
    let syncs = machine.0.load(Ordering::Relaxed);
    assert!(!can || syncs < 5, "{syncs} syncs for 50 files");
}
