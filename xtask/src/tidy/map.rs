//! Checks that the modules which docs/ARCHITECTURE.md names exist.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

const MAP: &str = "docs/ARCHITECTURE.md";

/// Every name in backquotes in the section of a crate is a module of it, unless it is more than a name.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(root.join(MAP)).context(MAP)?;
    for (of, names) in sections(&text) {
        let folder = if of.contains('/') { root.join(&of) } else { root.join("crates").join(&of) };
        for name in names {
            // `server::secure` in the section of another crate.
            let (folder, last) = match name.rsplit_once("::") {
                Some((first, last)) if root.join("crates").join(first).is_dir() => {
                    (root.join("crates").join(first), last)
                }
                Some((_, last)) => (folder.clone(), last),
                None => (folder.clone(), name.as_str()),
            };
            let last = last.rsplit('/').next().unwrap_or(last);
            let mut stems = BTreeSet::new();
            gather(&folder, &mut stems)?;
            if !stems.contains(last) && !root.join("crates").join(last).is_dir() {
                complaints.push(format!("{MAP}: {of} has no module {name}"));
            }
        }
    }
    Ok(())
}

/// The crates that have a section, and the names in it.
fn sections(text: &str) -> Vec<(String, Vec<String>)> {
    let inside = text.split("## Inside the crates").nth(1).unwrap_or_default();
    let inside = inside.split("\n## ").next().unwrap_or_default();
    let sections = inside.split("\n### ").skip(1).filter_map(|section| {
        // Some sections are of several crates.
        let (of, body) = section.strip_prefix('`')?.split_once('`')?;
        let words = body.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2));
        let is_name = |word: &&str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_:/".contains(&b))
        };
        Some((of.to_owned(), words.filter(is_name).map(str::to_owned).collect()))
    });
    sections.collect()
}

/// The names of files and folders, without what follows a point.
fn gather(folder: &Path, stems: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        stems.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        if path.is_dir() {
            gather(&path, stems)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_in_backquotes_of_a_section() {
        let text =
            "## Inside the crates\n### `a`\n* `b`, `c::d` (`E`, `f.g`)\n```\n `x`\n```\n`h`\n## Next\n`z`\n";
        let names = ["b", "c::d", "h"].map(str::to_owned).to_vec();
        assert_eq!(sections(text), [("a".to_owned(), names)]);
    }
}
