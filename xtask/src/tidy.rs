//! Checks what neither the compiler nor clippy checks: dependencies between crates, lengths of files, words
//! and characters, and that documents are up to date.

mod circle;
mod comment;
mod document;
mod lock;
mod map;
mod shape;

pub(crate) use document::{SUMMARY, plain};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, header, matrix, root};

/// The most lines of code in a file, without tests.
const FILE_LINES_MAX: usize = 500;

/// Files that are longer, with their length; a number here may only decrease.
const LONGER: [(&str, usize); 1] = [("plugin/queue/queue_abi.h", 800)];

/// The most lines of a crate, with comments and the tests in its files: a room that one person can know.
const CRATE_LINES_MAX: usize = 16_000;

/// The same for the program. It joins all others, and has no algorithms.
const PROGRAM_LINES_MAX: (&str, usize) = ("remora", 20_000);

/// The most bytes of a file in the tree.
const FILE_BYTES_MAX: u64 = 200_000;

/// Files that may be larger: data, with their licence beside them.
const LARGER: [&str; 4] = [
    "demo/urls_world.txt",
    "crates/urlpack/model/small.urlmodel",
    "crates/urlpack/model/text.urlmodel",
    "Cargo.lock",
];

/// Words that a finished change does not contain. They are split, so that this file does not contain them
/// either.
const BANNED: [&str; 5] = [
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("todo", "!("),
];

/// The most columns of a comment line: the same as rustfmt's limit for code.
const COMMENT_COLUMNS_MAX: usize = 110;

/// Names that say nothing.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "manager"];

/// Where what comes from servers and dumps must stay as it is, to the byte.
const EXACT: [&str; 2] = ["crates/server/src/", "crates/dump/src/"];

/// Files there that may replace bytes which are not text, once each: the result is shown, and nothing else.
const SHOWN: [&str; 3] =
    ["crates/server/src/load.rs", "crates/server/src/secure.rs", "crates/server/src/stream.rs"];

/// What the names of published packages begin with.
const PUBLISHED: &str = "remora-";

/// Our own dev-only dependencies: crates that replace the outside in tests.
const FOR_TESTS: [&str; 4] = ["sandbox", "store-sandbox", "disk", "urlpack-plugin"];

pub(crate) fn run() -> Result<()> {
    let root = root();
    let mut complaints = Vec::new();
    let output = cargo().args(["metadata", "--format-version", "1", "--no-deps"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    edges(&root, packages, &mut complaints)?;
    lock::check(&root, packages, &mut complaints)?;
    let files = tracked(&root)?;
    for file in &files {
        check_file(&root, file, &mut complaints)?;
    }
    crates(&root, &files, &mut complaints)?;
    manifests(&root, &files, &mut complaints)?;
    manuals(&root, &mut complaints)?;
    circle::check(&root, &mut complaints)?;
    document::check(&root, &mut complaints)?;
    comment::check(&root, &files, &mut complaints)?;
    map::check(&root, &mut complaints)?;
    shape::check(&root, &mut complaints)?;
    matrix::check(&root, &mut complaints)?;
    complaints.extend(header::stale(&root)?);
    widths(&root, &files, &mut complaints)?;
    if complaints.is_empty() {
        println!("tidy: {} files, all in order", files.len());
        return Ok(());
    }
    complaints.iter().for_each(|problem| println!("tidy: {problem}"));
    bail!("{} problems", complaints.len())
}

pub(crate) fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let listed =
        Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root).output()?;
    let text = String::from_utf8(listed.stdout)?;
    Ok(text.lines().map(PathBuf::from).filter(|file| root.join(file).is_file()).collect())
}

/// Compares the table in docs/ARCHITECTURE.md with what the manifests say.
fn edges(root: &Path, packages: &[serde_json::Value], complaints: &mut Vec<String>) -> Result<()> {
    // The packages that others may take have our name before theirs.
    let name = |value: &serde_json::Value| {
        let name = value["name"].as_str().unwrap_or_default();
        name.strip_prefix(PUBLISHED).unwrap_or(name).to_owned()
    };
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        let edges = found.entry(name(package)).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = name(dependency);
            let only_tests = dependency["kind"] == "dev" && FOR_TESTS.contains(&to.as_str());
            if ours.contains(&to) && to != name(package) && !only_tests {
                edges.insert(to);
            }
        }
    }
    let table = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md")).context("docs/ARCHITECTURE.md")?;
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let names =
            |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<BTreeSet<_>>();
        if let [_, from, to, ..] = cells.as_slice() {
            names(from).into_iter().for_each(|from| {
                allowed.insert(from, names(to));
            });
        }
    }
    for (from, to) in &found {
        match allowed.get(from) {
            None => {
                complaints.push(format!("docs/ARCHITECTURE.md: the table of edges has no row for {from}"))
            }
            Some(row) if row != to => complaints
                .push(format!("{from} depends on {to:?}, the table in docs/ARCHITECTURE.md says {row:?}")),
            Some(_) => {}
        }
    }
    // The code map on the same page names folders, whose names contain a slash unless they are crates.
    for gone in allowed.keys().filter(|name| !found.contains_key(*name) && !name.contains('/')) {
        complaints.push(format!("docs/ARCHITECTURE.md: there is no crate {gone}"));
    }
    Ok(())
}

