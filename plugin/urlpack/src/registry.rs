//! The models that the server has: the one built in, and the files in the folder `urlpack` beside this library.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use urlpack::{Model, Room, SMALL};

/// Name of the model that is built in.
const BUILT_IN: &str = "small";
/// Files that end in this are models; what stands before it is the name.
const ENDING: &str = "urlmodel";

/// A model of the server.
pub(crate) type Shared = Arc<Model>;

/// All models, by name and by number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Vec<u8>, Result<Shared, String>>,
    by_number: BTreeMap<u8, (String, Shared)>,
    /// Why a number means nothing: two files have it, or its file is damaged.
    trouble: Vec<String>,
    /// When the folder last changed.
    changed: Option<SystemTime>,
}

impl Registry {
    /// The models as they are now. A changed folder is read again; statements under way keep what they have.
    pub(crate) fn current() -> Arc<Self> {
        static CURRENT: Mutex<Option<Arc<Registry>>> = Mutex::new(None);
        let folder = folder();
        let changed = folder.as_deref().and_then(changed);
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(registry) if registry.changed == changed => Arc::clone(registry),
            _ => {
                let registry = Arc::new(Self::read(folder.as_deref(), changed));
                *current = Some(Arc::clone(&registry));
                registry
            }
        }
    }

    fn read(folder: Option<&Path>, changed: Option<SystemTime>) -> Self {
        let mut registry = Self { changed, ..Self::default() };
        for path in folder.map(files).unwrap_or_default() {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned) else {
                continue;
            };
            let model = std::fs::read(&path).map_err(|error| error.to_string());
            let model =
                model.and_then(|file| Model::from_bytes(room(&file)).map_err(|error| error.to_string()));
            registry.add(name, model.map(Arc::new));
        }
        let has_own =
            registry.by_number.contains_key(&0) || registry.by_name.contains_key(BUILT_IN.as_bytes());
        if !has_own && let Ok(model) = Model::from_bytes(room(SMALL)) {
            registry.add(BUILT_IN.to_owned(), Ok(Arc::new(model)));
        }
        registry
    }

    fn add(&mut self, name: String, model: Result<Shared, String>) {
        match &model {
            Ok(model) => {
                let number = model.number();
                if let Some((other, _)) = self.by_number.get(&number) {
                    // Which of the two a value means cannot be known: the number means neither.
                    self.trouble.push(format!("models {other} and {name} both have number {number}"));
                } else {
                    self.by_number.insert(number, (name.clone(), Arc::clone(model)));
                }
            }
            Err(why) => self.trouble.push(format!("model {name}: {why}")),
        }
        self.by_name.insert(name.into_bytes(), model);
    }

    /// The model with a name.
    pub(crate) fn named(&self, name: &[u8]) -> Result<&Shared, String> {
        match self.by_name.get(name) {
            Some(Ok(model)) => self.clear(model.number()).map(|()| model),
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
        self.clear(number)?;
        match self.by_number.get(&number) {
            Some((name, model)) => Ok((name, model)),
            None => Err(self.missing(number)),
        }
    }

    fn clear(&self, number: u8) -> Result<(), String> {
        let ending = format!(" both have number {number}");
        match self.trouble.iter().find(|trouble| trouble.ends_with(&ending)) {
            Some(trouble) => Err(format!("{trouble}; take one away")),
            None => Ok(()),
        }
    }

    fn missing(&self, number: u8) -> String {
        let mut text = format!(
            "no model has number {number}; put its file into the folder urlpack in the plugin folder"
        );
        for trouble in &self.trouble {
            text.push_str("; ");
            text.push_str(trouble);
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

fn changed(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).ok()?.modified().ok()
}

/// Model files in order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == ENDING)).collect();
    paths.sort();
    paths
}
