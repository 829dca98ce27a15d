//! Trees of files against what is on disk.

#![expect(clippy::disallowed_methods, reason = "a test makes its files itself")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::backup::{ChangedRanges, Request, Summary};
use block::tree::{self, Layout, TreeSource};
use block::{BLOCK, CHUNK, Error, Folder, Repository, Scan, backup, restore};
use disk::{Disk, Kind, RealDisk, Tree};

use crate::support::{Random, world};

pub(crate) fn repository(folder: &Path) -> Repository {
    Repository::new(Box::new(Folder::new(Arc::new(RealDisk), folder.join("repo"))))
}

/// Tells where a file has changed.
type OfFile<'a> = dyn FnMut(&Path) -> Vec<Range<u64>> + 'a;

/// Kind, bytes, permissions, owner, and time in s and ns.
type ChunkRead = (String, Vec<u8>, u32, u32, i64, i64);

/// A generation of `top`; where `changed` says which parts of a file have changed, only those are read.
pub(crate) fn back_up(folder: &Path, top: &Path, changed: Option<&mut OfFile<'_>>) -> Result<Summary, Error> {
    let repository = repository(folder);
    let (nodes, left) = tree::list(&RealDisk, top).unwrap();
    assert_eq!(left, []);
    let newest = repository.list().unwrap().generations.last().map(|generation| generation.number);
    let before = newest.map(|newest| tree::layout_of(&repository, Some(newest)).unwrap());
    let layout = Layout::new(nodes, before.as_ref());
    let changed = before.zip(changed).map(|(before, of_file)| {
        let of_file = |node: &tree::Node| Ok::<_, Error>(of_file(&node.path));
        ChangedRanges { since: newest.unwrap(), ranges: layout.changed(&before, of_file).unwrap() }
    });
    let reader = TreeSource::of(Arc::new(RealDisk), &layout, top);
    let request = Request { changed, jobs: 2, ..Request::new("tree") };
    backup(&repository, &mut Scan::new(Box::new(reader)), &request, world())
}

/// Restores a generation into a new folder.
pub(crate) fn bring_back(folder: &Path, generation: Option<u64>) -> PathBuf {
    let back = folder.join("back");
    let request = restore::Request::new(generation, 2);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    tree::restore(
        &repository(folder),
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        request,
        world(),
    )
    .unwrap();
    back
}

