//! `remora list --files`: what is in a generation.

use std::path::Path;

use anyhow::Result;
use block::restore::Request;
use block::tree::{Files, Node};
use disk::Kind;
use failure::usage;
use humanize::{date_time, text};
use seal::Key;
use serde_json::json;

use crate::chosen::Chosen;
use crate::exit::Exit;
use crate::report::Report;

/// The permission bits, from the highest: who may read, write and execute, and a letter for each.
const BITS: [(u32, char); 9] = [
    (0o400, 'r'),
    (0o200, 'w'),
    (0o100, 'x'),
    (0o40, 'r'),
    (0o20, 'w'),
    (0o10, 'x'),
    (0o4, 'r'),
    (0o2, 'w'),
    (0o1, 'x'),
];

/// Bits that are shown instead of a right to execute, and where: set-user-id, set-group-id, sticky.
const SPECIAL: [(u32, usize, char); 3] = [(0o4000, 2, 's'), (0o2000, 5, 's'), (0o1000, 8, 't')];

const NS: i128 = 1_000_000_000;

/// Lists the selected files.
pub(super) fn list(argument: &str, chosen: &Chosen, key: Option<&Key>, report: &Report) -> Result<Exit> {
    let (named, generation) = repository::one(argument, key)?;
    if !named.is_tree(Request::new(generation, 1))? {
        let text = format!(
            "{argument} is a volume, and the backup does not know what is in it; 'remora mount' shows it"
        );
        return Err(usage(text));
    }
    let name = named.name;
    let files = Files::open(named.repository, generation, Path::new(""))?;
    let generation = files.generation();
    chosen.must_be_in(&files, &repository::at_generation(argument, generation))?;
    for node in files.nodes().filter(|node| chosen.is(&node.path)) {
        // A hard link has no length of its own.
        let real = node.same_as.as_ref().and_then(|first| files.nodes().find(|real| real.path == *first));
        show((&name, generation), node, real.unwrap_or(node).len, report)?;
    }
    Ok(Exit::Done)
}

/// As ls(1) shows them.
fn rights(mode: u32) -> String {
    let plain = BITS.iter().map(|(bit, letter)| if mode & bit == 0 { '-' } else { *letter });
    let mut letters: Vec<char> = plain.collect();
    for (bit, at, letter) in SPECIAL {
        if let Some(execute) = letters.get_mut(at).filter(|_| mode & bit != 0) {
            *execute = if *execute == 'x' { letter } else { letter.to_ascii_uppercase() };
        }
    }
    letters.into_iter().collect()
}

fn show((name, generation): (&str, u64), node: &Node, len: u64, report: &Report) -> Result<()> {
    let (kind, letter, target) = match &node.kind {
        Kind::Folder => ("folder", 'd', None),
        Kind::Link(target) => ("link", 'l', Some(Path::new(target))),
        Kind::File | Kind::Other => ("file", '-', None),
    };
    let attributes = node.attributes;
    let modified_s = i64::try_from(attributes.modified_ns.div_euclid(NS)).unwrap_or(i64::MAX);
    if report.is_json() {
        report.message(&json!({
            "message_type": "file", "name": name, "generation": generation, "path": node.path.display().to_string(),
            "kind": kind, "bytes": len, "mode": format!("{:04o}", attributes.mode & 0o7777), "uid": attributes.uid,
            "gid": attributes.gid, "modified": date_time::machine(modified_s),
            "target": target.map(|target| target.display().to_string()),
            "same_as": node.same_as.as_ref().map(|first| first.display().to_string()),
        }))?;
        return Ok(());
    }
    let bits = rights(attributes.mode);
    let path = if node.path.as_os_str().is_empty() { Path::new(".") } else { &node.path };
    let more = match (target, &node.same_as) {
        (Some(target), _) => format!(" -> {}", text::path(target)),
        (None, Some(first)) => format!(" = {}", text::path(first)),
        (None, None) => String::new(),
    };
    report.data(&format!(
        "{letter}{bits} {len:>12}  {}  {}{more}",
        date_time::shown(modified_s),
        text::path(path)
    ))?;
    Ok(())
}
