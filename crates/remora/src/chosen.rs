//! A selection of a tree's files, by paths from its top or by patterns.

use std::path::Path;

use anyhow::Result;
use block::tree::Files;
use failure::usage;
use glob::{MatchOptions, Pattern};

/// One star matches within a folder; two stars match across folders, too.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// A path from the top of a tree, or a pattern with `*`, `?`, `[a-z]` and `**`. A folder stands for
/// everything in it.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    text: String,
    pattern: Option<Pattern>,
}

impl std::str::FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Chosen, String> {
        let plain = text.trim_start_matches("./").trim_matches('/');
        if plain.split('/').any(|part| part == "..") {
            return Err("a path begins at the top of what was backed up, without '..'".to_owned());
        }
        // A name may have brackets in it.
        Ok(Chosen { text: plain.to_owned(), pattern: Pattern::new(plain).ok() })
    }
}

impl std::fmt::Display for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Chosen {
    /// Whether a path, or a folder that contains it, is selected.
    pub(crate) fn is(&self, path: &Path) -> bool {
        path.ancestors().any(|path| {
            path == Path::new(&self.text)
                || self.pattern.as_ref().is_some_and(|pattern| pattern.matches_path_with(path, OPTIONS))
        })
    }

    /// Fails if it selects nothing in this tree.
    pub(crate) fn must_be_in(&self, files: &Files, shown: &str) -> Result<()> {
        if files.nodes().any(|node| self.is(&node.path)) {
            return Ok(());
        }
        let name = Path::new(&self.text).file_name();
        let other = files.nodes().find(|node| name.is_some() && node.path.file_name() == name);
        let hint = match other {
            Some(other) => format!("; there is {}", humanize::text::path(&other.path)),
            None => format!("; 'remora list {shown} --files' lists what there is"),
        };
        Err(usage(format!("there is no {} in {shown}{hint}", self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_patterns_select_files_and_everything_below_folders() {
        let is = |pattern: &str, path: &str| pattern.parse::<Chosen>().unwrap().is(Path::new(path));
        for (pattern, path, answer) in [
            ("app/t.ibd", "app/t.ibd", true),
            ("/app/t.ibd", "app/t.ibd", true),
            ("./app/", "app/t.ibd", true),
            ("app", "app2/t.ibd", false),
            ("app/*", "app/t.ibd", true),
            ("*.ibd", "app/t.ibd", false),
            ("**/*.ibd", "app/t.ibd", true),
            ("**/*.ibd", "t.ibd", true),
            ("a?p", "app/t.ibd", true),
            ("odd[name", "odd[name", true),
            ("odd[1]", "odd[1]", true),
        ] {
            assert_eq!(is(pattern, path), answer, "{pattern} {path}");
        }
        assert!("../etc".parse::<Chosen>().is_err());
    }
}
