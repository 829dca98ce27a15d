//! `remora stat report`

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use disk::{Disk, Output as File, RealDisk};
use monitor::recording;
use monitor::time::{full, tick};
use progress::Progress;
use status::counter::change::Interval;
use status::counter::page::{GENERATOR, Times, page};
use status::counter::record::Recorded;
use status::counter::sample::Sample;
use status::counter::series::Series;

use super::output::{Follow, Named, Output, Wanted};
use crate::exit::Exit;
use crate::report::Report;

/// Points in a plot.
const POINTS: u32 = 600;

/// Make a page from a recording: plots, statements and counters, in one file that any browser shows
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What remora stat --record wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The page. An earlier page is replaced; any other existing file is left alone
    #[arg(short, long, value_name = "HTML")]
    output: PathBuf,

    /// Its title [default: the name of the recording]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Collects intervals, one list for each server.
struct Collect<'a> {
    names: &'a [String],
    all: Vec<Series>,
}

impl Output for Collect<'_> {
    fn show(&mut self, server: Named<'_>, interval: &Interval<'_>, _report: &Report) -> Result<()> {
        let at = self.names.iter().position(|name| name == server.name).unwrap_or_default();
        self.all[at].add(interval);
        Ok(())
    }

    fn event(&mut self, server: Named<'_>, now: &Sample, event: &str, _report: &Report) -> Result<()> {
        let at = self.names.iter().position(|name| name == server.name).unwrap_or_default();
        self.all[at].note(now.unix_ms, event);
        Ok(())
    }
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let file = &arguments.file;
    let (names, span) = recording::survey(file)?;
    anyhow::ensure!(!names.is_empty(), "{}: no sample in it", file.display());
    let mut follow = Follow::new(names.clone());
    let mut collect = Collect { names: &names, all: names.iter().map(|_| Series::default()).collect() };
    recording::replay(file, Some(report), &mut |Recorded { server, sample, .. }| {
        let server = names.iter().position(|name| *name == server).unwrap_or_default();
        follow.merge(
            (server, sample),
            Wanted { least: span / POINTS, left: u64::MAX },
            &mut collect,
            report,
        )?;
        Ok(true)
    })?;
    follow.finish(&mut collect, report)?;
    let servers: Vec<(&str, &Series)> = names.iter().map(String::as_str).zip(&collect.all).collect();
    let title = arguments.title.clone().unwrap_or_else(|| title(file));
    let html = page(&title, &servers, &Times { full: &full, tick: &tick });
    let name = || arguments.output.display().to_string();
    if !may_replace(&arguments.output).with_context(name)? {
        bail!("{} exists and is no page of remora stat; name another file", name());
    }
    let mut output = File::create(&RealDisk, &arguments.output).with_context(name)?;
    output.write_all(html.as_bytes()).with_context(name)?;
    output.finish().with_context(name)?;
    let servers = progress::count(names.len(), "server");
    report.note(&format!("{} is made: {servers}, {}", name(), crate::report::size(html.len() as u64)));
    Ok(Exit::Done)
}

/// Whether a file does not exist or is a page of ours.
fn may_replace(path: &Path) -> Result<bool> {
    let file = match RealDisk.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        file => file?,
    };
    let mut head = Vec::new();
    file.take(1000).read_to_end(&mut head)?;
    Ok(head.is_empty() || String::from_utf8_lossy(&head).contains(GENERATOR))
}

fn title(file: &Path) -> String {
    let name = file.file_stem().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "remora stat".to_owned())
}
