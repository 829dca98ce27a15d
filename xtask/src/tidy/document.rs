//! Checks the documents that people read: words that the glossary refuses, sentences that are too long, and
//! links that lead nowhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// The most words of a sentence. A longer one is a list or a table.
const SENTENCE_WORDS_MAX: usize = 40;

/// What stands for a name in backquotes.
const CODE: &str = "CODE";

/// The page with the refused words, and the heading of their table.
const GLOSSARY: &str = "docs/glossary.md";
const REFUSED: &str = "## Words we do not use";

/// The order of the pages in the site, relative to `docs`, and the folders whose pages it has.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
const IN_ORDER: [&str; 4] = ["docs", "docs/guide", "docs/manual", "docs/formats"];

/// The pages of tasks, and the most words of prose between two of their examples.
const TASKS: &str = "docs/guide";
const PROSE_WORDS_MAX: usize = 80;

/// Documents outside of `docs`.
const AT_THE_TOP: [&str; 3] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];

/// A word, and what to write instead.
pub(super) type RefusedWord = (String, String);

/// Complains about every document.
pub(super) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let refused = refused_words(root)?;
    if refused.is_empty() {
        complaints.push(format!("{GLOSSARY}: no table below '{REFUSED}'"));
    }
    for file in documents(root)? {
        let text = read(root, &file)?;
        let shown = file.to_string_lossy();
        for (line, prose) in blocks(&text) {
            if file != Path::new(GLOSSARY) {
                check_words(&shown, Some(line), &prose, &refused, complaints);
            }
            check_sentences(&shown, line, &prose, complaints);
        }
        if file.starts_with(TASKS) {
            check_prose(&file, &text, complaints);
        }
        links(root, &file, &text, complaints)?;
    }
    check_order(root, complaints)
}

/// The refused words of the glossary.
pub(super) fn refused_words(root: &Path) -> Result<Vec<RefusedWord>> {
    Ok(refused(&read(root, Path::new(GLOSSARY))?))
}

/// Complains about refused words in a text.
pub(super) fn check_words(
    shown: &str,
    line: Option<usize>,
    prose: &str,
    refused: &[RefusedWord],
    complaints: &mut Vec<String>,
) {
    let place = line.map_or_else(String::new, |line| format!("{line}:"));
    let found = refused.iter().filter(|(word, _)| has(prose, word));
    complaints.extend(found.map(|(word, instead)| format!("{shown}:{place} '{word}'; write: {instead}")));
}

/// Complains about sentences in a text that are too long.
pub(super) fn check_sentences(shown: &str, line: usize, prose: &str, complaints: &mut Vec<String>) {
    let is_name = |word: &str| word.trim_end_matches(',') == CODE;
    // A list of names is no sentence.
    let said = sentences(prose).filter(|sentence| !sentence.split_whitespace().all(is_name));
    let long = said.filter(|sentence| words(sentence) > SENTENCE_WORDS_MAX);
    complaints.extend(long.map(|sentence| {
        let begin: String = sentence.chars().take(60).collect();
        format!("{shown}:{line}: a sentence of {} words: {begin}", words(sentence))
    }));
}

fn read(root: &Path, file: &Path) -> Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())
}

/// The documents, below the root.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = AT_THE_TOP.iter().map(PathBuf::from).collect();
    for folder in ["docs", "docs/guide", "docs/manual"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let name = PathBuf::from(entry?.file_name());
            if name.extension().is_some_and(|end| end == "md") {
                found.push(Path::new(folder).join(name));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The refused words of the glossary, each with what to write instead.
fn refused(glossary: &str) -> Vec<RefusedWord> {
    let table = glossary.split_once(REFUSED).map_or("", |(_, table)| table);
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let cells = rows.skip(1).filter_map(|row| row.trim_matches('|').split_once('|'));
    cells.map(|(word, instead)| (word.trim().to_owned(), instead.trim().to_owned())).collect()
}

/// The prose of a document: each paragraph, list item, heading and cell of a table, with its first line and
/// without code.
pub(super) fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut is_fenced, mut is_open) = (false, false);
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            (is_fenced, is_open) = (!is_fenced, false);
        } else if is_fenced || trimmed.is_empty() || (line.starts_with("    ") && !is_open) {
            is_open = false;
        } else if line.starts_with('|') {
            found.extend(without_code(line).split('|').map(|cell| (at + 1, cell.trim().to_owned())));
            is_open = false;
        } else if is_open && !is_item(trimmed) && !line.starts_with('#') {
            if let Some((_, block)) = found.last_mut() {
                block.push(' ');
                block.push_str(trimmed);
            }
        } else {
            found.push((at + 1, trimmed.trim_start_matches(['*', '-', '#', ' ']).to_owned()));
            is_open = !line.starts_with('#');
        }
    }
    found.into_iter().map(|(line, block)| (line, without_code(&block))).collect()
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("* ")
        || line.starts_with("- ")
        || (number.len() < line.len() && number.starts_with(". "))
}

/// A text in which each span of code is one word, and links are their texts.
pub(super) fn without_code(text: &str) -> String {
    let mut prose = String::new();
    for (at, part) in text.replace("``", "`").split('`').enumerate() {
        prose.push_str(if at % 2 == 0 { part } else { CODE });
    }
    let mut parts = prose.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push(']');
        plain.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    plain
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().count()
}

