//! Finds the files that a command line names.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use disk::{Disk, Entry, Kind, RealDisk, Tree};
use glob::Pattern;
use humanize::text;

/// The result.
#[derive(Default)]
pub struct Found {
    /// In the order of the command line, within folders by name. A file with several hard links is listed
    /// once.
    pub files: Vec<PathBuf>,
    /// Arguments that are not files, and what could not be read, each with its reason.
    pub left_out: Vec<String>,
}

struct Search {
    exclude: Vec<Pattern>,
    recursive: bool,
    /// Files by device and inode.
    seen: BTreeSet<(u64, u64)>,
    found: Found,
}

/// Finds the files of a command line.
pub fn files(paths: &[PathBuf], exclude: &[String], recursive: bool) -> Result<Found> {
    let pattern = |text: &String| {
        Pattern::new(text).map_err(|error| failure::usage(format!("--exclude {text}: {error}")))
    };
    let exclude = exclude.iter().map(pattern).collect::<Result<_>>()?;
    let mut search = Search { exclude, recursive, seen: BTreeSet::new(), found: Found::default() };
    for path in paths {
        for path in search.named(path)? {
            search.path(&path);
        }
    }
    Ok(search.found)
}

impl Search {
    /// The paths that an argument stands for: itself, or everything that matches it as a pattern.
    fn named(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists());
        let Some(pattern) = pattern else { return Ok(vec![path.to_owned()]) };
        let found = glob::glob(pattern).map_err(|error| failure::usage(format!("{pattern}: {error}")))?;
        let mut paths = Vec::new();
        let mut is_whole = true;
        for path in found {
            match path {
                Ok(path) => paths.push(path),
                Err(error) => {
                    is_whole = false;
                    self.leave_out(error.path(), error.error());
                }
            }
        }
        paths.sort();
        // Nothing matches, so the argument itself is reported.
        Ok(if paths.is_empty() && is_whole { vec![path.to_owned()] } else { paths })
    }

    fn is_excluded(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.exclude.iter().any(|pattern| match pattern.as_str().contains('/') {
            true => pattern.matches_path(path),
            false => pattern.matches(&name),
        })
    }

    fn leave_out(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.found.left_out.push(format!("{}: {why}", text::path(path)));
    }

    /// Adds a path from the command line; a link is followed.
    fn path(&mut self, path: &Path) {
        if self.is_excluded(path) {
            return;
        }
        let entry = match RealDisk.entry(path) {
            Ok(entry) => entry,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.leave_out(path, &"there is no such file, and none that matches it as a pattern");
            }
            Err(error) => return self.leave_out(path, &error),
        };
        match entry.kind {
            Kind::File => self.file(path.to_owned(), &entry),
            Kind::Folder if self.recursive => self.folder(path, 0),
            Kind::Folder => self.leave_out(path, &"is a folder; use -r to go into it"),
            Kind::Link(_) | Kind::Other => match RealDisk.stat(path) {
                Ok(stat) if stat.block_device => self.found.files.push(path.to_owned()),
                _ => self.leave_out(path, &"is neither a file nor a block device"),
            },
        }
    }

    fn file(&mut self, path: PathBuf, entry: &Entry) {
        // Nothing of an empty file can be cached; this also leaves out the virtual files of /proc.
        if entry.len > 0 && self.seen.insert((entry.device, entry.inode)) {
            self.found.files.push(path);
        }
    }

    fn folder(&mut self, folder: &Path, depth: usize) {
        /// Deeper than any path can be; this only protects the stack.
        const DEPTH_MAX: usize = 2100;
        let entries = match RealDisk.entries(folder) {
            Ok(entries) if depth < DEPTH_MAX => entries,
            Ok(_) => return self.leave_out(folder, &"lies too deep"),
            Err(error) => return self.leave_out(folder, &error),
        };
        for entry in entries {
            let path = folder.join(&entry.name);
            if self.is_excluded(&path) {
                continue;
            }
            match entry.kind {
                Kind::File => self.file(path, &entry),
                Kind::Folder => self.folder(&path, depth + 1),
                // A link leads elsewhere; pipes, sockets and devices have no data of a file.
                Kind::Link(_) | Kind::Other => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_slash_is_for_names() {
        let exclude = ["*.ibd", "/data/tmp/*"].map(|text| Pattern::new(text).unwrap()).to_vec();
        let search = Search { exclude, recursive: true, seen: BTreeSet::new(), found: Found::default() };
        let is = |path: &str| search.is_excluded(Path::new(path));
        assert!(is("/data/shop/a.ibd") && is("a.ibd") && is("/data/tmp/x"));
        assert!(!is("/data/a.ibd.old") && !is("/other/tmp/x"));
    }
}
