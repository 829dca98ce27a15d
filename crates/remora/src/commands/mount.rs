//! `remora mount`

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use disk::{Disk, Output, RealDisk};
use failure::usage;
use humanize::text;
use instance::requirements::Requirements;
use mount::{InodeTable, Mount, WriteFolder};
use progress::{Progress, count};
use repository::Named;
use serde_json::json;

use crate::commands;
use crate::exit::Exit;
use crate::keys::KeyArguments;
use crate::report::{self, Report};

/// How often to check whether somebody has unmounted it.
const LOOK: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "EXAMPLES
  remora mount /backup /mnt                    every generation: /mnt/db1/12/..., until Ctrl-C or umount /mnt
  remora mount /backup/db1 /mnt &              those of one name
  umount /mnt
  cp /mnt/db1/12/app/orders.frm /tmp           only the blocks of what is read are fetched
  remora mount /backup/db1 /mnt --writable --options /root/own
  mariadbd --defaults-file=/root/own/db1-12.cnf        a server on generation 12; what it writes is gone in the end";

/// Show all generations of a repository as folders, without a restore
///
/// A generation is a folder NAME/N: the files of a tree as they were, or the file volume.img. What is read is
/// fetched block by block and proven by its hash; a damaged block is an error of the program that reads
/// (EIO), and is named here. Generations that are made meanwhile appear; as long as it is mounted a prune
/// removes no files.
///
/// It stays in the foreground until Ctrl-C, SIGTERM or 'umount DIR'. If it is killed, nothing stays mounted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// REPO, a folder or s3://BUCKET/PREFIX; or REPO/NAME for one name
    #[arg(value_name = "REPO")]
    repository: PathBuf,

    /// An empty folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Let programs write. The backup stays as it is: what they write goes, by block, into unnamed files, and
    /// is gone when this ends. So a server can be started on a generation
    #[arg(long)]
    writable: bool,

    /// With --writable: a new folder for an option file for each generation of a server's data, NAME-N.cnf. A
    /// server that is started with it has its own socket and its own folder for temporary files: with that of
    /// another server it would remove what that one needs
    #[arg(long, value_name = "FOLDER", requires = "writable")]
    options: Option<PathBuf>,

    /// With --writable: a folder with room for what is written [default: the one for temporary files]
    #[arg(long, value_name = "FOLDER", requires = "writable")]
    scratch: Option<PathBuf>,

    /// Let other users in too, as far as owners and rights of the files allow
    #[arg(long)]
    allow_other: bool,

    #[command(flatten)]
    key: KeyArguments,
}

pub(crate) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let text = arguments.repository.display();
    if text.to_string().rsplit_once('@').is_some_and(|(_, number)| number.parse::<u64>().is_ok())
        && !arguments.repository.exists()
    {
        return Err(usage(format!("{text}: all generations are mounted; leave @N out")));
    }
    let key = arguments.key.read_full()?;
    let names = repository::some(&arguments.repository, key.as_ref())?;
    let shown = count(names.len(), "name");
    let folder = std::path::absolute(&arguments.folder)?;
    if mount::free(&folder)? {
        report.note(&format!("{} was still mounted by a run that was killed", folder.display()));
    }
    let room = arguments.writable.then(|| room(arguments)).transpose()?;
    let stop = commands::stop_flag(report)?;
    let say = report.clone();
    if let Some(options) = &arguments.options {
        write_options(&names, &folder, options)?;
    }
    let homes = names.into_iter().map(|named| (named.name, named.home)).collect();
    let inodes = Arc::new(InodeTable::new(homes, key, room, Box::new(move |what| say.warn(what))));
    let mounted = Mount::new(&inodes, &folder, arguments.writable, arguments.allow_other)?;
    let folder = folder.display();
    if report.is_json() {
        report.message(&json!({"message_type": "mounted", "folder": folder.to_string()}))?;
    } else {
        report.note(&format!("{shown} of {text} on {folder}; Ctrl-C or 'umount {folder}' ends it"));
        if let Some(options) = &arguments.options {
            let options = options.display();
            report.note(&format!("a server on a generation: mariadbd --defaults-file={options}/NAME-N.cnf"));
        }
    }
    while !mounted.has_ended() && progress::pause(LOOK, &stop) {}
    drop(mounted);
    let fetched = inodes.fetched();
    if report.is_json() {
        report.message(
            &json!({"message_type": "summary", "folder": folder.to_string(), "bytes_fetched": fetched}),
        )?;
    } else {
        report.note(&format!("{folder} is unmounted; {} were fetched", report::size(fetched)));
    }
    Ok(if inodes.is_damaged() { Exit::Damaged } else { Exit::Done })
}

/// Writes an option file for each generation that has a server's data.
fn write_options(names: &[Named], mounted: &Path, folder: &Path) -> Result<()> {
    let folder = std::path::absolute(folder)?;
    let text = |path: &Path| text::path(path);
    // Only its owner may enter it, because such a server asks for no password.
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("--options {}", text(&folder)))?;
    for named in names {
        for generation in named.repository.list()?.generations {
            let needs = Requirements::noted(&generation.note);
            // Other trees have no such note.
            if needs.log().is_none() {
                continue;
            }
            let name = format!("{}-{}", named.name, generation.number);
            let own = folder.join(&name);
            RealDisk.create_folder(&own)?;
            let data = mounted.join(&named.name).join(generation.number.to_string());
            let mut file = Output::create(&RealDisk, &folder.join(format!("{name}.cnf")))?;
            writeln!(file, "[mariadbd]\ndatadir={}\ntmpdir={}", text(&data), text(&own))?;
            writeln!(file, "socket={0}/s\npid-file={0}/pid\nlog-error={0}/error.log", text(&own))?;
            writeln!(
                file,
                "skip-networking\nskip-grant-tables\nskip-log-bin\nskip-slave-start\nevent-scheduler=OFF"
            )?;
            if let Some(size) = needs.redo_bytes() {
                writeln!(file, "innodb-log-file-size={size}")?;
            }
            if rustix::process::geteuid().is_root() {
                writeln!(file, "user=root")?;
            }
            for option in needs.without_keys() {
                writeln!(file, "{}", option.trim_start_matches('-'))?;
            }
            file.finish()?;
        }
    }
    Ok(())
}

/// Where writes go.
fn room(arguments: &Arguments) -> Result<WriteFolder> {
    let folder = arguments.scratch.clone().unwrap_or_else(std::env::temp_dir);
    // Checked before somebody relies on it.
    tempfile::tempfile_in(&folder)
        .with_context(|| format!("nothing can be written to {}", folder.display()))?;
    Ok(WriteFolder::new(&folder))
}
