//! What can be backed up, as it is written on the command line.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use disk::{Disk, RealDisk};

/// A source: what kind it is and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A regular file.
    File(PathBuf),
    /// A block device.
    Block(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let source = match kind {
            "file" => Source::File(rest.into()),
            "block" => Source::Block(rest.into()),
            _ => return Err(format!("'{text}' does not say what it is; write file:{text} or block:{text}")),
        };
        if rest.is_empty() { Err(format!("'{text}' lacks a path")) } else { Ok(source) }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => write!(f, "file:{}", path.display()),
            Source::Block(path) => write!(f, "block:{}", path.display()),
        }
    }
}

impl Source {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Source::File(path) | Source::Block(path) => path,
        }
    }

    /// The name of its backups when none is given: that of the file.
    pub(crate) fn default_name(&self) -> Option<String> {
        let name = self.path().file_name()?.to_str()?;
        is_name(name).then(|| name.to_owned())
    }

    /// Opens it, if it is what it is said to be.
    pub(crate) fn open(&self) -> Result<Box<dyn disk::Source>, block::Error> {
        let failed = |source| block::Error::Source { name: self.to_string(), source };
        let source = RealDisk.open(self.path()).map_err(failed)?;
        let stat = source.stat().map_err(failed)?;
        let (fits, kind) = match self {
            Source::File(_) => (stat.regular, "regular file"),
            Source::Block(_) => (stat.block_device, "block device"),
        };
        if fits {
            return Ok(source);
        }
        Err(failed(std::io::Error::other(format!("is no {kind}"))))
    }
}

/// Whether backups may be called so: a name is a folder in the repository, and `@` begins a number.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && c != '/' && c != '@';
    !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(plain) && name.len() <= 200
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_what_it_is() {
        assert_eq!("file:/a b:c".parse(), Ok(Source::File("/a b:c".into())));
        assert_eq!("block:/dev/sdb".parse(), Ok(Source::Block("/dev/sdb".into())));
        assert_eq!(
            "/dev/sdb".parse::<Source>(),
            Err("'/dev/sdb' does not say what it is; write file:/dev/sdb or block:/dev/sdb".into())
        );
        assert!("file:".parse::<Source>().is_err());
        assert!("ftp:x".parse::<Source>().is_err());
    }

    #[test]
    fn names_are_plain() {
        for good in ["sdb1", "disk.img", "a b", "vg-data"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "-x", "a/b", "a@1", "a\nb", ".hidden"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert_eq!(Source::File("/x/..".into()).default_name(), None);
        assert_eq!(Source::File("/x/disk.img".into()).default_name(), Some("disk.img".into()));
    }
}
