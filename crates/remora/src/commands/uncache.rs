//! `remora uncache`

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use disk::{Disk, RealDisk};
use humanize::text;
use page_cache::find::{self, Found};
use page_cache::resident::{self, Look, bar, held};
use progress::{Progress, count};
use serde_json::json;

use crate::exit::Exit;
use crate::report::{Report, size};

const EXAMPLES: &str = "EXAMPLES
  remora uncache --show /var/lib/mysql -r          show how much of a server's files is in memory
  remora uncache /backup/shop.sql.zst              a file that nobody will read again
  remora uncache -r --sync /backup                 also what was just written
  remora uncache -r /data --exclude '*.ibd' --exclude 'ib_logfile*'";

/// Take files out of the page cache
///
/// Memory that holds a file which nobody will read again is missing elsewhere. This asks the kernel to forget
/// the pages of the given files, and shows how much of each was in memory before and after. Nothing is lost:
/// what is not on disk yet stays until it is, and so does what a program has mapped or locked.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files, block devices, or patterns in quotes; folders with -r
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Go into folders and all folders in them; links in them are not followed
    #[arg(short, long)]
    recursive: bool,

    /// Leave out files and folders with such a name; a pattern with a slash is matched with the whole path
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,

    /// First write what is not on disk yet, so that it can go as well
    #[arg(long, conflicts_with = "show")]
    sync: bool,

    /// Only show what is in memory: a bar for each file
    #[arg(long)]
    show: bool,
}

/// Sums over all files.
#[derive(Default)]
struct Sums {
    files: u64,
    /// Bytes of the files for which the kernel answers.
    bytes: u64,
    before: u64,
    after: u64,
    dirty: u64,
    /// Files for which the kernel does not answer.
    untold: u64,
    failed: u64,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let Found { files, left_out } = find::files(&arguments.paths, &arguments.exclude, arguments.recursive)?;
    left_out.iter().for_each(|text| report.warn(text));
    let mut sums = Sums::default();
    for path in &files {
        let done = match arguments.show {
            true => show(path, &mut sums, report),
            false => evict(path, arguments.sync, &mut sums, report),
        };
        if let Err(error) = done {
            if crate::exit::is_reader_gone(&error) {
                return Err(error);
            }
            report.warn(&format!("{}: {error:#}", text::path(path)));
            sums.failed += 1;
        }
    }
    tell(arguments, &sums, report)?;
    match (sums.files, left_out.is_empty() && sums.failed == 0) {
        (_, true) => Ok(Exit::Done),
        (0, false) => bail!("nothing was done; the reasons are above"),
        (_, false) => Ok(Exit::Partial),
    }
}

fn show(path: &Path, sums: &mut Sums, report: &Report) -> Result<()> {
    let source = RealDisk.open(path)?;
    let Some(look) = Look::at(&*source)? else { return untold(path, source.stat()?.len, sums, report) };
    sums.add(&look, &look);
    if report.is_json() {
        report.message(&json!({
            "message_type": "file", "path": path.display().to_string(), "bytes": look.len, "resident": look.there,
            "dirty": look.dirty,
        }))?;
    } else if !report.is_quiet() {
        let bar = bar(&*source, look.len)?;
        report.data(&format!("[{bar}] {}  {}{}", held(&look), text::path(path), unwritten(&look)))?;
    }
    Ok(())
}

fn evict(path: &Path, sync: bool, sums: &mut Sums, report: &Report) -> Result<()> {
    let source = RealDisk.open(path)?;
    let before = Look::at(&*source)?;
    if sync {
        // After a failed write the page cache has the only copy, so nothing is dropped then.
        source.write_out()?;
    }
    source.forget(0, 0);
    let (Some(before), Some(after)) = (before, Look::at(&*source)?) else {
        return untold(path, source.stat()?.len, sums, report);
    };
    sums.add(&before, &after);
    if report.is_json() {
        report.message(&json!({
            "message_type": "file", "path": path.display().to_string(), "bytes": after.len,
            "resident_before": before.there, "resident_after": after.there,
            "dirty_before": before.dirty, "dirty_after": after.dirty,
        }))?;
    } else if before.there + after.there > 0 && !report.is_quiet() {
        let (was, is, of) = (size(before.there), size(after.there), size(after.len));
        let why = resident::why(&after, sync).map(|why| format!("  ({why})")).unwrap_or_default();
        report.data(&format!("{was:>9} -> {is:>9} of {of:>9}  {}{why}", text::path(path)))?;
    }
    Ok(())
}

/// A file of another user: the kernel does not say what is cached.
fn untold(path: &Path, len: u64, sums: &mut Sums, report: &Report) -> Result<()> {
    sums.files += 1;
    sums.untold += 1;
    if report.is_json() {
        report.message(&json!({
            "message_type": "file", "path": path.display().to_string(), "bytes": len,
            "resident": null, "resident_before": null, "resident_after": null,
        }))?;
    } else if !report.is_quiet() {
        report.data(&format!("unknown                     {:>9}  {}", size(len), text::path(path)))?;
    }
    Ok(())
}

fn unwritten(look: &Look) -> String {
    match look.dirty {
        Some(dirty) if dirty > 0 => format!("  ({} not on disk yet)", size(dirty)),
        _ => String::new(),
    }
}

impl Sums {
    fn add(&mut self, before: &Look, after: &Look) {
        self.files += 1;
        self.bytes += after.len;
        self.before += before.there;
        self.after += after.there;
        self.dirty += after.dirty.unwrap_or(0);
    }
}

fn tell(arguments: &Arguments, sums: &Sums, report: &Report) -> Result<()> {
    let Sums { files, bytes, before, after, dirty, untold, failed } = *sums;
    if report.is_json() {
        let mut line = json!({
            "message_type": "summary", "files": files, "bytes": bytes, "files_untold": untold, "files_failed": failed,
        });
        if arguments.show {
            line["resident"] = json!(after);
        } else {
            line["resident_before"] = json!(before);
            line["resident_after"] = json!(after);
        }
        report.message(&line)?;
        return Ok(());
    }
    if untold > 0 {
        report.note(&format!(
            "for {} the kernel does not say what is in memory: it answers only the owner, those who may write, and root",
            count(untold, "file"),
        ));
    }
    let (told, bytes) = (count(files - untold, "file"), size(bytes));
    if arguments.show {
        report.note(&format!("{told}, {bytes}: {} in memory", size(after)));
    } else {
        report.note(&format!("{told}, {bytes}: {} in memory before, {} now", size(before), size(after)));
    }
    if dirty > 0 && !arguments.show && !arguments.sync {
        report.note(&format!("{} was not on disk yet: --sync writes it first", size(dirty)));
    }
    Ok(())
}
