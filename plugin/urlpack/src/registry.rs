//! The models that the server has: the one built in, and the files in the folder `urlpack` beside this library.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use urlpack::{Model, Room, SMALL, number_in_head};

/// Name of the model that is built in.
const BUILT_IN: &str = "small";
/// Files that end in this are models; what stands before it is the name.
const ENDING: &str = "urlmodel";

/// A model of the server.
pub(crate) type Shared = Arc<Model>;

/// Length and time of a file or folder, by which a change is noticed; `None` if there is none.
type Stamp = Option<(u64, SystemTime)>;

/// All models, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Vec<u8>, Result<Shared, String>>,
    /// Or why the number means nothing: two files have it, or its file can't be read.
    by_number: BTreeMap<u8, Result<(String, Shared), String>>,
    /// Files that can't be read: the number, if as much can be read of it, and what is wrong.
    unreadable: Vec<(Option<u8>, String)>,
    /// The folder and the files in it, as they were when they were read.
    seen: Vec<(PathBuf, Stamp)>,
}

impl Registry {
    /// The models as they are now. What has changed is read again; statements under way keep what they have.
    pub(crate) fn current() -> Arc<Self> {
        static CURRENT: Mutex<Option<Arc<Registry>>> = Mutex::new(None);
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(registry) if registry.seen.iter().all(|(path, was)| stamp(path) == *was) => {
                Arc::clone(registry)
            }
            _ => {
                let registry = folder().map_or_else(Self::default, |folder| Self::read(&folder)).complete();
                *current = Some(Arc::clone(&registry));
                registry
            }
        }
    }

    fn read(folder: &Path) -> Self {
        // Stamps are taken before the files are read: what changes meanwhile is read again.
        let mut registry = Self { seen: vec![(folder.to_owned(), stamp(folder))], ..Self::default() };
        let paths = match files(folder) {
            Ok(paths) => paths,
            Err(error) => {
                registry.unreadable.push((None, format!("{}: {error}", folder.display())));
                return registry;
            }
        };
        for path in paths {
            registry.seen.push((path.clone(), stamp(&path)));
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let file = std::fs::read(&path);
            let number = file.as_ref().ok().and_then(|file| number_in_head(file));
            let model = match file {
                Ok(file) => Model::from_bytes(room(&file)).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match model {
                Ok(model) => registry.add(name, Arc::new(model)),
                Err(why) => {
                    let why = format!("model {name}: {why}");
                    registry.unreadable.push((number, why.clone()));
                    registry.by_name.insert(name.into_bytes(), Err(why));
                }
            }
        }
        registry
    }

    fn add(&mut self, name: String, model: Shared) {
        let number = model.number();
        let entry = match self.by_number.remove(&number) {
            None => Ok((name.clone(), Arc::clone(&model))),
            // Which of the two a value means cannot be known: the number means neither.
            Some(Ok((other, _))) => {
                Err(format!("models {other} and {name} both have number {number}; take one away"))
            }
            Some(Err(why)) => Err(why),
        };
        self.by_number.insert(number, entry);
        self.by_name.insert(name.into_bytes(), Ok(model));
    }

    /// Numbers that no sound file has: those of damaged files mean nothing, and the built-in model has 0 if no file can have
    /// it; values of another model would come out of it as other strings.
    fn complete(mut self) -> Arc<Self> {
        for (number, why) in &self.unreadable {
            self.by_number.entry(number.unwrap_or(0)).or_insert_with(|| Err(why.clone()));
        }
        if !self.by_number.contains_key(&0)
            && let Ok(model) = Model::from_bytes(room(SMALL)).map(Arc::new)
        {
            self.by_number.insert(0, Ok((BUILT_IN.to_owned(), Arc::clone(&model))));
            self.by_name.entry(BUILT_IN.into()).or_insert(Ok(model));
        }
        Arc::new(self)
    }

    /// The model with a name.
    pub(crate) fn named(&self, name: &[u8]) -> Result<&Shared, String> {
        match self.by_name.get(name) {
            Some(Ok(model)) => self.numbered(model.number()).map(|_| model),
            Some(Err(why)) => Err(why.clone()),
            None => {
                let names: Vec<_> = self.by_name.keys().map(|name| String::from_utf8_lossy(name)).collect();
                let name = String::from_utf8_lossy(name);
                Err(format!("there is no model {name}; there are {}", names.join(", ")))
            }
        }
    }

    /// Name and model that packed values with `number` name.
    pub(crate) fn numbered(&self, number: u8) -> Result<(&str, &Shared), String> {
        match self.by_number.get(&number) {
            Some(Ok((name, model))) => Ok((name, model)),
            Some(Err(why)) => Err(why.clone()),
            None => Err(self.missing(number)),
        }
    }

    fn missing(&self, number: u8) -> String {
        let mut text = format!(
            "no model has number {number}; put its file into the folder urlpack in the plugin folder"
        );
        for (_, why) in &self.unreadable {
            text.push_str("; ");
            text.push_str(why);
        }
        text
    }
}

/// A model's file in memory as it is read quickest: every value looks at some fifty places that nobody can foresee.
fn room(file: &[u8]) -> Room {
    let mut room = Room::new(file.len());
    crate::abi::ask_for_large_pages(room.pages());
    room.as_mut().copy_from_slice(file);
    room
}

fn folder() -> Option<PathBuf> {
    Some(crate::abi::own_file()?.parent()?.join("urlpack"))
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Model files in order of their names; none if there is no folder.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    paths.sort();
    Ok(paths)
}
