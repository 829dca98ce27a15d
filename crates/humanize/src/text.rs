//! Foreign text in our messages: names of files, output of programs. It must not move the cursor, change
//! colours or fill the screen.

use std::borrow::Cow;
use std::path::Path;

/// The most characters of a path that are shown.
const PATH_MAX: usize = 240;

/// A text without the characters that control a terminal, except line ends and tabs.
pub fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A path in one line; if it is very long its middle is left out.
pub fn path(path: &Path) -> String {
    let text: String = path.display().to_string().chars().fold(String::new(), |mut text, c| {
        if c.is_control() {
            text.extend(c.escape_default())
        } else {
            text.push(c)
        }
        text
    });
    let count = text.chars().count();
    if count <= PATH_MAX {
        return text;
    }
    let part = PATH_MAX / 2;
    let (front, back): (String, String) =
        (text.chars().take(part).collect(), text.chars().skip(count - part).collect());
    format!("{front}...{back} ({count} characters)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_upon_a_terminal() {
        assert_eq!(plain("two\nlines\tand \u{fc}"), "two\nlines\tand \u{fc}");
        assert_eq!(plain("\u{1b}[2Jgone\r\u{9b}0m\u{7}"), "\\u{1b}[2Jgone\\r\\u{9b}0m\\u{7}");
        assert_eq!(path(Path::new("a\nb\u{1b}")), "a\\nb\\u{1b}");
        let long = path(Path::new(&"x/".repeat(2500)));
        assert!(long.len() < 300 && long.ends_with("(5000 characters)"), "{long}");
    }
}
