//! Where the files are: on this machine, in a generation of a backup, or restored out of one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use block::restore::Request;
use block::{RunContext, tree};
use disk::{Disk, Kind, RealDisk};
use humanize::date_time;
use instance::Wanted;
use instance::binary_log::BinaryLog;
use instance::requirements::{NOTHING, Requirements};
use physical::{Consistency, Inconsistency, Source, TableFiles};
use progress::Progress;
use repository::Named;
use server::catalogue::Catalogue;
use server::snapshot;
use tempfile::TempDir;

use super::file_copies::FileCopies;
use super::{Arguments, chosen, selection};
use crate::commands;
use crate::report::Report;

/// The hint about files that may be of different points in time.
const FORCE: &str = "--force reads it as it is: rows may be missing, old, or never committed";

/// Files, and the folder or mount that must stay while they are read.
pub(super) struct Place {
    pub(super) disk: Box<dyn Disk>,
    pub(super) source: Source,
    /// What can't be read at all, a line each.
    pub(super) unread: Vec<String>,
    /// What the server that has recovered the files says of them, and its version. Only for a dump.
    pub(super) catalogue: Option<(Catalogue, String)>,
    backup: Option<Backup>,
    /// Copies that are read instead of files that a server may be changing.
    copies: Option<FileCopies>,
    /// Dropped before the folder that it is in, so that a volume is unmounted first.
    restored: Option<instance::Files>,
    _work: Option<TempDir>,
}

/// The backup that the files come from.
struct Backup {
    named: Named,
    generation: u64,
}

impl Backup {
    /// As it is named on the command line.
    fn shown(&self) -> String {
        format!("{}@{}", self.named.name, self.generation)
    }
}

impl Arguments {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            data_folder: self.data_folder.as_deref(),
            server: self.server.as_ref(),
            options: &self.server_option,
            work: self.work.as_deref(),
            needs: &NOTHING,
            account: None,
        }
    }

    fn jobs(&self) -> usize {
        self.threads.map_or_else(commands::cores, |threads| usize::from(threads.get()))
    }
}

impl Place {
    /// The files that the user named. A volume is restored first.
    pub(super) fn find(arguments: &Arguments, report: &Report, world: RunContext<'_>) -> Result<Place> {
        let text = arguments.source.to_string_lossy();
        if !repository::is_named(&text) {
            let path = std::path::absolute(&arguments.source)?;
            let source = Source::find(&RealDisk, &path)?;
            return Ok(Place {
                disk: Box::new(RealDisk),
                unread: source.unread.clone(),
                source,
                catalogue: None,
                backup: None,
                copies: None,
                restored: None,
                _work: None,
            });
        }
        let key = arguments.key.read_full()?;
        let (named, generation) = repository::one(&text, key.as_ref())?;
        if !named.is_tree(Request::new(generation, 1))? {
            report.note(&format!("{text} is a volume, so all of it is restored into a folder to work in"));
            return Place::restored(arguments, (named, generation), report, world);
        }
        let top = PathBuf::from(&named.name);
        let files = tree::Files::open(repository::one(&text, key.as_ref())?.0.repository, generation, &top)?;
        let backup = Backup { named, generation: files.generation() };
        let taken = date_time::shown(files.taken_s());
        report.note(&format!("reading {} of {taken}", backup.shown()));
        let data = match &arguments.data_folder {
            Some(path) => top.join(path.strip_prefix("/").unwrap_or(path)),
            None => data_folder(&files).map_or_else(|| top.clone(), |path| join(&top, path)),
        };
        let source = Source::find(&files, &data)?;
        let mut unread = links(&files, &top, &data);
        unread.extend(source.unread.iter().cloned());
        Ok(Place {
            disk: Box::new(files),
            source,
            unread,
            catalogue: None,
            backup: Some(backup),
            copies: None,
            restored: None,
            _work: None,
        })
    }

    /// The files of a generation, restored.
    fn restored(
        arguments: &Arguments,
        (named, generation): (Named, Option<u64>),
        report: &Report,
        world: RunContext<'_>,
    ) -> Result<Place> {
        let wanted = arguments.wanted();
        let work = wanted.work_folder()?;
        let request = Request::new(generation, arguments.jobs());
        let (summary, files) = instance::files(&named, work.path(), request, world)?;
        report.end();
        let backup = Backup { named, generation: summary.generation };
        let data = instance::data(&files, wanted)?;
        let source = Source::find(&RealDisk, &data)?;
        Ok(Place {
            disk: Box::new(RealDisk),
            unread: source.unread.clone(),
            source,
            catalogue: None,
            backup: Some(backup),
            copies: None,
            restored: Some(files),
            _work: Some(work),
        })
    }

    fn judge(&self, arguments: &Arguments) -> Result<Consistency> {
        let chosen: Vec<&TableFiles> = chosen(arguments, &self.source)?;
        Ok(self.source.check_consistency(&*self.disk, &chosen))
    }

