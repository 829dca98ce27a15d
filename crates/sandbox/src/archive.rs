//! Debian's package archive, read by apt with a state of its own: nothing in the system is touched.
//!
//! The archive's address comes only from the machine's own apt configuration. apt verifies downloads with
//! Debian's key ring.

use std::path::{Path, PathBuf};

use crate::client::{self, run};
use crate::{Error, Product, folder};

/// Debian's public keys.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The names of releases in source lists, by which Debian's archive is distinguished from others that apt
/// knows.
const RELEASES: [&str; 10] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "sid",
];

/// Suffixes of a release's name: the release itself, its updates, its security updates.
const PARTS: [&str; 3] = ["", "-updates", "-security"];

/// One release of Debian.
#[derive(Debug)]
pub struct Archive {
    /// The product to fetch, for errors.
    product: Product,
    /// Holds the state of apt.
    folder: PathBuf,
}

impl Archive {
    /// Reads the lists of a release; `None` means the machine's own. `folder` gets 50 MB of apt's state,
    /// which may be removed afterwards. `types` are `deb`, `deb-src` or both.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] without apt, without Debian's keys, and when apt knows no archive of Debian.
    pub fn open(
        product: Product,
        folder: &Path,
        release: Option<&str>,
        types: &[&str],
    ) -> Result<Archive, Error> {
        let missing =
            |why: String, command: &str| Error::Missing { product, why, command: command.to_owned() };
        if !Path::new(KEYS).is_file() {
            let why = format!("{KEYS} is not there, with which packages are verified");
            return Err(missing(why, "apt-get install debian-archive-keyring"));
        }
        let archive = Archive { product, folder: folder.to_owned() };
        folder::create(folder)?;
        let lines = archive.lines(release, types)?;
        if lines.is_empty() {
            let line = format!("deb [signed-by={KEYS}] ADDRESS {} main", release.unwrap_or("RELEASE"));
            let why = "apt knows no archive of Debian".to_owned();
            return Err(missing(why, &format!("echo '{line}' > /etc/apt/sources.list.d/debian.list")));
        }
        folder::write(&folder.join("sources.list"), lines.join("\n").as_bytes())?;
        for part in ["lists/partial", "cache/archives/partial"] {
            folder::create(&folder.join(part))?;
        }
        folder::write(&folder.join("status"), b"")?;
        folder::write(&folder.join("apt.conf"), archive.configuration().as_bytes())?;
        let updated = archive.apt(&["update", "-qq"]);
        // A list may fail that has a similar name but is not Debian's.
        let lists = client::files(&folder.join("lists"), "")?;
        if !lists.iter().any(|list| list.to_string_lossy().contains("_main_")) {
            updated?;
        }
        Ok(archive)
    }

