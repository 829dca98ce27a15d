//! `remora url train`

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use progress::Progress as _;
use progress::count;
use serde_json::json;
use urlpack::{Family, Model, Options, Progress, measure, train};

use super::TextArgs;
use super::list::{self, List};
use crate::exit::Exit;
use crate::report::{self, Report};

/// Prefixes that the estimate probes: enough to notice a broken model, and fast compared with the training.
const PROBES: u64 = 10_000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Lists of URLs, one a line, plain or compressed; - for standard input
    #[arg(value_name = "CORPUS", required = true)]
    corpora: Vec<PathBuf>,

    /// The model file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Largest size, as a file and in memory: 2.6M packs URLs to about 26 %, 16M to about 24 %
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    size: usize,

    /// Its number in packed values, 1 to 15 [default: the lowest that no model in the folder of FILE has]
    ///
    /// 0 costs no byte in a value, and is the built-in model's: only a server that was told so
    /// ('remora url model add --instead-of') reads such values with this model.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=15))]
    number: Option<u8>,

    /// End every value with a check of this many bytes, 1 to 4: a value that was cut, changed, or packed by
    /// another model is then refused. With one byte, one wrong value in 256 is not noticed; each further byte
    /// divides that by 256
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=4))]
    check: u8,

    /// Start from this model: a file, or small or text for a built-in one. For short lists: a model of a
    /// thousand URLs on top of the built-in one packs better than either alone
    #[arg(long, value_name = "MODEL")]
    base: Option<PathBuf>,

    #[command(flatten)]
    text: TextArgs,

    /// A note about the data and its licence, kept in the model
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,

    /// Do not estimate the ratio: the estimate needs a second training, on nine tenths of the hosts
    #[arg(long)]
    no_estimate: bool,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    report.phase("reading", None);
    let list = List::read(&arguments.corpora)?;
    let mut options = Options::new(arguments.size);
    options.number = number(arguments)?;
    options.check_bytes = arguments.check;
    options.note.clone_from(&arguments.note);
    let base = arguments.base.as_ref().map(|path| super::load_any(path)).transpose()?;
    let own = list.urls().iter().map(|url| url.len() as u64).sum();
    let trainer = Trainer { base: base.as_ref().map(|base| drawn(base, own)), options };
    let estimate = if arguments.no_estimate {
        None
    } else {
        estimate(&list.divide(arguments.text.family()), &trainer, report)?
    };
    let file = trainer.train(&list.urls(), "training", report)?;
    let path = &arguments.output;
    super::model::write(path, &file)?;
    report.end();
    let model = Model::from_bytes(file)?;
    tell_done(arguments, &model, estimate, began.elapsed().as_secs_f64(), report)
}

/// The requested number, or the least from 1 on that no other model in the folder has.
fn number(arguments: &Arguments) -> anyhow::Result<u8> {
    if let Some(number) = arguments.number {
        return Ok(number);
    }
    let folder = arguments.output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let taken = super::model::numbers(folder.unwrap_or(Path::new(".")))?;
    (1..=15)
        .find(|number| !taken.contains(number))
        .context("the folder has models of all 15 numbers; give one with --number")
}

/// What a model is trained with besides the lists.
struct Trainer {
    /// Strings drawn from the base model.
    base: Option<Vec<Vec<u8>>>,
    options: Options,
}

/// Bytes that are drawn from a base for each byte of the user's own, the least share of the base's training
/// data, and how often each own string counts in addition. These values packed lists of 1,000 URLs best (see
/// docs/decisions/0304).
const BASE_TIMES: u64 = 10;
const BASE_SHARE_MIN: u64 = 10;
const OWN_TIMES: usize = 2;

/// Strings drawn from a model, to go with `own` bytes.
fn drawn(base: &Model, own: u64) -> Vec<Vec<u8>> {
    let (mut strings, known) = (Vec::new(), base.info().bytes);
    let bytes = own.saturating_mul(BASE_TIMES).clamp(known / BASE_SHARE_MIN, known);
    base.draw(bytes, 1, |string| strings.push(string.to_vec()));
    strings
}

impl Trainer {
    fn train(&self, urls: &[&[u8]], phase: &str, report: &Report) -> anyhow::Result<Vec<u8>> {
        report.phase(phase, None);
        let base = self.base.iter().flatten().map(Vec::as_slice);
        let times = if self.base.is_some() { OWN_TIMES } else { 1 };
        let own = std::iter::repeat_n(urls, times).flatten().copied();
        Ok(train(base.chain(own), &self.options, &mut |progress| tell(phase, progress, report))?)
    }
}

fn tell_done(
    arguments: &Arguments,
    model: &Model,
    estimate: Option<f64>,
    seconds: f64,
    report: &Report,
) -> anyhow::Result<Exit> {
    let (info, path) = (model.info(), &arguments.output);
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "model": path, "size": info.size, "states": info.states, "number": info.number,
            "check_bytes": info.check_bytes, "checksum": format!("{:016x}", info.checksum), "urls": info.strings, "bytes": info.bytes,
            "expected_ratio": estimate, "seconds": seconds,
        }))?;
        return Ok(Exit::Done);
    }
    report.note(&format!(
        "{}: {}, number {}, trained on {} ({}) of {} in {seconds:.0} s",
        path.display(),
        report::size(info.size as u64),
        info.number,
        count(info.strings, "URL"),
        report::size(info.bytes),
        list::shown(&arguments.corpora),
    ));
    if let Some(ratio) = estimate {
        let of = match arguments.text.family() {
            Family::Url => {
                "URLs of hosts it has not seen, less for those it has (measured on a tenth of the hosts"
            }
            Family::Text => "strings it has not seen (measured on a tenth of them",
        };
        report.note(&format!("expect {:.1} % for {of}, trained on the others)", ratio * 100.0));
    }
    if info.number == 0 {
        report.note("number 0 is a built-in model's; a server takes this one for it only after 'remora url model add --instead-of'");
    } else {
        report.note(&format!(
            "give it to a server with: remora url model add {} --folder FOLDER",
            path.display()
        ));
    }
    Ok(Exit::Done)
}

/// The ratio on hosts that were kept out of a training like the coming one.
fn estimate(
    (train_on, test_on): &(Vec<&[u8]>, Vec<&[u8]>),
    trainer: &Trainer,
    report: &Report,
) -> anyhow::Result<Option<f64>> {
    if train_on.is_empty() || test_on.is_empty() {
        report.note("too few hosts to keep a tenth of them out, so the ratio is not estimated");
        return Ok(None);
    }
    let file = trainer.train(train_on, "estimating", report)?;
    Ok(Some(measure(&Model::from_bytes(file)?, test_on, PROBES, 1).ratio()))
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
            report.phase(&format!("{phase}: a selection of {}", report::size(size as u64)), None);
        }
        _ => {}
    }
}

/// `2.6M`, `16M`, `2600000`: decimal units, as in the names of models.
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
