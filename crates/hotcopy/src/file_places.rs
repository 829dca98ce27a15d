//! Where the files of a copy are. Most of them are in the data folder; some are where settings and links
//! lead.
//!
//! In the copy all of them are in the data folder, so that a server on it works on nothing else:
//!
//! | what | where it is in the copy |
//! |---|---|
//! | files of the system tablespace, undo tablespaces and Aria's log, in folders of their own | at the top |
//! | what is behind a symbolic link, and on another file system | where the link is, or the mount |
//! | tables of InnoDB with DATA DIRECTORY: `/x/d/t.ibd` | `.x/d/t.ibd`, and `d/t.isl` leads there |
//!
//! The redo log names the last ones by their paths, so these must be as long as they were
//! ([`path_in_copy`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use block::tree::{self, Node, Skipped};
use disk::{Attributes, Entry, Extended, Kind};
use host::Machine;
use innodb::redo::path_in_copy;
use serde_json::{Value, json};
use server::Session;
use snapshot::server::data_folder;
use snapshot::server_files::{resolve, setting};

use crate::file::{self, is_altered};
use crate::listing::{Identity, ListedFiles, Listing, identity};
use crate::named;

/// What `innodb_data_file_path` is if nobody has set it.
const USUAL_SYSTEM: &str = "ibdata1:12M:autoextend";

/// The longest file that says where a table is.
const PATH_MAX: u64 = 4096;
/// The most bytes of names of folders that are noted.
const NOTED_MAX: usize = 4096;

/// Where the files of a copy are.
pub(crate) struct Places {
    /// The data folder, without links.
    pub data: PathBuf,
    /// The same, as the server calls it.
    data_as_set: PathBuf,
    /// The redo log.
    pub log: PathBuf,
    /// The folders of Aria's log and of undo tablespaces.
    aria: PathBuf,
    undo: PathBuf,
    /// The files of the system tablespace by their paths in the copy, in their order, each with what the
    /// setting says behind its path.
    system: Vec<(PathBuf, PathBuf, String)>,
    /// Tablespaces that link files lead to, and their folders, by their paths in the copy.
    linked: BTreeMap<PathBuf, PathBuf>,
    /// Link files, and what they say in the copy.
    pub link_files: Vec<(Node, Vec<u8>)>,
    /// Links that are followed, and whether each is to a folder.
    links: Vec<(PathBuf, bool)>,
    /// Links that lead to nothing.
    pub dangling: Vec<PathBuf>,
}

impl Places {
    /// Asks a server for its settings.
    pub(crate) fn of(session: &mut Session, machine: &Machine) -> io::Result<Places> {
        let (data_as_set, data) = data_folder(session, machine)?;
        let mut folder = |name| setting(session, name).map(|value| data.join(value.unwrap_or_default()));
        let log = folder("innodb_log_group_home_dir")?.join(file::REDO);
        let (aria, undo) = (folder("aria_log_dir_path")?, folder("innodb_undo_directory")?);
        let home = setting(session, "innodb_data_home_dir")?.unwrap_or_default();
        let files = setting(session, "innodb_data_file_path")?.unwrap_or_default();
        let files: Vec<(&str, &str)> =
            files.split(';').map(|file| file.split_once(':').unwrap_or((file, ""))).collect();
        let mut paths = vec![log, aria, undo];
        for (path, sizes) in &files {
            if sizes.ends_with("raw") {
                return Err(io::Error::other(format!(
                    "innodb_data_file_path has the device {path}, and only files can be copied while the server runs"
                )));
            }
            // The server puts one behind the other.
            paths.push(if home.is_empty() {
                data.join(path)
            } else {
                data.join(&home).join(path.trim_start_matches('/'))
            });
        }
        let mut resolved = resolve(machine, &paths)?;
        let real = resolved.split_off(3);
        let mut places = Places {
            data,
            data_as_set,
            log: resolved.remove(0),
            aria: resolved.remove(0),
            undo: resolved.remove(0),
            system: Vec::new(),
            linked: BTreeMap::new(),
            link_files: Vec::new(),
            links: Vec::new(),
            dangling: Vec::new(),
        };
        for ((path, real), (_, sizes)) in paths.iter().skip(3).zip(real).zip(files) {
            let name = || real.file_name().map(PathBuf::from).unwrap_or_default();
            let in_copy = places.inside(path, &real).unwrap_or_else(name);
            if places.system.iter().any(|(other, ..)| *other == in_copy) {
                return Err(io::Error::other(format!(
                    "innodb_data_file_path has two files with the name {}, and in a copy they would be in one folder",
                    in_copy.display()
                )));
            }
            places.system.push((in_copy, real, sizes.to_owned()));
        }
        Ok(places)
    }

