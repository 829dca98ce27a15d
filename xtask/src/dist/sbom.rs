//! What the programs are made of, and under which licences: for programs (CycloneDX) and for people.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cargo;

use super::{Release, output};

/// A crate that is compiled into a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    name: String,
    version: String,
    /// As SPDX writes it.
    licence: String,
    /// Its sources.
    folder: PathBuf,
    /// Whether it is from a registry, and not of this workspace.
    is_foreign: bool,
}

/// Our crates that are in the program.
pub(super) const PROGRAM: [&str; 2] = ["remora", "far"];

/// The crates that are compiled into some crates of ours, and these themselves.
pub(super) fn parts(ours: &[&str]) -> Result<BTreeSet<Part>> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    metadata.args(["--filter-platform", "x86_64-unknown-linux-musl"]);
    let metadata: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut known = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let folder = Path::new(&text(&package["manifest_path"])).parent().map(Path::to_owned);
        let part = Part {
            name: text(&package["name"]),
            version: text(&package["version"]),
            // Some still write a slash for "or".
            licence: text(&package["license"]).replace('/', " OR "),
            folder: folder.context("a manifest has a folder")?,
            is_foreign: package["source"].is_string(),
        };
        known.insert(text(&package["id"]), part);
    }
    let is_compiled_in = |edge: &Value| list(&edge["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let needed = list(&node["deps"])
            .iter()
            .filter(|edge| is_compiled_in(edge))
            .map(|edge| text(&edge["pkg"]))
            .collect();
        edges.insert(text(&node["id"]), needed);
    }
    let is_ours = |part: &Part| !part.is_foreign && ours.contains(&part.name.as_str());
    let mut open: Vec<String> =
        known.iter().filter(|(_, part)| is_ours(part)).map(|(id, _)| id.clone()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(edges.get(&id).into_iter().flatten().cloned());
        }
    }
    Ok(found.iter().filter_map(|id| known.get(id).cloned()).collect())
}

/// Writes the parts of programs and plugins as CycloneDX 1.5, <https://cyclonedx.org/docs/1.5/json/>.
pub(super) fn write(release: &Release) -> Result<()> {
    let component = |part: &Part| {
        json!({
            "type": "library",
            "name": part.name,
            "version": part.version,
            "purl": format!("pkg:cargo/{}@{}", part.name, part.version),
            "licenses": [{ "expression": part.licence }],
        })
    };
    let parts = parts(&["remora", "far", "queue-plugin", "urlpack-plugin"])?;
    let compiler = output(Command::new("rustc").arg("--version"))?;
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": [{ "name": compiler }],
            "component": { "type": "application", "name": "remora", "version": release.version },
        },
        "components": parts.iter().filter(|part| part.is_foreign).map(component).collect::<Vec<_>>(),
    });
    let place = release.out.join(format!("remora-{}.cdx.json", release.version));
    std::fs::write(&place, format!("{bom:#}\n")).with_context(|| place.display().to_string())
}

/// Beginnings of the names of files that state a licence.
const LICENCE_FILES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The licences of the crates of others in some of ours, each text once with all the crates that come with
/// it: most licences ask for this.
pub(super) fn licences(ours: &[&str]) -> Result<String> {
    let mut text = String::from("The crates in this program or library, and their licences.\n\n");
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in parts(ours)?.into_iter().filter(|part| part.is_foreign) {
        let name = format!("{} {}", part.name, part.version);
        text.push_str(&format!("{name}: {}\n", part.licence));
        for file in super::files(&part.folder)? {
            let path = part.folder.join(&file);
            if LICENCE_FILES.iter().any(|begin| file.to_uppercase().starts_with(begin)) && path.is_file() {
                let licence = std::fs::read(&path).with_context(|| path.display().to_string())?;
                let licence = String::from_utf8_lossy(&licence).trim().to_owned();
                texts.entry(licence).or_default().insert(name.clone());
            }
        }
    }
    for (licence, names) in texts {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        text.push_str(&format!("\n{}\n{names}:\n\n{licence}\n", "-".repeat(72)));
    }
    Ok(text)
}