    /// The files, if they can be trusted or the user insists. A data folder in a backup is recovered first if
    /// it was not that of a server that was shut down.
    pub(super) fn trusted(
        self,
        arguments: &Arguments,
        report: &Report,
        world: RunContext<'_>,
    ) -> Result<Place> {
        let Consistency::Inconsistent(doubt) = self.judge(arguments)? else { return Ok(self) };
        if arguments.force {
            report.warn(&doubt.to_string());
            if !arguments.deleted || self.backup.is_some() {
                return Ok(self);
            }
            let copies = FileCopies::of(&chosen(arguments, &self.source)?, arguments.wanted(), report)?;
            return Ok(Place { copies: Some(copies), ..self });
        }
        let Some(backup) = self.backup.as_ref().filter(|_| self.source.data.is_some()) else {
            bail!("{doubt}. {FORCE}");
        };
        let shown = backup.shown();
        let place = self.recovered(&doubt, arguments, report, world).with_context(|| {
            format!(
                "{shown} has to be recovered by a server before it is read, because {}; {FORCE}",
                doubt.what
            )
        })?;
        match place.judge(arguments)? {
            Consistency::Consistent => Ok(place),
            Consistency::Inconsistent(doubt) => {
                bail!("a server has recovered {shown}, and still: {doubt}. {FORCE}")
            }
        }
    }

    /// The same files, restored, after a server of our own has recovered them and was stopped.
    fn recovered(
        self,
        doubt: &Inconsistency,
        arguments: &Arguments,
        report: &Report,
        world: RunContext<'_>,
    ) -> Result<Place> {
        let wanted = arguments.wanted();
        let Some(data) = self.source.data.clone() else { return Ok(self) };
        let needs = match &self.backup {
            Some(Backup { named, generation }) => Requirements::of(&named.repository, Some(*generation))?,
            None => Requirements::noted(""),
        };
        let wanted = Wanted { needs: &needs, ..wanted };
        // Checked before anything that may take hours.
        let installation = instance::installation(&*self.disk, &data, wanted)?;
        report.note(&format!(
            "{}; a private {} recovers a copy of it first",
            doubt.what,
            installation.title()
        ));
        if arguments.deleted {
            report.warn("such a server also purges deleted rows; with --force the backup is read as it is");
        }
        let options = needs.options(wanted.options)?;
        let place = match self {
            Place { backup: Some(Backup { named, generation }), restored: None, .. } => {
                Place::restored(arguments, (named, Some(generation)), report, world)?
            }
            place => place,
        };
        let Some(data) = place.source.data.clone() else {
            bail!("the restored files are no data folder");
        };
        report.phase("recovering", None);
        instance::refuse_outside(&data)?;
        let log = BinaryLog::find(&data, needs.log())?;
        let mut server = instance::start(&data, log.as_ref(), Wanted { options: &options, ..wanted })?;
        instance::settle(&server, world.stop)?;
        let mut catalogue = None;
        if arguments.format.is_dump() {
            let mut session = snapshot::connect(&instance::target(&server)?)?;
            let selection = selection(arguments.names.clone(), arguments.exclude.clone());
            catalogue = Some((
                Catalogue::read(&mut session, &selection, &mut |_, _| {})?,
                session.about.version_text.clone(),
            ));
        }
        server.stop()?;
        report.end();
        let source = Source::find(&RealDisk, &data)?;
        Ok(Place { source, catalogue, ..place })
    }

    /// Where a file of a table is read.
    pub(super) fn path<'a>(&'a self, file: &'a Path) -> &'a Path {
        self.copies.as_ref().map_or(file, |copies| copies.path(file))
    }

    /// The generation that is read, if it is of a backup.
    pub(super) fn generation(&self) -> Option<u64> {
        self.backup.as_ref().map(|backup| backup.generation)
    }
}

/// `Path::join` would append a slash.
fn join(top: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { top.to_owned() } else { top.join(path) }
}

/// The folder with InnoDB's system tablespace, topmost first, relative to the top.
fn data_folder(files: &tree::Files) -> Option<&Path> {
    let named = files.nodes().filter(|node| node.kind == Kind::File && node.path.ends_with("ibdata1"));
    let folders = named.filter_map(|node| node.path.parent());
    let depth = |path: &&Path| path.components().count();
    folders.filter(|path| depth(path) <= instance::DEPTH_MAX).min_by_key(depth)
}

/// Links in the data folder, which may be databases that lie elsewhere.
fn links(files: &tree::Files, top: &Path, data: &Path) -> Vec<String> {
    let line = |node: &tree::Node| match &node.kind {
        Kind::Link(target) if join(top, &node.path).parent() == Some(data) => Some(format!(
            "{}: a symbolic link to {}, which is not read: a backup may not have what is there",
            node.path.display(),
            Path::new(target).display()
        )),
        _ => None,
    };
    files.nodes().filter_map(line).collect()
}