    /// The path in the copy of what a setting names: as it is written, and without links. None if it is not
    /// in the data folder.
    pub(crate) fn inside(&self, written: &Path, real: &Path) -> Option<PathBuf> {
        let leads_up = written.components().any(|part| part == Component::ParentDir);
        let written = [&self.data, &self.data_as_set]
            .into_iter()
            .filter(|_| !leads_up)
            .find_map(|top| written.strip_prefix(top).ok());
        let path = written.or_else(|| real.strip_prefix(&self.data).ok())?;
        // What is not set is the folder itself.
        let path: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        Some(path).filter(|path| !path.as_os_str().is_empty())
    }

    /// The files of the system tablespace, by their paths in the copy.
    pub(crate) fn system(&self) -> impl Iterator<Item = &Path> {
        self.system.iter().map(|(path, ..)| &**path)
    }

    /// The `innodb_data_file_path` of a server on the copy.
    fn system_setting(&self) -> String {
        let files = self.system.iter().map(|(path, _, sizes)| format!("{}:{sizes}", path.display()));
        files.collect::<Vec<_>>().join(";")
    }

    /// Where the file or folder with this path in the copy is.
    pub(crate) fn real(&self, path: &Path) -> PathBuf {
        let parent = path.parent().unwrap_or(path);
        if let Some((_, real, _)) = self.system.iter().find(|(system, ..)| system == path) {
            return real.clone();
        }
        if let Some(real) = self.linked.get(path) {
            return real.clone();
        }
        if let Some((real, name)) = self.linked.get(parent).zip(path.file_name()) {
            return real.join(name);
        }
        match parent.as_os_str().is_empty() {
            true if is_aria_log(path) => self.aria.join(path),
            true if file::is_undo(path) => self.undo.join(path),
            _ => self.data.join(path),
        }
    }

    /// Whether a folder of the copy is one with tables that link files lead to.
    pub(crate) fn is_outside(&self, folder: &Path) -> bool {
        self.linked.contains_key(folder)
    }

    /// The folders outside of the data folder that have files of the copy, except the redo log.
    pub(crate) fn outside(&self, machine: &Machine) -> io::Result<BTreeSet<PathBuf>> {
        let links: Vec<PathBuf> = self.links.iter().map(|(path, _)| path.clone()).collect();
        let parent = |path: &Path| path.parent().unwrap_or(path).to_owned();
        let linked = resolve(machine, &links)?.into_iter().zip(&self.links);
        let mut all: BTreeSet<PathBuf> =
            linked.map(|(path, (_, is_folder))| if *is_folder { path } else { parent(&path) }).collect();
        let files = self.linked.iter().filter(|(path, _)| self.linked.contains_key(&parent(path)));
        all.extend(files.map(|(_, real)| parent(real)));
        all.extend(self.system.iter().map(|(_, real, _)| parent(real)));
        all.extend([self.aria.clone(), self.undo.clone()]);
        all.retain(|path| !path.starts_with(&self.data));
        Ok(all)
    }

    /// How many tablespaces link files lead to.
    fn tables(&self) -> usize {
        self.linked
            .keys()
            .filter(|path| path.parent().is_some_and(|above| self.linked.contains_key(above)))
            .count()
    }

    /// The same as [`Places::outside`], as far as there is room to note it.
    fn noted(&self, machine: &Machine) -> io::Result<Vec<String>> {
        let mut room = NOTED_MAX;
        let all = self.outside(machine)?.into_iter().map(|path| path.display().to_string());
        Ok(all
            .take_while(|path| {
                let fits = path.len() < room;
                room = room.saturating_sub(path.len());
                fits
            })
            .collect())
    }

    /// Notes what was outside of the data folder, for who restores it.
    pub(crate) fn note(&self, machine: &Machine, note: &mut Value) -> io::Result<()> {
        if let Some(folder) = self.log.parent().filter(|folder| *folder != self.data) {
            note["log"]["folder"] = folder.display().to_string().into();
        }
        let folders = self.noted(machine)?;
        if !folders.is_empty() {
            note["outside"] = json!({"folders": folders, "tables": self.tables()});
        }
        let system = self.system_setting();
        if system != USUAL_SYSTEM {
            note["system"] = system.into();
        }
        Ok(())
    }

