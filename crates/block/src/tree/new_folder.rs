//! A folder that gets its name only when everything in it is complete and durable.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::xattr::{ACCESS_LIST, mode_without_list};
use disk::{Attributes, Disk, Kind, Output, Tree};

use super::Node;
use crate::Error;
use crate::restore::Summary;

/// The prefix of attributes that are access control lists.
const LISTS: &[u8] = b"system.posix_acl_";
/// The maximum number of altered entries that are listed individually.
const ALTERED_MAX: usize = 1000;

/// Where a tree is restored to: a folder that must not exist yet.
#[derive(Clone, Copy)]
pub struct NewFolder<'a> {
    /// Where it is.
    pub disk: &'a Arc<dyn Disk>,
    /// What a disk has beside the content of files: links, owners, times. Of the same machine.
    pub tree: &'a dyn Tree,
    /// Its name.
    pub path: &'a Path,
}

impl NewFolder<'_> {
    /// Fails if it exists.
    pub(super) fn is_free(&self) -> Result<(), Error> {
        match self.disk.stat(self.path) {
            Ok(_) => Err(failed(self.path)(io::ErrorKind::AlreadyExists.into())),
            Err(_) => Ok(()),
        }
    }

    /// Creates it. `make` fills the folder, under the name that it is given; on failure nothing remains.
    pub(super) fn fill(&self, make: impl FnOnce(&Path) -> Result<Summary, Error>) -> Result<Summary, Error> {
        let NewFolder { disk, tree, path } = *self;
        let partial = Output::partial(path);
        // A killed run may have left it.
        remove(&**disk, tree, &partial).map_err(failed(path))?;
        crate::restore::name(&**disk, (&partial, path), make(&partial), || remove(&**disk, tree, &partial))
    }

    /// Creates the entries of a tree below `top`. `bring` writes the content of the files, which have their
    /// lengths by then and are zeros; its argument says whether it must sync each file.
    pub(super) fn build(
        &self,
        nodes: &[Node],
        top: &Path,
        bring: impl FnOnce(bool) -> Result<Summary, Error>,
    ) -> Result<Summary, Error> {
        let NewFolder { disk, tree, .. } = *self;
        // Opened before anything is written, so that every later write error is reported.
        let above = top.parent().unwrap_or(Path::new(""));
        let batch = disk.batch(above).map_err(failed(above))?;
        for node in nodes.iter().filter(|node| node.same_as.is_none()) {
            let path = join(top, &node.path);
            match &node.kind {
                Kind::Folder => disk.create_folder(&path),
                Kind::Link(target) => tree.make_link(&path, Path::new(target)),
                Kind::File | Kind::Other => {
                    disk.create(&path).and_then(|_| disk.volume(&path)?.set_len(node.len))
                }
            }
            .map_err(failed(&path))?;
        }
        let mut summary = bring(batch.is_none())?;
        for node in nodes {
            if let Some(file) = &node.same_as {
                let path = join(top, &node.path);
                link_or_copy(self, &join(top, file), &path, &mut summary).map_err(failed(&path))?;
            }
        }
        // The contents of a folder come before the folder itself, because they change its time.
        for node in nodes.iter().rev() {
            let path = join(top, &node.path);
            if node.kind == Kind::Folder && batch.is_none() {
                disk.sync_folder(&path).map_err(failed(&path))?;
            }
            apply_attributes(tree, node, &path, &mut summary).map_err(failed(&path))?;
        }
        if let Some(batch) = batch {
            batch.sync().map_err(failed(top))?;
        }
        Ok(summary)
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let name = path.display().to_string();
    |source| Error::Target { name, source }
}

/// Creates a hard link to a file, or a copy if that is impossible.
fn link_or_copy(
    NewFolder { disk, tree, .. }: &NewFolder<'_>,
    file: &Path,
    path: &Path,
    summary: &mut Summary,
) -> io::Result<()> {
    let Err(error) = tree.make_hard_link(path, file) else { return Ok(()) };
    let mut sink = disk.create(path)?;
    io::copy(&mut disk.open(file)?, &mut sink)?;
    sink.sync()?;
    summary.note_altered(
        path,
        format!("is a separate file now, not a hard link to {}: {error}", file.display()),
    );
    Ok(())
}

/// Sets owner, permissions, times and extended attributes. What can't be set is reported, and never widens
/// permissions.
fn apply_attributes(tree: &dyn Tree, node: &Node, path: &Path, summary: &mut Summary) -> io::Result<()> {
    let list = node.extended.iter().find(|(name, _)| name == ACCESS_LIST);
    let mode = node.attributes.mode;
    let mode = list.map_or(mode, |(_, list)| mode_without_list(mode, list));
    let wanted = Attributes { mode, ..node.attributes };
    let has = tree.set_attributes(path, &node.kind, wanted)?;
    if has != wanted {
        summary.note_altered(path, kept(wanted, has));
    }
    for (name, value) in &node.extended {
        let is_list = name.as_encoded_bytes().starts_with(LISTS);
        // The list grants permissions to the owning group, which is another one now.
        let why = if is_list && has.gid != wanted.gid {
            "it would give another group its rights".to_owned()
        } else {
            match tree.set_extended(path, name, value) {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            }
        };
        let what = if is_list { "access control list" } else { "attribute" };
        summary.note_altered(path, format!("lost its {what} {}: {why}", name.display()));
    }
    Ok(())
}

/// A description of the attributes that could not be set.
fn kept(wanted: Attributes, has: Attributes) -> String {
    let mut text = format!(
        "belongs to user {} and group {} instead of {} and {}: only root can set that",
        has.uid, has.gid, wanted.uid, wanted.gid
    );
    if has.mode != wanted.mode {
        text.push_str(&format!("; so its mode is {:04o} instead of {:04o}", has.mode, wanted.mode));
    }
    text
}

impl Summary {
    fn note_altered(&mut self, path: &Path, what: String) {
        match self.altered.len() {
            ..ALTERED_MAX => self.altered.push((path.to_owned(), what)),
            ALTERED_MAX => self.altered.push((PathBuf::new(), "there are more of that kind".to_owned())),
            _ => {}
        }
    }
}

/// `Path::join` would append a slash to the path of the top itself.
pub(super) fn join(top: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { top.to_owned() } else { top.join(path) }
}

/// Removes a folder with its content; it is no error if it does not exist.
fn remove(disk: &dyn Disk, tree: &dyn Tree, folder: &Path) -> io::Result<()> {
    let entries = match tree.entries(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        match entry.kind {
            Kind::Folder => remove(disk, tree, &path)?,
            _ => disk.remove(&path)?,
        }
    }
    disk.remove_folder(folder)
}
