//! The tablespaces in the copy, and whether a server can recover them by the redo log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use innodb::redo;

use crate::file;
use crate::file_places::Places;

/// The tablespaces in the copy.
#[derive(Default)]
pub(crate) struct Tablespaces {
    /// By their numbers. Two files may have one number, such as a copy that waits for its IMPORT.
    by_number: BTreeMap<u32, Vec<PathBuf>>,
    /// Those whose first page was not written yet when they were listed.
    unwritten: Vec<PathBuf>,
    /// Those that were read before DDL was blocked.
    read_early: BTreeSet<PathBuf>,
}

impl Tablespaces {
    /// Adds one. `space` is 0 for the system tablespace and undo tablespaces, and if the first page was not
    /// written yet. What an ALTER TABLE is making may be without its first page, or be deleted, without harm.
    pub(crate) fn add(&mut self, space: u32, path: &Path, is_system: bool) {
        if file::is_altered(path) {
            return;
        }
        if space != 0 {
            self.by_number.entry(space).or_default().push(path.to_owned());
        } else if !is_system {
            self.unwritten.push(path.to_owned());
        }
    }

    /// Notes that one was read before DDL was blocked.
    pub(crate) fn was_read_early(&mut self, path: &Path) {
        self.read_early.insert(path.to_owned());
    }

    /// Fails if a server that recovers by a log would have other data. `began`: the LSN before which no page
    /// was read.
    pub(crate) fn check(&self, log: &redo::Tablespaces, began: u64, places: &Places) -> io::Result<()> {
        self.refuse_imported(log, began, places)?;
        self.refuse_lost(log, places)?;
        self.refuse_duplicates(log, places)
    }

    /// Recovery does nothing to a tablespace that the log deletes. One that is there nevertheless was
    /// discarded and imported, which the log does not tell. Nor does it tell what IMPORT changes in a file
    /// that was in its place before: only that the dictionary has it.
    fn refuse_imported(&self, log: &redo::Tablespaces, began: u64, places: &Places) -> io::Result<()> {
        // First what another copy alone does not fix.
        if let Some(path) = log.deleted().iter().find_map(|space| self.by_number.get(space)?.first()) {
            return Err(io::Error::other(format!(
                "{} was put in place by ALTER TABLE ... IMPORT TABLESPACE, and recovery would lose what was written after that; copy the server \
                 again after its next checkpoint (SET GLOBAL innodb_log_checkpoint_now=1, where it has that)",
                places.real(path).display()
            )));
        }
        let is_imported = |path: &&PathBuf| log.redefines(&name_in_log(path), began);
        match self.read_early.iter().find(is_imported) {
            None => Ok(()),
            Some(path) => Err(io::Error::other(format!(
                "{} was changed while it was read, and the redo log does not tell how, as after ALTER TABLE ... IMPORT TABLESPACE; make the \
                 copy again",
                places.real(path).display()
            ))),
        }
    }

    /// A first page that is zeros was lost, unless recovery writes it from nothing: then the table is new,
    /// and the server has not written that page yet.
    fn refuse_lost(&self, log: &redo::Tablespaces, places: &Places) -> io::Result<()> {
        let is_lost = |path: &&PathBuf| !log.initializes(&name_in_log(path));
        match self.unwritten.iter().find(is_lost) {
            None => Ok(()),
            Some(path) => Err(io::Error::other(format!(
                "the first page of {} is lost: it is zeros, and the redo log does not have it. Dump that table before the server is \
                 started again, if it still can be read",
                places.real(path).display()
            ))),
        }
    }

    /// Recovery finds a tablespace by the names that the log gives to it, and does no harm to another file of
    /// the same number. But if the log has named both, as before and after a RENAME, no server recovers.
    fn refuse_duplicates(&self, log: &redo::Tablespaces, places: &Places) -> io::Result<()> {
        for (space, paths) in self.by_number.iter().filter(|(_, paths)| paths.len() > 1) {
            let mut named = paths.iter().filter(|path| log.has_name(&name_in_log(path), *space));
            if let (Some(one), Some(other)) = (named.next(), named.next()) {
                return Err(io::Error::other(format!(
                    "{} and {} are files of tablespace {space}, and no server recovers while the redo log names both, as after RENAME: \
                     move the one that waits for its IMPORT TABLESPACE away, or copy the server again after its next checkpoint \
                     (SET GLOBAL innodb_log_checkpoint_now=1, where it has that)",
                    places.real(one).display(),
                    places.real(other).display()
                )));
            }
        }
        Ok(())
    }
}

