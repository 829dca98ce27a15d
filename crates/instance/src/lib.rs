//! A private server on restored data: what `verify --boot` does to look, and `extract` to recover.

pub mod binary_log;
pub mod boot;
pub mod plugins;
mod product;
pub mod requirements;
mod restored_files;
pub mod server_folders;
pub mod settings;
pub mod table_check;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use disk::{Disk, Output, RealDisk};
use physical::redo_copy::{self, is_copy};
use sandbox::{Installation, Sandbox, ServerChoice, Settings};
use server::{Flavour, Overrides, Password, Session, Target};

use self::binary_log::BinaryLog;
use self::requirements::{Requirements, leads_inside};
use crate::server_folders::server_folders;
use crate::settings::ELSEWHERE;

pub use self::product::version;
use self::restored_files::data_folder;
pub use self::restored_files::{
    DEPTH_MAX, Files, Lazy, Mounted, TREE, Work, files, lazy, out_of_volume, readable,
};

/// Offset of the flags of InnoDB's system tablespace in its first page: FIL_PAGE_DATA (38) and
/// FSP_SPACE_FLAGS (16).
const FLAGS_AT: u64 = 54;

/// Options for a server that must not touch what nobody asked for.
pub const FRUGAL: [&str; 3] = [
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-buffer-pool-dump-at-shutdown=OFF",
    "--innodb-stats-auto-recalc=OFF",
];
/// How long to wait before asking again whether everything is rolled back.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The option with which a server has the engine of queues.
pub const QUEUES: &str = "--plugin-load-add=ha_queue";

/// How the user wants the server.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Where in the volume the data folder is; none: it is searched for.
    pub data_folder: Option<&'a Path>,
    /// Which server; none: the one that the data folder calls for.
    pub server: Option<&'a ServerChoice>,
    /// Further options for it.
    pub options: &'a [String],
    /// A folder to work in; none: the one for temporary files.
    pub work: Option<&'a Path>,
    /// What was noted when the data were copied.
    pub needs: &'a Requirements,
    /// Our own account, if the server must know accounts; none: everybody may do everything.
    pub account: Option<&'a Account>,
}

/// An account in the private server. Without accounts it would neither make events nor load functions.
#[derive(Clone, Debug)]
pub struct Account {
    name: String,
    password: String,
    /// Makes it.
    file: PathBuf,
}

impl Account {
    /// Prepares it for a server of that family, with a file in a folder.
    pub fn new(folder: &Path, flavour: Flavour) -> Result<Account> {
        let name = format!("remora_{}", std::process::id());
        let file = folder.join("account.sql");
        let mut output = Output::create(&RealDisk, &file)?;
        writeln!(output, "SET sql_log_bin = 0;")?;
        // A plugin of the data may check passwords.
        let password = match flavour {
            Flavour::MariaDb => {
                writeln!(output, "SET GLOBAL strict_password_validation = OFF;")?;
                writeln!(
                    output,
                    "CREATE USER {name}@localhost IDENTIFIED VIA mysql_native_password USING '';"
                )?;
                String::new()
            }
            Flavour::MySql => {
                let password = Password::random()?.expose().to_owned();
                writeln!(output, "CREATE USER {name}@localhost IDENTIFIED BY '{password}';")?;
                password
            }
        };
        writeln!(output, "GRANT ALL ON *.* TO {name}@localhost WITH GRANT OPTION;")?;
        output.finish()?;
        Ok(Account { name, password, file })
    }

    /// Connects to a server that has it.
    pub fn connect(&self, server: &Sandbox) -> Result<Session> {
        let mut session = target_as(server, &self.name, &self.password)?.connect()?;
        // With GTIDs, MySQL 5.6 must write a log to apply one, and what is done here is not part of it.
        session.execute("SET sql_log_bin = 0")?;
        Ok(session)
    }

    /// Removes it: it is not part of the data.
    pub fn remove(&self, session: &mut Session) -> Result<()> {
        session.execute(&format!("DROP USER {}@localhost", self.name))?;
        Ok(())
    }
}

impl Wanted<'_> {
    /// A new folder, which is removed when this is dropped.
    pub fn work_folder(&self) -> Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("remora-boot-");
        self.work
            .map_or_else(|| builder.tempdir(), |work| builder.tempdir_in(work))
            .context("a folder to work in")
    }
}

/// The data folder among restored files.
pub fn data(files: &Files, wanted: Wanted<'_>) -> Result<PathBuf> {
    match wanted.data_folder {
        Some(path) => Ok(files.top().join(path.strip_prefix("/").unwrap_or(path))),
        None => data_folder(files.top(), DEPTH_MAX)
            .context("there is no ibdata1 in the volume; --data-folder says where the data folder is"),
    }
}

