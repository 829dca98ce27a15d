//! Finds the servers' programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::table::{Ability, Family, Source, SystemTables};
use crate::{Error, Product};

/// Folders that the caller has chosen; this crate does not read the environment for them.
#[derive(Clone, Debug)]
pub struct Places {
    /// Everything that can be recreated at any time: fetched servers, initialised data folders, and the
    /// sandboxes themselves. An absolute path; see [`Places::customary`].
    pub cache: PathBuf,
}

impl Places {
    /// The usual folders: under `$XDG_CACHE_HOME`, else under `$HOME/.cache`. `variable` looks up an
    /// environment variable; the result is `None` when there is no home either.
    pub fn customary(variable: impl Fn(&str) -> Option<OsString>) -> Option<Places> {
        let set = |name| variable(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(Places { cache: cache.join("remora") })
    }

    /// Where [`crate::fetch`] puts a product's programs.
    pub(crate) fn programs(&self, product: Product) -> PathBuf {
        self.cache.join("servers").join(match product.server().source {
            Source::Jar { version, .. } | Source::Npm { version, .. } => {
                format!("{}-{version}", product.family()).to_lowercase()
            }
            // The archive chooses the version.
            Source::System { .. } | Source::Debian { .. } => product.id().to_owned(),
        })
    }

    /// Where the initialised data folders are.
    pub(crate) fn pristine(&self) -> PathBuf {
        self.cache.join("pristine")
    }

    /// Where the named sandboxes are: folders, or links to folders elsewhere.
    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.cache.join("sandboxes")
    }
}

/// A server's programs, ready to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installation {
    /// What it is; for the user's own program the product that is most like it.
    pub product: Product,
    /// Whether the user named the program.
    #[serde(default)]
    pub is_own: bool,
    /// The exact version from the program itself, such as `10.11.6-MariaDB-0+deb12u1`.
    pub version: String,
    /// `mariadbd` or `mysqld`.
    pub daemon: PathBuf,
    /// The folder under which the server looks for everything else (`--basedir`).
    pub base: PathBuf,
    /// Messages, character sets, and the SQL files that create the system tables.
    pub share: PathBuf,
    /// Shared libraries that belong to the program and must be found before the system's.
    pub libraries: Option<PathBuf>,
    /// The program loader that belongs to the program, if it has its own C library.
    #[serde(default)]
    pub loader: Option<PathBuf>,
    /// Where the server looks for plugins, unless `--plugin-dir` says otherwise. It need not exist.
    pub plugin_dir: PathBuf,
}

/// Finds a server: the installed one if it is of the product's series, or else the one that was fetched.
///
/// # Errors
///
/// [`Error::Missing`] with the command that installs or fetches it; [`Error::OtherSeries`].
pub fn find(places: &Places, product: Product) -> Result<Installation, Error> {
    let installed = installed(product);
    if installed.is_ok() || matches!(product.server().source, Source::System { .. }) {
        return installed;
    }
    let server = product.server();
    let base = places.programs(product);
    let found = Installation {
        libraries: server.files.libraries.map(|name| base.join(name)),
        loader: server.files.loader.map(|name| base.join(name)),
        plugin_dir: base.join(server.files.plugins),
        ..placed(product, base.join(server.files.daemon), base, server.files.shares)?
    };
    let version = ask_version(&found.daemon, found.command()).map_err(|why| missing(product, why))?;
    of_series(Installation { version, ..found })
}

/// The server that the system's package manager installed.
fn installed(product: Product) -> Result<Installation, Error> {
    let name = match product.family() {
        Family::MariaDb => "mariadbd",
        Family::MySql => "mysqld",
    };
    let daemon = which(name).ok_or_else(|| missing(product, format!("no {name} on the search path")))?;
    let version = ask_version(&daemon, Command::new(&daemon)).map_err(|why| missing(product, why))?;
    let base = daemon.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
    of_series(Installation { version, ..placed(product, daemon, base, &SHARES)? })
}

