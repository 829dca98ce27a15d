//! `remora url compare`

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use codec::single_value::{self, ValueCodec, Zstd};
use progress::Progress as _;
use progress::count;
use serde_json::json;
use urlpack::{Model, Options, train};

use super::ModelArgs;
use super::list::{self, List};
use super::measure::{ROUNDS, least_ns};
use crate::exit::Exit;
use crate::report::{self, Report};

/// The most values for a codec of this kind: slow codecs get fewer, spread over the list.
const VALUES_MAX: usize = 200_000;
const VALUES_MAX_SLOW: usize = 200;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Lists of URLs to measure all codecs on
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Lists to train all codecs on [default: nine tenths of the hosts in FILE; the other tenth is measured]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    train: Vec<PathBuf>,

    #[command(flatten)]
    model: ModelArgs,
}

/// What is compared.
struct Candidate {
    name: String,
    codec: Box<dyn ValueCodec>,
    slow: bool,
    /// Whether compressed values sort like the URLs.
    ordered: bool,
}

/// The result for a candidate.
struct Outcome {
    name: String,
    size: usize,
    values: usize,
    raw: u64,
    packed: u64,
    compress_ns: f64,
    decompress_ns: f64,
    ordered: bool,
}

pub(super) fn run(arguments: &Arguments, report: &Report) -> anyhow::Result<Exit> {
    report.phase("reading", None);
    let list = List::read(&arguments.files)?;
    let lists = if arguments.train.is_empty() { None } else { Some(List::read(&arguments.train)?) };
    let (train_on, test_on) = match &lists {
        None => list.divide(arguments.model.text.family()),
        Some(lists) => (lists.urls(), list.urls()),
    };
    if train_on.is_empty() || test_on.is_empty() {
        bail!(
            "{}: too few hosts to divide them; give other lists with --train",
            list::shown(&arguments.files)
        );
    }
    report.note(&format!(
        "trained on {}, measured on {}",
        count(train_on.len(), "string"),
        count(test_on.len(), "other")
    ));
    let mut outcomes = Vec::new();
    let given = given(&arguments.model)?;
    let trained = [urlpack_standard, urlpack_small, zstd_large, zstd_small];
    let trained = trained.into_iter().map(|make| make(&train_on, report));
    for candidate in std::iter::once(Ok(given)).chain(trained).chain(others(&train_on, report)) {
        let candidate = candidate?;
        report.phase(&format!("measuring {}", candidate.name), None);
        let name = candidate.name.clone();
        outcomes.push(candidate.measure(&test_on).with_context(|| name)?);
    }
    report.end();
    tell(&outcomes, report)?;
    Ok(Exit::Done)
}

fn tell(outcomes: &[Outcome], report: &Report) -> anyhow::Result<()> {
    if !report.is_json() {
        report.data(
            "codec                               ratio   bytes each   pack ns   unpack ns      size   order",
        )?;
    }
    for outcome in outcomes {
        let ratio = report::as_f64(outcome.packed) / report::as_f64(outcome.raw.max(1));
        let each = report::as_f64(outcome.packed) / report::as_f64(outcome.values.max(1) as u64);
        if report.is_json() {
            report.message(&json!({
                "message_type": "codec", "name": outcome.name, "ratio": ratio, "urls": outcome.values,
                "raw_bytes": outcome.raw, "packed_bytes": outcome.packed, "pack_ns": outcome.compress_ns,
                "unpack_ns": outcome.decompress_ns, "size": outcome.size, "ordered": outcome.ordered,
            }))?;
            continue;
        }
        report.data(&format!(
            "{:32} {:6.2} % {each:12.1} {:9.0} {:11.0} {:>9}   {}",
            outcome.name,
            ratio * 100.0,
            outcome.compress_ns,
            outcome.decompress_ns,
            report::size(outcome.size as u64),
            if outcome.ordered { "kept" } else { "lost" },
        ))?;
    }
    Ok(())
}

