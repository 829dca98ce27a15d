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

/// Finds an installed or already fetched server.
///
/// # Errors
///
/// [`Error::Missing`] with the command that installs or fetches it.
pub fn find(places: &Places, product: Product) -> Result<Installation, Error> {
    let found = locate(places, product)?;
    let version = ask_version(&found.daemon, found.command()).map_err(|why| missing(product, why))?;
    if !product.has(&version) {
        return Err(missing(product, format!("{} is version {version}", found.daemon.display())));
    }
    Ok(Installation { version, ..found })
}

/// The same, without running it: its version is empty.
pub(crate) fn locate(places: &Places, product: Product) -> Result<Installation, Error> {
    let files = &product.server().files;
    let (base, daemon) = match product.server().source {
        Source::System { .. } => {
            let daemon = which(file_name(files.daemon));
            let daemon = daemon.ok_or_else(|| {
                missing(product, format!("no {} on the search path", file_name(files.daemon)))
            })?;
            (daemon.ancestors().nth(2).unwrap_or(Path::new("/")).to_owned(), daemon)
        }
        Source::Jar { .. } | Source::Npm { .. } | Source::Debian { .. } => {
            let base = places.programs(product);
            let daemon = base.join(files.daemon);
            (base, daemon)
        }
    };
    if !daemon.is_file() {
        return Err(missing(product, format!("no {}", daemon.display())));
    }
    let shares = files.shares.iter().map(|name| base.join(name));
    let share = shares.into_iter().find(|share| is_share(product, share)).ok_or_else(|| {
        missing(product, format!("no files for system tables in {}/{}", base.display(), files.shares[0]))
    })?;
    Ok(Installation {
        product,
        is_own: false,
        version: String::new(),
        daemon,
        share,
        libraries: files.libraries.map(|name| base.join(name)),
        loader: files.loader.map(|name| base.join(name)),
        plugin_dir: base.join(files.plugins),
        base,
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
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

/// The family that states such a version.
pub(crate) fn family(version: &str) -> Family {
    if version.contains("MariaDB") { Family::MariaDb } else { Family::MySql }
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
