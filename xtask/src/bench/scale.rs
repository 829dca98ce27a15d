//! How the cost of each command grows with what it is given: rows, tables, columns, the size of a value,
//! volumes, generations, binary logs, messages that wait, servers that are watched.
//!
//! Each series runs the same shell lines for each of its sizes, and an exponent is fitted to what they cost.
//! With `--keep` the measurements go to `docs/scale`, and the tables and plots of `docs/scale.md` are made of
//! them.

mod fit;
mod page;
mod plot;
mod point;
mod prepare;
mod series;
mod stage;

use anyhow::{Result, bail};

use self::series::{SERIES, Series};
use self::stage::Stage;
use crate::{plugin, release, setup};

const USAGE: &str = "cargo xtask bench scale [--only WORD,...] [--full] [--program FILE] [--keep] | --page";

/// `cargo xtask bench scale [--only WORD,...] [--full] [--program FILE] [--keep]`: `--full` adds the largest
/// sizes, which take hours and some hundred GB; `--program` measures a program that was built before.
/// `--page` only makes the page again, of what was kept.
pub(super) fn run(arguments: &[String]) -> Result<()> {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--page") {
        return page::write();
    }
    let only = super::value(arguments, "--only").unwrap_or_default();
    let wanted: Vec<&Series> =
        SERIES.iter().filter(|series| only.split(',').any(|word| series.name.contains(word))).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = SERIES.iter().map(|series| series.name).collect();
        bail!("{USAGE}; the series are {}", names.join(", "));
    }
    setup::run_quietly()?;
    setup::install(&[("/usr/bin/time", "time"), ("mariadb-dump", "mariadb-client"), ("zstd", "zstd")])?;
    let remora = super::value(arguments, "--program").map_or_else(release, |path| Ok(path.into()))?;
    for series in wanted {
        let engine = series.needs_engine.then(plugin::build).transpose()?;
        let further = series.further.iter().filter(|_| has("--full"));
        let mut points = Vec::new();
        for size in series.sizes.iter().chain(further).copied() {
            let mut stage = Stage::start(&remora, series.server, engine.as_deref(), size)?;
            (series.prepare)(&stage, size)?;
            for step in series.steps {
                let mut point = stage.run(step.before, step.action)?;
                step.name.clone_into(&mut point.step);
                println!("{size} {}: {}", series.unit, point.shown());
                points.push(point);
            }
        }
        print!("{}", page::table(series, &points));
        if has("--keep") {
            page::keep(series, &points)?;
        }
    }
    if has("--keep") { page::write() } else { Ok(()) }
}
