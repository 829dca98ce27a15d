//! `remora url model`: the models of a server and their numbers.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use disk::{Disk as _, Output, RealDisk, Share};
use failure::Failure;
use progress::Progress as _;
use serde_json::json;
use urlpack::{Family, Key, Model, Pin, Registry};

use crate::exit::Exit;
use crate::report::Report;

/// Readable by everybody, because the server reads the file under its own account.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Copy a model into a server's folder and pin its number to it
    ///
    /// From then on that number means this file and no other: a file that is changed, replaced or lost is
    /// refused. Adding the same model again brings its file back.
    Add(Add),
    /// List the models of a server's folder, and whether each file is the one that was added; exit code 4 if
    /// one is not
    List(Folder),
    /// Remove a model. Its number stays taken, because values may name it
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// The folder of models: urlpack in the folder that SELECT @@plugin_dir names
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
}

/// A kind of functions.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Functions {
    Url,
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The model: a file that 'remora url train' wrote, or small or text for a built-in one
    #[arg(value_name = "MODEL")]
    model: PathBuf,

    #[command(flatten)]
    folder: Folder,

    /// Its name in SQL statements [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Its number in packed values [default: the model's own, or a free one if that is 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    number: Option<u8>,

    /// End every value with a check of this many bytes: a value that was cut, changed, or packed by another
    /// model is then refused. With one byte, one wrong value in 256 is not noticed; each further byte divides
    /// that by 256 [default: as the model was trained]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u8).range(0..=4))]
    check: Option<u8>,

    /// Give it number 0 of these functions, which costs no byte in a value. Values that the built-in model
    /// packed can no longer be read then, and a server without this folder reads the new values with the
    /// built-in model, as other strings
    #[arg(long, value_name = "FUNCTIONS", conflicts_with = "number")]
    instead_of: Option<Functions>,

    /// Use a number that another model had. Only when no value names it any more: see url_pack_info()
    #[arg(long)]
    reuse_number: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The model's name
    name: String,

    #[command(flatten)]
    folder: Folder,
}

pub(super) fn run(action: &Action, report: &Report) -> anyhow::Result<Exit> {
    match action {
        Action::Add(arguments) => add(arguments, report),
        Action::List(folder) => list(&folder.folder, report),
        Action::Remove(arguments) => remove(arguments, report),
    }
}

fn add(arguments: &Add, report: &Report) -> anyhow::Result<Exit> {
    let folder = &arguments.folder.folder;
    let model = super::load_any(&arguments.model)?;
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => arguments.model.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    if !Registry::is_name(&name) {
        return Err(failure::usage(format!(
            "'{name}' can't be a model's name: letters, digits, . _ and -; give it one with --name"
        )));
    }
    make_folder(folder)?;
    let _lock = lock(folder)?;
    let mut registry = read(folder)?;
    let key = key(arguments, &model, &registry)?;
    let check = arguments.check.unwrap_or(model.info().check_bytes);
    let file = model.relabelled(key.number(), check)?;
    let info = Model::from_bytes(file.as_slice())?;
    let info = info.info();
    let pin = Pin { key, size: info.size as u64, checksum: info.checksum, name, retired: false };
    allowed(arguments, &pin, &registry)?;
    not_another(&folder.join(pin.file()), &model, &pin, &registry)?;
    write(&folder.join(pin.file()), &file)?;
    registry.set(pin.clone());
    write(&folder.join(Registry::FILE), &registry.to_bytes())?;
    say(report, &pin, "ready")?;
    report.note(
        "servers have it with their next statement; give every replica that runs the functions the same",
    );
    Ok(Exit::Done)
}

/// The key that the model would get. Whether that is allowed is checked later.
fn key(arguments: &Add, model: &Model, registry: &Registry) -> anyhow::Result<Key> {
    if let Some(functions) = arguments.instead_of {
        return Ok(Key::Zero(match functions {
            Functions::Url => Family::Url,
            Functions::Text => Family::Text,
        }));
    }
    match arguments.number.unwrap_or(model.number()) {
        0 => registry.free().map(Key::Own).context("all 15 numbers are taken, see 'remora url model list'"),
        number => Ok(Key::Own(number)),
    }
}

/// Refuses changes that would give existing values another meaning.
fn allowed(arguments: &Add, pin: &Pin, registry: &Registry) -> anyhow::Result<()> {
    let free = registry
        .free()
        .map_or(String::new(), |number| format!("; number {number} is free: --number {number}"));
    if let Some(other) = registry.pin(pin.key)
        && other.checksum != pin.checksum
        && !arguments.reuse_number
    {
        let state = if other.retired { "was" } else { "is" };
        bail!(
            "{} {state} model {}, with checksum {:016x}, and values may name it{free}. When nothing names it any more: \
             --reuse-number",
            pin.key,
            other.name,
            other.checksum
        );
    }
    if let Some(other) = registry.named(&pin.name).filter(|other| other.key != pin.key) {
        bail!("{} is called {} already; choose another name with --name", other.key, pin.name);
    }
    let built_in = |family: &Family| family.built_in_name() == pin.name && pin.key != Key::Zero(*family);
    if Family::ALL.iter().any(built_in) {
        bail!("{} is a built-in model's name; choose another with --name", pin.name);
    }
    Ok(())
}