/// All that can be seen of a tree: for each path its kind, bytes, permissions, owner and time.
pub(crate) fn seen(top: &Path) -> BTreeMap<PathBuf, ChunkRead> {
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

/// An access control list: permissions of owner, a user, the group, the mask, others.
fn list(owner: u8, user: u8, group: u8, mask: u8, others: u8) -> Vec<u8> {
    let none = u32::MAX;
    let entries =
        [(1u16, owner, none), (2, user, 12_345), (4, group, none), (0x10, mask, none), (0x20, others, none)];
    let mut out = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&u16::from(rights).to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn extended(path: &Path) -> disk::Extended {
    let all = RealDisk.entry(path).unwrap().extended;
    // Where the system has such an attribute, it sets it itself.
    all.into_iter().filter(|(name, _)| name != "security.selinux").collect()
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// A tree with access control lists, attributes, and a file with three names.
fn rich(folder: &Path) -> PathBuf {
    let top = folder.join("top");
    std::fs::create_dir_all(top.join("sub")).unwrap();
    std::fs::write(top.join("sub/file"), vec![7; 2 * BLOCK]).unwrap();
    std::fs::hard_link(top.join("sub/file"), top.join("another")).unwrap();
    std::fs::hard_link(top.join("sub/file"), top.join("z")).unwrap();
    std::fs::write(top.join("listed"), "secret").unwrap();
    let set = |name: &str, key: &str, value: &[u8]| {
        RealDisk.set_extended(&top.join(name), key.as_ref(), value).unwrap()
    };
    set("sub/file", "user.one", b"value");
    set("sub/file", "user.empty", b"");
    set("listed", ACCESS, &list(6, 6, 0, 6, 0));
    set("sub", ACCESS, &list(7, 7, 5, 7, 0));
    set("sub", DEFAULT, &list(7, 6, 0, 6, 0));
    top
}

#[test]
fn lists_attributes_and_second_names_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let top = rich(folder.path());
    back_up(folder.path(), &top, None).unwrap();
    // The default list of the target folder gives new entries permissions that nobody had; they must go.
    RealDisk.set_extended(folder.path(), DEFAULT.as_ref(), &list(7, 7, 7, 7, 7)).unwrap();
    let back = bring_back(folder.path(), None);
    for name in ["", "sub", "sub/file", "another", "z", "listed"] {
        let (was, is) = (top.join(name), back.join(name));
        assert_eq!((mode(&is), extended(&is)), (mode(&was), extended(&was)), "{name}");
    }
    assert_eq!((mode(&back.join("listed")), extended(&back.join("listed")).len()), (0o660, 1));
    let inode = |name: &str| std::fs::metadata(back.join(name)).unwrap().ino();
    assert!(inode("another") == inode("sub/file") && inode("z") == inode("another"));
    assert!(seen(&back) == seen(&top));
    // Removing one name removes no bytes, and none are stored again.
    std::fs::remove_file(top.join("another")).unwrap();
    let made = back_up(folder.path(), &top, None).unwrap();
    assert!(made.changed <= 4, "{made:?}");
    std::fs::remove_dir_all(&back).unwrap();
    assert!(seen(&bring_back(folder.path(), None)) == seen(&top));
}

/// Folders without access control lists, attributes, or files with two names. Those called `lost+found` may
/// only be read by root.
struct Plain;

impl Tree for Plain {
    fn entries(&self, folder: &Path) -> std::io::Result<Vec<disk::Entry>> {
        if folder.ends_with("lost+found") {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        RealDisk.entries(folder)
    }
    fn entry(&self, path: &Path) -> std::io::Result<disk::Entry> {
        RealDisk.entry(path)
    }
    fn make_link(&self, path: &Path, target: &Path) -> std::io::Result<()> {
        RealDisk.make_link(path, target)
    }
    fn set_attributes(
        &self,
        path: &Path,
        kind: &Kind,
        attributes: disk::Attributes,
    ) -> std::io::Result<disk::Attributes> {
        RealDisk.set_attributes(path, kind, attributes)
    }
    fn extents(&self, path: &Path) -> std::io::Result<Vec<disk::Extent>> {
        RealDisk.extents(path)
    }
}

#[test]
fn attributes_that_the_target_lacks_are_reported_and_give_no_more_rights() {
    let folder = tempfile::tempdir().unwrap();
    let top = rich(folder.path());
    back_up(folder.path(), &top, None).unwrap();
    let back = folder.path().join("back");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let request = restore::Request::new(None, 2);
    let restored = tree::restore(
        &repository(folder.path()),
        tree::NewFolder { disk: &disk, tree: &Plain, path: &back },
        request,
        world(),
    )
    .unwrap();
    // Two names, twice two attributes, two lists of a folder and one list of a file: each is named once.
    let told: Vec<&str> = restored.altered.iter().map(|(_, what)| what.split(": ").next().unwrap()).collect();
    assert!(told.iter().filter(|what| what.contains("a separate file")).count() == 2, "{told:?}");
    assert!(told.iter().any(|what| what.contains("access control list system.posix_acl_access")), "{told:?}");
    assert!(told.iter().any(|what| what.contains("attribute user.one")), "{told:?}");
    // The group had no permissions; the mask stands in their place.
    assert_eq!((mode(&top.join("listed")), mode(&back.join("listed"))), (0o660, 0o600));
    assert_eq!(mode(&back.join("sub")) & 0o070, 0o050);
    for name in ["another", "z", "sub/file"] {
        assert!(std::fs::read(back.join(name)).unwrap() == vec![7; 2 * BLOCK], "{name}");
    }
}

/// What a file system has at its top for fsck is no reason to copy nothing.
#[test]
fn lost_and_found_is_left_out_at_the_top_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path();
    std::fs::create_dir_all(top.join("lost+found/inside")).unwrap();
    std::fs::write(top.join("file"), "here").unwrap();
    let (nodes, left) = tree::list(&Plain, top).unwrap();
    let paths: Vec<&Path> = nodes.iter().map(|node| &*node.path).collect();
    assert_eq!(paths, [Path::new(""), Path::new("file"), Path::new("lost+found")]);
    let left: Vec<_> = left.iter().map(|left| (&*left.path, left.is_harmless)).collect();
    assert_eq!(left, [(Path::new("lost+found"), true)]);
    std::fs::create_dir_all(top.join("sub/lost+found")).unwrap();
    assert_eq!(tree::list(&Plain, top).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
}

/// A path that the system does not accept is left out, and nothing else.
#[test]
fn a_path_that_is_too_long_is_left_out_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    std::fs::write(top.join("file"), "here").unwrap();
    // Made from the inside out, so that no path is ever too long to be made.
    let name = "d".repeat(200);
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    for _ in 0..25 {
        std::fs::create_dir(folder.path().join("next")).unwrap();
        std::fs::rename(folder.path().join("deep"), folder.path().join("next").join(&name)).unwrap();
        std::fs::rename(folder.path().join("next"), folder.path().join("deep")).unwrap();
    }
    std::fs::rename(folder.path().join("deep"), top.join("deep")).unwrap();
    let (nodes, left) = tree::list(&RealDisk, &top).unwrap();
    assert!(left.len() == 1 && left[0].what.contains("too long for the system") && !left[0].is_harmless);
    assert!(nodes.iter().any(|node| node.path == Path::new("file")));
    let again = folder.path().join("repo");
    let layout = Layout::new(nodes, None);
    let reader = TreeSource::of(Arc::new(RealDisk), &layout, &top);
    let repository = Repository::new(Box::new(Folder::new(Arc::new(RealDisk), again)));
    backup(&repository, &mut Scan::new(Box::new(reader)), &Request::new("tree"), world()).unwrap();
}

/// A damaged block of a file costs that block of that file; a damaged block of the list costs what is named
/// after it.
#[test]
fn a_damaged_tree_is_restored_except_for_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    let mut random = Random(31);
    for number in 0..8 {
        let noise: Vec<u8> = (0..30 * BLOCK / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        std::fs::write(top.join(format!("f{number}")), noise).unwrap();
    }
    back_up(folder.path(), &top, None).unwrap();
    let file = folder.path().join("repo/000001.blk");
    let sound = std::fs::read(&file).unwrap();
    let damage = |what: &[u8]| {
        let mut bytes = sound.clone();
        let at = bytes.windows(what.len()).position(|window| window == what).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    };
    let wanted = std::fs::read(top.join("f3")).unwrap();
    damage(&wanted[20 * BLOCK..20 * BLOCK + 64]);
    let back = folder.path().join("back");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let request = restore::Request { keep_going: true, ..restore::Request::new(None, 2) };
    let restored = tree::restore(
        &repository(folder.path()),
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        request,
        world(),
    )
    .unwrap();
    assert!(!restored.is_verified && !restored.losses.is_empty(), "{restored:?}");
    assert!(restored.losses.iter().any(|loss| loss.path.as_deref() == Some(Path::new("f3"))), "{restored:?}");
    let mut lost = 0;
    for number in 0..8 {
        let name = PathBuf::from(format!("f{number}"));
        let (was, is) = (std::fs::read(top.join(&name)).unwrap(), std::fs::read(back.join(&name)).unwrap());
        assert_eq!(was.len(), is.len());
        for (at, (was, is)) in was.chunks(BLOCK).zip(is.chunks(BLOCK)).enumerate() {
            let at = (at * BLOCK) as u64;
            let told = restored
                .losses
                .iter()
                .any(|loss| loss.path.as_ref() == Some(&name) && loss.bytes.contains(&at));
            assert!(told || was == is, "{name:?} {at}");
            lost += u64::from(told);
        }
    }
    assert!((1..=16).contains(&lost), "{restored:?}");
    let found = block::verify(&repository(folder.path()), 2, None, world()).unwrap().damages;
    let named = |loss: &restore::Loss| loss.path.as_deref() == Some(Path::new("f3"));
    assert!(found.len() == 1 && found[0].costs[0].losses.iter().any(named), "{found:?}");
}

/// Names and bytes change again and again, and each generation comes back as it was.
#[test]
fn random_trees_come_back_whole() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir(&top).unwrap();
        // Large enough that the changes do not lie at the end of the volume, which is always read.
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
    let reader = TreeSource::of(Arc::new(RealDisk), &layout, &top);
    std::fs::write(top.join("f"), vec![1; 8 * BLOCK]).unwrap();
    let request = Request::new("tree");
    let made = backup(&repository(folder.path()), &mut Scan::new(Box::new(reader)), &request, world());
    let text = made.unwrap_err().to_string();
    assert!(text.contains("f is shorter than it was"), "{text}");
}

/// A restore that stops half-way leaves nothing under the name, and the next try works.
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
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let restored = tree::restore(
        &repository(folder.path()),
        tree::NewFolder { disk: &disk, tree: &RealDisk, path: &back },
        request,
        world(),
    );
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
