//! A private server on restored data: what `verify --boot` does to look, and `extract` to recover.

pub mod binary_log;
pub mod plugins;
pub mod requirements;
pub mod server_folders;
pub mod settings;
pub mod table_check;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use block::restore::{Request, to_new_file};
use block::{RepositoryReader, RunContext, tree};
use disk::{Disk, Output, RealDisk, Source};
use mount::{InodeTable, Mount, Warn, WriteFolder};
use physical::redo_copy::{self, is_copy};
use progress::{Progress, Shared};
use repository::Named;
use sandbox::{Family, Installation, Product, Sandbox, ServerChoice, Settings};
use server::{Overrides, Session, Target};

use self::binary_log::BinaryLog;
use self::requirements::{Requirements, leads_inside};
use crate::server_folders::server_folders;
use crate::settings::ELSEWHERE;

/// How deep in a volume a data folder may be.
pub const DEPTH_MAX: usize = 4;
/// Offset of the flags of InnoDB's system tablespace in its first page: FIL_PAGE_DATA (38) and
/// FSP_SPACE_FLAGS (16).
const FLAGS_AT: u64 = 54;

/// Options for a server that must not touch what nobody asked for.
pub const FRUGAL: [&str; 3] = [
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--innodb-buffer-pool-dump-at-shutdown=OFF",
    "--innodb-stats-auto-recalc=OFF",
];
/// The restored files, in the folder to work in.
pub const TREE: &str = "tree";
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
    /// Makes it.
    file: PathBuf,
}

impl Account {
    /// Prepares it, with a file in a folder.
    pub fn new(folder: &Path) -> Result<Account> {
        let name = format!("remora_{}", std::process::id());
        let file = folder.join("account.sql");
        let mut output = Output::create(&RealDisk, &file)?;
        writeln!(output, "SET sql_log_bin = 0;")?;
        // A plugin of the data may check passwords.
        writeln!(output, "SET GLOBAL strict_password_validation = OFF;")?;
        writeln!(output, "CREATE USER {name}@localhost IDENTIFIED VIA mysql_native_password USING '';")?;
        writeln!(output, "GRANT ALL ON *.* TO {name}@localhost WITH GRANT OPTION;")?;
        output.finish()?;
        Ok(Account { name, file })
    }

