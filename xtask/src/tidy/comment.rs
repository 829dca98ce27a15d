//! Checks the comments and messages in the code: words that the glossary refuses, and comments with sentences
//! that are too long.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

use super::document::{self, RefusedWord};

/// Words of the glossary that code may have, each with what it means there.
const ALLOWED: [(&str, &str); 6] = [
    ("buried", "a column of information_schema.queues"),
    ("doubles", "writes a quote or a backslash twice; a wait that grows"),
    ("fold", "a step of hash functions"),
    ("folded", "the same"),
    ("piece", "a part of a stream, before it becomes a frame or a run"),
    ("pieces", "the same"),
];

/// The check itself, whose tests need some of the words.
const ITSELF: &str = "xtask/src/tidy/";

/// Complains about every source file among `files`.
pub(super) fn check(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) -> Result<()> {
    let mut refused = document::refused_words(root)?;
    refused.retain(|(word, _)| !ALLOWED.iter().any(|(allowed, _)| word == allowed));
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        let shown = file.to_string_lossy();
        if !shown.starts_with(ITSELF) {
            let text = std::fs::read_to_string(root.join(file)).with_context(|| shown.to_string())?;
            check_source(&shown, &text, &refused, complaints)?;
        }
    }
    Ok(())
}

fn check_source(
    shown: &str,
    text: &str,
    refused: &[RefusedWord],
    complaints: &mut Vec<String>,
) -> Result<()> {
    for (line, prose) in document::blocks(&comments(text)) {
        document::check_words(shown, Some(line), &prose, refused, complaints);
        document::check_sentences(shown, line, &prose, complaints);
    }
    for message in messages(text).map_err(|error| anyhow!("{shown}: {error}"))? {
        document::check_words(shown, None, &message, refused, complaints);
    }
    Ok(())
}

/// The text of the comments, each in its line; other lines are empty.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let comment = line.trim_start().strip_prefix("//")?;
        let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment);
        Some(comment.strip_prefix(' ').unwrap_or(comment).to_owned())
    };
    text.lines().map(|line| comment(line).unwrap_or_default() + "\n").collect()
}

/// The string literals that have several words, without backslashes and line breaks.
fn messages(text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let stream = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
    strings(stream, &mut found);
    Ok(found)
}

fn strings(stream: TokenStream, found: &mut Vec<String>) {
    let mut is_doc = false;
    for token in stream {
        match &token {
            // A doc comment is `#[doc = "..."]`, and is checked as a comment.
            TokenTree::Ident(ident) => is_doc = ident == "doc",
            TokenTree::Punct(_) => {}
            TokenTree::Group(group) => strings(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if !is_doc && text.contains('"') && text.contains(' ') {
                    let words: Vec<&str> =
                        text.trim_matches('"').split(['\\', '\n']).flat_map(str::split_whitespace).collect();
                    found.push(document::without_code(&words.join(" ")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_source, comments, messages};

    fn complaints(text: &str) -> Vec<String> {
        let refused = vec![("goes on".to_owned(), "continues".to_owned())];
        let mut found = Vec::new();
        check_source("a.rs", text, &refused, &mut found).unwrap();
        found
    }

    #[test]
    fn words_are_refused_in_comments_and_messages() {
        let code = "//! It goes on.\n\n/// Then it\n/// goes on.\nfn goes_on() {\n    // goes on\n    let a = \"it goes \\\n  on\";\n    println!(\"goes on\");\n}\n";
        let found = complaints(code);
        let places: Vec<&str> = found.iter().map(|line| line.split(" '").next().unwrap()).collect();
        assert_eq!(places, ["a.rs:1:", "a.rs:3:", "a.rs:6:", "a.rs:", "a.rs:"], "{found:?}");
    }

    #[test]
    fn names_and_code_are_not_refused() {
        let code = "/// As `goes on` says:\n///\n/// ```\n/// goes on\n/// ```\nfn goes_on() {}\nconst A: &str = \"the `goes on` of it\";\n";
        assert_eq!(complaints(code), [""; 0]);
    }

    #[test]
    fn long_sentences_are_refused_in_comments() {
        let long = "word ".repeat(41);
        assert_eq!(complaints(&format!("/// {long}.\nfn f() {{}}\n")).len(), 1);
        assert_eq!(
            complaints(&format!("/// {}.\nconst A: &str = \"{long}\";\n", "word ".repeat(39))).len(),
            0
        );
    }

    #[test]
    fn comments_keep_their_lines() {
        assert_eq!(comments("//! a\nlet b = 1; // c\n    /// * d\n"), "a\n\n* d\n");
    }

    #[test]
    fn strings_of_several_words_are_messages() {
        let code = "/// a b\nfn f() { g(\"one\", \"two three\", r#\"four \"five\" six\"#, 'x') }";
        assert_eq!(messages(code).unwrap().len(), 2);
    }
}