/// The name that the redo log of a copy gives to the file with this path in the copy.
pub(crate) fn name_in_log(path: &Path) -> String {
    // Those from outside have names without a folder to begin with.
    match path.to_string_lossy() {
        path if path.starts_with('.') => path.into_owned(),
        path => format!("./{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Log, START, about_file, imported_table, initialized_page};

    /// What the check of tablespaces says about a log of these records; nothing if they can be recovered.
    fn refused(tablespaces: &Tablespaces, records: &[Vec<u8>], began: u64) -> Option<String> {
        let log = Log::new(records);
        let places = Places::in_folder(Path::new("/data"));
        tablespaces.check(log.copier().spaces(), began, &places).err().map(|error| error.to_string())
    }

    const DELETE: u8 = 0x90;
    const CREATE: u8 = 0x80;
    const NAMES: u8 = 0xB0;

    #[test]
    fn a_tablespace_that_the_log_deletes_was_imported() {
        let mut tablespaces = Tablespaces::default();
        tablespaces.add(7, Path::new("d/t.ibd"), false);
        tablespaces.add(8, Path::new("d/#sql-alter.ibd"), false);
        let deletes = |space| [about_file(DELETE, space, "./d/x.ibd")];
        let error = refused(&tablespaces, &deletes(7), START).unwrap();
        assert!(error.starts_with("/data/d/t.ibd was put in place by ALTER TABLE"), "{error}");
        assert_eq!(refused(&tablespaces, &deletes(9), START), None);
        assert_eq!(
            refused(&tablespaces, &deletes(8), START),
            None,
            "an ALTER TABLE that ends removes its table"
        );
    }

    #[test]
    fn a_table_whose_definition_changed_while_it_was_read_is_refused() {
        let mut tablespaces = Tablespaces::default();
        tablespaces.add(7, Path::new("d/t.ibd"), false);
        let changes = [imported_table("d/t")];
        assert_eq!(refused(&tablespaces, &changes, START - 1), None, "it was read after DDL was blocked");
        tablespaces.was_read_early(Path::new("d/t.ibd"));
        let error = refused(&tablespaces, &changes, START - 1).unwrap();
        assert!(error.starts_with("/data/d/t.ibd was changed while it was read"), "{error}");
        assert_eq!(refused(&tablespaces, &changes, START + 1000), None, "that was before");
        assert_eq!(refused(&tablespaces, &[imported_table("d/u")], START - 1), None);
    }

    #[test]
    fn a_first_page_of_zeros_is_lost_unless_the_log_has_it() {
        let mut tablespaces = Tablespaces::default();
        tablespaces.add(0, Path::new("ibdata1"), true);
        tablespaces.add(0, Path::new("d/#sql-alter.ibd"), false);
        assert_eq!(refused(&tablespaces, &[], START), None);
        tablespaces.add(0, Path::new("d/new.ibd"), false);
        let error = refused(&tablespaces, &[], START).unwrap();
        assert!(error.starts_with("the first page of /data/d/new.ibd is lost"), "{error}");
        let new = [about_file(CREATE, 5, "./d/new.ibd"), initialized_page(5, 0)];
        assert_eq!(refused(&tablespaces, &new, START), None);
    }

    #[test]
    fn two_files_of_one_number_are_refused_if_the_log_names_both() {
        let mut tablespaces = Tablespaces::default();
        for path in ["d/a.ibd", "d/b.ibd"] {
            tablespaces.add(7, Path::new(path), false);
        }
        let [one, other] = ["./d/a.ibd", "./d/b.ibd"].map(|name| about_file(NAMES, 7, name));
        assert_eq!(refused(&tablespaces, std::slice::from_ref(&one), START), None);
        let error = refused(&tablespaces, &[one, other], START).unwrap();
        assert!(error.starts_with("/data/d/a.ibd and /data/d/b.ibd are files of tablespace 7"), "{error}");
    }

    #[test]
    fn a_table_from_outside_keeps_its_name_in_the_log() {
        assert_eq!(name_in_log(Path::new("d/t.ibd")), "./d/t.ibd");
        assert_eq!(name_in_log(Path::new(".x/d/t.ibd")), ".x/d/t.ibd");
    }
}
