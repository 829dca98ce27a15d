//! Whether files follow one another, by the numbers of MariaDB's transactions: each file begins with a list
//! of those before it.

use std::collections::BTreeMap;

use crate::Corrupt;
use crate::event::gtid::{GtidList, Number};
use crate::event::{Body, Event, Kind};

/// MariaDB's last transaction of each domain and server: its number.
pub type State = BTreeMap<(u32, u32), u64>;

/// What a list says.
#[must_use]
pub fn state(list: &GtidList) -> State {
    list.numbers.iter().map(|it| ((it.domain, it.server_id), it.sequence)).collect()
}

fn number((&(domain, server_id), &sequence): (&(u32, u32), &u64)) -> Number {
    Number { domain, server_id, sequence }
}

/// What is missing between the transactions up to `known` and a file that has `before` before it. A domain
/// that the file does not name may have been deleted.
#[must_use]
pub fn missing(known: &State, before: &State) -> Option<String> {
    let of = |entry: (&(u32, u32), &u64)| match known.get(entry.0) {
        Some(own) if own >= entry.1 => None,
        Some(own) => Some(format!("{} behind {}", number(entry), number((entry.0, own)))),
        None => Some(format!("all up to {}", number(entry))),
    };
    let all: Vec<String> = before.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The numbers in the files of a line that were read so far.
#[derive(Default)]
pub(super) struct Numbers {
    known: Option<State>,
}

impl Numbers {
    /// Takes the next event. Returns what is wrong if transactions are missing before its file.
    pub(super) fn take(&mut self, event: &Event<'_>) -> Result<Option<String>, Corrupt> {
        if !matches!(event.header.kind, Kind::GTID | Kind::GTID_LIST) {
            return Ok(None);
        }
        match event.parse()? {
            Body::Gtid(gtid) => {
                let Number { domain, server_id, sequence } = gtid.number;
                if let Some(known) = &mut self.known {
                    known.insert((domain, server_id), sequence);
                }
                Ok(None)
            }
            Body::GtidList(list) => {
                let before = state(&list);
                let missing = self.known.as_ref().and_then(|known| missing(known, &before));
                self.known = Some(before);
                Ok(missing.map(|missing| format!("transactions are missing before it: {missing}")))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_domain_gap_is_named_by_domain_and_server() {
        let of = |numbers: &[(u32, u32, u64)]| -> State {
            numbers.iter().map(|&(domain, server_id, sequence)| ((domain, server_id), sequence)).collect()
        };
        let known = of(&[(0, 1, 5), (1, 1, 3)]);
        assert_eq!(missing(&known, &known), None);
        assert_eq!(missing(&known, &of(&[(0, 1, 5)])), None);
        assert_eq!(missing(&known, &of(&[(0, 1, 7), (1, 1, 3)])).unwrap(), "0-1-7 behind 0-1-5");
        let more = of(&[(0, 1, 5), (0, 2, 8), (1, 1, 4)]);
        assert_eq!(missing(&known, &more).unwrap(), "all up to 0-2-8, 1-1-4 behind 1-1-3");
    }
}
