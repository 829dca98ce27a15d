//! All steps in their order. What is needed later comes first: a password is in its file before it is in the
//! server.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use failure::usage;
use repository::{KeyFile, Location, Named, address};
use server::{Flavour, Session};

use crate::files::{self, Folders};
use crate::step::{Step, What};
use crate::{Request, account};

/// The account of the system that the units have.
const SYSTEM_ACCOUNT: &str = "remora";

/// The first MariaDB that is copied while it runs.
const COPIED_SINCE: (u16, u16) = (10, 8);

/// What is to be done.
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The option file of the account.
    pub option_file: PathBuf,
    /// The key with which this machine adds backups, if they are encrypted.
    pub key: Option<PathBuf>,
    /// Whether commands for the system mean this machine.
    pub has_system: bool,
    /// What the reader must know.
    pub notes: Vec<String>,
}

impl Plan {
    /// The plan for a server. `session` is one of it.
    ///
    /// # Errors
    /// If the name is encrypted with another key, or a file can't be read.
    pub fn make(request: &Request, session: &mut Session) -> Result<Plan> {
        let name = request.name.as_str();
        let folders = Folders { etc: request.etc.clone(), name: name.to_owned() };
        let home = Location::new(&request.to, name)?;
        match request.encrypt {
            true => refuse_another_key((name, home), &folders.own("key"))?,
            false => repository::may_be_in_clear(&request.to, &home)?,
        }
        let text = |value: Option<String>| value.unwrap_or_default();
        let socket = text(session.value("SELECT @@socket")?);
        let has_log = session.value("SELECT @@log_bin")?.as_deref() == Some("1");
        let about = &session.about;
        let version = (about.version.major, about.version.minor);
        let as_root = about.flavour == Flavour::MySql || version < COPIED_SINCE;
        let option_file = folders.own("cnf");
        let password = account::password(&option_file)?;
        let option_text = |password: &str| files::option_file(&request.account, password, &socket);
        let places: Vec<&Path> =
            [Some(&request.to), request.copy_to.as_ref()].into_iter().flatten().map(|path| &**path).collect();
        let mut steps = system_steps(&places, name, if as_root { "root" } else { SYSTEM_ACCOUNT });
        steps.push(Step::secret_file(
            option_file.clone(),
            0o600,
            option_text(&password),
            option_text(account::MASK),
        )?);
        steps.push(account::step(&request.account, &option_file, &password, session)?);
        steps.push(Step::file(folders.own("env"), 0o600, settings(request, &socket)?)?);
        if let Some(copy) = &request.copy_to {
            steps.push(Step::file(folders.own("mirror"), 0o600, format!("COPY={}\n", value(copy)?))?);
        }
        let keep = request.keep.join(" ");
        if !keep.is_empty() {
            steps.push(Step::file(folders.own("keep"), 0o600, format!("KEEP={keep}\n"))?);
        }
        let store = files::store(&folders, &places)?;
        let mut notes = Vec::new();
        let has_credentials =
            std::env::var_os("AWS_ACCESS_KEY_ID").is_some() || folders.own("store").exists();
        if store.is_some() && !has_credentials {
            let file = folders.own("store").display().to_string();
            notes.push(format!(
                "the credentials of the store are not in the environment: write them into {file}"
            ));
        }
        steps.extend(store);
        let (full_key, key) = (folders.own("full-key"), folders.own("key"));
        if request.encrypt {
            // Whoever has carried the full key away does not get another one.
            steps.push(Step::of(What::FullKey(full_key.clone()), full_key.exists() || key.exists()));
            steps.push(Step::of(What::PutKey { full: full_key.clone(), file: key.clone() }, key.exists()));
            notes.push(carry_away(&full_key));
        }
        steps.extend(files::units(&folders)?);
        steps.extend(files::changes(&folders, as_root, request.encrypt, request.every)?);
        steps.extend(start(name, has_log));
        notes.extend(unreachable(&socket, &places));
        if !has_log {
            notes.push(format!(
                "the server has no binary log, so nothing between two backups can be recovered: set log_bin, then \
                 systemctl enable --now remora-binlog@{name}.service"
            ));
        }
        let key = request.encrypt.then_some(key);
        Ok(Plan { steps, option_file, key, has_system: has_system(request), notes })
    }
}

