//! Checks dependencies, with cargo-deny and `deny.toml`, and the size of the program.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, release, root, run};

/// The crates that servers load: their dependencies have fewer licences to choose from.
const PLUGINS: [&str; 2] = ["queue", "urlpack"];

/// Licences, sources, duplicate versions; also advisories if their database is already on this machine.
pub(crate) fn dependencies() -> Result<()> {
    ready("deny", None)?;
    let mut deny = cargo();
    deny.args(["deny", "--workspace", "check", "--hide-inclusion-graph", "licenses", "sources", "bans"]);
    run(&mut deny)?;
    for plugin in PLUGINS {
        let manifest = format!("plugin/{plugin}/Cargo.toml");
        run(cargo().args([
            "deny",
            "--manifest-path",
            &manifest,
            "--config",
            "plugin/deny.toml",
            "check",
            "licenses",
        ]))?;
    }
    crates()?;
    let advisories = std::env::home_dir().is_some_and(|home| home.join(".cargo/advisory-dbs").is_dir());
    if !advisories {
        println!("advisories left out: their database is not on this machine; cargo deny fetch db brings it");
        return Ok(());
    }
    run(cargo().args(["deny", "--workspace", "check", "--disable-fetch", "advisories"]))
}

/// The same for the program that is built apart. Duplicate versions are those of its crates.
pub(crate) fn iceberg(manifest: &str) -> Result<()> {
    ready("deny", None)?;
    let mut deny = cargo();
    deny.args([
        "deny",
        "--manifest-path",
        manifest,
        "--config",
        "deny.toml",
        "check",
        "--hide-inclusion-graph",
    ]);
    run(deny.args(["licenses", "sources"]))
}

/// Does all but the upload of the crates that others may take, each built from its package alone, and
/// compares them with the last release: what breaks a user of theirs needs a version that says so.
fn crates() -> Result<()> {
    let output = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    // `publish` is a list of registries, an empty one if there is none, or null if all are meant.
    let published = metadata["packages"].as_array().context("no packages")?;
    let published = published.iter().filter(|package| package["publish"].is_null());
    let names = published.filter_map(|package| package["name"].as_str()).flat_map(|name| ["--package", name]);
    let names: Vec<&str> = names.collect();
    let mut publish = cargo();
    run(publish.args(["publish", "--dry-run", "--allow-dirty", "--quiet"]).args(&names))?;
    let mut last = Command::new("git");
    last.args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"]).current_dir(root());
    let last = last.output()?;
    if !last.status.success() {
        println!("no comparison with an earlier release: there is none");
        return Ok(());
    }
    ready("semver-checks", None)?;
    let last = String::from_utf8(last.stdout)?;
    let mut compare = cargo();
    run(compare.args(["semver-checks", "--baseline-rev", last.trim()]).args(&names))
}

/// Installs an additional command of cargo, unless it is there in this version, or in any.
pub(crate) fn ready(command: &str, version: Option<&str>) -> Result<()> {
    let there = cargo().args([command, "--version"]).output()?;
    let says = String::from_utf8_lossy(&there.stdout);
    if there.status.success() && version.is_none_or(|version| says.split_whitespace().any(|it| it == version))
    {
        return Ok(());
    }
    // An unoptimised build takes half the time, and the command itself takes only seconds.
    let mut install = cargo();
    install.args(["install", "--locked", "--quiet", "--debug", &format!("cargo-{command}")]);
    run(install.args(version.map(|version| format!("--version={version}"))))
}

/// The size of the release program without symbols, as users install it.
pub(crate) fn size() -> Result<String> {
    let program = release()?;
    let folder = tempfile::tempdir()?;
    let stripped = folder.path().join("remora");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(&program).status()?;
    if !status.success() {
        bail!("strip: {status}");
    }
    let bytes = std::fs::metadata(&stripped)?.len();
    Ok(format!("release program, stripped: {}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000))
}
