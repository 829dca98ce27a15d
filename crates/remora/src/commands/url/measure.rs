//! `remora url measure`

use std::path::PathBuf;

use clap::Args;
use progress::Progress as _;
use progress::count;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use urlpack::{Measured, Model, measure};

use super::ModelArgs;
use super::list::{self, List};
use crate::exit::Exit;
use crate::report::{self, Report};

/// Rounds, of which the fastest counts: other work on the machine only adds to the time.
pub(super) const ROUNDS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Lists of URLs, one a line, plain or compressed; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    model: ModelArgs,

    /// How many random prefixes to check the ranges of
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    probes: u64,
}

/// Nanoseconds per URL.
#[derive(Debug, Clone, Copy)]
struct Speed {
    pack: f64,
    unpack: f64,
    batch: f64,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    let model = arguments.model.load()?;
    report.phase("reading", None);
    let list = List::read(&arguments.files)?;
    let urls = list.urls();
    report.phase("checking order, ranges and round trip", None);
    let found = measure(&model, &urls, arguments.probes, 1);
    report.phase("measuring speed", None);
    let speed = speed(&model, &urls)?;
    report.end();
    let wrong = found.round_trip_wrong + found.order_wrong + found.prefix_wrong;
    if report.is_json() {
        report.message(&json!({
            "message_type": "measure", "files": arguments.files, "model": arguments.model.name(),
            "model_size": model.info().size, "urls": found.strings, "raw_bytes": found.raw_bytes,
            "packed_bytes": found.packed_bytes, "ratio": found.ratio(), "pack_ns": speed.pack,
            "unpack_ns": speed.unpack, "unpack_batch_ns": speed.batch, "order_wrong": found.order_wrong,
            "probes": found.probes, "prefix_wrong": found.prefix_wrong, "round_trip_wrong": found.round_trip_wrong,
        }))?;
    } else {
        table(arguments, &model, &found, speed, report)?;
    }
    Ok(if wrong == 0 { Exit::Done } else { Exit::Damaged })
}

fn table(
    arguments: &Arguments,
    model: &Model,
    found: &Measured,
    speed: Speed,
    report: &Report,
) -> anyhow::Result<()> {
    let each = |bytes: u64| report::as_f64(bytes) / report::as_f64(found.strings.max(1));
    let timed = |ns: f64| format!("{ns:.0} ns a URL, {}/s on one core", report::short(1e9 / ns));
    let lines = [
        ("list", list::shown(&arguments.files)),
        ("model", format!("{}, {}", arguments.model.name(), report::size(model.info().size as u64))),
        (
            "URLs",
            format!(
                "{}, {}, {:.1} each",
                found.strings,
                count(found.raw_bytes, "byte"),
                each(found.raw_bytes)
            ),
        ),
        (
            "packed",
            format!(
                "{:.2} %, {}, {:.1} each",
                found.ratio() * 100.0,
                count(found.packed_bytes, "byte"),
                each(found.packed_bytes)
            ),
        ),
        ("pack", timed(speed.pack)),
        ("unpack", timed(speed.unpack)),
        ("unpack, batch", timed(speed.batch)),
        ("round trip", format!("{} wrong", found.round_trip_wrong)),
        ("order", format!("{} neighbours wrong", found.order_wrong)),
        ("prefix ranges", format!("{} of {} wrong", found.prefix_wrong, found.probes)),
    ];
    for (name, value) in lines {
        report.data(&format!("{name:15}{value}"))?;
    }
    Ok(())
}

fn speed(model: &Model, urls: &[&[u8]]) -> anyhow::Result<Speed> {
    let packed: Vec<Vec<u8>> = urls
        .iter()
        .map(|url| {
            let mut value = Vec::new();
            model.pack(url, &mut value);
            value
        })
        .collect();
    let mut out = Vec::with_capacity(1 << 16);
    let pack = least_ns(ROUNDS, urls.len(), || {
        urls.iter().for_each(|url| {
            out.clear();
            model.pack(url, &mut out);
        });
        Ok(())
    })?;
    let unpack = least_ns(ROUNDS, urls.len(), || {
        packed.iter().try_for_each(|value| {
            out.clear();
            Ok(model.unpack(value, &mut out, usize::MAX)?)
        })
    })?;
    let batch = least_ns(ROUNDS, urls.len(), || {
        let mut bytes = 0;
        model.unpack_batch(&packed, usize::MAX, |_, url| bytes += url.map_or(0, <[u8]>::len));
        std::hint::black_box(bytes);
        Ok(())
    })?;
    Ok(Speed { pack, unpack, batch })
}

/// The fewest nanoseconds of this thread's processor time per item, for `count` items, over several rounds of
/// `work`.
pub(super) fn least_ns(
    rounds: usize,
    count: usize,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut least = f64::MAX;
    for _ in 0..rounds {
        let began = thread_ns();
        work()?;
        least = least.min(thread_ns() - began);
    }
    Ok(least / report::as_f64(count.max(1) as u64))
}

/// Processor time of this thread in nanoseconds: other work on the machine does not count.
fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of a command's life")]
    let (seconds, nanoseconds) = (time.tv_sec as f64, time.tv_nsec as f64);
    seconds * 1e9 + nanoseconds
}