/// The program of the installed server, and its version.
pub(crate) fn installed_program() -> Option<(PathBuf, String)> {
    let daemon = which("mariadbd").or_else(|| which("mysqld"))?;
    let version = ask_version(&daemon, Command::new(&daemon)).ok()?;
    Some((daemon, version))
}

fn of_series(found: Installation) -> Result<Installation, Error> {
    if found.product.has(&found.version) {
        return Ok(found);
    }
    let (product, version) = (found.product, found.version);
    Err(match (&product.server().source, Product::of(&version)) {
        (Source::System { .. }, Some(other)) => Error::OtherSeries { product, other, version },
        _ => missing(product, format!("{} is version {version}", found.daemon.display())),
    })
}

/// The files that belong to a program, as Debian's packages and all unpacked servers have them. Its version
/// is empty.
fn placed(product: Product, daemon: PathBuf, base: PathBuf, shares: &[&str]) -> Result<Installation, Error> {
    if !daemon.is_file() {
        return Err(missing(product, format!("no {}", daemon.display())));
    }
    let share = shares.iter().map(|name| base.join(name)).find(|share| is_share(product, share));
    let share = share.ok_or_else(|| {
        missing(product, format!("no files for system tables in {}/{}", base.display(), shares[0]))
    })?;
    Ok(Installation {
        product,
        is_own: false,
        version: String::new(),
        daemon,
        share,
        libraries: None,
        loader: None,
        plugin_dir: plugin_folder(&base).unwrap_or_else(|| base.join(PLUGINS[0])),
        base,
    })
}

/// Folders for messages and character sets, relative to a server's folder.
pub(crate) const SHARES: [&str; 3] = ["share/mysql", "share/mariadb", "share"];

/// Folders for plugins, relative to a server's folder.
pub(crate) const PLUGINS: [&str; 5] =
    ["lib/mysql/plugin", "lib/mariadb/plugin", "lib/plugin", "lib64/mysql/plugin", "lib64/mariadb/plugin"];

/// The first of them that is there.
pub(crate) fn plugin_folder(base: &Path) -> Option<PathBuf> {
    PLUGINS.into_iter().map(|folder| base.join(folder)).find(|folder| folder.is_dir())
}

/// The command-line client, for people and tests: `mariadb` or `mysql`.
#[must_use]
pub fn client() -> Option<PathBuf> {
    which("mariadb").or_else(|| which("mysql"))
}

/// Asks a program for its version; the error says why there is none.
pub(crate) fn ask_version(program: &Path, mut command: Command) -> Result<String, String> {
    let output = command.args(["--no-defaults", "--version"]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} can't be run: {error}", program.display()))?;
    read_version(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{} does not tell its version: {}", program.display(), said.trim())
    })
}

/// The first two numbers of a version.
pub(crate) fn series(version: &str) -> (u16, u16) {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The word after `Ver` in `mariadbd  Ver 10.11.6-MariaDB for debian-linux-gnu on x86_64 (Debian 12)`.
fn read_version(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == "Ver")?;
    words.next()
}

/// Whether a folder has what a server needs to begin.
pub(crate) fn is_share(product: Product, share: &Path) -> bool {
    match product.server().bootstrap.tables {
        SystemTables::Files(_) => system_tables(share).is_some(),
        SystemTables::Initialize => share.join("charsets/Index.xml").is_file(),
    }
}

/// The file with which the creation of the system tables begins; MariaDB 10.11 and MySQL call it
/// `mysql_system_tables.sql`, later MariaDBs `mariadb_system_tables.sql`. Returns the part before
/// `_system_tables.sql`.
pub(crate) fn system_tables(share: &Path) -> Option<&'static str> {
    ["mariadb", "mysql"]
        .into_iter()
        .find(|prefix| share.join(format!("{prefix}_system_tables.sql")).is_file())
}

