//! Commands that a message or a page tells somebody to type.

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@=+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command with an option at its end.
#[must_use]
pub fn with_option(line: &str, option: &str, value: &str) -> String {
    format!("{line} {option} {}", quoted(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_for_a_shell() {
        assert_eq!(
            ["a/b@1", "a b", "it's", "", "$x", "`d.b`.q", "--url"].map(quoted),
            ["a/b@1", "'a b'", r"'it'\''s'", "''", "'$x'", "'`d.b`.q'", "--url"]
        );
        assert_eq!(with_option("remora kill 7", "-S", "/my socket"), "remora kill 7 -S '/my socket'");
    }
}
