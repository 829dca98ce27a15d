//! `remora pack` and `remora unpack`

mod bench;
mod method;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use codec::Codec;
use codec::parallel::Job;
use disk::RealDisk;
use failure::usage;
use progress::{Progress, count};
use repack::{Conversion, Converted, Old, Switches};

use self::method::Method;
use crate::commands::{self, cores};
use crate::exit::{self, Exit};
use crate::report::{self, Report};

const EXAMPLES: &str = "EXAMPLES
  remora pack nodes.tsv                  nodes.tsv.zst instead of nodes.tsv, on all cores
  remora pack --to column nodes.tsv      as typed columns: often half the size of .xz, and fast
  remora pack --to zstd:19 hot.lz4       hot.zst instead of hot.lz4, with no file in between
  remora pack -c --to xz:9 - < dump > dump.xz
  remora pack bench nodes.tsv            which codec is best for this file?";

const UNPACK_EXAMPLES: &str = "EXAMPLES
  remora unpack nodes.tsv.zst            nodes.tsv instead of nodes.tsv.zst
  remora unpack --test *.gz              are they whole?
  remora unpack -c nodes.tsv.rcol | head
  remora unpack --column user nodes.tsv.rcol | sort | uniq -c";

/// Compress files, or compress compressed files in another way
///
/// The new file is written under a temporary name, read back, compared and synced. Only then does it get
/// its name, and the old file is removed. Time, owner and permissions are kept. Each codec's own tool can
/// read the new file; column mode (.rcol) is read by `remora unpack` and `remora import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    files: Files,

    /// CODEC or CODEC:LEVEL: zstd:1-22, gzip:1-9, xz:0-9, bzip2:1-9, lz4, column:1-22
    #[arg(long, short = 't', value_name = "CODEC[:LEVEL]", default_value = "zstd")]
    to: Method,

    /// For zstd: look for matches up to 2^LOG bytes back, 10 to 31 [27 if LOG is left out]
    #[arg(long, value_name = "LOG", num_args = 0..=1, require_equals = true, default_missing_value = "27",
          value_parser = clap::value_parser!(u32).range(10..=31))]
    long: Option<u32>,
}

/// What else `pack` can do. A file of that name is written ./bench.
#[derive(Debug, Subcommand)]
enum Action {
    Bench(bench::Arguments),
}

/// Decompress files
///
/// The codec is recognised by the content: gzip, zstd, lz4, xz, bzip2 or column mode. The new file is written
/// under a temporary name, read back and synced before the old one is removed.
#[derive(Debug, Args)]
#[command(after_help = UNPACK_EXAMPLES)]
pub(crate) struct UnpackArguments {
    #[command(flatten)]
    files: Files,

    /// Only read the files to the end, and say whether they are whole
    #[arg(long, conflicts_with_all = ["stdout", "output", "force"])]
    test: bool,

    /// Write one column of a file in column mode to standard output; NAME is a name in the first line, or a
    /// number from 1
    #[arg(long, value_name = "NAME", conflicts_with_all = ["test", "output", "keep", "force"])]
    column: Option<String>,
}

#[derive(Debug, Args)]
struct Files {
    /// Files; - is standard input, which goes to standard output
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Write to standard output, and keep the old file
    #[arg(long, short = 'c', conflicts_with_all = ["output", "keep", "force"])]
    stdout: bool,

    /// Name of the new file; only with one FILE. - is standard output, as with --stdout
    #[arg(long, short, value_name = "NAME")]
    output: Option<PathBuf>,

    /// Keep the old file
    #[arg(long, short)]
    keep: bool,

    /// Replace a file that already has the new name, be it FILE itself
    #[arg(long, short)]
    force: bool,

    /// Cores to use [default: all]
    #[arg(long, short = 'T', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    if let Some(Action::Bench(arguments)) = &arguments.action {
        return bench::run(arguments, report);
    }
    if arguments.files.files.iter().any(|file| file == Path::new("bench")) {
        return Err(usage("options of pack bench come after bench; a file of that name is written ./bench"));
    }
    let method = arguments.to;
    if arguments.long.is_some() && method.codec != Codec::Zstd {
        return Err(usage("--long is for zstd: add --to zstd, or leave --long out"));
    }
    let files = &arguments.files;
    files.each(report, |file, switches| {
        let threads = switches.threads;
        let job = Job { codec: method.codec, level: method.level, threads, long: arguments.long };
        files.one(file, Conversion::Pack(job), switches, report)
    })
}

pub(crate) fn unpack(arguments: &UnpackArguments, report: &Report) -> Result<Exit> {
    let files = &arguments.files;
    if let Some(name) = &arguments.column {
        return files.each(report, |file, switches| {
            let (shown, left_out) = repack::column(file, name, switches, report.output()?)?;
            if left_out == 0 {
                return Ok(Exit::Done);
            }
            let left_out = count(left_out, "record");
            report.warn(&format!("{shown}: left out {left_out} with more or fewer fields than the others"));
            Ok(Exit::Partial)
        });
    }
    let conversion = if arguments.test { Conversion::Test } else { Conversion::Unpack };
    files.each(report, |file, switches| files.one(file, conversion, switches, report))
}

impl Files {
    /// The name that was given to the new file. A file called - is written ./-.
    fn named(&self) -> Option<&PathBuf> {
        self.output.as_ref().filter(|name| *name != Path::new("-"))
    }

