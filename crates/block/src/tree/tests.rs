//! Layouts: every file has blocks of its own, and keeps them.

use disk::Extent;
use proptest::prelude::*;

use super::*;
use crate::format::CHUNK;

fn file(path: &str, len: u64) -> Node {
    Node {
        path: path.into(),
        kind: Kind::File,
        len,
        attributes: Attributes::default(),
        extended: vec![("user.one".into(), b"value".to_vec()), ("user.two".into(), Vec::new())],
        same_as: None,
        blocks: Vec::new(),
    }
}

fn folder(path: &str) -> Node {
    Node { kind: Kind::Folder, ..file(path, 0) }
}

/// The files `f0`, `f1`, ... with these lengths in blocks and bytes; `None` leaves a file out.
fn nodes(lens: &[Option<u64>]) -> Vec<Node> {
    let files =
        lens.iter().enumerate().filter_map(|(number, len)| Some(file(&format!("f{number}"), (*len)?)));
    std::iter::once(folder("")).chain(files).collect()
}

fn decoded(layout: &Layout) -> Result<Layout, &'static str> {
    let map = format::map(&layout.nodes);
    format::TreeHeader::decode(&format::header(&layout.map, &map, layout.grown))?
        .layout(&map, layout.volume_len() / BLOCK_U64)
}

fn lens() -> impl Strategy<Value = Vec<Option<u64>>> {
    proptest::collection::vec(proptest::option::weighted(0.8, 0..9 * BLOCK_U64), 6)
}

