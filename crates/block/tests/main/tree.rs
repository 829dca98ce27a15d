//! Trees of files against what is on disk.

#![expect(clippy::disallowed_methods, reason = "a test makes its files itself")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::backup::{Changed, Request, Summary};
use block::tree::{self, Layout, Reader};
use block::{BLOCK, CHUNK, Error, Folder, Repository, Scan, backup, restore};
use disk::{Kind, RealDisk};

use crate::support::{Random, world};

fn repository(folder: &Path) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.join("repo"))))
}

/// Tells where a file has changed.
type OfFile<'a> = dyn FnMut(&Path) -> Vec<Range<u64>> + 'a;

/// What a thing is, its bytes, rights, owner, and time in s and ns.
type Seen = (String, Vec<u8>, u32, u32, i64, i64);

/// A generation of `top`; where `changed` tells what of a file has changed, only that is read.
fn back_up(folder: &Path, top: &Path, changed: Option<&mut OfFile<'_>>) -> Result<Summary, Error> {
    let repository = repository(folder);
    let (nodes, left) = tree::list(&RealDisk, top).unwrap();
    assert_eq!(left, []);
    let newest = repository.list().unwrap().generations.last().map(|generation| generation.number);
    let before = newest.map(|newest| tree::layout_of(&repository, Some(newest)).unwrap());
    let layout = Layout::new(nodes, before.as_ref());
    let changed = before.zip(changed).map(|(before, of_file)| {
        let of_file = |node: &tree::Node| Ok::<_, Error>(of_file(&node.path));
        Changed { since: newest.unwrap(), ranges: layout.changed(&before, of_file).unwrap() }
    });
    let reader = Reader::of(Arc::new(RealDisk), &layout, top);
    let request = Request { changed, jobs: 2, ..Request::new("tree") };
    backup(&repository, &mut Scan::new(Box::new(reader)), &request, world())
}

fn bring_back(folder: &Path, generation: Option<u64>) -> PathBuf {
    let back = folder.join("back");
    let request = restore::Request::new(generation, 2);
    let disk: Arc<dyn disk::Disk> = Arc::new(RealDisk);
    tree::restore(&repository(folder), (&disk, &RealDisk), &back, request, world()).unwrap();
    back
}

/// All that can be seen of a tree: by path, what it is, its bytes, rights, owner and time.
fn seen(top: &Path) -> BTreeMap<PathBuf, Seen> {
    let (nodes, _) = tree::list(&RealDisk, top).unwrap();
    let see = |node: tree::Node| {
        let path = if node.path.as_os_str().is_empty() { top.to_owned() } else { top.join(&node.path) };
        let bytes = if node.kind == Kind::File { std::fs::read(&path).unwrap() } else { Vec::new() };
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let time = (metadata.mtime(), metadata.mtime_nsec());
        let kind = format!("{:?}", node.kind);
        (node.path, (kind, bytes, metadata.permissions().mode(), metadata.uid(), time.0, time.1))
    };
    nodes.into_iter().map(see).collect()
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir_all(top.join("db one/empty")).unwrap();
    std::fs::write(top.join("db one/table.ibd"), vec![7; 5 * BLOCK + 3]).unwrap();
    std::fs::write(top.join("nothing"), "").unwrap();
    std::fs::write(top.join("\u{fc} name\nwith lines"), "text").unwrap();
    std::os::unix::fs::symlink("db one/table.ibd", top.join("link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", top.join("away")).unwrap();
    std::fs::set_permissions(top.join("nothing"), PermissionsExt::from_mode(0o4711)).unwrap();
    std::fs::set_permissions(top.join("db one"), PermissionsExt::from_mode(0o2750)).unwrap();
    let sparse = std::fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(300 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (300 << 20) - 3).unwrap();
    back_up(folder.path(), &top, None).unwrap();
    let back = bring_back(folder.path(), None);
    assert!(seen(&back) == seen(&top));
    assert!(std::fs::metadata(back.join("sparse")).unwrap().blocks() < 100, "holes stay holes");
}

/// What has a name and what has bytes changes, again and again, and each generation is what it was.
#[test]
fn random_trees_come_back_whole() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir(&top).unwrap();
        // So large that what changes does not lie at the end of the volume, which is always read.
        std::fs::write(top.join("z"), vec![1; 3 * CHUNK]).unwrap();
        let mut was: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut generations = Vec::new();
        for round in 0..8 {
            for _ in 0..random.below(6) + 1 {
                change(&mut random, &top);
            }
            let mut of_file = |path: &Path| different(was.get(path), &std::fs::read(top.join(path)).unwrap());
            let tracked: Option<&mut OfFile<'_>> = if round % 3 == 1 { Some(&mut of_file) } else { None };
            let made = back_up(folder.path(), &top, tracked).unwrap();
            let now = seen(&top);
            was = now.iter().map(|(path, (_, bytes, ..))| (path.clone(), bytes.clone())).collect();
            generations.push((made.generation, now));
        }
        for (generation, seen_then) in generations {
            let back = bring_back(folder.path(), Some(generation));
            assert!(seen(&back) == seen_then, "generation {generation}");
            std::fs::remove_dir_all(back).unwrap();
        }
    }
}