    /// Whether all goes to standard output, and the old files stay.
    fn is_to_stdout(&self) -> bool {
        self.stdout || self.output.as_deref() == Some(Path::new("-"))
    }

    /// Handles the files one by one. A failure does not keep the next from being tried; the exit code is the
    /// highest.
    fn each(&self, report: &Report, one: impl Fn(&Path, &Switches) -> Result<Exit>) -> Result<Exit> {
        if self.named().is_some() && self.files.len() > 1 {
            return Err(usage("--output names one file: give one FILE"));
        }
        if self.named().is_some() && self.files.iter().any(|file| file == Path::new("-")) {
            return Err(usage("- goes to standard output: redirect that, or leave --output out"));
        }
        let switches = Switches {
            threads: self.threads.map_or_else(cores, usize::from),
            keep: self.keep,
            force: self.force,
            named: self.named().is_some(),
            stop: commands::stop_flag(report)?,
            report: report.shared(),
        };
        let mut worst = Exit::Done;
        for file in &self.files {
            let exit = match one(file, &switches) {
                Ok(exit) => exit,
                Err(error) => {
                    let exit = Exit::of(&error);
                    if exit::is_reader_gone(&error) || self.files.len() == 1 || is_stop(exit) {
                        return Err(error);
                    }
                    report.error(&error, exit);
                    exit
                }
            };
            worst = if exit.code() > worst.code() { exit } else { worst };
        }
        Ok(worst)
    }

    fn one(&self, file: &Path, conversion: Conversion, switches: &Switches, report: &Report) -> Result<Exit> {
        let to_stdout = self.is_to_stdout() || file == Path::new("-");
        if conversion == Conversion::Test || to_stdout {
            if to_stdout && matches!(conversion, Conversion::Pack(_)) && io::stdout().is_terminal() {
                return Err(usage("compressed data is not written to a terminal: redirect standard output"));
            }
            let (shown, source) = repack::source(file, switches)?;
            let out = if to_stdout { report.output()? } else { exit::stdout() };
            let done = repack::stream(source, out, conversion, switches).with_context(|| shown.clone())?;
            if conversion == Conversion::Test {
                say(report, &shown, &done, None);
            }
            return Ok(Exit::Done);
        }
        let codec = repack::codec_of(&RealDisk, file)?;
        let name = match self.named() {
            Some(name) => name.clone(),
            None => new_name(file, codec, conversion)?,
        };
        let done = repack::file(&RealDisk, file, &name, conversion, switches)?;
        say(report, &file.display().to_string(), &done, Some(&name));
        Ok(Exit::Done)
    }
}

fn is_stop(exit: Exit) -> bool {
    matches!(exit, Exit::HungUp | Exit::Interrupted | Exit::Terminated)
}

/// The name of the new file if none was given.
fn new_name(file: &Path, codec: Codec, conversion: Conversion) -> Result<PathBuf> {
    let stem = without_extension(file, codec);
    let shown = file.display();
    match conversion {
        Conversion::Pack(job) => {
            let mut name = stem.unwrap_or_else(|| file.to_owned()).into_os_string();
            name.push(".");
            name.push(job.codec.extension());
            Ok(name.into())
        }
        _ if codec == Codec::Plain => {
            Err(failure::damage(format!("{shown}: {}", repack::NOT_COMPRESSED)))
        }
        _ => stem.ok_or_else(|| {
            usage(format!(
                "{shown} is {codec}, but its name does not end in .{}: name the new file with --output, or add \
                 --stdout",
                codec.extension()
            ))
        }),
    }
}

/// The name without the extension of its codec.
fn without_extension(file: &Path, codec: Codec) -> Option<PathBuf> {
    let end = file.extension()?.to_str()?;
    match (codec, end) {
        (Codec::Plain, _) => None,
        _ if end == codec.extension() => Some(file.with_extension("")),
        (Codec::Gzip, "tgz") | (Codec::Xz, "txz") | (Codec::Bzip2, "tbz2") | (Codec::Zstd, "tzst") => {
            Some(file.with_extension("tar"))
        }
        _ => None,
    }
}

/// Prints a line, or a message, for a finished file.
fn say(report: &Report, file: &str, done: &Converted, to: Option<&Path>) {
    if report.is_json() {
        let value = serde_json::json!({
            "message_type": "packed", "file": file, "to": to.map(|to| to.display().to_string()),
            "from_codec": done.from.to_string(), "to_codec": done.to.to_string(),
            "from_bytes": done.from_bytes, "to_bytes": done.to_bytes, "plain_bytes": done.plain_bytes,
            "removed": done.old == Old::Removed, "replaced": done.old == Old::Replaced,
        });
        report.message(&value).ok();
        return;
    }
    let text = match to {
        None => format!("{file}: {}, whole, {} when unpacked", done.from, report::size(done.plain_bytes)),
        Some(to) => format!(
            "{file} ({}) -> {} ({}){}, read back and equal; {}",
            report::size(done.from_bytes),
            to.display(),
            report::size(done.to_bytes),
            share(done),
            match done.old {
                Old::Removed => "the old file is removed",
                Old::Replaced => "it replaces the old file",
                Old::Stays => "the old file stays",
            },
        ),
    };
    report.note(&text);
}

/// The new size as a share of the plain bytes, if something was packed.
fn share(done: &Converted) -> String {
    if done.to == Codec::Plain || done.plain_bytes == 0 {
        return String::new();
    }
    format!(", {:.2} % of the text", report::as_f64(done.to_bytes) * 100.0 / report::as_f64(done.plain_bytes))
}
