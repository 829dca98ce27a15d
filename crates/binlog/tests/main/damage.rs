//! Logs that are cut or damaged.

use binlog::reader::End;

use crate::support::{CASES, Case, walk};

/// The byte with the flag that a server writes the file, which no checksum covers.
const IN_USE_AT: usize = 4 + 17;

#[test]
fn a_flipped_byte_is_told_where_there_are_checksums() {
    for case in CASES.into_iter().filter(|case| !case.name.ends_with("no-sums")) {
        let Case { name, log, .. } = case;
        for at in case.places() {
            let mut log = log.to_vec();
            log[at] ^= if at == IN_USE_AT { 0x02 } else { 0x41 };
            let found = walk(&log);
            let is_told =
                found.error.is_some() || matches!(found.end, Some(End::Torn { .. } | End::Encrypted { .. }));
            assert!(is_told, "{name}: byte {at}");
        }
    }
}

/// The log without its checksums, as `binlog_checksum=NONE` would have written it.
fn without_sums(log: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (log[..4].to_vec(), &log[4..]);
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[9..13].try_into().unwrap());
        let (event, more) = rest.split_at(len as usize);
        let (event, _) = event.split_at(event.len() - 4);
        rest = more;
        let at = out.len();
        out.extend_from_slice(event);
        if at == 4 {
            // The first event keeps its own; its last byte is the method.
            *out.last_mut().unwrap() = 0;
            let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &out[4..]);
            out.extend_from_slice(&u32::try_from(sum).unwrap().to_le_bytes());
        } else {
            out[at + 9..at + 13].copy_from_slice(&(len - 4).to_le_bytes());
        }
    }
    out
}

#[test]
fn a_flipped_byte_does_no_harm_where_there_are_none() {
    for case in CASES {
        let Case { name, log, .. } = case;
        let log = if name.ends_with("no-sums") { log.to_vec() } else { without_sums(log) };
        let whole = walk(&log);
        assert_eq!(whole.error, None, "{name}");
        for at in case.places().filter(|at| *at < log.len() && sandbox::is_turn(*at, 4)) {
            // The log with a column of each type is long.
            let flips: &[u8] = if log.len() > 5000 { &[0x81] } else { &[0x01, 0x10, 0x80, 0xFF] };
            for flip in flips {
                let mut log = log.clone();
                log[at] ^= flip;
                // No panic, no loop, and hardly more than was there.
                let events = walk(&log).events.len();
                assert!(events <= whole.events.len() + 4, "{name}: byte {at}, {events} events");
            }
        }
    }
}

#[test]
fn a_cut_log_has_its_whole_groups_and_its_torn_tail_is_told() {
    for case in CASES {
        let Case { name, log, .. } = case;
        let whole = walk(log);
        let ends: Vec<u64> =
            whole.events.iter().map(|line| line.rsplit('\t').next().unwrap().parse().unwrap()).collect();
        for cut in case.places() {
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

#[test]
fn an_event_is_no_shorter_than_its_header_and_checksum() {
    for (case, least) in [(0, 23), (1, 19)] {
        let Case { log, events, .. } = CASES[case];
        let at: usize = events.lines().nth(3).unwrap().split('\t').next().unwrap().parse().unwrap();
        for len in 0..least {
            let mut log = log.to_vec();
            log[at + 9..at + 13].copy_from_slice(&[len, 0, 0, 0]);
            let error = walk(&log).error.unwrap();
            assert!(error.contains("too short for an event"), "{least}: {len}: {error}");
        }
    }
}