/// Refuses a name that is encrypted already, unless its key is where the units have theirs.
fn refuse_another_key((name, home): (&str, Location), key: &Path) -> Result<()> {
    if !home.is_encrypted()? {
        return Ok(());
    }
    let shown = key.display();
    if !key.exists() {
        return Err(usage(format!(
            "{} is encrypted already: write its put key into {shown} ('remora key put FULL-KEY {shown}'), or give another \
             --name",
            home.shown()
        )));
    }
    let known = KeyFile(Some(key.to_owned())).read()?;
    Named::open((name.to_owned(), home), known.as_ref()).with_context(|| shown.to_string())?;
    Ok(())
}

fn carry_away(full_key: &Path) -> String {
    format!(
        "the backups are read only with {}: keep copies of it in two other places, none with the backups, then \
         remove it here. This machine needs the other key only, and can't read with it",
        full_key.display()
    )
}

/// Folders that units do not see or can't write to.
const CLOSED: [&str; 7] = ["/tmp", "/var/tmp", "/home", "/root", "/run/user", "/usr", "/boot"];

/// What the units will not find where it is.
fn unreachable(socket: &str, places: &[&Path]) -> Vec<String> {
    let is_closed = |path: &Path| CLOSED.iter().any(|folder| path.starts_with(folder));
    let paths = [Path::new(socket)].into_iter().chain(places.iter().copied());
    let closed = paths.filter(|path| is_closed(path));
    closed
        .map(|path| format!("units see no {}, or can't write there: take another place", path.display()))
        .collect()
}

/// The account of the system, and the folders for backups of a name, which belong to the `owner`.
fn system_steps(places: &[&Path], name: &str, owner: &str) -> Vec<Step> {
    let account = [
        "useradd",
        "--system",
        "--user-group",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        SYSTEM_ACCOUNT,
    ];
    let is_there = Command::new("getent").args(["passwd", SYSTEM_ACCOUNT]).output();
    let mut steps = vec![Step::command(&account, is_there.is_ok_and(|output| output.status.success()))];
    for place in places.iter().filter(|place| !address::is_in_store(place)) {
        let home = place.join(name);
        let install = ["install", "-d", "-o", owner, "-g", owner, "-m", "0700"];
        // Root enters every folder, so a repository that another account uses as well stays as it is.
        let above = Some(*place).filter(|place| owner != "root" || !place.is_dir());
        let folders = above.into_iter().chain([&*home]).map(|folder| folder.display().to_string());
        let folders: Vec<String> = folders.collect();
        let words: Vec<&str> = install.into_iter().chain(folders.iter().map(String::as_str)).collect();
        steps.push(Step::command(&words, home.is_dir()));
    }
    steps
}

/// The settings of the units.
fn settings(request: &Request, socket: &str) -> Result<String> {
    let Request { name, .. } = request;
    let (socket, repository) = (value(Path::new(socket))?, value(&request.to)?);
    Ok(format!(
        "SOURCE=mysql:{socket}\nREPO={repository}\nNAME={name}\n# Further options of remora backup.\nOPTIONS=\n"
    ))
}

/// A path as systemd reads it in a file of variables.
fn value(path: &Path) -> Result<&str> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\$#;".contains(c);
    let text = path.to_str().filter(|text| text.chars().all(is_plain));
    text.with_context(|| {
        format!("{}: a path for units has no spaces, quotes and signs of shells", path.display())
    })
}

/// The commands that begin it.
fn start(name: &str, has_log: bool) -> Vec<Step> {
    let units = [format!("remora-backup@{name}.timer"), format!("remora-verify@{name}.timer")];
    let log = has_log.then(|| format!("remora-binlog@{name}.service"));
    let units: Vec<String> = units.into_iter().chain(log).collect();
    let enable = ["systemctl", "enable", "--now"].into_iter().chain(units.iter().map(String::as_str));
    let is_enabled = || {
        // It says on stderr that units are not there yet.
        let asked = Command::new("systemctl").args(["is-enabled", "--quiet"]).args(&units).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let is_begun = Path::new("/run/systemd/system").is_dir() && is_enabled();
    vec![
        Step::command(&["systemctl", "daemon-reload"], is_begun),
        Step::command(&enable.collect::<Vec<_>>(), is_begun),
        Step::command(&["systemctl", "start", &format!("remora-backup@{name}.service")], is_begun),
    ]
}

/// Whether this is the machine's own folder, and systemd runs here.
fn has_system(request: &Request) -> bool {
    request.etc == Path::new("/etc") && Path::new("/run/systemd/system").is_dir()
}
