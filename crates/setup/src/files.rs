//! The files: settings of the units, the units themselves where no package has them, and the option file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use repository::address;

use crate::step::{Step, What};

/// A unit's name without its instance, and its text.
macro_rules! unit {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../packaging/systemd/", $name)))
    };
}

/// The units.
pub(crate) const UNITS: [(&str, &str); 7] = [
    unit!("remora-backup@.service"),
    unit!("remora-backup@.timer"),
    unit!("remora-binlog@.service"),
    unit!("remora-mirror@.service"),
    unit!("remora-prune@.service"),
    unit!("remora-verify@.service"),
    unit!("remora-verify@.timer"),
];

/// Where packages put units.
const PACKAGED: &str = "/usr/lib/systemd/system";

/// Where the units have the program.
const PROGRAM: &str = "/usr/bin/remora";

/// For a server that can't be copied while it runs: a snapshot of its file system needs root.
const AS_ROOT: &str = "\
# This server is backed up from a snapshot of its file system, which root makes.
[Service]
User=root
Group=root
CapabilityBoundingSet=~
MemoryDenyWriteExecute=no
PrivateDevices=no
ProtectControlGroups=no
ProtectKernelTunables=no
RestrictNamespaces=no
RestrictSUIDSGID=no
SystemCallFilter=
UMask=0077
";

/// The other units read and write what that one has written, which belongs to root. They get no more than
/// that.
const BESIDE_ROOT: &str = "\
# The backups belong to root, because the unit that makes them needs a snapshot.
[Service]
User=root
Group=root
CapabilityBoundingSet=CAP_DAC_OVERRIDE
";

/// What is encrypted gets its key.
const WITH_KEY: &str = "\
[Service]
LoadCredential=key:/etc/remora/%i.key
Environment=REMORA_KEY=%d/key
";

/// Variables with which a store is reached.
const STORE: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_CA_BUNDLE",
];

/// The folders in which the files are.
pub(crate) struct Folders {
    /// `/etc`
    pub(crate) etc: PathBuf,
    /// The name of the backups.
    pub(crate) name: String,
}

impl Folders {
    /// A file of this name among those of remora: `/etc/remora/db1.env`.
    pub(crate) fn own(&self, ending: &str) -> PathBuf {
        self.etc.join("remora").join(format!("{}.{ending}", self.name))
    }

    fn systemd(&self) -> PathBuf {
        self.etc.join("systemd/system")
    }

    /// A file that changes a unit.
    fn change(&self, unit: &str, file: &str) -> PathBuf {
        let unit = unit.replace('@', &format!("@{}", self.name));
        self.systemd().join(format!("{unit}.d")).join(file)
    }
}

/// The option file of the account.
pub(crate) fn option_file(account: &str, password: &str, socket: &str) -> String {
    format!("[client]\nuser={account}\npassword={password}\nsocket={socket}\n")
}

/// The units that no package has brought.
pub(crate) fn units(folders: &Folders) -> Result<Vec<Step>> {
    if Path::new(PACKAGED).join(UNITS[0].0).exists() {
        return Ok(Vec::new());
    }
    let program = std::env::current_exe()?.display().to_string();
    let step = |(name, text): &(&str, &str)| {
        let text = text.replace(PROGRAM, &program);
        Step::file(folders.systemd().join(name), 0o644, text)
    };
    UNITS.iter().map(step).collect()
}

/// What this server needs besides: another account of the system, a key, another time.
pub(crate) fn changes(
    folders: &Folders,
    as_root: bool,
    encrypt: bool,
    every_s: Option<u64>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let services = UNITS.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".service"));
    for unit in services {
        if as_root {
            let text = if unit == UNITS[0].0 { AS_ROOT } else { BESIDE_ROOT };
            steps.push(Step::file(folders.change(unit, "root.conf"), 0o644, text.to_owned())?);
        }
        if encrypt {
            steps.push(Step::file(folders.change(unit, "key.conf"), 0o644, WITH_KEY.to_owned())?);
        }
    }
    if let Some(seconds) = every_s {
        // Without a first line the time of the unit itself would stay.
        let text = format!("[Timer]\nOnCalendar=\nOnActiveSec=1min\nOnUnitActiveSec={seconds}s\n");
        steps.push(Step::file(folders.change(UNITS[1].0, "every.conf"), 0o644, text)?);
    }
    Ok(steps)
}

/// The credentials of a store that a place is in, as the environment has them.
pub(crate) fn store(folders: &Folders, places: &[&Path]) -> Result<Option<Step>> {
    if !places.iter().any(|place| address::is_in_store(place)) {
        return Ok(None);
    }
    let known: Vec<(&str, String)> =
        STORE.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?))).collect();
    let lines = |shown: &dyn Fn(&str, &str) -> String| {
        known.iter().map(|(name, value)| format!("{name}={}\n", shown(name, value))).collect::<String>()
    };
    let is_secret = |name: &str| name.contains("SECRET") || name.contains("TOKEN");
    let text = lines(&|_, value| value.to_owned());
    let masked = lines(&|name, value| {
        if is_secret(name) { crate::account::MASK.to_owned() } else { value.to_owned() }
    });
    let file = folders.own("store");
    if file.exists() {
        // Somebody has the right ones there, and not in the environment.
        return Ok(Some(Step::of(
            What::File { path: file, mode: 0o600, text: String::new(), masked: String::new() },
            true,
        )));
    }
    Step::secret_file(file, 0o600, text, masked).map(Some)
}