proptest! {
    #[test]
    fn files_keep_their_blocks_and_share_none(lives in proptest::collection::vec(lens(), 1..8)) {
        let mut before: Option<Layout> = None;
        for lens in lives {
            let layout = Layout::new(nodes(&lens), before.as_ref());
            // It decodes to the same layout, which also proves that no two files share a block.
            prop_assert_eq!(decoded(&layout), Ok(layout.clone()));
            for node in &layout.nodes {
                let old = before.iter().flat_map(|before| &before.nodes).find(|old| old.path == node.path);
                let Some(old) = old else { continue };
                let both = blocks_of(node.len.min(old.len));
                prop_assert_eq!(first_blocks(&node.blocks, both), first_blocks(&old.blocks, both));
            }
            before = Some(layout);
        }
    }

    /// Whatever a map contains, no path leads out of the tree, and nothing panics.
    #[test]
    fn a_hostile_map_is_refused_or_harmless(at in 0usize..400, bytes in proptest::collection::vec(any::<u8>(), 1..9)) {
        let mut all = nodes(&[Some(5), Some(BLOCK_U64 * 3)]);
        all.extend([folder("sub"), file("sub/x", 7), Node { kind: Kind::Link("/etc".into()), ..file("to", 0) }]);
        let layout = Layout::new(all, None);
        let mut map = format::map(&layout.nodes);
        let at = at % map.len();
        map.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = from);
        let header = format::header(&layout.map, &map, layout.grown);
        let read = format::TreeHeader::decode(&header).and_then(|front| front.layout(&map, layout.volume_len() / BLOCK_U64));
        if let Ok(read) = read {
            for node in &read.nodes {
                prop_assert!(!node.path.is_absolute());
                prop_assert!(node.path.components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
    }

    #[test]
    fn data_that_moved_count_as_changed(
        before in extents(), now in extents(), len in 0u64..40,
    ) {
        let moved_ranges = moved_ranges(&before, &now, len);
        for at in 0..len {
            let told = moved_ranges.iter().any(|range| range.contains(&at));
            prop_assert_eq!(told, of(&before, at) != of(&now, at), "byte {}", at);
        }
    }
}

/// Extents of a few bytes, with gaps, some unwritten.
fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let part = (0u64..4, 1u64..5, 0u64..3, prop_oneof![Just(0u32), Just(0x800), Just(0x2000)]);
    proptest::collection::vec(part, 0..8).prop_map(|parts| {
        let mut at = 0;
        let extent = |(gap, len, physical, flags)| {
            let logical = at + gap;
            at = logical + len;
            Extent { logical, physical: 1000 * physical + logical, len, flags }
        };
        parts.into_iter().map(extent).collect()
    })
}

/// What is at a byte: a place on the device, or zeros.
fn of(extents: &[Extent], at: u64) -> Option<u64> {
    let here = extents.iter().find(|extent| (extent.logical..extent.logical + extent.len).contains(&at))?;
    (here.flags & 0x800 == 0).then_some(here.physical + (at - here.logical))
}

#[test]
fn compressed_and_inline_extents_always_count_as_changed() {
    for flags in [0x8, 0x200, 0x4, 0x2] {
        let extents = [Extent { logical: 0, physical: 4096, len: 10, flags }];
        assert_eq!(moved_ranges(&extents, &extents, 10), std::iter::once(0..10).collect::<Vec<_>>());
    }
    // An invalid list is no reason to leave anything out.
    let odd = [Extent { logical: 0, physical: 0, len: 0, flags: 0 }; 2];
    assert!(moved_ranges(&odd, &odd, 10).iter().any(|range| range.end == 10));
}

#[test]
fn paths_that_no_tree_has_are_refused() {
    let bad = |node: Node| {
        let layout = Layout {
            nodes: vec![folder(""), folder("a"), file("a/f", 0), node],
            map: Vec::new(),
            grown: None,
        };
        let layout = Layout::new(layout.nodes, None);
        decoded(&layout).unwrap_err()
    };
    for path in
        ["/etc/passwd", "..", "a/../../x", "a//x", "a/x/", "b/./c", "a", "a/f/x", "nowhere/x", "b/", "./b"]
    {
        bad(file(path, 0));
    }
    bad(Node { kind: Kind::Folder, ..file("a/f", 0) });
    assert!(decoded(&Layout::new(vec![folder(""), file("b", 0)], None)).is_ok());
    assert_eq!(decoded(&Layout::new(vec![file("b", 0)], None)), Err("the top folder is missing"));
}

#[test]
fn another_name_of_a_file_has_no_bytes_of_its_own_and_they_stay_where_they_were() {
    let before = Layout::new(vec![folder(""), file("b", 3 * BLOCK_U64)], None);
    let name = |path: &str, of: &str| Node { same_as: Some(of.into()), ..file(path, 0) };
    // The new name comes first, but the blocks stay with the old one.
    let now = vec![folder(""), file("a", 3 * BLOCK_U64), name("b", "a"), name("c", "a")];
    let layout = Layout::new(now, Some(&before));
    assert_eq!(layout.nodes[2].blocks, before.nodes[1].blocks);
    let names: Vec<_> = layout.nodes[1..].iter().map(|node| node.same_as.clone()).collect();
    assert_eq!(names, [Some("b".into()), None, Some("b".into())]);
    assert_eq!(layout.bytes(), 3 * BLOCK_U64);
    assert_eq!(decoded(&layout), Ok(layout.clone()));
    let nothing = Layout::new(vec![folder(""), name("b", "a")], None);
    assert_eq!(decoded(&nothing), Err("a hard link to a missing file"));
    let folders = Layout::new(vec![folder(""), folder("a"), name("b", "a")], None);
    assert_eq!(decoded(&folders), Err("a hard link to a missing file"));
}

#[test]
fn only_names_that_remora_makes_are_its_own() {
    assert!(is_own(OsStr::new(".remora-0123456789abcdef-12")));
    for theirs in [".remora-", ".remora-notes", ".remora-0123456789abcdeg-1", ".remora-0123456789abcdef", "x"]
    {
        assert!(!is_own(OsStr::new(theirs)), "{theirs}");
    }
}

#[test]
fn a_growing_file_leaves_the_others_alone() {
    let mut layout = Layout::new(nodes(&[Some(100), Some(BLOCK_U64), Some(3 * BLOCK_U64)]), None);
    let second = layout.nodes[2].blocks.clone();
    for len in 1..50 {
        layout = Layout::new(nodes(&[Some(len * BLOCK_U64), Some(BLOCK_U64), None]), Some(&layout));
        assert_eq!(layout.nodes[2].blocks, second);
    }
    assert!(layout.nodes[1].blocks.len() < 5, "{:?}", layout.nodes[1].blocks);
    assert!(layout.volume_len() < CHUNK as u64);
}

/// In its last block the bytes after the end of a file are zeros, and were something else before.
#[test]
fn the_end_of_a_file_that_was_cut_or_has_grown_may_have_changed() {
    for (was, is) in [(3 * BLOCK_U64, 2 * BLOCK_U64 + 5), (2 * BLOCK_U64 + 5, 3 * BLOCK_U64), (7, 5)] {
        let before = Layout::new(nodes(&[Some(was), Some(BLOCK_U64)]), None);
        let now = Layout::new(nodes(&[Some(is), Some(BLOCK_U64)]), Some(&before));
        let changed = now.changed(&before, |_| Ok::<_, ()>(Vec::new())).unwrap();
        let told = |block: u64| changed.iter().any(|range| range.contains(&(block * BLOCK_U64)));
        let last = now.nodes[1].blocks.last().unwrap().end - 1;
        assert!(told(last), "{changed:?}");
        let other = &now.nodes[2].blocks;
        assert!(!told(other[0].start), "{changed:?}");
    }
}