    /// Connects to a server that has it.
    pub fn connect(&self, server: &Sandbox) -> Result<Session> {
        Ok(target_as(server, &self.name)?.connect()?)
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

/// The restored files.
pub enum Files {
    /// A volume, mounted.
    Mounted(Mounted),
    /// A folder with the files.
    Folder(PathBuf),
    /// Not restored, but read where somebody touches them.
    Lazy(Lazy),
}

impl Files {
    /// The topmost folder.
    pub fn top(&self) -> &Path {
        match self {
            Files::Mounted(mounted) => &mounted.0,
            Files::Folder(folder) => folder,
            Files::Lazy(lazy) => lazy.inside.as_ref().map_or(&lazy.top, |mounted| &mounted.0),
        }
    }
}

/// A generation that is mounted only for us, and can be written to.
pub struct Lazy {
    /// The generation's folder.
    top: PathBuf,
    /// The file system in it, if it is a volume. Unmounted before what it is read from.
    inside: Option<Mounted>,
    /// The mounted tree.
    pub inodes: Arc<InodeTable>,
    _mount: Mount,
}

/// Mounts a generation in a folder of ours, without reading more of it than is touched. Returns its number.
pub fn lazy(named: &Named, generation: Option<u64>, work: &Path, say: Warn) -> Result<(u64, Files)> {
    let is_tree = named.is_tree(Request::new(generation, 1))?;
    let repository = repository::at(&named.home, named.key.as_ref())?;
    let number = RepositoryReader::open(repository)?.content(generation)?.generation();
    own_mounts()?;
    let folder = work.join("mount");
    RealDisk.create_folder(&folder)?;
    let inodes = InodeTable::new(
        vec![(named.name.clone(), named.home.clone())],
        named.key.clone(),
        Some(WriteFolder::new(work)),
        say,
    );
    let inodes = Arc::new(inodes);
    let mount = Mount::new(&inodes, &folder, true, false)?;
    let top: PathBuf = inodes.names().map(|name| folder.join(name).join(number.to_string())).collect();
    // What is wrong with it was told.
    fs::read_dir(&top).with_context(|| format!("generation {number} can't be read"))?;
    let inside = if is_tree { None } else { Some(Mounted::new(work, &top.join(mount::VOLUME))?) };
    Ok((number, Files::Lazy(Lazy { top, inside, inodes, _mount: mount })))
}

/// Mounts that only we and our children see from now on, and that end with us.
fn own_mounts() -> Result<()> {
    disk::unshare_mounts().context("mounts of our own")?;
    command("mount", &["--make-rprivate", "/"])?;
    Ok(())
}

/// Restores a generation into a folder of ours: its files, or a volume that is then mounted.
pub fn files(
    named: &Named,
    work: &Path,
    request: Request,
    world: RunContext<'_>,
) -> Result<(block::restore::Summary, Files)> {
    if named.is_tree(request)? {
        let folder = work.join(TREE);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let restored = tree::restore(&named.repository, (&disk, &RealDisk), &folder, request, world)?;
        return Ok((restored, Files::Folder(folder)));
    }
    // Before what may take hours.
    ensure!(rustix::process::geteuid().is_root(), "to mount a volume takes root; try with sudo");
    let image = work.join("image");
    let restored = to_new_file(&named.repository, &RealDisk, &image, request, world)?;
    Ok((restored, Files::Mounted(Mounted::new(work, &image)?)))
}

/// The files of the generation: mounted, or restored if nothing can be mounted here.
pub fn readable(
    named: &Named,
    generation: Option<u64>,
    (work, jobs, is_lazy): (&Path, usize, bool),
    stop: &AtomicBool,
    report: &Shared,
) -> Result<(u64, Files)> {
    if is_lazy && mount::is_possible() {
        let say = report.clone();
        return lazy(named, generation, work, Box::new(move |what| say.warn(what)));
    }
    report.note(if is_lazy {
        "without root and /dev/fuse nothing can be mounted, so all of it is restored first"
    } else {
        "it has tables with DATA DIRECTORY, which a replay may alter, so all of it is restored first"
    });
    let world = RunContext { stop, progress: report };
    let (restored, files) = files(named, work, Request::new(generation, jobs), world)?;
    Ok((restored.generation, files))
}

/// Copies the data folder out of a volume, as the restored files of a tree would be: what is not in it is not
/// read.
pub fn out_of_volume(
    named: &Named,
    generation: u64,
    (work, jobs): (&Path, usize),
    stop: &AtomicBool,
    report: &Shared,
) -> Result<()> {
    let (_, files) = readable(named, Some(generation), (work, jobs, true), stop, report)?;
    let found = data_folder(files.top(), DEPTH_MAX)
        .with_context(|| format!("there is no ibdata1 in the volume {}@{generation}", named.name))?;
    report.phase("copying the data folder out of the volume", None);
    let (from, to) = (found.display().to_string(), work.join(TREE).display().to_string());
    let copied = command("cp", &["-a", "--sparse=always", &from, &to]).map(drop);
    match &files {
        // The file system in it may have hidden the error.
        Files::Lazy(lazy) if lazy.inodes.is_damaged() => {
            let text =
                format!("what is needed of {}@{generation} is damaged; nothing is restored", named.name);
            Err(failure::damage(&text))
        }
        _ => copied,
    }
}

/// A volume that is mounted only for us: nobody else sees it, and it is unmounted however we end.
pub struct Mounted(PathBuf);

impl Mounted {
    fn new(work: &Path, image: &Path) -> Result<Mounted> {
        own_mounts()?;
        let folder = work.join("volume");
        RealDisk.create_folder(&folder)?;
        // Its name is removed at once: the mount keeps the file open.
        let file =
            fs::OpenOptions::new().read(true).write(true).open(image).context("the restored volume")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let ran = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", &path]).output();
        let ran = ran.context("blkid can't be started")?;
        let kind = String::from_utf8_lossy(&ran.stdout).into_owned();
        ensure!(ran.status.success(), "there is no file system in the volume that blkid knows");
        let options = match kind.trim() {
            // The original may be mounted too.
            "xfs" => "loop,nouuid",
            _ => "loop",
        };
        command("mount", &["-t", kind.trim(), "-o", options, &path, &folder.display().to_string()])?;
        RealDisk.remove(image)?;
        Ok(Mounted(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If this fails, the mount ends with this process.
        command("umount", &[&self.0.display().to_string()]).ok();
    }
}

fn command(program: &str, arguments: &[&str]) -> Result<String> {
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let ran = ran.with_context(|| format!("{program} can't be started"))?;
    let errors = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.success(), "{program} {}: {}", arguments.join(" "), errors.trim());
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// The data folder among restored files.
pub fn data(files: &Files, wanted: Wanted<'_>) -> Result<PathBuf> {
    match wanted.data_folder {
        Some(path) => Ok(files.top().join(path.strip_prefix("/").unwrap_or(path))),
        None => data_folder(files.top(), DEPTH_MAX)
            .context("there is no ibdata1 in the volume; --data-folder says where the data folder is"),
    }
}

/// The first folder with InnoDB's system tablespace, topmost first.
fn data_folder(root: &Path, depth: usize) -> Option<PathBuf> {
    let mut level = vec![root.to_owned()];
    for _ in 0..=depth {
        if let Some(found) = level.iter().find(|folder| folder.join("ibdata1").is_file()) {
            return Some(found.clone());
        }
        let below = level.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        level = folders.map(|entry| entry.path()).collect();
        level.sort();
    }
    None
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
    let fitting = || product(disk, data, wanted.needs.version()).map(ServerChoice::Product);
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

/// The version of the server for which the data were last upgraded, or which wrote the newest log beside
/// them, whichever is newer; or else of the one that made the newest of the system's tables. Empty if nothing
/// tells.
pub fn version(disk: &dyn Disk, data: &Path) -> String {
    let mut note = String::new();
    for name in ["mariadb_upgrade_info", "mysql_upgrade_info"] {
        let read = |mut file: Box<dyn Source>| file.read_to_string(&mut note);
        if disk.open(&data.join(name)).and_then(read).is_ok() {
            break;
        }
    }
    let noted = Some(note.trim_end_matches(['\n', '\0']).to_owned()).filter(|noted| !noted.is_empty());
    let noted = noted.or_else(|| upgrade_history(disk, data));
    // Nobody has to upgrade the system's tables for a newer server, which leaves nothing to an older one.
    let newest =
        noted.into_iter().chain(binary_log::version(disk, data)).max_by_key(|version| series(version));
    newest.or_else(|| version_of_tables(disk, &data.join("mysql"))).unwrap_or_default()
}

/// The version for which MySQL 8.4 or later has made or upgraded the data.
fn upgrade_history(disk: &dyn Disk, data: &Path) -> Option<String> {
    let file = disk.open(&data.join("mysql_upgrade_history")).ok()?;
    let note: serde_json::Value = serde_json::from_reader(file).ok()?;
    let last = note["upgrade_history"].as_array()?.last()?;
    Some(last["version"].as_str()?.to_owned())
}

/// The first two numbers of a version.
fn series(version: &str) -> (u16, u16) {
    let number = |part: &str| part.parse::<u16>().unwrap_or(0);
    let mut parts = version.split('.');
    (parts.next().map_or(0, number), parts.next().map_or(0, number))
}

/// The version of the newest server that has made a table in a folder: it is in the head of the
/// definition (`unireg.h` and `table.cc` of MariaDB's source).
fn version_of_tables(disk: &dyn Disk, folder: &Path) -> Option<String> {
    let is_definition =
        |name: &std::ffi::OsString| Path::new(name).extension().is_some_and(|end| end == "frm");
    let newest = disk.list(folder).ok()?.into_iter().filter(is_definition).filter_map(|name| {
        let mut head = [0; 55];
        let read = disk.open(&folder.join(name)).and_then(|file| file.read_full_at(0, &mut head)).ok()?;
        // A view's definition is a text.
        let is_table = read == head.len() && head.starts_with(&[0xFE, 1]);
        is_table.then(|| u32::from_le_bytes([head[51], head[52], head[53], head[54]]))
    });
    let number = newest.max().filter(|number| *number > 0)?;
    let family = if number < 100_000 { "" } else { "-MariaDB" };
    Some(format!("{}.{}.{}{family}", number / 10_000, number / 100 % 100, number % 100))
}

/// The server that had the data, or else that for which they were last upgraded.
fn product(disk: &dyn Disk, data: &Path, noted: Option<&str>) -> Result<Product> {
    let version = noted.map_or_else(|| version(disk, data), str::to_owned);
    let series = series(&version);
    // MySQL 8 and later have their dictionary in a tablespace.
    let has_dictionary = disk.stat(&data.join("mysql.ibd")).is_ok();
    let family = match series {
        _ if has_dictionary => Family::MySql,
        (5, _) if !version.contains("MariaDB") => Family::MySql,
        _ => Family::MariaDb,
    };
    if version.is_empty() {
        // An older server may refuse or harm the data, a newer one does not.
        let places = server_folders()?;
        let here = Product::ALL
            .into_iter()
            .filter(|product| product.family() == family && sandbox::find(&places, *product).is_ok());
        if let Some(newest) = here.max_by_key(|product| product.series()) {
            return Ok(newest);
        }
    }
    Product::for_data(family, series).with_context(|| {
        format!(
            "the data are of {family} {version}, and there is no server here that takes them; --server chooses one, or the \
             path of a program such as mysqld"
        )
    })
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
    target_as(server, "root")
}

fn target_as(server: &Sandbox, user: &str) -> Result<Target> {
    let overrides = Overrides {
        socket: Some(server.socket().to_owned()),
        user: Some(user.to_owned()),
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
        let prepared = session.strings("XA RECOVER")?.len();
        let open = session.strings("SELECT trx_id FROM information_schema.innodb_trx")?.len();
        if open <= prepared {
            return Ok(());
        }
        if !progress::pause(LOOK_AGAIN, stop) {
            return Err(block::Error::Stopped.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use disk::{Disk, RealDisk};
    use sandbox::Product;

    use crate::{product, version};

    #[test]
    fn the_server_that_had_the_data_is_started_and_not_the_one_that_made_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mysql_upgrade_info");
        RealDisk.create(&path).unwrap().write_all(b"10.11.6-MariaDB\0").unwrap();
        assert_eq!(version(&RealDisk, folder.path()), "10.11.6-MariaDB");
        let found = |noted| product(&RealDisk, folder.path(), noted).unwrap();
        assert_eq!(found(None), Product::MariaDb1011);
        assert_eq!(found(Some("11.8.6-MariaDB-0+deb13u1-log")), Product::MariaDb118);
    }

    #[test]
    fn data_of_mysql_say_for_which_server_they_were_upgraded() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            // It may be there from before.
            RealDisk.remove(&path).ok();
            RealDisk.create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        write("mysql.ibd", "");
        let of = |old: &str, new: &str| {
            let entries = format!(r#"{{"version":"{old}","initialize":true}},{{"version":"{new}"}}"#);
            write("mysql_upgrade_history", &format!(r#"{{"upgrade_history":[{entries}]}}"#));
            product(&RealDisk, folder.path(), None).map_err(|error| error.to_string())
        };
        assert_eq!(of("8.0.36", "8.4.3"), Ok(Product::MySql97));
        assert_eq!(of("8.4.3", "9.7.4-2"), Ok(Product::MySql97));
        let refused = of("5.7.44", "8.0.36").unwrap_err();
        assert!(refused.contains("MySQL 8.0.36") && refused.contains("--server"), "{refused}");
        assert_eq!(product(&RealDisk, folder.path(), Some("9.0.1")).unwrap(), Product::MySql97);
    }
}
