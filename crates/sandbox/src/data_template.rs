//! The data folder that every sandbox begins with: initialised once per server version, kept in the cache,
//! and copied.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::error::At;
use crate::folder::{self, Extent};
use crate::installation::system_tables;
use crate::table::SystemTables;
use crate::{Error, Installation, Places};

/// The version of an initialised folder's contents; older ones are not used.
const LAYOUT: u32 = 1;

/// Parts of a kept folder.
const DATA: &str = "data";
const TEMP: &str = "tmp";
const SEAL: &str = "seal.json";
const LOG: &str = "error.log";
const USERS: &str = "users.sql";

/// The file with a server's UUID, which no two servers may share.
const UUID: &str = "auto.cnf";

/// Makes `target` a data folder with system tables and a `root` without password who connects from this
/// machine, and nothing else: no anonymous user, no test database.
pub(crate) fn copy(installation: &Installation, places: &Places, target: &Path) -> Result<(), Error> {
    let shelf = places.pristine();
    folder::create(&shelf)?;
    let key = key(installation);
    let kept = shelf.join(&key);
    // Shared by threads and processes. It is held while copying too, or a repair could remove the folder
    // meanwhile.
    let _lock = folder::lock(&shelf.join(format!("{key}.lock")))?;
    let seal = match read_seal(&kept) {
        Some(seal) if folder::measure(&kept.join(DATA)).is_ok_and(|extent| extent == seal) => seal,
        _ => initialise(installation, &kept)?,
    };
    let copied = folder::copy(&kept.join(DATA), target)?;
    debug_assert_eq!(copied, seal, "the original is locked");
    Ok(())
}

/// Version strings are valid file names except for `/`, which no server has used so far.
fn key(installation: &Installation) -> String {
    let version = installation.version.replace('/', "_");
    format!("{}-{version}-{LAYOUT}", installation.product.id())
}

/// A folder without a seal was not completed.
fn read_seal(kept: &Path) -> Option<Extent> {
    serde_json::from_slice(&std::fs::read(kept.join(SEAL)).ok()?).ok()
}

fn initialise(installation: &Installation, kept: &Path) -> Result<Extent, Error> {
    folder::remove(kept)?;
    for part in [DATA, TEMP] {
        folder::create(&kept.join(part))?;
    }
    bootstrap(installation, kept)?;
    folder::remove_file(&kept.join(DATA).join(UUID))?;
    let extent = folder::measure(&kept.join(DATA))?;
    let text = serde_json::to_vec(&extent).at("cannot write", &kept.join(SEAL))?;
    folder::write(&kept.join(SEAL), &text)?;
    Ok(extent)
}

/// Runs the server once without network or users, as `mariadb-install-db` does.
fn bootstrap(installation: &Installation, kept: &Path) -> Result<(), Error> {
    let log = &kept.join(LOG);
    let bootstrap = &installation.product.server().bootstrap;
    let mut sql = Vec::new();
    let mut command = installation.command();
    command.args(installation.options(&kept.join(DATA), &kept.join(TEMP)));
    match bootstrap.tables {
        SystemTables::Files(files) => {
            sql = statements(&installation.share, files)?;
            sql.extend(bootstrap.users.as_bytes());
            command.args(["--bootstrap", "--max-allowed-packet=8M", "--net-buffer-length=16K"]);
            command.arg("--log-warnings=0");
        }
        SystemTables::Initialize => {
            folder::write(&kept.join(USERS), bootstrap.users.as_bytes())?;
            command.arg("--initialize-insecure");
            command.arg(format!("--init-file={}", kept.join(USERS).display()));
        }
    }
    command.args(bootstrap.options);
    let output = folder::log_file(log)?;
    command.stdout(output.try_clone().at("cannot share", log)?).stderr(output);
    let mut server = command.stdin(Stdio::piped()).spawn().at("cannot run", &installation.daemon)?;
    if let Some(mut input) = server.stdin.take() {
        // A server that refuses a statement ends and breaks the pipe; its log explains more than the pipe's
        // error.
        drop(input.write_all(&sql));
    }
    let status = server.wait().at("cannot wait for", &installation.daemon)?;
    if status.success() {
        return Ok(());
    }
    let (server, version) = (installation.title(), installation.version.clone());
    Err(Error::Initialise { server, version, log: folder::read_log(log, 0) })
}

/// The SQL that creates the tables. The server reads one statement per line, so a line must not contain two.
fn statements(share: &Path, files: &[&str]) -> Result<Vec<u8>, Error> {
    let prefix = system_tables(share).unwrap_or("mysql");
    let mut sql = b"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n".to_vec();
    for file in files {
        let path: PathBuf = share.join(file.replace('*', prefix));
        sql.extend(std::fs::read(&path).at("cannot read", &path)?);
        sql.push(b'\n');
    }
    Ok(sql)
}
