//! Volumes that grow while they are read, because only then it is known what is in them.

#![expect(clippy::disallowed_methods, reason = "a test makes its files itself")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::backup::{Request, Summary};
use block::tree::{self, ConcurrentUse, Layout, LayoutBuilder, Node, TreeSource};
use block::{BLOCK, ChunkRead, ChunkRequest, ChunkSource, Error, Scan, backup};
use disk::{RealDisk, Stat};

use crate::support::{Random, world};
use crate::tree::repository;

/// Reads the files of a folder in three groups, by the first letter of their names; what is in a group
/// becomes known only when the group before it was read.
struct Groups<'a> {
    top: &'a Path,
    growing: Option<LayoutBuilder>,
    nodes: Vec<Node>,
    scan: Scan,
    /// The group that is read.
    at: usize,
    len: u64,
    /// Called when a group was read.
    between: &'a mut (dyn FnMut(usize) -> io::Result<()> + Send),
}

impl<'a> Groups<'a> {
    fn new(
        top: &'a Path,
        before: Option<&'a Layout>,
        between: &'a mut (dyn FnMut(usize) -> io::Result<()> + Send),
    ) -> Groups<'a> {
        let nothing = Scan::new(Box::new(TreeSource::new(Arc::new(RealDisk), 0)));
        let growing = Some(LayoutBuilder::new(before, 16_384));
        let mut groups = Groups { top, growing, nodes: Vec::new(), scan: nothing, at: 0, len: 0, between };
        groups.next_group().unwrap();
        groups
    }

    fn next_group(&mut self) -> io::Result<()> {
        let mut nodes = tree::list(&RealDisk, self.top)?.0;
        let letter = ["a", "b", "c"][self.at];
        nodes.retain(|node| node.path.to_string_lossy().starts_with(letter));
        let end = self.growing.as_mut().unwrap().add(&mut nodes);
        let parts = |nodes: &[Node]| -> Vec<_> {
            nodes
                .iter()
                .flat_map(|node| {
                    node.places().map(|(place, at)| (place, node.path.clone(), at)).collect::<Vec<_>>()
                })
                .collect()
        };
        let files = parts(&nodes);
        self.nodes.append(&mut nodes);
        let mut reader = if self.at < 2 {
            self.len = end;
            TreeSource::new(Arc::new(RealDisk), end)
        } else {
            let top = tree::list(&RealDisk, self.top)?.0.remove(0);
            let mut all = std::mem::take(&mut self.nodes);
            all.push(top);
            all.sort_by(|one, other| one.path.cmp(&other.path));
            let layout = self.growing.take().unwrap().finish(all);
            self.len = layout.volume_len();
            let mut reader = TreeSource::new(Arc::new(RealDisk), self.len);
            for (place, part) in layout.parts() {
                if let tree::Part::Bytes(bytes) = part {
                    reader.add_bytes(place.start, bytes);
                }
            }
            reader
        };
        if self.at == 0 {
            reader.add_bytes(0, LayoutBuilder::first_block());
        }
        for (place, path, at) in files {
            reader.add_file(place, self.top.join(path), at, ConcurrentUse::Unchanging);
        }
        self.scan = Scan::new(Box::new(reader));
        self.at += 1;
        Ok(())
    }
}

impl ChunkSource for Groups<'_> {
    fn stat(&mut self) -> io::Result<Stat> {
        Ok(Stat::of_volume(self.len))
    }

    fn ahead(&self) -> u64 {
        self.scan.ahead()
    }

    fn expect(&mut self, number: u64, bytes: usize, want: ChunkRequest) -> io::Result<()> {
        self.scan.expect(number, bytes, want)
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<ChunkRead> {
        self.scan.read(buffer)
    }

    fn more(&mut self) -> io::Result<Option<u64>> {
        (self.between)(self.at)?;
        if self.at == 3 {
            return Ok(None);
        }
        self.next_group()?;
        Ok(Some(self.len))
    }

    fn note(&self) -> Option<String> {
        Some(format!("{{\"groups\":{}}}", self.at))
    }
}

fn back_up(
    folder: &Path,
    top: &Path,
    between: &mut (dyn FnMut(usize) -> io::Result<()> + Send),
) -> Result<Summary, Error> {
    let repository = repository(folder);
    let newest = repository.list().unwrap().generations.last().map(|generation| generation.number);
    let before = newest.map(|newest| tree::layout_of(&repository, Some(newest)).unwrap());
    let mut groups = Groups::new(top, before.as_ref(), between);
    let note = format!("{:100}", "{}");
    backup(
        &repository,
        &mut groups,
        &Request { is_frozen: true, note, jobs: 2, ..Request::new("grow") },
        world(),
    )
}

