//! Logs that are cut or damaged.

use binlog::reader::End;

use crate::support::{CASES, Case, walk};

/// The byte with the flag that a server writes the file, which no checksum covers.
const IN_USE_AT: usize = 4 + 17;

#[test]
fn a_flipped_byte_is_told_where_there_are_checksums() {
    for Case { name, log, .. } in CASES.into_iter().filter(|case| !case.name.ends_with("no-sums")) {
        for at in 0..log.len() {
            let mut log = log.to_vec();
            log[at] ^= if at == IN_USE_AT { 0x02 } else { 0x41 };
            let found = walk(&log);
            let is_told =
                found.error.is_some() || matches!(found.end, Some(End::Torn { .. } | End::Encrypted { .. }));
            assert!(is_told, "{name}: byte {at}");
        }
    }
}

#[test]
fn a_flipped_byte_does_no_harm_where_there_are_none() {
    let log = CASES.into_iter().find(|case| case.name.ends_with("no-sums")).unwrap().log;
    let whole = walk(log);
    for at in 0..log.len() {
        for bit in 0..8 {
            let mut log = log.to_vec();
            log[at] ^= 1 << bit;
            // No panic, no loop, and nothing that was not there.
            assert!(walk(&log).events.len() <= whole.events.len() + 1, "byte {at} bit {bit}");
        }
    }
}

#[test]
fn a_cut_log_has_its_whole_groups_and_its_torn_tail_is_told() {
    for Case { name, log, .. } in CASES {
        let whole = walk(log);
        let ends: Vec<u64> =
            whole.events.iter().map(|line| line.rsplit('\t').next().unwrap().parse().unwrap()).collect();
        for cut in 0..log.len() {
            let found = walk(&log[..cut]);
            assert_eq!(found.error, None, "{name}: {cut} bytes");
            let groups = whole.groups.iter().filter(|(_, end)| *end <= cut as u64);
            assert!(found.groups.iter().eq(groups), "{name}: {cut} bytes");
            let is_boundary = cut == 4 || ends.contains(&(cut as u64));
            assert_eq!(found.end == Some(End::Whole), is_boundary, "{name}: {cut} bytes, {:?}", found.end);
        }
    }
}

/// A length that leads behind the end of the file is no torn tail if the event's end position says otherwise.
#[test]
fn a_damaged_length_is_no_torn_tail() {
    let Case { log, events, .. } = CASES[0];
    let at: usize = events.lines().nth(8).unwrap().split('\t').next().unwrap().parse().unwrap();
    let mut log = log.to_vec();
    log[at + 11] = 0x10;
    let found = walk(&log);
    assert!(
        found.error.as_ref().is_some_and(|error| error.contains("its end position does not")),
        "{found:?}"
    );
    assert!(found.error.unwrap().contains(&format!("at {at}")));
}
