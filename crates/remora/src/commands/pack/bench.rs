//! `remora pack bench`: measures all ways to compress the user's own data.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use clap::Args;
use comparison::contender::contenders;
use comparison::measure::{Cost, Place};
use comparison::sample::{self, Sample};
use comparison::{Row, all_cores, mark, measured, number, page};
use disk::{Output, RealDisk};
use failure::usage;
use progress::Progress;
use serde_json::json;

use crate::commands::{self, cores};
use crate::exit::Exit;
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora pack bench nodes.tsv
  remora pack bench --price 23 --html bench.html nodes.tsv    with costs, and two plots
  remora pack bench --only zstd,column,pigz --sample 256 dump.sql.gz";

/// Measure every codec on your own data: size, speed both ways, memory
///
/// Each codec runs as a process of its own, on one core and on all cores, and so do other tools that are
/// installed: pigz, pbzip2, plzip, lzip, lzop, 7z, brotli and more. Each result is decompressed and compared.
/// C marks those that no other beats in both size and speed of compression, D those that no other beats in
/// both size and speed of decompression, on one core.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files; compressed ones are decompressed first
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Megabytes to measure on, taken from all parts of the files; 0 takes all of them, up to 4 GB
    #[arg(long, value_name = "MB", default_value_t = 64)]
    sample: u64,

    /// Only codecs and tools whose names begin with one of these: zstd,column:3,pigz
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// Leave out the slow ones, which pack less than about 2 MB a second
    #[arg(long)]
    quick: bool,

    /// What a terabyte costs a month where the files lie; the table then says what each codec would cost
    #[arg(long, value_name = "AMOUNT")]
    price: Option<f64>,

    /// Write a page with two plots as HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Cores of the second measurement [default: all]
    #[arg(long, short = 'T', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let threads = arguments.threads.map_or_else(cores, usize::from);
    if arguments.price.is_some_and(|price| !price.is_finite() || price < 0.0) {
        return Err(usage("--price is an amount, such as 23"));
    }
    let contenders = contenders(&arguments.only, arguments.quick);
    if contenders.is_empty() {
        return Err(usage(format!(
            "--only {}: no codec or tool has a name that begins like that",
            arguments.only.join(",")
        )));
    }
    let stop = commands::stop_flag(report)?;
    let sample = sample::take(&RealDisk, &arguments.files, arguments.sample << 20)?;
    let place = Place::new(&sample.text, Arc::clone(&stop))?;
    report.note(&sample.shown());
    report.phase("measuring", None);
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    for contender in contenders {
        report.note(&contender.name);
        match measured(&contender, &place, threads) {
            Ok(row) => rows.push(row),
            Err(_) if stop.load(Ordering::Relaxed) => return Err(failure::Failure::Stopped.into()),
            Err(error) => {
                report.warn(&format!("{}: {error:#}", contender.name));
                exit = if contender.ours || exit == Exit::Damaged { Exit::Damaged } else { Exit::Partial };
            }
        }
    }
    mark(&mut rows);
    report.end();
    show(&rows, &sample, arguments.price, threads, report)?;
    if let Some(name) = &arguments.html {
        write_page(name, &page::html(&rows, &sample, threads))?;
    }
    Ok(exit)
}

fn write_page(name: &Path, html: &str) -> Result<()> {
    let shown = || name.display().to_string();
    let mut output = Output::create(&RealDisk, name).with_context(shown)?;
    std::io::Write::write_all(&mut output, html.as_bytes()).with_context(shown)?;
    output.finish().with_context(shown)
}

fn show(rows: &[Row], sample: &Sample, price: Option<f64>, threads: usize, report: &Report) -> Result<()> {
    let text = sample.text.len() as u64;
    let ratio = |bytes: u64| report::as_f64(bytes) / report::as_f64(text.max(1));
    let cost = |bytes: u64| price.map(|price| ratio(bytes) * report::as_f64(sample.all_bytes) / 1e12 * price);
    if report.is_json() {
        for row in rows {
            let costs = |costs: &[Cost; 2]| {
                json!(costs.map(
                    |cost| json!({"wall_s": cost.wall_s, "cpu_s": cost.cpu_s, "memory_bytes": cost.memory()})
                ))
            };
            report.message(&json!({
                "message_type": "measured", "name": row.name, "ours": row.ours, "text_bytes": text, "bytes": row.bytes,
                "one_core": costs(&row.one), "all_cores": row.all.as_ref().map(costs), "cores": threads,
                "frontier_compress": row.frontier[0], "frontier_decompress": row.frontier[1],
                "price_a_month": cost(row.bytes),
            }))?;
        }
        return Ok(());
    }
    let heading = if price.is_some() { "   cost/month" } else { "" };
    report.data(&format!(
        "{:18} {:>7}  {:>13}  {:>15}  {:>11}  best{heading}",
        "", "size", "pack MB/s", "unpack MB/s", "memory MB"
    ))?;
    let all = all_cores(threads);
    report.data(&format!(
        "{:18} {:>7}  {:>5} {all:>7}  {:>7} {all:>7}  {:>5} {:>5}",
        "", "%", "1", "1", "pack", "un-"
    ))?;
    for row in rows {
        let speed = |cost: &Cost, cpu: bool| {
            let seconds = if cpu { cost.cpu_s } else { cost.wall_s };
            report::as_f64(text) / 1e6 / seconds.max(0.001)
        };
        let all = |direction: usize| match &row.all {
            Some(all) => number(speed(&all[direction], false)),
            None if threads > 1 => "-".to_owned(),
            None => String::new(),
        };
        let memory = |direction: usize| {
            let bytes = row.one[direction].memory().map(report::as_f64);
            bytes.map_or("-".to_owned(), |bytes| format!("{:.0}", bytes / 1e6))
        };
        let best =
            [if row.frontier[0] { "C" } else { " " }, if row.frontier[1] { "D" } else { " " }].concat();
        let money = cost(row.bytes).map_or(String::new(), |cost| format!("  {:>12}", money(cost)));
        let line = format!(
            "{:18} {:>7.2}  {:>5} {:>7}  {:>7} {:>7}  {:>5} {:>5}  {best}{money}",
            row.name,
            ratio(row.bytes) * 100.0,
            number(speed(&row.one[0], true)),
            all(0),
            number(speed(&row.one[1], true)),
            all(1),
            memory(0),
            memory(1),
        );
        report.data(line.trim_end())?;
    }
    if let Some(cost) = cost(text) {
        report.data(&format!("uncompressed, all of it costs {} a month", money(cost)))?;
    }
    Ok(())
}

/// An amount of money: of less than 1 the first digits that are not 0.
fn money(cost: f64) -> String {
    let zeros = if cost > 0.0 && cost < 1.0 { -cost.log10().floor() } else { 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is small and not negative"
    )]
    let digits = zeros.min(15.0) as usize + 2;
    format!("{cost:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_are_not_zero() {
        let shown = [0.0, 1234.567, 1.0, 0.5, 0.001_364, 0.009_3].map(money);
        assert_eq!(shown, ["0.00", "1234.57", "1.00", "0.500", "0.00136", "0.00930"]);
    }
}
