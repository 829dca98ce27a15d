//! `remora restore --path`: some files of a generation.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use block::restore::Request;
use block::{RunContext, tree};
use failure::usage;
use host::{Call, Machine};
use humanize::text;
use progress::Progress;
use serde_json::json;

use super::Arguments;
use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

pub(super) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let (named, generation) = repository::one(&arguments.from, arguments.key.read_full()?.as_ref())?;
    if !named.is_tree(Request::new(generation, 1))? {
        return Err(usage(format!(
            "{} is a volume, and the backup does not know which files are in it; 'remora mount' shows it",
            arguments.from
        )));
    }
    let name = named.name;
    let files = tree::Files::open(named.repository, generation, &PathBuf::from(&name))?;
    let generation = files.generation();
    for chosen in &arguments.path {
        chosen.must_be_in(&files, &repository::at_generation(&arguments.from, generation))?;
    }
    let stop = commands::stop_flag(report)?;
    let world = RunContext { stop: &stop, progress: report };
    let place = arguments.target()?;
    let target = place.to_string();
    let machine =
        Machine::reach(place.host.as_ref(), &Call { options: &arguments.ssh_option, ..Call::default() })?;
    let (disk, path) = (machine.disk(), place.path.as_path());
    if disk.stat(path).is_ok() {
        return Err(usage(format!("{target} exists already; --path needs a new folder")));
    }
    let is_wanted = |path: &std::path::Path| arguments.path.iter().any(|chosen| chosen.is(path));
    let restored = tree::restore_paths(
        &files,
        tree::NewFolder { disk: &disk, tree: &*machine.tree(), path },
        is_wanted,
        world,
    )
    .with_context(|| format!("nothing is in {target}"))?;
    report.end();
    for (path, what) in &restored.altered {
        report.warn(&format!("{}: {what}", text::path(path)));
    }
    let (fetched, seconds) = (files.content().library().fetched(), began.elapsed().as_secs_f64());
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": name, "generation": generation, "target": target,
            "bytes": restored.len, "bytes_written": restored.written, "bytes_fetched": fetched, "bytes_lost": 0,
            "proven": true, "seconds": seconds,
        }))?;
    } else {
        report.note(&format!(
            "{} of {name}@{generation} restored to {target}, {} fetched from the repository, {seconds:.1} s",
            report::size(restored.len),
            report::size(fetched),
        ));
    }
    Ok(if restored.altered.is_empty() { Exit::Done } else { Exit::Partial })
}
