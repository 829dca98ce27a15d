//! The file that says where indexes begin.

use innodb::Error;
use innodb::export::{Export, sdi_space_id};
use innodb::write::Root;

fn name(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(text.len() + 1).unwrap().to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// A file as a server writes it, of a table with one column and two indexes on it.
fn bytes(version: u32, page_bytes: u32) -> Vec<u8> {
    let mut out = version.to_be_bytes().to_vec();
    name("db1.example", &mut out);
    name("a/t", &mut out);
    out.extend_from_slice(&1_u64.to_be_bytes());
    out.extend_from_slice(&page_bytes.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 33, 0, 0, 0, 1]);
    out.extend_from_slice(&[7; 28]);
    name("id", &mut out);
    out.extend_from_slice(&2_u32.to_be_bytes());
    for (index, id, page) in [("PRIMARY", 31_u64, 3_u32), ("k", 32, 4)] {
        let mut head = [0; 40];
        head[..8].copy_from_slice(&id.to_be_bytes());
        head[8..12].copy_from_slice(&77_u32.to_be_bytes());
        head[12..16].copy_from_slice(&page.to_be_bytes());
        head[39] = 1;
        out.extend_from_slice(&head);
        name(index, &mut out);
        out.extend_from_slice(&[0; 8]);
        name("id", &mut out);
    }
    out
}

#[test]
fn indexes_and_where_they_begin_are_read() {
    let whole = bytes(1, 16_384);
    let export = Export::parse(whole.clone()).unwrap();
    let expected = [("PRIMARY", 31, 3), ("k", 32, 4)]
        .map(|(name, index_id, page)| (name.to_owned(), Root { index_id, page }));
    assert_eq!((export.space_id, &export.indexes[..]), (Some(77), &expected[..]));
    let counted = export.with_auto_increment(0x0102_0304);
    let differ: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != counted[at]).collect();
    // Behind the version and two names, 4 + 16 + 8 bytes, and the number's four upper bytes.
    assert_eq!((differ, counted.len()), (vec![32, 33, 34, 35], whole.len()));
}

#[test]
fn a_file_that_is_cut_or_of_another_kind_is_refused() {
    let whole = bytes(1, 16_384);
    for end in 0..whole.len() {
        assert!(Export::parse(whole[..end].to_vec()).is_err(), "{end}");
    }
    let more = [whole.as_slice(), &[0]].concat();
    assert!(matches!(Export::parse(more), Err(Error::Corrupt { .. })));
    assert!(matches!(Export::parse(bytes(2, 16_384)), Err(Error::Unsupported(_))));
    assert!(matches!(Export::parse(bytes(1, 4096)), Err(Error::Unsupported(_))));
}

#[test]
fn there_are_only_so_many_columns_and_indexes() {
    let counted = |columns: u32, indexes: u32| {
        let mut out = bytes(1, 16_384);
        // Behind the version, two names, the counter, the size of pages and the flags.
        out.truncate(44);
        out.extend_from_slice(&columns.to_be_bytes());
        for _ in 0..columns {
            out.extend_from_slice(&[0; 28]);
            name("c", &mut out);
        }
        out.extend_from_slice(&indexes.to_be_bytes());
        for _ in 0..indexes {
            out.extend_from_slice(&[0; 40]);
            name("k", &mut out);
        }
        Export::parse(out).map(|export| export.indexes.len())
    };
    assert_eq!(counted(1100, 1100), Ok(1100));
    for (columns, indexes) in [(1101, 0), (0, 1101)] {
        assert!(counted(columns, indexes).unwrap_err().to_string().contains("more than there can be"));
    }
}

#[test]
fn a_newer_file_names_its_tablespace_beside_the_index_of_definitions() {
    let index = |id: u64| {
        let mut head = [0; 40];
        head[..8].copy_from_slice(&id.to_be_bytes());
        head[8..12].copy_from_slice(&77_u32.to_be_bytes());
        let mut out = head.to_vec();
        name("CLUST_IND_SDI", &mut out);
        out
    };
    let file = |version: u32, parts: &[Vec<u8>]| [version.to_be_bytes().to_vec(), parts.concat()].concat();
    let sdi = index(u64::MAX);
    assert_eq!(sdi_space_id(&file(7, std::slice::from_ref(&sdi))), Some(77));
    assert_eq!(sdi_space_id(&file(2, &[vec![0; 9], sdi.clone(), vec![0; 9]])), Some(77));
    for (version, parts) in [
        (1, vec![sdi.clone()]),
        (7, vec![]),
        (7, vec![index(5)]),
        // Which of two is it?
        (7, vec![sdi.clone(), sdi.clone()]),
        (7, vec![sdi[10..].to_vec()]),
    ] {
        assert_eq!(sdi_space_id(&file(version, &parts)), None, "{version} {}", parts.len());
    }
    assert_eq!(sdi_space_id(&[0, 0, 7]), None);
}
