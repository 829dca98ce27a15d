//! Checks that a class of the server has its virtual functions where the headers say. The layouts of a
//! server's classes do change within a series, and a plugin that calls the wrong function crashes the server,
//! or worse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A vtable: for each slot the names of the function; none if it has no public name.
type Slots = Vec<BTreeSet<String>>;

/// Compares the vtable of `ours`, a class in `library`, with that of its base class in the server.
pub(crate) fn compare(library: &Path, ours: &str, server: &Path, base: &str) -> Result<()> {
    let (here, there) = (slots(library, ours)?, slots(server, base)?);
    let differ = |place: usize| {
        format!(
            "{}: class {base} has other virtual functions than the headers say (slot {place}: {:?} there, {:?} here); \
             unpack the source of this very release into the cache folder's server-source",
            server.display(),
            there.get(place),
            here.get(place)
        )
    };
    let mangled = |class: &str| format!("{}{class}", class.len());
    let mut compared = 0;
    for (place, (mine, its)) in here.iter().zip(&there).enumerate() {
        let mine: BTreeSet<String> =
            mine.iter().map(|name| plain(&name.replacen(&mangled(ours), &mangled(base), 1))).collect();
        let its: BTreeSet<String> = its.iter().map(|name| plain(name)).collect();
        if mine.is_empty() || its.is_empty() || its.contains("__cxa_pure_virtual") {
            continue;
        }
        compared += 1;
        if mine.is_disjoint(&its) {
            bail!(differ(place));
        }
    }
    if here.len() != there.len() {
        bail!(differ(here.len().min(there.len())));
    }
    if compared == 0 {
        bail!("{}: no virtual function of {base} has a name", server.display());
    }
    println!("{base}: {} virtual functions, {compared} of them compared by name", here.len());
    Ok(())
}

/// The name of a function without the variant of a destructor, because some variants are one function.
fn plain(name: &str) -> String {
    name.replace("D0Ev", "DEv").replace("D1Ev", "DEv").replace("D2Ev", "DEv")
}

fn readelf(arguments: &[&str], file: &Path) -> Result<String> {
    let output = Command::new("readelf").args(arguments).arg(file).output().context("readelf")?;
    if !output.status.success() {
        bail!("readelf {}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The vtable of a class in a library or program.
fn slots(file: &Path, class: &str) -> Result<Slots> {
    let wanted = format!("_ZTV{}{class}", class.len());
    let mut names: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut table = None;
    for line in readelf(&["--wide", "--symbols"], file)?.lines() {
        // Number, address, size, type, binding, visibility, section, name.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, address, size, kind, _, _, section, name, ..] = fields[..] else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let name = name.split('@').next().unwrap_or(name);
        if name == wanted && section != "UND" {
            table = Some((address, size.parse::<u64>()?));
        } else if kind == "FUNC" && section != "UND" {
            names.entry(address).or_default().insert(name.to_owned());
        }
    }
    let (start, size) = table.with_context(|| format!("{}: no {wanted}", file.display()))?;
    // The first two words are not functions: the offset to the top, and the type information.
    let first = start + 16;
    let mut slots = vec![BTreeSet::new(); usize::try_from(size.saturating_sub(16) / 8)?];
    for line in readelf(&["--wide", "--relocs"], file)?.lines() {
        // Address, info, type, then an address, or a symbol's value and name.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, kind, value, ..] = fields[..] else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let Some(place) = address.checked_sub(first) else { continue };
        let Some(slot) = slots.get_mut(usize::try_from(place / 8)?) else { continue };
        if kind.ends_with("_RELATIVE") {
            let function = u64::from_str_radix(value, 16)?;
            slot.extend(names.get(&function).into_iter().flatten().cloned());
        } else if let Some(name) = fields.get(4) {
            slot.insert(name.split('@').next().unwrap_or(name).to_owned());
        }
    }
    Ok(slots)
}