fn bring_back(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let back = crate::tree::bring_back(folder, None);
    let found = contents(&back);
    std::fs::remove_dir_all(&back).unwrap();
    found
}

fn contents(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path());
    names.map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn a_growing_volume_is_restored_and_only_its_changes_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    let mut random = Random(7);
    let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| random.next().to_le_bytes()[3]).collect() };
    for (name, blocks) in [("a1", 300), ("a2", 3), ("b1", 270), ("b2", 1), ("c1", 2), ("c2", 280)] {
        std::fs::write(top.join(name), bytes(blocks * BLOCK - 5)).unwrap();
    }
    // A file of a later group appears when the group before it was read.
    let late = bytes(BLOCK);
    let mut add = |group: usize| if group == 2 { std::fs::write(top.join("c3"), &late) } else { Ok(()) };
    let made = back_up(folder.path(), &top, &mut add).unwrap();
    assert!(bring_back(folder.path()) == contents(&top));
    let listed = repository(folder.path()).list().unwrap();
    assert_eq!(listed.generations[0].note.trim_end(), r#"{"groups":3}"#);
    assert_eq!(listed.generations[0].len, made.len);
    // Files grow by a little: the others stay where they are, and are not stored again.
    for name in ["a2", "b2", "c1"] {
        let mut all = std::fs::read(top.join(name)).unwrap();
        all.extend(bytes(2 * BLOCK));
        std::fs::write(top.join(name), all).unwrap();
    }
    let made = back_up(folder.path(), &top, &mut |_| Ok(())).unwrap();
    assert!(bring_back(folder.path()) == contents(&top));
    assert!((6..=14).contains(&made.changed), "{} blocks", made.changed);
    // A group that outgrows its room moves those behind it, and all comes back.
    std::fs::write(top.join("a3"), bytes(900 * BLOCK)).unwrap();
    std::fs::remove_file(top.join("b1")).unwrap();
    back_up(folder.path(), &top, &mut |_| Ok(())).unwrap();
    assert!(bring_back(folder.path()) == contents(&top));
    let verified = block::verify(&repository(folder.path()), 2, None, world()).unwrap();
    assert_eq!(verified.damages, []);
}

#[test]
fn a_growing_volume_that_fails_makes_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().join("top");
    std::fs::create_dir(&top).unwrap();
    for name in ["a1", "b1", "c1"] {
        std::fs::write(top.join(name), vec![1; 3 * BLOCK]).unwrap();
    }
    for bad in 1..=3 {
        let mut fail = |group: usize| if group == bad { Err(io::Error::other("no more")) } else { Ok(()) };
        let error = back_up(folder.path(), &top, &mut fail).unwrap_err();
        assert!(error.to_string().contains("no more"), "{error}");
        assert!(repository(folder.path()).list().unwrap().generations.is_empty());
    }
    back_up(folder.path(), &top, &mut |_| Ok(())).unwrap();
    assert!(bring_back(folder.path()) == contents(&top));
}

/// A page of several blocks is read at once only if it is in one chunk.
#[test]
fn no_page_lies_in_two_chunks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("any"), "").unwrap();
    let any = tree::list(&RealDisk, folder.path()).unwrap().0.pop().unwrap();
    let mut random = Random(5);
    for page in [16_384_u32, 32_768, 65_536] {
        let mut before: Option<Layout> = None;
        for _ in 0..20 {
            let mut growing = LayoutBuilder::new(before.as_ref(), page);
            let mut all = Vec::new();
            for group in 0..3 {
                let mut nodes: Vec<Node> = (0..30)
                    .filter_map(|number| {
                        // Some have parts of pages: they are no tablespaces.
                        let is_table = number % 3 > 0;
                        let unit = if is_table { page.into() } else { BLOCK as u64 };
                        let len = unit * random.below(200) as u64;
                        let path = format!("{group}-{number:02}").into();
                        (random.below(5) > 0).then(|| Node { path, ..any.clone().with_len(len) })
                    })
                    .collect();
                growing.add(&mut nodes);
                all.append(&mut nodes);
            }
            let layout = growing.finish(all);
            let mut last = 0;
            let mut places: Vec<_> = layout
                .nodes
                .iter()
                .flat_map(|node| {
                    node.places().map(move |(place, offset)| (place.start, place.end, offset, node))
                })
                .collect();
            places.sort_by_key(|place| place.0);
            for (start, end, offset, node) in places {
                assert!(start >= last, "two files have the same block");
                last = end;
                if node.len % u64::from(page) == 0 {
                    let page = u64::from(page);
                    assert!(
                        start % page == 0 && offset % page == 0 && end % page == 0,
                        "{start} {offset} {end}"
                    );
                }
            }
            before = Some(layout);
        }
    }
}