/// Where the shell finds a program, including folders for daemons, which are not on everybody's search path.
fn which(program: &str) -> Option<PathBuf> {
    let script = "PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v \"$1\"";
    let output = Command::new("sh").args(["-c", script, "sh", program]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    path.is_absolute().then_some(path)
}

fn missing(product: Product, why: String) -> Error {
    let command = match product.server().source {
        Source::System { packages } => format!("apt-get install {packages}"),
        Source::Jar { .. } | Source::Npm { .. } | Source::Debian { .. } => {
            format!("remora sandbox start --server {}", product.id())
        }
    };
    Error::Missing { product, why, command }
}

impl Installation {
    /// What it is, such as `MySQL 9.7`.
    #[must_use]
    pub fn title(&self) -> String {
        match self.is_own {
            true => {
                let (major, minor) = series(&self.version);
                format!("{} {major}.{minor}", self.product.family())
            }
            false => self.product.to_string(),
        }
    }

    /// Whether it has this ability here.
    #[must_use]
    pub fn can(&self, ability: Ability) -> bool {
        !self.is_own && self.product.can(ability)
    }

    /// The program, and what must come before its own arguments.
    pub(crate) fn line(&self) -> Vec<OsString> {
        let loaded = self.loader.iter().zip(&self.libraries).flat_map(|(loader, libraries)| {
            [loader.as_os_str().to_owned(), "--library-path".into(), libraries.as_os_str().to_owned()]
        });
        loaded.chain([self.daemon.as_os_str().to_owned()]).collect()
    }

    /// The folder of shared libraries, for a program that the system's loader starts.
    pub(crate) fn library_path(&self) -> Option<&Path> {
        self.libraries.as_deref().filter(|_| self.loader.is_none())
    }

    /// The server's program, to be run and waited for: with its own loader and libraries, and without
    /// arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let line = self.line();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        if let Some(libraries) = self.library_path() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    /// The options for every run of a server. `temp` must not be shared with another server, because each
    /// deletes at its start whatever looks like a temporary table.
    pub(crate) fn options(&self, data: &Path, temp: &Path) -> Vec<String> {
        let path = |option: &str, path: &Path| format!("{option}={}", path.display());
        let mut options = vec![
            "--no-defaults".to_owned(),
            path("--datadir", data),
            path("--tmpdir", temp),
            path("--basedir", &self.base),
            path("--lc-messages-dir", &self.share),
            path("--character-sets-dir", &self.share.join("charsets")),
            path("--plugin-dir", &self.plugin_dir),
        ];
        options.extend(COMMON.map(str::to_owned));
        options.extend(self.product.server().options.iter().map(ToString::to_string));
        if rustix::process::geteuid().is_root() {
            options.push("--user=root".to_owned());
        }
        options
    }
}

/// Small, fast and open, because nobody else can reach this server. Settings that make data durable stay as
/// they are, or the tests that kill the server would prove nothing.
const COMMON: [&str; 8] = [
    "--innodb-buffer-pool-size=256M",
    "--key-buffer-size=8M",
    "--innodb-buffer-pool-dump-at-shutdown=off",
    "--innodb-buffer-pool-load-at-startup=off",
    "--performance-schema=off",
    "--local-infile=1",
    "--secure-file-priv=",
    "--skip-name-resolve",
];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::{Places, read_version};

    #[test]
    fn the_cache_is_where_custom_puts_it() {
        let cache = |set: &[(&str, &str)]| {
            let find = |name: &str| Some(OsString::from(set.iter().find(|(key, _)| *key == name)?.1));
            Places::customary(find).map(|places| places.cache)
        };
        let home = ("HOME", "/home/ann");
        assert_eq!(cache(&[home]).unwrap(), Path::new("/home/ann/.cache/remora"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/fast")]).unwrap(), Path::new("/fast/remora"));
        // The specification of these variables says to ignore relative paths.
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "fast")]).unwrap(), Path::new("/home/ann/.cache/remora"));
        assert_eq!(cache(&[]), None);
    }

    #[test]
    fn the_version_is_the_word_after_ver() {
        let text = "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n";
        assert_eq!(read_version(text), Some("10.11.6-MariaDB-0+deb12u1"));
        assert_eq!(read_version("/opt/mysqld  Ver 5.6.24 for Linux on x86_64\n"), Some("5.6.24"));
        assert_eq!(read_version("not found"), None);
    }
}
