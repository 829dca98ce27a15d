//! GTID sets, as far as counting needs them.
//!
//! MySQL: `uuid:1-5:7,uuid:tag:1-3` (reference manual, "GTID Sets"). MariaDB: `domain-server-number` for each
//! domain, the number of the last transaction (knowledge base, "Global Transaction ID").

use std::collections::BTreeMap;

/// Intervals of transaction numbers, both ends included, by UUID and tag.
type Set = BTreeMap<String, Vec<(u64, u64)>>;

/// How many transactions of `received` are not in `applied`. `None` if the server does not use GTIDs, or the
/// texts are no sets. In MariaDB numbers may be left out, so there it is an upper bound.
pub(super) fn missing(received: &str, applied: &str) -> Option<u64> {
    let received: String = received.split_whitespace().collect();
    let applied: String = applied.split_whitespace().collect();
    if received.is_empty() {
        return None;
    }
    if received.contains(':') {
        let (received, applied) = (set(&received)?, set(&applied)?);
        let of = |(owner, intervals): (&String, &Vec<(u64, u64)>)| {
            let done = applied.get(owner).map_or(&[][..], Vec::as_slice);
            intervals.iter().map(|interval| left(*interval, done)).sum::<u64>()
        };
        return Some(received.iter().map(of).sum());
    }
    let (received, applied) = (domains(&received)?, domains(&applied)?);
    let behind =
        |(domain, last): (&u64, &u64)| last.saturating_sub(applied.get(domain).copied().unwrap_or(0));
    Some(received.iter().map(behind).sum())
}

/// How many numbers of an interval are in none of the others, which do not overlap.
fn left((from, to): (u64, u64), done: &[(u64, u64)]) -> u64 {
    let common = |(first, last): &(u64, u64)| (to.min(*last) + 1).saturating_sub(from.max(*first));
    (to + 1 - from).saturating_sub(done.iter().map(common).sum())
}

fn set(text: &str) -> Option<Set> {
    let mut set = Set::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (uuid, rest) = part.split_once(':')?;
        let mut owner = uuid.to_ascii_lowercase();
        for word in rest.split(':') {
            if word.starts_with(|c: char| c.is_ascii_digit()) {
                let (from, to) = word.split_once('-').unwrap_or((word, word));
                let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
                if from > to || to == u64::MAX {
                    return None;
                }
                set.entry(owner.clone()).or_default().push((from, to));
            } else {
                // A tag counts for the intervals behind it.
                owner = format!("{}:{word}", uuid.to_ascii_lowercase());
            }
        }
    }
    Some(set)
}

/// The last number of each domain.
fn domains(text: &str) -> Option<BTreeMap<u64, u64>> {
    let of = |gtid: &str| {
        let mut numbers = gtid.split('-').map(str::parse::<u64>);
        let (domain, _, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        numbers.next().is_none().then_some((domain, last))
    };
    text.split(',').filter(|gtid| !gtid.is_empty()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_and_not_applied_is_counted() {
        let a = "3E11FA47-71CA-11E1-9E33-C80AA9429562";
        let b = a.to_lowercase();
        let mysql = |received: &str, applied: &str| {
            missing(&received.replace('a', a), &applied.replace('a', &b).replace('\n', ",\n"))
        };
        assert_eq!(mysql("a:1-10", "a:1-7"), Some(3));
        assert_eq!(mysql("a:1-10:12", "a:1-3:5-6:9"), Some(5));
        assert_eq!(mysql("a:5-10", "a:1-100\nbcd:1-2"), Some(0));
        assert_eq!(mysql("a:1-2:red:1-3", "a:1-2"), Some(3));
        assert_eq!(mysql("a:1-2:red:1-3", "a:1-2:red:2"), Some(2));
        assert_eq!(mysql("a:1", ""), Some(1));
        assert_eq!(missing("0-1-100,1-2-5", "0-9-97, 1-2-5"), Some(3));
        assert_eq!(missing("0-1-100", "0-1-101,7-7-7"), Some(0));
        for (received, applied) in
            [("", ""), ("a:9-1", "a:1"), ("a:1-18446744073709551615", ""), ("0-1", "0-1-1"), ("x", "")]
        {
            assert_eq!(missing(received, applied), None, "{received}");
        }
    }
}
