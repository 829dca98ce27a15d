//! The server's models: the built-in ones, and those in the folder `urlpack` beside this library that its
//! registry names.
//!
//! Only its own model may read a value. So a file counts only if the registry pins its checksum, and any
//! defect of a file affects only its own number.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use urlpack::{Family, Key, Model, ModelMemory, Pin, Registry, number_in_head};

use crate::abi;
use crate::file::{Stamp, read, stamp};

/// A model of the server.
pub(crate) type Shared = Arc<Model>;

/// What a key means.
#[derive(Debug)]
struct Known {
    name: String,
    /// The model, or why there is none.
    model: Result<Shared, String>,
}

/// The command that registers a model.
const ADD: &str = "remora url model add";

/// All models, and the files that they came from.
#[derive(Debug, Default)]
pub(crate) struct Models {
    /// What the registry pins; also number 0, where the built-in model must not be used.
    pinned: BTreeMap<Key, Known>,
    /// Why numbers that are not pinned have no model.
    otherwise: Option<String>,
    /// Names of files that are not in the registry.
    strangers: Vec<String>,
    /// The folder, the registry and its files, with their stamps when they were read.
    seen: Vec<(PathBuf, Stamp)>,
}

static CURRENT: Mutex<Option<Arc<Models>>> = Mutex::new(None);
/// Held while files are read, which may take a while; other statements wait only if they lack a model.
static READING: Mutex<()> = Mutex::new(());