/// The sentences of a text, which end with a sign and a space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = rest.match_indices(['.', '!', '?']).find_map(|(at, sign)| {
            let tail = rest.get(at + sign.len()..)?;
            let closed = tail.trim_start_matches([')', '"', '*', ']']);
            closed.starts_with(' ').then(|| rest.len() - closed.len())
        });
        let (sentence, after) = rest.split_at(ends.unwrap_or(rest.len()));
        rest = after.trim_start();
        Some(sentence)
    })
}

/// Whether a text has a word or phrase, as it is written or with a capital first letter.
fn has(text: &str, word: &str) -> bool {
    let mut letters = word.chars();
    let capital: String =
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect();
    let is_letter = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    [word, capital.as_str()].iter().any(|word| {
        text.match_indices(*word).any(|(at, _)| {
            let (before, after) = (text.get(..at), text.get(at + word.len()..));
            let is_within = before.is_some_and(|before| before.ends_with(is_letter))
                || after.is_some_and(|after| after.starts_with(is_letter));
            !is_within
        })
    })
}

/// Complains about links within the tree to files and headings that are not there.
fn links(root: &Path, file: &Path, text: &str, complaints: &mut Vec<String>) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let targets: BTreeSet<&str> =
        text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect();
    for target in targets.into_iter().filter(|target| !target.contains(':') && !target.contains(' ')) {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = if path.is_empty() { file.to_owned() } else { plain(&folder.join(path)) };
        if !root.join(&to).exists() {
            complaints.push(format!("{}: the link {target} leads nowhere", file.display()));
        } else if !anchor.is_empty() && !headings(&read(root, &to)?).contains(anchor) {
            complaints.push(format!("{}: {} has no heading #{anchor}", file.display(), to.display()));
        }
    }
    Ok(())
}

/// A path without `..`.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Complains about pages that are not in the site's order, or are there twice.
fn check_order(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let order = read(root, Path::new(SUMMARY))?;
    for folder in IN_ORDER {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = Path::new(folder).join(entry?.file_name());
            let Some(place) = path.to_str().and_then(|path| path.strip_prefix("docs/")) else { continue };
            let count = order.matches(&format!("]({place})")).count();
            if place.ends_with(".md") && path != Path::new(SUMMARY) && count != 1 {
                complaints.push(format!("{SUMMARY} has {} {count} times instead of once", path.display()));
            }
        }
    }
    Ok(())
}

/// Complains about pages of tasks with much prose between two examples.
fn check_prose(file: &Path, text: &str, complaints: &mut Vec<String>) {
    let mut between = 0;
    let mut is_shown = false;
    let fenced: Vec<&str> = text.split("\n```").collect();
    for (at, part) in fenced.iter().enumerate() {
        // Every second part is an example.
        if at % 2 == 1 {
            (between, is_shown) = (0, true);
            continue;
        }
        between += blocks(part).iter().map(|(_, prose)| words(prose)).sum::<usize>();
        let is_between = is_shown && at + 1 < fenced.len();
        if is_between && between > PROSE_WORDS_MAX {
            let begin: String = part.trim().chars().take(60).collect();
            complaints.push(format!("{}: {between} words between two examples: {begin}", file.display()));
        }
    }
}

/// The anchors of a document's headings.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    titles
        .map(|title| {
            let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{blocks, check_prose, has, headings, refused, sentences};

    #[test]
    fn prose_is_found_without_code() {
        let text = "# Title `x`\n\nOne\ntwo `anew` [three](four.md).\n\n    anew\n\n* item\n  goes on\n\
                    | cell | `a` |\n```\nanew\n```\n";
        let found: Vec<String> =
            blocks(text).into_iter().map(|(line, text)| format!("{line} {text}")).collect();
        let wanted =
            ["1 Title CODE", "3 One two CODE [three].", "8 item goes on", "10 ", "10 cell", "10 CODE", "10 "];
        assert_eq!(found, wanted);
    }

    #[test]
    fn sentences_end_before_a_space() {
        let text = "At 1.5 s. Then (it ends.) And `x.y`. last";
        let found: Vec<&str> = sentences(text).collect();
        assert_eq!(found, ["At 1.5 s.", "Then (it ends.)", "And `x.y`.", "last"]);
    }

    #[test]
    fn only_whole_words_are_refused() {
        assert!(has("a twin.", "twin") && has("Twin it", "twin") && has("in pieces", "pieces"));
        assert!(!has("TWIN", "twin") && !has("twins", "twin") && !has("a-twin", "twin"));
    }

    #[test]
    fn the_table_of_words_is_read() {
        let page = "| a | b |\n## Words we do not use\n\n| not | but |\n|---|---|\n| mend | fix |\n";
        assert_eq!(refused(page), [("mend".to_owned(), "fix".to_owned())]);
    }

    #[test]
    fn pages_of_tasks_have_little_prose_between_examples() {
        let check = |count: usize| {
            let prose = "word ".repeat(count);
            let text = format!(
                "{0}{0}\n```console\n$ a\n```\n{prose}\n```console\n$ b\n```\n{0}{0}\n",
                "w ".repeat(90)
            );
            let mut complaints = Vec::new();
            check_prose(Path::new("p.md"), &text, &mut complaints);
            complaints.len()
        };
        assert_eq!((check(80), check(81)), (0, 1));
    }

    #[test]
    fn anchors_are_those_of_the_forge() {
        assert!(headings("## What's `x_y`, now\n").contains("whats-x_y-now"));
    }
}