impl Candidate {
    /// Compresses and decompresses every value, and measures the time of both.
    fn measure(mut self, urls: &[&[u8]]) -> anyhow::Result<Outcome> {
        let most = if self.slow { VALUES_MAX_SLOW } else { VALUES_MAX };
        let sample: Vec<&[u8]> = urls.iter().step_by(urls.len().div_ceil(most).max(1)).copied().collect();
        let rounds = if self.slow { 1 } else { ROUNDS };
        let (mut packed, mut ends) = (Vec::new(), Vec::new());
        let codec = &mut self.codec;
        let compress_ns = least_ns(rounds, sample.len(), || {
            packed.clear();
            ends = vec![0];
            for url in &sample {
                codec.compress(url, &mut packed)?;
                ends.push(packed.len());
            }
            Ok(())
        })?;
        let values: Vec<&[u8]> =
            ends.windows(2).filter_map(|pair| packed.get(*pair.first()?..*pair.last()?)).collect();
        let mut back = Vec::new();
        for (value, url) in values.iter().zip(&sample) {
            back.clear();
            codec.decompress(value, url.len(), &mut back)?;
            if back != *url {
                bail!("'{}' did not come back", String::from_utf8_lossy(url));
            }
        }
        let decompress_ns = least_ns(rounds, sample.len(), || {
            for (value, url) in values.iter().zip(&sample) {
                back.clear();
                codec.decompress(value, url.len(), &mut back)?;
            }
            Ok(())
        })?;
        Ok(Outcome {
            name: self.name,
            size: self.codec.size(),
            values: sample.len(),
            raw: sample.iter().map(|url| url.len() as u64).sum(),
            packed: packed.len() as u64,
            compress_ns,
            decompress_ns,
            ordered: self.ordered,
        })
    }
}

struct Urlpack(Model);

impl ValueCodec for Urlpack {
    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.pack(value, out);
        Ok(())
    }

    fn decompress(&mut self, compressed: &[u8], len_max: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
        self.0.unpack(compressed, out, len_max).map_err(std::io::Error::other)
    }

    fn size(&self) -> usize {
        self.0.info().size
    }
}

fn trained(name: &str, size: usize, urls: &[&[u8]], report: &Report) -> anyhow::Result<Candidate> {
    report.phase(&format!("training {name}"), None);
    let file = train(urls, &Options::new(size), &mut |_| report.done(0, 0))?;
    let model = Model::from_bytes(file)?;
    Ok(Candidate { name: name.to_owned(), codec: Box::new(Urlpack(model)), slow: false, ordered: true })
}

fn urlpack_standard(urls: &[&[u8]], report: &Report) -> anyhow::Result<Candidate> {
    trained("remora, 16 MB", Options::STANDARD, urls, report)
}

fn urlpack_small(urls: &[&[u8]], report: &Report) -> anyhow::Result<Candidate> {
    trained("remora, 2.6 MB", Options::SMALL, urls, report)
}

/// The existing model: the built-in one, or the one that the user named.
fn given(model: &ModelArgs) -> anyhow::Result<Candidate> {
    let name = format!("remora, {}", model.name());
    Ok(Candidate { name, codec: Box::new(Urlpack(model.load()?)), slow: false, ordered: true })
}

/// brotli and FSST, if this program was built with them.
fn others(urls: &[&[u8]], report: &Report) -> impl Iterator<Item = anyhow::Result<Candidate>> {
    report.phase("training brotli and FSST", None);
    let peers = single_value::comparison_codecs(urls);
    if peers.is_empty() {
        report.note("brotli and FSST are left out: this program was built without --features peers");
    }
    peers.into_iter().map(|peer| {
        Ok(Candidate { name: peer.name.to_owned(), codec: peer.codec, slow: peer.slow, ordered: false })
    })
}

/// The level of zstd at which its dictionary helps most.
const ZSTD_LEVEL: i32 = 19;

fn zstd(urls: &[&[u8]], size: usize, report: &Report) -> anyhow::Result<Candidate> {
    let name = format!("zstd -{ZSTD_LEVEL}, dictionary of {} kB", size / 1000);
    report.phase(&format!("training {name}"), None);
    let dictionary = single_value::dictionary(urls, size)
        .with_context(|| format!("{name}: the lists may be too short to train it; give longer ones"))?;
    let codec = Box::new(Zstd::new(&dictionary, ZSTD_LEVEL)?);
    Ok(Candidate { name, codec, slow: false, ordered: false })
}

fn zstd_large(urls: &[&[u8]], report: &Report) -> anyhow::Result<Candidate> {
    zstd(urls, 1_000_000, report)
}

fn zstd_small(urls: &[&[u8]], report: &Report) -> anyhow::Result<Candidate> {
    zstd(urls, 112_000, report)
}