    /// Whether a place is in the data folder, or will be once it is made, or a link in that folder leads
    /// there.
    pub(crate) fn has(&self, place: &Path) -> bool {
        let place = std::path::absolute(place).unwrap_or_default();
        let Some(nearest) = place.ancestors().find_map(|above| above.canonicalize().ok()) else {
            return false;
        };
        let folders = self.links.iter().filter(|(_, is_folder)| *is_folder);
        let linked: Vec<PathBuf> = folders.filter_map(|(link, _)| link.canonicalize().ok()).collect();
        let is_there = place.exists();
        nearest.starts_with(&self.data)
            || linked.iter().any(|to| nearest.starts_with(to) || is_there && to.starts_with(&nearest))
    }

    /// Entries of a folder of the copy, with their paths in it. Links are followed. Link files are left out:
    /// what they say is known.
    pub(crate) fn entries(&self, machine: &Machine, folder: &Path) -> io::Result<Vec<Node>> {
        let (tree, top) = (machine.tree(), self.real(folder));
        let mut nodes = Vec::new();
        for entry in tree.entries(&top)? {
            let path = folder.join(&entry.name);
            if self.real(&path) != top.join(&entry.name) || is_link_file(&path) {
                continue;
            }
            match entry.kind {
                Kind::Link(_) => match tree.entry(&top.join(&entry.name)) {
                    Ok(entry) => nodes.push(Node::of(path, entry)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(named(&top.join(&entry.name), error)),
                },
                _ => nodes.push(Node::of(path, entry)),
            }
        }
        if folder.as_os_str().is_empty() {
            nodes.extend(self.by_setting(machine)?.into_iter().map(|(path, entry)| Node::of(path, entry)));
        }
        Ok(nodes)
    }

    /// Files that a setting puts elsewhere, by their paths in the copy.
    fn by_setting(&self, machine: &Machine) -> io::Result<Vec<(PathBuf, Entry)>> {
        let tree = machine.tree();
        let mut files = Vec::new();
        for folder in BTreeSet::from([&self.aria, &self.undo]) {
            if *folder == self.data {
                continue;
            }
            for entry in tree.entries(folder).map_err(|error| named(folder, error))? {
                let path = PathBuf::from(&entry.name);
                if entry.kind == Kind::File && self.real(&path) == folder.join(&path) {
                    files.push((path, entry));
                }
            }
        }
        for (path, real, _) in &self.system {
            if self.data.join(path) != *real {
                files.push((path.clone(), tree.entry(real).map_err(|error| named(real, error))?));
            }
        }
        Ok(files)
    }

    /// The files and folders of the copy.
    pub(crate) fn list(&mut self, machine: &Machine) -> io::Result<ListedFiles> {
        let (tree, mut listing) = (machine.tree(), Listing::default());
        self.linked.clear();
        self.link_files.clear();
        self.links.clear();
        self.dangling.clear();
        for (path, entry) in self.by_setting(machine)? {
            listing.add(path, entry, |path| self.identity_now(machine, path))?;
        }
        let by_setting: BTreeMap<Identity, PathBuf> = listing.files.clone();
        // From the folders above, everything would be listed again.
        for above in self.data.ancestors().skip(1) {
            listing.folders.insert(identity(&tree.entry(above)?));
        }
        let mut tops = vec![(PathBuf::new(), self.data.clone())];
        while let Some((under, top)) = tops.pop() {
            if !listing.folders.insert(identity(&tree.entry(&top)?)) {
                return Err(io::Error::other(format!(
                    "{} leads to a folder that is in the copy already, or above the data folder",
                    top.display()
                )));
            }
            let mut entries = BTreeMap::new();
            let (nodes, left) = tree::list_seen(&*tree, &top, |path, entry| {
                entries.insert(path.to_owned(), entry.clone());
            })?;
            for node in nodes {
                let (path, at) = (under.join(&node.path), top.join(&node.path));
                if left.iter().any(|left| left.path == node.path) {
                    self.links.push((at.clone(), true));
                    tops.push((path, at));
                    continue;
                }
                let Some(entry) = entries.remove(&node.path) else {
                    // The folder itself.
                    listing.nodes.insert(under.clone(), Node { path: under.clone(), ..node });
                    continue;
                };
                match node.kind {
                    Kind::Link(_) => match tree.entry(&at) {
                        Ok(entry) if entry.kind == Kind::Folder => {
                            self.links.push((at.clone(), true));
                            tops.push((path, at));
                        }
                        Ok(entry) if entry.kind == Kind::File => {
                            self.links.push((at, false));
                            listing.add(path, entry, |path| self.identity_now(machine, path))?;
                        }
                        Err(error) if error.kind() != io::ErrorKind::NotFound => {
                            return Err(named(&at, error));
                        }
                        Err(_) if !is_gone(machine, &at) => self.dangling.push(at),
                        _ => {}
                    },
                    Kind::File if is_link_file(&path) => {
                        self.add_link_file(machine, (Node { path, ..node }, &at), &mut listing)?;
                    }
                    Kind::File if self.real(&path) != at || by_setting.contains_key(&identity(&entry)) => {}
                    Kind::File => listing.add(path, entry, |path| self.identity_now(machine, path))?,
                    _ => drop(listing.nodes.insert(path.clone(), Node { path, ..node })),
                }
            }
            let is_top = |left: &Skipped| tops.iter().any(|(path, _)| *path == under.join(&left.path));
            if let Some(left) = left.iter().find(|left| !left.is_harmless && !is_top(left)) {
                return Err(io::Error::other(format!("{}: {}", top.join(&left.path).display(), left.what)));
            }
        }
        Ok(listing.finish())
    }

    /// Adds a link file, which is `at` a place, and the tablespace that it leads to.
    fn add_link_file(
        &mut self,
        machine: &Machine,
        (node, at): (Node, &Path),
        listing: &mut Listing,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        match machine.disk().open(at).and_then(|file| file.take(PATH_MAX).read_to_end(&mut bytes)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            read => read.map_err(|error| named(at, error))?,
        };
        let leads = bytes.trim_ascii();
        if leads.is_empty() {
            // Its table is being made. When DDL waits, all of this is listed again.
            return Ok(());
        }
        let Some(path) = path_in_copy(leads) else {
            return Err(io::Error::other(format!(
                "{} leads to {}, which is no plain path from / on: a copy has no place for it; move the table",
                at.display(),
                String::from_utf8_lossy(leads)
            )));
        };
        let real = PathBuf::from(OsStr::from_bytes(leads));
        let in_copy = PathBuf::from(OsString::from_vec(path.clone()));
        self.link_files.push((node.with_len(path.len() as u64), path));
        let entry = match machine.tree().entry(&real) {
            // Its tablespace is discarded.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entry => entry.map_err(|error| named(&real, error))?,
        };
        let folder = listing.nodes.get(Path::new("")).map(|top| top.attributes).unwrap_or_default();
        for above in in_copy.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            listing.nodes.entry(above.to_owned()).or_insert_with(|| made_folder(above, folder));
        }
        if let Some((above, real)) = in_copy.parent().zip(real.parent()) {
            self.linked.insert(above.to_owned(), real.to_owned());
        }
        self.linked.insert(in_copy.clone(), real);
        listing.add(in_copy, entry, |path| self.identity_now(machine, path))
    }