/// Refuses links: a server follows them out of the data folder, and the original server may be using what is
/// there. Link files of tables may lead to what is in the folder.
pub fn refuse_outside(data: &Path) -> Result<()> {
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            let is_link_file = path.extension().is_some_and(|end| end == "isl");
            if kind.is_symlink() || is_link_file && !leads_inside(&fs::read(&path)?) {
                bail!(
                    "{} leads out of the volume: a server would work on what it finds there; restore the volume and \
                     what belongs to it to another machine and start it there",
                    path.display()
                );
            }
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// The programs of the server for a data folder.
///
/// # Errors
/// When there are none on this machine, with the command that brings them.
pub fn installation(disk: &dyn Disk, data: &Path, wanted: Wanted<'_>) -> Result<Installation> {
    let fitting = || product::of(disk, data, wanted.needs.version()).map(ServerChoice::Product);
    let server = wanted.server.cloned().map_or_else(fitting, Ok)?;
    Ok(server.find(&server_folders()?)?)
}

/// Starts a server that fits the data and that nobody else can reach.
pub fn start(data: &Path, log: Option<&BinaryLog>, wanted: Wanted<'_>) -> Result<Sandbox> {
    let (places, installation) = (server_folders()?, installation(&RealDisk, data, wanted)?);
    let mut fitting = vec![
        "--skip-slave-start".to_owned(),
        "--event-scheduler=OFF".to_owned(),
        // It makes no table in another folder, whatever DATA DIRECTORY of a definition or a log says.
        "--skip-symbolic-links".to_owned(),
        format!("--innodb-page-size={}", page_size(data)?),
    ];
    match wanted.account {
        Some(account) => {
            fitting.push(format!("--init-file={}", account.file.display()));
            // It loads the plugins that the original has installed, and must not go where these would.
            // The long form: a server that lacks CONNECT takes --connect for the beginning of another option.
            fitting.extend(ELSEWHERE.map(|engine| format!("--loose-plugin-{}=OFF", engine.to_lowercase())));
            fitting.push("--loose-feedback=OFF".to_owned());
        }
        None => fitting.push("--skip-grant-tables".to_owned()),
    }
    if let Some(size) = log_size(data) {
        fitting.push(format!("--innodb-log-file-size={size}"));
    }
    // The binary log tells whether a prepared transaction was committed.
    match log {
        Some(log) => fitting.extend([format!("--log-bin={}", log.name), "--server-id=1".to_owned()]),
        None => fitting.push("--skip-log-bin".to_owned()),
    }
    let given = |what: &str| wanted.options.iter().any(|option| option.starts_with(what));
    let mut plugins = None;
    if has_queues(data) || given(QUEUES) {
        if !given(QUEUES) {
            fitting.push(QUEUES.to_owned());
        }
        // The server looks for it where the user says.
        plugins = if given("--plugin-dir") { None } else { plugins::engine(&installation)? };
    }
    fitting.extend(wanted.options.iter().cloned());
    let plugins = plugins.into_iter().collect();
    let settings = Settings { data: Some(data.to_owned()), options: fitting, plugins, ..Settings::default() };
    let started = Sandbox::start(&installation, &places, &settings).map_err(Into::into);
    match log {
        Some(log) => log.explain(started),
        None => started,
    }
}

/// Whether there are tables of ENGINE=QUEUE.
fn has_queues(data: &Path) -> bool {
    let entries = |of: &Path| fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_queue = |path: PathBuf| path.strip_prefix(data).is_ok_and(plugins::is_queue) && path.is_dir();
    entries(data).any(|schema| entries(&schema).any(is_queue))
}

/// The size of the redo log with which a server recovers the data.
fn log_size(data: &Path) -> Option<u64> {
    let file = RealDisk.open(&data.join("ib_logfile0")).ok()?;
    let len = file.stat().ok()?.len;
    let mut head = [0; 64];
    let read = file.read_full_at(0, &mut head).ok()?;
    Some(if is_copy(&head[..read]) { redo_copy::log_size(len) } else { len })
}

/// InnoDB's page size in bytes, from the flags of its system tablespace (fsp0types.h, MariaDB's full_crc32
/// flags).
fn page_size(data: &Path) -> Result<u32> {
    let path = data.join("ibdata1");
    let mut flags = [0; 4];
    let count = RealDisk.open(&path)?.read_full_at(FLAGS_AT, &mut flags)?;
    ensure!(count == 4, "{} is cut off", path.display());
    let flags = u32::from_be_bytes(flags);
    let size = if flags & 1 << 4 == 0 { flags >> 6 & 15 } else { flags & 15 };
    Ok(if size == 0 { 16 << 10 } else { 512 << size })
}

/// Connects to such a server as its administrator.
pub fn connect(server: &Sandbox) -> Result<Session> {
    Ok(target(server)?.connect()?)
}

/// How to reach such a server.
pub fn target(server: &Sandbox) -> Result<Target> {
    target_as(server, "root", "")
}

fn target_as(server: &Sandbox, user: &str, password: &str) -> Result<Target> {
    let overrides = Overrides {
        socket: Some(server.socket().to_owned()),
        user: Some(user.to_owned()),
        password: (!password.is_empty()).then(|| password.to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Ok(Target::resolve(&overrides, &server::Environment::default())?)
}

/// Waits until the transactions that were open when the original server ended are rolled back. A server that
/// is shut down before that leaves the rest to its next start. Those in XA PREPARE stay.
pub fn settle(server: &Sandbox, stop: &AtomicBool) -> Result<()> {
    let mut session = connect(server)?;
    loop {
        let prepared = server::prepared_xa(&mut session)?.len();
        let open = session.strings("SELECT trx_id FROM information_schema.innodb_trx")?.len();
        if open <= prepared {
            return Ok(());
        }
        if !progress::pause(LOOK_AGAIN, stop) {
            return Err(block::Error::Stopped.into());
        }
    }
}