/// Refuses to overwrite another model: an unregistered file may be all that is left of it.
fn not_another(path: &Path, model: &Model, pin: &Pin, registry: &Registry) -> anyhow::Result<()> {
    if registry.named(&pin.name).is_none()
        && RealDisk.stat(path).is_ok()
        && !super::load(path)
            .is_ok_and(|there| [model.info().checksum, pin.checksum].contains(&there.info().checksum))
    {
        bail!(
            "{} is there, another file that was not registered; move it away, or choose another name with --name",
            path.display()
        );
    }
    Ok(())
}

fn list(folder: &Path, report: &Report) -> anyhow::Result<Exit> {
    let registry = read(folder)?;
    let mut exit = Exit::Done;
    for pin in registry.pins() {
        let state = state(folder, pin);
        if state.is_err() {
            exit = Exit::Damaged;
        }
        say(
            report,
            pin,
            &state.unwrap_or_else(|why| format!("{why}; bring it back with 'remora url model add'")),
        )?;
    }
    let known = |name: &str| registry.named(name).is_some();
    for path in files(folder)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if !known(&name) {
            report.note(&format!("{} is not registered, so no server reads it", path.display()));
        }
    }
    if registry.pins().is_empty() {
        report.note("no model was added here; servers have the built-in ones");
    }
    Ok(exit)
}

fn state(folder: &Path, pin: &Pin) -> Result<String, String> {
    if pin.retired {
        return Ok("taken away".to_owned());
    }
    let model = super::load(&folder.join(pin.file())).map_err(|error| format!("{error:#}"))?;
    let info = model.info();
    if (info.checksum, info.size as u64) == (pin.checksum, pin.size) {
        return Ok("ready".to_owned());
    }
    Err(format!("its file is another model, with checksum {:016x}", info.checksum))
}

fn remove(arguments: &Remove, report: &Report) -> anyhow::Result<Exit> {
    let folder = &arguments.folder.folder;
    let _lock = lock(folder)?;
    let mut registry = read(folder)?;
    let Some(pin) = registry.named(&arguments.name) else {
        bail!("{}: there is no model {}; see 'remora url model list'", folder.display(), arguments.name);
    };
    let pin = Pin { retired: true, ..pin.clone() };
    registry.set(pin.clone());
    write(&folder.join(Registry::FILE), &registry.to_bytes())?;
    let file = folder.join(pin.file());
    match RealDisk.remove(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context(file.display().to_string());
        }
        _ => {}
    }
    say(report, &pin, "taken away")?;
    report.note("values that name it are refused; adding the same model again brings them back");
    Ok(Exit::Done)
}

fn say(report: &Report, pin: &Pin, state: &str) -> anyhow::Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "model", "name": pin.name, "number": pin.key.number(), "key": pin.key.to_string(),
            "checksum": format!("{:016x}", pin.checksum), "size": pin.size, "retired": pin.retired, "state": state,
        }))?;
    } else {
        report.data(&format!("{}: {}, {:016x}, {state}", pin.name, pin.key, pin.checksum))?;
    }
    Ok(())
}

/// The numbers of the models in a folder, registered or not.
pub(super) fn numbers(folder: &Path) -> anyhow::Result<Vec<u8>> {
    let registry = read(folder)?;
    let mut numbers: Vec<u8> = registry.pins().iter().map(|pin| pin.key.number()).collect();
    for path in files(folder)? {
        let mut head = Vec::new();
        if RealDisk.stat(&path).is_ok_and(|stat| stat.regular)
            && RealDisk.open(&path).is_ok_and(|file| file.take(64).read_to_end(&mut head).is_ok())
        {
            numbers.extend(urlpack::number_in_head(&head));
        }
    }
    Ok(numbers)
}

/// The registry of a folder; an empty one if there is none.
fn read(folder: &Path) -> anyhow::Result<Registry> {
    let path = folder.join(Registry::FILE);
    let shown = || path.display().to_string();
    let mut file = match RealDisk.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Registry::default()),
        other => other.with_context(shown)?,
    };
    let mut text = Vec::new();
    file.read_to_end(&mut text).with_context(shown)?;
    Registry::parse(&text).with_context(shown)
}

/// Model files of a folder, in order.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let names = match RealDisk.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other.with_context(|| folder.display().to_string())?,
    };
    let paths = names.into_iter().map(|name| folder.join(name));
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == Registry::ENDING)).collect())
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    let shown = || folder.display().to_string();
    if RealDisk.list(folder).is_ok() {
        return Ok(());
    }
    RealDisk.create_folder(folder).with_context(shown)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(FOLDER_MODE)).with_context(shown)
}

fn lock(folder: &Path) -> anyhow::Result<Box<dyn disk::Guard>> {
    let path = folder.join("models.lock");
    let guard = RealDisk.lock(&path, Share::Exclusive).with_context(|| path.display().to_string())?;
    let held = || {
        Failure::Busy(format!("{}: another command is changing the models here; try again", folder.display()))
    };
    guard.ok_or_else(|| held().into())
}

/// Writes a file that appears when it is complete, readable by everybody.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || {
        let mut output = Output::create(&RealDisk, path)?;
        output.write_all(bytes)?;
        std::fs::set_permissions(Output::partial(path), std::fs::Permissions::from_mode(FILE_MODE))?;
        output.finish()
    };
    write().with_context(|| path.display().to_string())
}
