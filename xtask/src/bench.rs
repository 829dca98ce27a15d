//! Benchmarks beside the tools that people use, in one run.

mod before;
mod block;
mod columns;
mod dump;
mod engines;
mod follow;
mod import;
mod measure;
mod pack;
mod physical;
mod queue;
mod recovery;
mod scale;
mod server;
mod stat;
mod url;

use anyhow::{Result, bail};

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("before") => before::run(rest),
        Some("block") => block::run(rest),
        Some("columns") => columns::run(rest),
        Some("copy") => dump::copy::run(rest),
        Some("dump") => dump::run(rest),
        Some("engines") => engines::run_bench(rest),
        Some("follow") => follow::run(rest),
        Some("import") => import::run(rest),
        Some("pack") => pack::run(rest),
        Some("physical") => physical::run(rest),
        Some("queue") => queue::run_bench(rest),
        Some("recovery") => recovery::run_bench(rest),
        Some("scale") => scale::run(rest),
        Some("stat") => stat::run_bench(),
        Some("url") => url::run(rest),
        _ => bail!(
            "cargo xtask bench AREA; areas: before, block, columns, copy, dump, engines, follow, import, pack, physical, queue, recovery, scale, stat, url"
        ),
    }
}

/// What follows an option.
fn value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == name)?;
    arguments.get(at + 1).map(String::as_str)
}
