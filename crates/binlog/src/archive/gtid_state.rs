//! Whether files follow one another, by MariaDB's GTIDs: each file begins with a list of the last ones before
//! it.

use std::collections::BTreeMap;

use crate::event::gtid::{GtidList, Number};

/// MariaDB's last sequence number of each domain and server.
pub type GtidState = BTreeMap<(u32, u32), u64>;

/// The state in a GTID_LIST event.
#[must_use]
pub fn gtid_state(list: &GtidList) -> GtidState {
    list.numbers.iter().map(|it| ((it.domain, it.server_id), it.sequence)).collect()
}

fn number((&(domain, server_id), &sequence): (&(u32, u32), &u64)) -> Number {
    Number { domain, server_id, sequence }
}

/// The transactions that are missing between the state `known` and a file that begins with the state
/// `before`. A domain that the file does not list may have been deleted.
#[must_use]
pub fn missing_gtids(known: &GtidState, before: &GtidState) -> Option<String> {
    let of = |entry: (&(u32, u32), &u64)| match known.get(entry.0) {
        Some(own) if own >= entry.1 => None,
        Some(own) => Some(format!("{} behind {}", number(entry), number((entry.0, own)))),
        None => Some(format!("all up to {}", number(entry))),
    };
    let all: Vec<String> = before.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_domain_gap_is_named_by_domain_and_server() {
        let of = |numbers: &[(u32, u32, u64)]| -> GtidState {
            numbers.iter().map(|&(domain, server_id, sequence)| ((domain, server_id), sequence)).collect()
        };
        let known = of(&[(0, 1, 5), (1, 1, 3)]);
        assert_eq!(missing_gtids(&known, &known), None);
        assert_eq!(missing_gtids(&known, &of(&[(0, 1, 5)])), None);
        assert_eq!(missing_gtids(&known, &of(&[(0, 1, 7), (1, 1, 3)])).unwrap(), "0-1-7 behind 0-1-5");
        let more = of(&[(0, 1, 5), (0, 2, 8), (1, 1, 4)]);
        assert_eq!(missing_gtids(&known, &more).unwrap(), "all up to 0-2-8, 1-1-4 behind 1-1-3");
    }
}
