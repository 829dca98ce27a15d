//! The parts of documents that are generated from the table of servers.

use std::path::Path;

use anyhow::{Context, Result};

use crate::root;

/// The marks around such a part.
const BEGIN: &str = "<!-- made by cargo xtask matrix -->\n";
const END: &str = "<!-- end -->\n";

/// The documents, and their generated parts.
fn documents() -> [(&'static str, String); 2] {
    [("README.md", sandbox::matrix()), ("docs/manual/sandbox.md", sandbox::sources())]
}

/// A document with its part replaced.
fn renewed(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, part, END, after].concat())
}

/// Rewrites the parts.
pub(crate) fn write() -> Result<()> {
    for (name, part) in documents() {
        let path = root().join(name);
        let text = std::fs::read_to_string(&path)?;
        let new = renewed(&text, &part).with_context(|| format!("{name} has no line {}", BEGIN.trim()))?;
        std::fs::write(&path, new)?;
    }
    Ok(())
}

/// The documents that contradict the table.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    for (name, part) in documents() {
        let text = std::fs::read_to_string(root.join(name))?;
        if renewed(&text, &part).is_none_or(|new| new != text) {
            complaints
                .push(format!("{name} does not say what the table of servers says: cargo xtask matrix"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, renewed};

    #[test]
    fn only_the_part_between_the_marks_is_rewritten() {
        let text = format!("a\n{BEGIN}| old |\n{END}b\n");
        assert_eq!(renewed(&text, "| new |\n").unwrap(), format!("a\n{BEGIN}| new |\n{END}b\n"));
        assert_eq!(renewed("a\n", "| new |\n"), None);
    }
}
