//! A running server that is copied file by file, on any file system: no snapshot is needed.
//!
//! Pages are read while the server writes them. The redo log is followed from the last checkpoint before the
//! first page was read, so a server that starts on the copy brings all pages to the LSN at which the log was
//! cut. What the log does not cover is read while `BACKUP STAGE` blocks DDL and then commits, and the log is
//! cut while nobody commits: the copy has exactly what is committed at the position of the binary log that is
//! noted.
//!
//! [`HotCopy::find`] says whether a server can be copied in this way. Each phase of a copy has a type of its
//! own, made of the one before it:
//!
//! | phase | the server | what is read |
//! |---|---|---|
//! | `FirstPass` | works | pages, closed files of the binary log and of queues |
//! | `DdlBlocked` | changes no definitions | tables without transactions; tables that DDL has changed |
//! | `CommitsBlocked` | commits nothing | what is left, which is staged |
//! | `Released` | works | the redo log up to its end, which is verified |
//! | `Stored` | works | the staged files |
//!
//! The copy is a volume of three regions ([`LayoutBuilder`]), for the first, the second and the last phase.

mod backup_stage;
mod binary_log;
mod changed_pages;
mod commits_blocked;
mod control_file;
mod data_files;
mod ddl_blocked;
mod feed;
mod file;
mod file_list;
mod file_places;
mod first_pass;
#[cfg(test)]
mod fixture;
mod listing;
mod preflight;
mod queue;
mod quiesce;
mod read_files;
mod redo_log;
mod region;
mod released;
mod running_server;
mod spool;
mod staged_files;
mod staging;
mod stale_pages;
mod tablespaces;

use std::io;
use std::path::{Path, PathBuf};

use block::tree::LayoutBuilder;
use host::Machine;
use instance::settings;
use serde_json::{Value, json};
use snapshot::server::Login;
use snapshot::server_files::{self, Reach};

pub use self::changed_pages::Before;
use self::data_files::DataFiles;
pub use self::feed::HotFeed;
use self::feed::Phase;
use self::file::Names;
use self::file_places::Places;
use self::first_pass::FirstPass;
use self::running_server::RunningServer;
use self::staged_files::StagedFiles;
use self::stale_pages::StalePages;

/// A server that can be copied in this way.
pub struct HotCopy<'a> {
    login: &'a Login<'a>,
    session: ::server::Session,
    files: DataFiles<'a>,
    /// What the user should know about things that the copy lacks.
    lacks: Vec<String>,
}

impl<'a> HotCopy<'a> {
    /// Finds the server's data.
    ///
    /// # Errors
    /// Why they can't be copied.
    pub fn find(machine: &'a Machine, login: &'a Login<'a>) -> io::Result<HotCopy<'a>> {
        let (_, mut session) = login.connect(machine)?;
        preflight::server(&mut session)?;
        // All that is missing, and not one after the other. Without a log there is none to see.
        if session.about.log_bin {
            ::server::required_privileges::require(
                &mut session,
                &[::server::required_privileges::Task::Copy],
            )
            .map_err(io::Error::other)?;
        }
        let mut places = Places::of(&mut session, machine)?;
        places.list(machine)?;
        let outside = places.outside(machine)?;
        let log_folder = places.log.parent().unwrap_or(&places.data);
        let folders: Vec<&Path> =
            outside.iter().map(PathBuf::as_path).chain([&*places.data, log_folder]).collect();
        let reach = Reach::Folders(&folders);
        let mut lacks = server_files::check_settings(&mut session, machine, &places.data, &reach)?;
        if let Some(keys) = preflight::keys(&mut session)? {
            let file = keys["file"].as_str().unwrap_or_default();
            lacks.push(format!("tablespaces are encrypted: the keys are not in the backup; keep {file}"));
        }
        let system = places.system().map(Path::to_owned).collect();
        let inside = |written: &Path, real: &Path| places.inside(written, real);
        let names = Names::of(&mut session, machine, (&places.data, system), inside)?;
        let system = places.system().next().map(|system| places.real(system));
        system.map_or(Ok(()), |system| preflight::new_system(machine, &system))?;
        Ok(HotCopy { login, session, files: DataFiles { machine, places, names }, lacks })
    }

    /// Links in the data folder that lead to nothing, so that the server has nothing there either.
    pub fn dangling(&self) -> &[PathBuf] {
        &self.files.places.dangling
    }

    /// Whether a place would be in a copy of the data folder, or will be once it is made.
    pub fn has(&self, place: &Path) -> bool {
        self.files.places.has(place)
    }

    /// The paths that the files that there are now have in a copy.
    ///
    /// # Errors
    /// Errors of listing the folders.
    pub fn paths(&mut self) -> io::Result<Vec<PathBuf>> {
        let nodes = self.files.list()?.nodes;
        let link_files = self.files.places.link_files.iter().map(|(node, _)| node.path.clone());
        Ok(nodes.into_iter().map(|node| node.path).chain(link_files).collect())
    }

    /// Begins a copy. Staged files go to a file without a name in `room`. `before`: where the files were in
    /// the generation before, and what was noted of it.
    ///
    /// # Errors
    /// Why the server can't be copied now.
    pub fn begin(
        mut self,
        room: &Path,
        before: Option<&Before<'_>>,
        mut note: Value,
    ) -> io::Result<HotFeed<'a>> {
        let (login, mut files) = (self.login, self.files);
        self.lacks.iter().for_each(|line| login.report.note(line));
        let started = changed_pages::started(&mut self.session)?;
        note["server"] = settings::note(&mut self.session).map_err(io::Error::other)?;
        let server = RunningServer::begin(login, self.session, &files, room)?;
        note["log"] = json!({"of": stale_pages::identity(&files)?, "started": started});
        let since = before.and_then(|before| stale_pages::since(before.note, &note, server.log.checkpoint));
        let stale = StalePages::new(since, files.page_bytes());
        let layout = LayoutBuilder::new(before.map(|before| before.layout), files.names.page_bytes);
        let staged = StagedFiles::new(room)?;
        let (first, region) = FirstPass::begin(&mut files, server, layout, staged)?;
        Ok(HotFeed { login, files, phase: Phase::FirstPass(first), region, stale, note })
    }
}

fn ended() -> io::Error {
    io::Error::other("the copy had ended before")
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
