//! Prints what copies of a server cost.

use super::super::measure::{as_f64, middle};
use super::{Row, State, Step, Taken};

/// A ratio to a peer, and what it should be at most.
struct Aim {
    what: &'static str,
    at_most: &'static str,
    number: fn(&[Taken; 4]) -> f64,
    /// The peer's, if it is another one.
    of_peer: fn(&[Taken; 4]) -> f64,
}

/// Ratios that do not depend on clients.
const AIMS: [Aim; 9] = [
    Aim {
        what: "full, wall, to the peer's with prepare",
        at_most: "0.6",
        number: full_s,
        of_peer: prepared_s,
    },
    Aim { what: "full, wall", at_most: "", number: full_s, of_peer: full_s },
    Aim { what: "full and recovery, wall", at_most: "", number: prepared_s, of_peer: prepared_s },
    Aim { what: "full, bytes", at_most: "0.33", number: full_bytes, of_peer: full_bytes },
    Aim { what: "increment, wall", at_most: "0.5", number: increment_s, of_peer: increment_s },
    Aim { what: "increment, bytes", at_most: "0.1", number: increment_bytes, of_peer: increment_bytes },
    Aim {
        what: "full, processor time of both sides",
        at_most: "",
        number: processor_s,
        of_peer: processor_s,
    },
    Aim { what: "longest commit", at_most: "0.25", number: longest_commit_s, of_peer: longest_commit_s },
    Aim { what: "throughput lost, in seconds of it", at_most: "1", number: lost_s, of_peer: lost_s },
];

fn full_s([full, ..]: &[Taken; 4]) -> f64 {
    full.wall_s
}

fn prepared_s([full, _, recover, _]: &[Taken; 4]) -> f64 {
    full.wall_s + recover.ready_s()
}

fn full_bytes([full, ..]: &[Taken; 4]) -> f64 {
    as_f64(full.bytes)
}

fn increment_s([_, increment, ..]: &[Taken; 4]) -> f64 {
    increment.wall_s
}

fn increment_bytes([_, increment, ..]: &[Taken; 4]) -> f64 {
    as_f64(increment.bytes)
}

fn processor_s([full, ..]: &[Taken; 4]) -> f64 {
    full.timed.processor_s + full.server_s
}

/// Of both copies; not a number without clients.
fn longest_commit_s([full, increment, ..]: &[Taken; 4]) -> f64 {
    let longest = |taken: &Taken| taken.seen.map_or(f64::NAN, |[_, seen]| seen.longest_commit_s);
    longest(full).max(longest(increment))
}

/// How long the server would have had to stand still to lose as much as it did by both copies.
fn lost_s([full, increment, ..]: &[Taken; 4]) -> f64 {
    let lost = |taken: &Taken| taken.wall_s * (1.0 - taken.share().unwrap_or(f64::NAN));
    lost(full) + lost(increment)
}

impl Taken {
    /// When a server was there that had recovered the copy: `verify --boot` checks all tables after that.
    fn ready_s(&self) -> f64 {
        let said = self.timed.stdout.split_once("\"seconds_to_recovery\":").map(|(_, rest)| rest);
        let number = said.and_then(|rest| rest.split([',', '}']).next()?.parse().ok());
        number.unwrap_or(self.wall_s)
    }

    /// The clients' throughput meanwhile, as a share of that before.
    fn share(&self) -> Option<f64> {
        self.seen.map(|[alone, meanwhile]| meanwhile.commits_per_s / alone.commits_per_s)
    }
}

pub(super) fn print(table: &[Row]) {
    for state in [State::Idle, State::Load] {
        let rows: Vec<&Row> = table.iter().filter(|row| row.state == state).collect();
        if rows.is_empty() {
            continue;
        }
        let (heads, line) = match state {
            State::Idle => ("", ""),
            State::Load => (
                " commits/s before | of that meanwhile | longest commit before s | meanwhile s | longest DDL before s | meanwhile s |",
                "--:|--:|--:|--:|--:|--:|",
            ),
        };
        println!(
            "\n| {state:?} | wall s | ready s | CPU s | server's CPU s | MB kept | MB read | peak MB | sync after s |{heads}"
        );
        println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|{line}");
        for step in Step::ALL {
            rows.iter().for_each(|row| print_step(row, step));
        }
    }
    for state in [State::Idle, State::Load] {
        ratios(table, state);
    }
}

fn print_step(row: &Row, step: Step) {
    let nth = Step::ALL.iter().position(|one| *one == step).unwrap_or_default();
    let taken: Vec<&Taken> = row.rounds.iter().filter_map(|round| round.get(nth)).collect();
    let of = |number: &dyn Fn(&Taken) -> f64| {
        middle(taken.iter().map(|taken| number(taken)).collect()).unwrap_or(f64::NAN)
    };
    let name = match step {
        Step::Full => "full",
        Step::Increment => "increment",
        Step::RecoverFull => "recovery of full",
        Step::RecoverIncrement => "recovery with increment",
    };
    let kept = match step {
        Step::Full | Step::Increment => format!("{:.1}", of(&|taken| megabytes(taken.bytes))),
        _ => String::new(),
    };
    print!(
        "| {}, {name} | {:.2} | {:.2} | {:.2} | {:.2} | {kept} | {:.0} | {:.0} | {:.2} |",
        row.method.name,
        of(&|taken| taken.wall_s),
        of(&Taken::ready_s),
        of(&|taken| taken.timed.processor_s),
        of(&|taken| taken.server_s),
        of(&|taken| taken.timed.read_mb),
        of(&|taken| taken.timed.memory_mb),
        of(&|taken| taken.sync_s),
    );
    if taken.iter().all(|taken| taken.seen.is_some()) {
        let seen = |number: &dyn Fn(&[super::Seen; 2]) -> f64| {
            of(&|taken| taken.seen.as_ref().map_or(f64::NAN, number))
        };
        print!(
            " {:.0} | {:.2} | {:.3} | {:.3} | {:.3} | {:.3} |",
            seen(&|[alone, _]| alone.commits_per_s),
            of(&|taken| taken.share().unwrap_or(f64::NAN)),
            seen(&|[alone, _]| alone.longest_commit_s),
            seen(&|[_, meanwhile]| meanwhile.longest_commit_s),
            seen(&|[alone, _]| alone.longest_ddl_s),
            seen(&|[_, meanwhile]| meanwhile.longest_ddl_s),
        );
    }
    println!();
}

/// Prints the ratios of the first method to the others: the median of those of each round.
fn ratios(table: &[Row], state: State) {
    let rows: Vec<&Row> = table.iter().filter(|row| row.state == state).collect();
    let Some((ours, peers)) = rows.split_first().filter(|(ours, _)| ours.method.name.starts_with("remora"))
    else {
        return;
    };
    if peers.is_empty() {
        return;
    }
    let names: String = peers.iter().map(|peer| format!(" to {} |", peer.method.name)).collect();
    println!(
        "\n| {state:?}: the ratio of remora |{names} at most |\n|---|{}--:|",
        "--:|".repeat(peers.len())
    );
    for aim in &AIMS {
        let ratio = |peer: &Row| {
            let both = ours.rounds.iter().zip(&peer.rounds);
            middle(both.map(|(ours, peer)| (aim.number)(ours) / (aim.of_peer)(peer)).collect())
        };
        let found: Vec<f64> = peers.iter().filter_map(|peer| ratio(peer)).collect();
        if found.iter().any(|ratio| ratio.is_finite()) {
            let cells: String = found.iter().map(|ratio| format!(" {ratio:.3} |")).collect();
            println!("| {} |{cells} {} |", aim.what, aim.at_most);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
