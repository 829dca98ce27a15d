//! Tests that last long. With each change a fifth of them run, others each day; in `ci --full` all.
//!
//! The list is made by a run of all of them, which writes it to `target/slow-tests`.

use std::collections::BTreeSet;
use std::time::UNIX_EPOCH;

/// A line for each test: its package and its name.
const LIST: &str = include_str!("slow.txt");

/// From so many seconds on a test is slow, on a machine that does nothing else.
const SECONDS: f64 = 4.0;

/// After so many days each of them has run.
const DAYS: u64 = 5;

const DAY_S: u64 = 24 * 60 * 60;

/// The tests of a package that have no turn today.
pub(super) fn not_today(package: &str) -> BTreeSet<&'static str> {
    not_on(today(), package)
}

/// Whether something that is numbered has its turn today.
pub(super) fn has_turn(number: u64) -> bool {
    number % DAYS == today() % DAYS
}

fn today() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() / DAY_S)
}

fn not_on(day: u64, package: &str) -> BTreeSet<&'static str> {
    // Counted over all packages, so that a day's part is about a fifth of each.
    let lines = (0_u64..).zip(LIST.lines());
    let others = lines.filter(|(at, _)| at % DAYS != day % DAYS).filter_map(|(_, line)| line.split_once(' '));
    others.filter(|(of, _)| *of == package).map(|(_, name)| name).collect()
}

/// The list, by the seconds of a run. A program that ran in parts has their numbers behind its name.
pub(super) fn list(seconds: &[(f64, String)]) -> String {
    let slow = seconds.iter().filter(|(seconds, _)| *seconds >= SECONDS).filter_map(|(_, name)| {
        let (program, test) = name.split_once(' ')?;
        Some(format!("{} {test}\n", program.split('/').next()?))
    });
    slow.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, DAYS, LIST, list, not_on};

    #[test]
    fn each_slow_test_has_a_turn() {
        let all: BTreeSet<&str> = LIST.lines().collect();
        assert_eq!(all.len(), LIST.lines().count(), "a test is listed twice");
        let packages: BTreeSet<&str> = all.iter().map(|line| line.split_once(' ').unwrap().0).collect();
        let mut turns = 0;
        for package in packages {
            let of: BTreeSet<&str> =
                all.iter().filter_map(|line| line.strip_prefix(package)?.strip_prefix(' ')).collect();
            for day in 7..7 + DAYS {
                let others = not_on(day, package);
                assert!(others.is_subset(&of));
                turns += of.len() - others.len();
            }
        }
        assert_eq!(turns, all.len());
    }

    #[test]
    fn the_list_is_made_of_what_took_long() {
        let run = [(9.0, "remora/3 b::a"), (3.0, "remora/1 b::fast"), (4.0, "queue a"), (5.0, "queue a")];
        let run = run.map(|(seconds, name)| (seconds, name.to_owned()));
        assert_eq!(list(&run), "queue a\nremora b::a\n");
    }
}
