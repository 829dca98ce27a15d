//! Compares the lock files of the folders that are no members of the workspace with the manifests of the
//! crates that they use. Only a full check builds those, and cargo would change the file or refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

const LOCKS: [&str; 2] = ["fuzz/Cargo.lock", "iceberg/Cargo.lock"];

/// `packages`: those of the workspace, as `cargo metadata` lists them.
pub(super) fn check(root: &Path, packages: &[serde_json::Value], complaints: &mut Vec<String>) -> Result<()> {
    for lock in LOCKS {
        let text = std::fs::read_to_string(root.join(lock)).context(lock)?;
        let stale = stale(&text, packages);
        complaints.extend(stale.iter().map(|package| {
            let folder = lock.trim_end_matches("Cargo.lock");
            format!(
                "{lock}: {package} has other dependencies by now; run cargo metadata --manifest-path {folder}Cargo.toml"
            )
        }));
    }
    Ok(())
}

/// The packages of the workspace that a lock file has with other dependencies than their manifests.
fn stale(lock: &str, packages: &[serde_json::Value]) -> Vec<String> {
    let locked = locked(lock);
    let is_stale = |package: &&serde_json::Value| {
        let Some(locked) = package["name"].as_str().and_then(|name| locked.get(name)) else { return false };
        let names = |is_optional: bool| -> BTreeSet<&str> {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let some = dependencies
                .filter(|one| one["kind"] != "dev" && one["optional"].as_bool() == Some(is_optional));
            some.filter_map(|one| one["name"].as_str()).collect()
        };
        // A feature may have brought one that is optional.
        let (needed, optional) = (names(false), names(true));
        let is_there = |name: &str| needed.contains(name) || optional.contains(name);
        !needed.is_subset(locked) || !locked.iter().all(|name| is_there(name))
    };
    packages
        .iter()
        .filter(is_stale)
        .filter_map(|package| package["name"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The names of what each package of a lock file depends on, of those that lie in this tree.
fn locked(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found = BTreeMap::new();
    for package in text.split("[[package]]").skip(1).filter(|package| !package.contains("\nsource = ")) {
        let value = |line: &'static str| package.lines().find_map(|found| found.strip_prefix(line));
        let Some(name) = value("name = ") else { continue };
        let listed = package.split_once("dependencies = [").map_or("", |(_, listed)| listed);
        // A version stands behind the name where there are several.
        let names = listed.lines().filter_map(|line| line.trim().strip_prefix('"')?.split(['"', ' ']).next());
        found.insert(name.trim_matches('"'), names.collect());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_is_stale_if_a_crate_has_other_dependencies() {
        let lock = |dependencies: &str| {
            format!(
                "version = 4\n\n[[package]]\nname = \"dump\"\nversion = \"0.1.0\"\ndependencies = [\n{dependencies}]\n\n\
                 [[package]]\nname = \"other\"\nversion = \"1.0.0\"\nsource = \"registry\"\ndependencies = [\n \"x\",\n]\n"
            )
        };
        let dependency = |name: &str, kind: Option<&str>, optional: bool| serde_json::json!({ "name": name, "kind": kind, "optional": optional });
        let packages = [
            serde_json::json!({ "name": "dump", "dependencies": [
                dependency("disk", None, false), dependency("parquet", Some("build"), false),
                dependency("proptest", Some("dev"), false), dependency("loom", None, true),
            ] }),
            serde_json::json!({ "name": "other", "dependencies": [] }),
        ];
        for (dependencies, expected) in [
            (" \"disk\",\n \"parquet 60.1.0\",\n", vec![]),
            (" \"disk\",\n \"loom\",\n \"parquet\",\n", vec![]),
            (" \"disk\",\n", vec!["dump"]),
            (" \"disk\",\n \"memchr\",\n \"parquet\",\n", vec!["dump"]),
        ] {
            assert_eq!(stale(&lock(dependencies), &packages), expected, "{dependencies}");
        }
    }
}