    /// The source list: the machine's Debian sources, changed to another release.
    fn lines(&self, release: Option<&str>, types: &[&str]) -> Result<Vec<String>, Error> {
        let format = "$(TARGET_OF) $(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)";
        let known = run(
            self.product,
            &self.folder,
            "apt-get",
            &["indextargets", "--no-release-info", "--format", format],
        )?;
        let mut lines = Vec::new();
        for line in known.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let ["deb", "Packages", address, suite, "main"] = words[..] else { continue };
            let Some((own, part)) = release_and_part(suite) else { continue };
            let suite = format!("{}{part}", release.unwrap_or(own));
            lines.extend(
                types.iter().map(|kind| format!("{kind} [signed-by={KEYS}] {address} {suite} main\n")),
            );
        }
        lines.sort();
        lines.dedup();
        Ok(lines)
    }

    /// Overrides the machine's own configuration, which is read too because it may name a proxy.
    fn configuration(&self) -> String {
        let at = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"-\";\nDir::State::lists \"{}\";\n\
             Dir::State::status \"{}\";\nDir::Cache \"{}\";\nAPT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\n#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n",
            at("sources.list"),
            at("lists"),
            at("status"),
            at("cache"),
        )
    }

    fn apt(&self, arguments: &[&str]) -> Result<String, Error> {
        let configuration = self.folder.join("apt.conf").display().to_string();
        run(self.product, &self.folder, "apt-get", &[&["-c", &configuration], arguments].concat())
    }

    /// Unpacks packages with all their dependencies into a folder, but without some of these and what only
    /// these need.
    ///
    /// # Errors
    ///
    /// [`Error::Fetch`] when they can't be downloaded.
    pub fn unpack_with_needs(&self, packages: &[&str], without: &[&str], into: &Path) -> Result<(), Error> {
        // apt takes them for installed.
        let installed = without.iter().map(|package| {
            format!(
                "Package: {package}\nStatus: install ok installed\nVersion: 999\nArchitecture: all\n\
                 Multi-Arch: allowed\n\n"
            )
        });
        folder::write(&self.folder.join("status"), installed.collect::<String>().as_bytes())?;
        let install = ["install", "-qq", "-y", "--no-install-recommends", "--download-only"];
        self.apt(&[&install, packages].concat())?;
        self.unpack_all(&self.folder.join("cache/archives"), into)
    }

    /// Unpacks packages without their dependencies into a folder. `name=version` selects a version.
    ///
    /// # Errors
    ///
    /// [`Error::Fetch`] when they can't be downloaded.
    pub fn unpack(&self, packages: &[&str], into: &Path) -> Result<(), Error> {
        // apt puts them into its current folder.
        self.apt(&[&["download", "-qq"], packages].concat())?;
        self.unpack_all(&self.folder, into)
    }

    fn unpack_all(&self, from: &Path, into: &Path) -> Result<(), Error> {
        folder::create(into)?;
        for file in client::files(from, ".deb")? {
            run(self.product, into, "dpkg", &["-x", &file.display().to_string(), "."])?;
            folder::remove_file(&file)?;
        }
        Ok(())
    }

    /// The versions of a source package in the lists, such as `1:11.8.6-0+deb13u1`.
    ///
    /// # Errors
    ///
    /// [`Error::Fetch`] when the lists can't be read.
    pub fn source_versions(&self, package: &str) -> Result<Vec<String>, Error> {
        self.listed("showsrc", package)
    }

    /// The versions of a package in the lists, such as `1:11.8.9+ds-0+deb13u1`.
    ///
    /// # Errors
    ///
    /// [`Error::Fetch`] when the lists can't be read.
    pub fn versions(&self, package: &str) -> Result<Vec<String>, Error> {
        self.listed("show", package)
    }

    fn listed(&self, verb: &str, package: &str) -> Result<Vec<String>, Error> {
        let configuration = self.folder.join("apt.conf").display().to_string();
        let listed = run(self.product, &self.folder, "apt-cache", &["-c", &configuration, verb, package])?;
        let mut versions: Vec<String> =
            listed.lines().filter_map(|line| line.strip_prefix("Version: ")).map(str::to_owned).collect();
        versions.dedup();
        Ok(versions)
    }

    /// Unpacks parts of a source package, as published by its authors, into a folder in `into` that they
    /// named. `wanted` are patterns for tar.
    ///
    /// # Errors
    ///
    /// [`Error::Fetch`] when it can't be downloaded: lists name sources that the archive does not have.
    pub fn unpack_source(
        &self,
        package: &str,
        version: &str,
        wanted: &[&str],
        into: &Path,
    ) -> Result<(), Error> {
        self.apt(&["source", "--download-only", "-qq", &format!("{package}={version}")])?;
        folder::create(into)?;
        let of = |end| client::files(&self.folder, end);
        for file in of(".orig.tar.gz")?.into_iter().chain(of(".orig.tar.xz")?) {
            let name = file.display().to_string();
            run(
                self.product,
                into,
                "tar",
                &[&["-xf", &name, "--no-same-owner", "--wildcards"], wanted].concat(),
            )?;
            folder::remove_file(&file)?;
        }
        Ok(())
    }
}

/// `bookworm-security` is the part `-security` of the release `bookworm`.
fn release_and_part(suite: &str) -> Option<(&str, &'static str)> {
    PARTS.into_iter().find_map(|part| {
        let release = suite.strip_suffix(part)?;
        RELEASES.contains(&release).then_some((release, part))
    })
}

#[cfg(test)]
mod tests {
    use super::release_and_part;

    #[test]
    fn releases_of_debian_are_told_from_other_archives() {
        assert_eq!(release_and_part("bookworm"), Some(("bookworm", "")));
        assert_eq!(release_and_part("bookworm-security"), Some(("bookworm", "-security")));
        for other in ["noble", "nodistro", "bookworm-pgdg", "cloud-sdk-bookworm", "bookworm-backports"] {
            assert_eq!(release_and_part(other), None, "{other}");
        }
    }
}
