//! `remora url train`

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use disk::{Output, RealDisk};
use progress::Progress as _;
use serde_json::json;
use urlpack::{Model, Options, Progress, measure, train};

use super::list::{self, List};
use crate::exit::Exit;
use crate::report::{self, Report};

/// Prefixes that the estimate probes: enough to see a broken model, quick beside the training.
const PROBES: u64 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Lists of URLs, one a line, plain or compressed; - for standard input
    #[arg(value_name = "CORPUS", required = true)]
    corpora: Vec<PathBuf>,

    /// The model to write. The server's functions want it to be called NAME.urlmodel
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Largest size, in the file and in memory: 2.6M packs URLs to about 26 %, 16M to about 24 %
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    size: usize,

    /// Number that packed values will name, 0 to 15; 0 costs no byte in them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    number: u8,

    /// Words about the data and its licence, kept in the model
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,

    /// Do not estimate the ratio, which trains a second time, on nine tenths of the hosts
    #[arg(long)]
    no_estimate: bool,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    report.phase("reading", None);
    let list = List::read(&arguments.corpora)?;
    let mut options = Options::new(arguments.size);
    options.number = arguments.number;
    options.note.clone_from(&arguments.note);
    let estimate = if arguments.no_estimate { None } else { estimate(&list, &options, report)? };
    let urls = list.urls();
    report.phase("training", None);
    let file = train(&urls, &options, &mut |progress| tell("training", progress, report))?;
    let path = &arguments.output;
    let write = || {
        let mut output = Output::create(&RealDisk, path)?;
        output.write_all(&file)?;
        output.finish()
    };
    write().with_context(|| path.display().to_string())?;
    report.end();
    let (model, seconds) = (Model::from_bytes(file)?, began.elapsed().as_secs_f64());
    let info = model.info();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "model": path, "size": info.size, "states": info.states, "number": info.number,
            "checksum": format!("{:016x}", info.checksum), "urls": info.strings, "bytes": info.bytes,
            "expected_ratio": estimate, "seconds": seconds,
        }))?;
        return Ok(Exit::Done);
    }
    report.note(&format!(
        "{}: {}B, number {}, trained on {} URLs ({}B) of {} in {seconds:.0} s",
        path.display(),
        report::short(report::as_f64(info.size as u64)),
        info.number,
        info.strings,
        report::short(report::as_f64(info.bytes)),
        list::shown(&arguments.corpora),
    ));
    if let Some(ratio) = estimate {
        report.note(&format!(
            "expect {:.1} % for URLs of hosts it has not seen, less for those it has (measured on a tenth of the hosts, \
             trained on the others)",
            ratio * 100.0
        ));
    }
    Ok(Exit::Done)
}

/// The ratio on hosts that were kept out of a training like the one to come.
fn estimate(list: &List, options: &Options, report: &Report) -> anyhow::Result<Option<f64>> {
    let (train_on, test_on) = list.divide();
    if train_on.is_empty() || test_on.is_empty() {
        report.note("too few hosts to keep a tenth of them out, so the ratio is not estimated");
        return Ok(None);
    }
    let phase = "estimating";
    report.phase(phase, None);
    let file = train(&train_on, options, &mut |progress| tell(phase, progress, report))?;
    Ok(Some(measure(&Model::from_bytes(file)?, &test_on, PROBES, 1).ratio()))
}

fn tell(phase: &str, progress: Progress, report: &Report) {
    match progress {
        Progress::Read { .. } => report.done(10_000, 0),
        Progress::Counted { contexts } => {
            report.phase(
                &format!("{phase}: {} contexts", report::short(report::as_f64(contexts as u64))),
                None,
            );
        }
        Progress::Selected { size } => {
            report.phase(
                &format!("{phase}: a selection of {}B", report::short(report::as_f64(size as u64))),
                None,
            );
        }
        _ => {}
    }
}

/// `2.6M`, `16M`, `2600000`: decimal units, as models are named by them.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        _ => f64::NAN,
    };
    let bytes = digits.parse::<f64>().map_or(f64::NAN, |number| number * factor);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked by the range")]
    match bytes {
        65_536.0..=16_777_216.0 => Ok(bytes as usize),
        _ => Err("a size from 66K to 16.7M, which is as far as the links in a model reach".to_owned()),
    }
}
