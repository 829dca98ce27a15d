//! `remora restore`

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use block::World;
use block::restore::{Request, in_place, to_new_file};
use clap::Args;
use disk::{Disk, RealDisk};
use progress::Progress;
use serde_json::json;

use crate::exit::{self, Exit};
use crate::report::{self, Report};
use crate::{commands, repository};

const EXAMPLES: &str = "EXAMPLES
  remora restore /backup/disk.img --to /vm/new.img           the newest generation into a new file
  remora restore /backup/disk.img@12 --to /vm/new.img        generation 12
  remora restore /backup/data --to /dev/vg/data --delta      only blocks that differ";

/// Bring a generation back into a file or a device
///
/// Each block is proven by its hash before it is written, and all of them together by that of the volume. A new
/// file has its name only when it is whole. What is there already is written over only when that is asked for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The backups: REPO/NAME, or REPO if it holds but one name; @N for generation N [default: the newest]
    #[arg(value_name = "REPO[@GENERATION]")]
    from: String,

    /// A file or a block device; file: or block: may stand before it, as in backup
    #[arg(long, value_name = "PATH", value_parser = target)]
    to: PathBuf,

    /// Write into a target that is there, all of it
    #[arg(long, conflicts_with = "delta")]
    overwrite: bool,

    /// Write into a target that is there, but only the blocks that differ
    #[arg(long)]
    delta: bool,

    /// Threads that decompress and write [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

fn target(text: &str) -> Result<PathBuf, String> {
    let path = ["file:", "block:"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    if path.is_empty() { Err("a path is missing".to_owned()) } else { Ok(path.into()) }
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let began = Instant::now();
    let (named, generation) = repository::one(&arguments.from)?;
    let stop = commands::stop_flag(report)?;
    let world = World { stop: &stop, progress: report };
    let jobs = arguments.jobs.unwrap_or_else(commands::cores);
    let request = Request { generation, delta: arguments.delta, jobs };
    let there = std::fs::symlink_metadata(&arguments.to).is_ok();
    let target = arguments.to.display().to_string();
    let restored = if !there {
        to_new_file(&named.repository, &RealDisk, &arguments.to, request, world)
    } else if arguments.overwrite || arguments.delta {
        refuse_mounted(&arguments.to)?;
        let volume = RealDisk.volume(&arguments.to).map_err(|error| busy(error, &target))?;
        in_place(&named.repository, &*volume, &target, request, world)
    } else {
        return Err(exit::usage(format!(
            "{target} is there already; --delta writes the blocks that differ, --overwrite all"
        )));
    };
    report.end();
    let restored = restored?;
    let seconds = began.elapsed().as_secs_f64();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "name": named.name, "generation": restored.generation, "target": target,
            "bytes": restored.len, "bytes_written": restored.written, "seconds": seconds,
        }))?;
    } else {
        report.note(&format!(
            "{}@{} is in {target}: {}, {} of them written, {seconds:.1} s",
            named.name,
            restored.generation,
            report::size(restored.len),
            report::size(restored.written),
        ));
    }
    Ok(Exit::Done)
}

fn busy(error: std::io::Error, target: &str) -> anyhow::Error {
    let in_use = error.kind() == std::io::ErrorKind::ResourceBusy;
    let text = if in_use {
        format!("{target} is mounted or otherwise in use; unmount it first")
    } else {
        target.to_owned()
    };
    anyhow::Error::new(error).context(text)
}

/// A file that a loop device stands on must not change under what is mounted from it. Devices are refused by
/// the kernel.
fn refuse_mounted(path: &Path) -> Result<()> {
    let path = path.canonicalize().with_context(|| path.display().to_string())?;
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end_matches('\n')) == path {
            let device = entry.file_name().to_string_lossy().into_owned();
            anyhow::bail!("{} is in use as /dev/{device}; losetup -d /dev/{device} first", path.display());
        }
    }
    Ok(())
}