fn check_file(root: &Path, file: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let shown = file.display().to_string();
    let bytes = std::fs::read(root.join(file)).with_context(|| shown.clone())?;
    if bytes.len() as u64 > FILE_BYTES_MAX && !LARGER.contains(&shown.as_str()) {
        complaints.push(format!("{shown} has {} bytes; {FILE_BYTES_MAX} is the limit", bytes.len()));
    }
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if EMPTY_NAMES.contains(&stem) {
        complaints.push(format!("{shown}: name it after what it does"));
    }
    let source = matches!(
        file.extension().and_then(|end| end.to_str()),
        Some("rs" | "sql" | "cc" | "h" | "sh" | "toml")
    );
    if !source {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes);
    for (number, line) in text.lines().enumerate() {
        let place = format!("{shown}:{}", number + 1);
        if !line.is_ascii() {
            complaints.push(format!("{place}: not ASCII; write \\u{{..}}"));
        }
        if let Some(word) = BANNED.iter().find(|word| line.contains(*word)) {
            complaints.push(format!("{place}: {word}"));
        }
    }
    let losses = text.matches("from_utf8_lossy").count();
    if EXACT.iter().any(|folder| shown.starts_with(folder))
        && losses > usize::from(SHOWN.contains(&shown.as_str()))
    {
        complaints.push(format!("{shown}: from_utf8_lossy loses bytes; server::text keeps them"));
    }
    let is_code = ["rs", "cc", "h"].iter().any(|end| file.extension().is_some_and(|is| is == *end));
    if is_code && !shown.contains("/tests") {
        let lines = code_lines(&text);
        let limit =
            LONGER.iter().find(|(name, _)| *name == shown).map_or(FILE_LINES_MAX, |(_, lines)| *lines);
        if lines > limit {
            complaints.push(format!("{shown} has {lines} lines of code; {limit} is the limit: split it"));
        }
    }
    Ok(())
}

/// Lines before the tests that are neither blank nor comments.
fn code_lines(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("/*"))
        .count()
}

/// Complains about crates that are too large.
fn crates(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) -> Result<()> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let path = file.to_str().context("a path that is not text")?;
        let source = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        if let Some((name, _)) = source {
            *lines.entry(name).or_default() += std::fs::read_to_string(root.join(file))?.lines().count();
        }
    }
    for (name, lines) in lines {
        let is_program = name == PROGRAM_LINES_MAX.0;
        let limit = if is_program { PROGRAM_LINES_MAX.1 } else { CRATE_LINES_MAX };
        if lines > limit {
            complaints.push(format!(
                "crates/{name} has {lines} lines; {limit} is the limit: take a crate out of it"
            ));
        }
    }
    Ok(())
}

/// Complains about comment lines that are too wide.
fn widths(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) -> Result<()> {
    for file in files {
        let sign: &[&str] = match file.extension().and_then(|end| end.to_str()) {
            Some("rs" | "cc" | "h") => &["//", "/*", "* "],
            Some("sql") => &["--"],
            Some("sh" | "toml") => &["#"],
            _ => continue,
        };
        let text = std::fs::read_to_string(root.join(file))?;
        let is_comment = |line: &str| sign.iter().any(|sign| line.trim_start().starts_with(sign));
        let too_wide = |line: &&str| line.chars().count() > COMMENT_COLUMNS_MAX && is_comment(line);
        for (number, _) in text.lines().enumerate().filter(|(_, line)| too_wide(line)) {
            let place = format!("{}:{}", file.display(), number + 1);
            complaints.push(format!("{place}: a comment is wider than {COMMENT_COLUMNS_MAX} columns"));
        }
    }
    Ok(())
}

/// Every member must take the workspace's lints, which are not inherited automatically.
fn manifests(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) -> Result<()> {
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml") && file.components().count() > 1) {
        let text = std::fs::read_to_string(root.join(file))?;
        if !text.contains("[lints]\nworkspace = true") && !text.contains("lints.workspace = true") {
            complaints.push(format!("{}: takes no lints from the workspace", file.display()));
        }
    }
    Ok(())
}

/// Every command must have a manual page with its exit status, and the page of codes must have the whole
/// table.
fn manuals(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let manual = root.join("docs/manual");
    for entry in std::fs::read_dir(root.join("crates/remora/src/commands"))? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let page = manual.join(format!("{name}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        if !text.contains("## Exit status") {
            complaints.push(format!("docs/manual/{name}.md: missing, or has no section 'Exit status'"));
        }
    }
    let codes = std::fs::read_to_string(manual.join("exit-codes.md")).unwrap_or_default();
    let table = std::fs::read_to_string(root.join("crates/remora/src/exit.rs"))?;
    for line in table.lines().filter_map(|line| line.trim().strip_prefix("Exit::")) {
        if let Some((_, meaning)) = line.split_once(" => \"") {
            let meaning = meaning.trim_end_matches("\",");
            if !codes.contains(meaning) {
                complaints.push(format!("docs/manual/exit-codes.md lacks '{meaning}'"));
            }
        }
    }
    Ok(())
}
