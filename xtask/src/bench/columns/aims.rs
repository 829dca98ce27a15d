//! What was aimed at, beside what was found.

use super::method::{FILES, IMPORT, IMPORT_TEXT, PARQUET, STORE, TEXT};
use super::stand::Stand;
use super::{Row, Taken, of};
use crate::bench::measure::as_f64;

/// A number that should not be above its limit, or not below it.
struct Aim {
    what: &'static str,
    found: Option<f64>,
    limit: f64,
    is_most: bool,
}

pub(super) fn aims(table: &[Row], stand: &Stand) {
    let taken = |name| of(table, name).and_then(Row::middle);
    let ratio = |name, base| {
        of(table, name)
            .zip(of(table, base))
            .and_then(|(row, base)| row.ratio(base, |taken: &Taken| taken.wall_s))
    };
    let most = |what, limit, found| Aim { what, found, limit, is_most: true };
    let least = |what, limit, found| Aim { what, found, limit, is_most: false };
    let parquet = taken(PARQUET);
    let peak = [PARQUET, FILES, STORE, IMPORT].iter().filter_map(|name| taken(name)).map(|one| one.memory_mb);
    let all = [
        most(
            "Parquet, % of the text",
            10.6,
            parquet.and_then(|one| one.bytes).map(|bytes| stand.percent(bytes)),
        ),
        least("MB of text per client's second", 200.0, parquet.map(|one| stand.text_mb() / one.client_s)),
        most("wall time to that of text", 1.3, ratio(PARQUET, TEXT)),
        least(
            "M rows per second of extract",
            2.0,
            taken(FILES).map(|one| as_f64(stand.rows) / one.client_s / 1e6),
        ),
        most("MB of memory at most", 268.4, peak.max_by(f64::total_cmp)),
        most("wall time of an import to that of text", 1.0, ratio(IMPORT, IMPORT_TEXT)),
        least("speed into a store to that onto the disk", 0.8, ratio(PARQUET, STORE)),
    ];
    println!("\n| aim | at | found | |\n|---|--:|--:|---|");
    for Aim { what, found, limit, is_most } in all {
        let Some(found) = found else { continue };
        let is_met = if is_most { found <= limit } else { found >= limit };
        let sign = if is_most { "<=" } else { ">=" };
        println!("| {what} | {sign} {limit} | {found:.2} | {} |", if is_met { "met" } else { "missed" });
    }
}