impl Models {
    /// The current models. Changed files are read again; running statements keep their models.
    ///
    /// `enough` says whether the previous models would do while others are being read.
    pub(crate) fn current(enough: impl Fn(&Self) -> bool) -> Arc<Self> {
        let known = known();
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh()) {
            return Arc::clone(known);
        }
        let turn = match (READING.try_lock(), &known) {
            (Ok(turn), _) => turn,
            (Err(TryLockError::WouldBlock), Some(known)) if enough(known) => return Arc::clone(known),
            (Err(_), _) => READING.lock().unwrap_or_else(PoisonError::into_inner),
        };
        // The previous holder of the lock may already have read the current files.
        let before = self::known();
        if let Some(before) = before.as_ref().filter(|before| before.is_fresh()) {
            return Arc::clone(before);
        }
        let models = folder().map_or_else(Self::default, |folder| Self::read(&folder, before.as_deref()));
        models.warn(before.as_deref());
        let models = Arc::new(models);
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&models));
        drop(turn);
        models
    }

    fn is_fresh(&self) -> bool {
        self.seen.iter().all(|(path, was)| stamp(path) == *was)
    }

    fn read(folder: &Path, before: Option<&Self>) -> Self {
        let path = folder.join(Registry::FILE);
        // Stamps are taken before the files are read, so that a file that changes meanwhile is read again.
        let seen = [folder, &path].map(|path| (path.to_owned(), stamp(path))).into();
        let mut models = Self { seen, ..Self::default() };
        match read(&path) {
            Ok(file) => match Registry::parse(&file) {
                Ok(registry) => models.open(folder, &registry, before),
                Err(error) => models.refuse_all(&format!("{}: {error}", path.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => models.without_registry(folder),
            Err(error) => models.refuse_all(&format!("model registry {}: {error}", path.display())),
        }
        models
    }

    /// No number has a known meaning, not even 0, which may not be the built-in model.
    fn refuse_all(&mut self, why: &str) {
        for family in Family::ALL {
            self.pinned.insert(Key::Zero(family), Known { name: String::new(), model: Err(why.to_owned()) });
        }
        self.otherwise = Some(why.to_owned());
    }

    /// Unregistered files have no effect, with one exception: if one of them has number 0, the registry may
    /// be lost, and it may have put that file in the place of a built-in model.
    fn without_registry(&mut self, folder: &Path) {
        for (name, path) in strangers(folder, &Registry::default()) {
            self.seen.push((path.clone(), stamp(&path)));
            self.strangers.push(name);
            let file = read(&path).unwrap_or_default();
            let is_built_in = || Family::ALL.iter().any(|family| family.built_in() == file);
            if number_in_head(&file) == Some(0) && !is_built_in() {
                self.refuse_all(&format!(
                    "{} has number 0, and no registry next to it says which values it packed: put the \
                     registry back, take the file away, or register it with {ADD}",
                    path.display()
                ));
                return;
            }
        }
    }

    fn open(&mut self, folder: &Path, registry: &Registry, before: Option<&Self>) {
        self.strangers = strangers(folder, registry).into_iter().map(|(name, _)| name).collect();
        for pin in registry.pins() {
            let model = if pin.retired {
                Err(format!("{} was model {}, which was removed; add it again with {ADD}", pin.key, pin.name))
            } else {
                self.model(&folder.join(pin.file()), pin, before)
            };
            self.pinned.insert(pin.key, Known { name: pin.name.clone(), model });
        }
    }

    /// The model of a pin; the one in memory if its file did not change.
    fn model(&mut self, path: &Path, pin: &Pin, before: Option<&Self>) -> Result<Shared, String> {
        let now = (path.to_owned(), stamp(path));
        let same = before.filter(|before| before.seen.contains(&now));
        self.seen.push(now);
        if let Some(known) = same.and_then(|before| before.pinned.get(&pin.key))
            && let Ok(model) = &known.model
            && is_pinned(model, pin)
        {
            return Ok(Arc::clone(model));
        }
        let bring_back = format!(
            "restore the file with checksum {:016x}: {ADD} FILE --folder {}",
            pin.checksum,
            path.parent().unwrap_or(Path::new("")).display()
        );
        let wrong =
            |what: &str| format!("model {}, {}: {}: {what}; {bring_back}", pin.name, pin.key, path.display());
        let file = read(path).map_err(|error| wrong(&error.to_string()))?;
        let model = Model::from_bytes(room(&file)).map_err(|error| wrong(&error.to_string()))?;
        if !is_pinned(&model, pin) {
            return Err(wrong(&format!(
                "is not the registered model: its checksum is {:016x}",
                model.info().checksum
            )));
        }
        Ok(Arc::new(model))
    }

    /// Writes new defects to the server's error log.
    fn warn(&self, before: Option<&Self>) {
        for why in self.problems() {
            if !before.is_some_and(|before| before.problems().any(|known| known == why)) {
                abi::log(why);
            }
        }
    }

    fn problems(&self) -> impl Iterator<Item = &String> {
        self.pinned.values().filter_map(|known| known.model.as_ref().err())
    }

    /// The model with this name, which `family` packs with.
    pub(crate) fn named(&self, family: Family, name: &str) -> Result<(Key, &Shared), String> {
        let ours = |key: &Key| matches!(key, Key::Own(_)) || *key == Key::Zero(family);
        let named = self.pinned.iter().filter(|(key, known)| ours(key) && known.name == name);
        // A removed model may have had the same name.
        if let Some((key, known)) = named.min_by_key(|(_, known)| known.model.is_err()) {
            return known.model.as_ref().map(|model| (*key, model)).map_err(Clone::clone);
        }
        if name == family.built_in_name() && !self.pinned.contains_key(&Key::Zero(family)) {
            return Ok((Key::Zero(family), built_in(family)?));
        }
        Err(self.unknown(family, name))
    }

    fn unknown(&self, family: Family, name: &str) -> String {
        if self.strangers.iter().any(|stranger| stranger == name) {
            return format!("{name}.{} exists but is not registered: {ADD}", Registry::ENDING);
        }
        if let Some(other) =
            Family::ALL.into_iter().find(|other| other.built_in_name() == name && *other != family)
        {
            return format!("model {name} is for {}_pack, not for {}_pack", other.prefix(), family.prefix());
        }
        if let Some(why) = &self.otherwise {
            return why.clone();
        }
        let own = self.pinned.values().filter(|known| known.model.is_ok()).map(|known| known.name.as_str());
        let built_in = Some(family.built_in_name()).filter(|_| !self.pinned.contains_key(&Key::Zero(family)));
        let names: Vec<&str> = own.chain(built_in).collect();
        format!("there is no model {name}; there are {}", names.join(", "))
    }

    /// Name and model for the key in packed values.
    pub(crate) fn keyed(&self, key: Key) -> Result<(&str, &Shared), String> {
        match (self.pinned.get(&key), key) {
            (Some(known), _) => {
                known.model.as_ref().map(|model| (known.name.as_str(), model)).map_err(Clone::clone)
            }
            (None, Key::Zero(family)) => Ok((family.built_in_name(), built_in(family)?)),
            (None, Key::Own(number)) => Err(self.otherwise.clone().unwrap_or_else(|| {
                format!("no model has number {number}; register the one that packed the value: {ADD}")
            })),
        }
    }

    /// Every model that `family` can read, and the defects of the others.
    pub(crate) fn all(&self, family: Family) -> impl Iterator<Item = (Key, Result<(&str, &Shared), String>)> {
        let keys = (1..=15).map(Key::Own).filter(|key| self.pinned.contains_key(key));
        std::iter::once(Key::Zero(family)).chain(keys).map(|key| (key, self.keyed(key)))
    }
}

fn known() -> Option<Arc<Models>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn is_pinned(model: &Model, pin: &Pin) -> bool {
    let info = model.info();
    info.checksum == pin.checksum && info.size as u64 == pin.size && info.number == pin.key.number()
}

/// The built-in model of a family for number 0, loaded once.
fn built_in(family: Family) -> Result<&'static Shared, String> {
    static READY: [OnceLock<Result<Shared, String>>; 2] = [const { OnceLock::new() }; 2];
    let [url, text] = &READY;
    let place = if family == Family::Url { url } else { text };
    let model = place.get_or_init(|| {
        Model::from_bytes(room(&family.built_in())).map(Arc::new).map_err(|error| error.to_string())
    });
    model.as_ref().map_err(Clone::clone)
}

/// Puts a model's file into memory in the way that makes reads fastest: every value reads some fifty places
/// that can't be predicted.
fn room(file: &[u8]) -> ModelMemory {
    let mut room = ModelMemory::new(file.len());
    abi::ask_for_large_pages(room.pages());
    room.as_mut().copy_from_slice(file);
    room
}

fn folder() -> Option<PathBuf> {
    Some(abi::own_file()?.parent()?.join("urlpack"))
}

/// Names and paths of model files that are not in the registry, in order.
fn strangers(folder: &Path, registry: &Registry) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut strangers: Vec<(String, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == Registry::ENDING))
        .map(|path| (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path))
        .filter(|(name, _)| registry.named(name).is_none())
        .collect();
    strangers.sort();
    strangers
}
