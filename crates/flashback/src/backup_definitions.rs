//! Definitions of tables as the backups beside an archive have them, for what the log does not say of
//! columns.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use block::{Generation, tree};
use innodb::table::Table;
use physical::Source;
use pitr::Log;
use repository::location::Location;
use seal::Key;
use transactions::table_references::{Effect, TableReferences};
use transactions::{Definitions, Place};

use crate::cascades::Origin;

/// The definitions of all backups of a name.
pub struct FromBackups {
    name: String,
    home: Location,
    key: Option<Key>,
    log: Log,
    /// The backups, and where they say that they are in the log, the first place first.
    backups: Vec<(Place, Backup)>,
    /// Where the walk is.
    here: Cell<Place>,
    /// Statements that change definitions, up to where the walk was.
    changes: RefCell<Vec<(Place, String, TableReferences, String)>>,
    /// Tables whose definition was taken from a backup, and which one.
    used: RefCell<BTreeMap<(String, String), String>>,
}

/// A backup, which is opened when a definition is needed.
struct Backup {
    generation: Generation,
    opened: OnceCell<Result<Opened, String>>,
}

struct Opened {
    files: tree::Files,
    source: Source,
    found: RefCell<BTreeMap<(String, String), Found>>,
}

/// A table's definition, or why there is none.
type Found = Result<Rc<Table>, String>;

impl FromBackups {
    /// Those that say where they are in the log beside them.
    pub fn beside(Origin { named, log, .. }: &Origin) -> Result<Rc<FromBackups>> {
        let mut backups = Vec::new();
        for generation in named.repository.list()?.generations {
            if let Some(place) = log.place(&generation) {
                backups.push((place, Backup { generation, opened: OnceCell::new() }));
            }
        }
        backups.sort_by_key(|(place, _)| *place);
        Ok(Rc::new(FromBackups {
            name: named.name.clone(),
            home: named.home.clone(),
            key: named.key.clone(),
            log: log.clone(),
            backups,
            here: Cell::new(Place { file: 0, at: 0 }),
            changes: RefCell::default(),
            used: RefCell::default(),
        }))
    }

    /// The backup that the definition of a table was taken from, if it was.
    pub fn used(&self, table: &(String, String)) -> Option<String> {
        self.used.borrow().get(table).cloned()
    }

    fn open(&self, backup: &Backup) -> Result<Opened, String> {
        let open = || -> Result<Option<Opened>> {
            if !self.log.has(&backup.generation)? {
                return Ok(None);
            }
            let repository = repository::at(&self.home, self.key.as_ref())?;
            let top = PathBuf::from(&self.name);
            let files = tree::Files::open(repository, Some(backup.generation.number), &top)?;
            let source = Source::find(&files, &data_folder(&files, &top))?;
            Ok(Some(Opened { files, source, found: RefCell::default() }))
        };
        let shown = self.shown(backup);
        match open() {
            Ok(Some(opened)) => Ok(opened),
            Ok(None) => Err(format!("{shown} is of another history than this log")),
            Err(error) => Err(format!("{shown} can't be read for it: {error:#}")),
        }
    }

    fn shown(&self, backup: &Backup) -> String {
        format!("{}@{}", self.name, backup.generation.number)
    }
}

impl Definitions for FromBackups {
    fn at(&self, place: Place) {
        self.here.set(place);
    }

    fn passes(&self, place: Place, schema: &str, sql: &str) {
        let mut changes = self.changes.borrow_mut();
        // A log may be walked over twice.
        if changes.last().is_some_and(|(last, ..)| *last >= place) {
            return;
        }
        let mention = TableReferences::of(sql);
        // That leaves the columns as they are.
        let is_emptying = sql.trim_start().get(..8).is_some_and(|word| word.eq_ignore_ascii_case("TRUNCATE"));
        if mention.effect == Effect::Definition && !is_emptying {
            let text = sql.chars().take(80).collect();
            changes.push((place, schema.to_owned(), mention, text));
        }
    }

    fn table(&self, schema: &str, name: &str) -> Option<Result<Rc<Table>, String>> {
        let here = self.here.get();
        let (place, backup) = self.backups.iter().rfind(|(place, _)| *place <= here)?;
        let shown = self.shown(backup);
        let changes = self.changes.borrow();
        let since = changes.iter().filter(|(at, ..)| at >= place && *at <= here);
        if let Some((_, _, _, sql)) =
            since.into_iter().find(|(_, of, mention, _)| mention.redefines(of, schema, name))
        {
            return Some(Err(format!("it was changed since {shown}: {sql}")));
        }
        let opened = match backup.opened.get_or_init(|| self.open(backup)) {
            Ok(opened) => opened,
            Err(why) => return Some(Err(why.clone())),
        };
        let mut found = opened.found.borrow_mut();
        let key = (schema.to_owned(), name.to_owned());
        let definition = found.entry(key).or_insert_with(|| opened.read(schema, name, &shown));
        if definition.is_ok() {
            self.used.borrow_mut().insert((schema.to_owned(), name.to_owned()), shown);
        }
        Some(definition.clone())
    }
}

impl Opened {
    fn read(&self, schema: &str, name: &str, shown: &str) -> Result<Rc<Table>, String> {
        let of = |table: &&physical::TableFiles| table.schema == schema && table.name == name;
        let table = self.source.tables.iter().find(of).ok_or_else(|| format!("it is not in {shown}"))?;
        match table.definition(&self.files, None) {
            Ok(Some(table)) => Ok(Rc::new(table)),
            Ok(None) => Err(format!("it is a view in {shown}")),
            Err(error) => Err(format!("its definition in {shown} is not understood: {error}")),
        }
    }
}

/// The folder with InnoDB's system tablespace, topmost first.
fn data_folder(files: &tree::Files, top: &Path) -> PathBuf {
    let systems = files.nodes().filter(|node| node.path.ends_with("ibdata1"));
    let folder = systems.filter_map(|node| node.path.parent()).min_by_key(|path| path.components().count());
    match folder {
        Some(folder) if !folder.as_os_str().is_empty() => top.join(folder),
        _ => top.to_owned(),
    }
}