    /// The file that a path of the copy leads to now.
    fn identity_now(&self, machine: &Machine, path: &Path) -> io::Result<Option<Identity>> {
        let real = self.real(path);
        match machine.tree().entry(&real) {
            Ok(entry) => Ok(Some(identity(&entry))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(named(&real, error)),
        }
    }
}

#[cfg(test)]
impl Places {
    /// Of a server that has everything in its data folder.
    pub(crate) fn in_folder(data: &Path) -> Places {
        let [data_as_set, aria, undo] = [(); 3].map(|()| data.to_owned());
        Places {
            data: data.to_owned(),
            data_as_set,
            log: data.join(file::REDO),
            aria,
            undo,
            system: vec![("ibdata1".into(), data.join("ibdata1"), String::new())],
            linked: BTreeMap::new(),
            link_files: Vec::new(),
            links: Vec::new(),
            dangling: Vec::new(),
        }
    }
}

/// A folder that only the copy has.
fn made_folder(path: &Path, attributes: Attributes) -> Node {
    Node {
        path: path.to_owned(),
        kind: Kind::Folder,
        len: 0,
        attributes,
        extended: Extended::default(),
        same_as: None,
        blocks: Vec::new(),
    }
}

/// Whether a file says that a table is in another place.
fn is_link_file(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "isl")
}

/// Whether a link that leads to nothing is itself gone by now.
fn is_gone(machine: &Machine, link: &Path) -> bool {
    let (Some(folder), Some(name)) = (link.parent(), link.file_name()) else { return false };
    let is_there = || machine.disk().list(folder).is_ok_and(|names| names.iter().any(|other| other == name));
    is_altered(link) || !is_there()
}

/// Whether a file at the top is of Aria's log.
fn is_aria_log(path: &Path) -> bool {
    file::is_aria_log(path) || path == Path::new(file::ARIA_CONTROL)
}