fn change(random: &mut Random, top: &Path) {
    let name = format!("f{}", random.below(6));
    let path = if random.below(3) == 0 { top.join("sub").join(name) } else { top.join(name) };
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    match random.below(5) {
        0 => {
            std::fs::remove_file(&path).ok();
        }
        1 => {
            std::fs::remove_dir_all(top.join("sub")).ok();
        }
        _ => {
            let mut bytes = std::fs::read(&path).unwrap_or_default();
            bytes.resize(random.below(40 * BLOCK), 5);
            let at = random.below(bytes.len());
            let block = random.block();
            bytes.iter_mut().skip(at).zip(block).for_each(|(to, from)| *to = from);
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

fn different(before: Option<&Vec<u8>>, now: &[u8]) -> Vec<Range<u64>> {
    let Some(before) = before else { return std::iter::once(0..u64::MAX).collect() };
    let pieces = now.chunks(BLOCK).zip((0u64..).step_by(BLOCK));
    let differs = |(piece, at): &(&[u8], u64)| {
        let start = usize::try_from(*at).unwrap();
        before.get(start..start + piece.len()) != Some(*piece)
    };
    pieces.filter(differs).map(|(piece, at)| at..at + piece.len() as u64).collect()
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    std::fs::write(top.join("f"), vec![1; 9 * BLOCK]).unwrap();
    let (nodes, _) = tree::list(&RealDisk, &top).unwrap();
    let layout = Layout::new(nodes, None);
    let reader = Reader::of(Arc::new(RealDisk), &layout, &top);
    std::fs::write(top.join("f"), vec![1; 8 * BLOCK]).unwrap();
    let request = Request::new("tree");
    let made = backup(&repository(folder.path()), &mut Scan::new(Box::new(reader)), &request, world());
    let text = made.unwrap_err().to_string();
    assert!(text.contains("f is shorter than it was"), "{text}");
}

/// What stops half-way leaves nothing under the name, and the next try works.
#[test]
fn a_restore_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    std::fs::write(top.join("f"), Random(3).volume(9)).unwrap();
    back_up(folder.path(), &top, None).unwrap();
    let file = folder.path().join("repo/000001.blk");
    let sound = std::fs::read(&file).unwrap();
    let mut broken = sound.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    std::fs::write(&file, broken).unwrap();
    let back = folder.path().join("back");
    let request = restore::Request::new(None, 2);
    let disk: Arc<dyn disk::Disk> = Arc::new(RealDisk);
    let restored = tree::restore(&repository(folder.path()), (&disk, &RealDisk), &back, request, world());
    assert!(matches!(restored, Err(Error::Corrupt { .. })), "{restored:?}");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    // What a killed run leaves.
    std::fs::create_dir_all(folder.path().join("back.partial/sub")).unwrap();
    std::fs::write(folder.path().join("back.partial/sub/x"), "x").unwrap();
    std::fs::write(&file, sound).unwrap();
    assert!(seen(&bring_back(folder.path(), None)) == seen(&top));
}
