//! bash cuts words at `:`, `=` and `@`, and replaces only the part that is being typed. Here the whole word
//! is completed, and the part before the cut is left out of the answer.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The variables of clap's script: the place of the word that is being typed, and what separates answers.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
const SEPARATOR: &str = "_CLAP_IFS";

/// Says that the words are whole.
const AGAIN: &str = "REMORA_COMPLETE_AGAIN";

/// The characters at which bash cuts.
const CUTS: [char; 3] = [':', '=', '@'];

/// Answers if bash has cut a word; otherwise nothing has to be done for it.
pub(super) fn answer() -> bool {
    if std::env::var_os("COMPLETE").is_none_or(|shell| shell != "bash") || std::env::var_os(AGAIN).is_some() {
        return false;
    }
    let index = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let words: Option<Vec<String>> = words.into_iter().map(|word| word.into_string().ok()).collect();
    if words.as_ref().is_some_and(Vec::is_empty) {
        return register();
    }
    let Some((whole, index)) = words.zip(index).and_then(|(words, index)| joined(&words, index)) else {
        return false;
    };
    let cut = whole[index].rfind(CUTS).map_or(0, |at| at + 1);
    let before = whole[index][..cut].to_owned();
    let Some(found) = clap_says(&[&["--".to_owned()], whole.as_slice()].concat(), index) else { return true };
    let separator = std::env::var(SEPARATOR).unwrap_or_else(|_| "\n".to_owned());
    let ends: Vec<&str> =
        found.split(&separator).filter_map(|candidate| candidate.strip_prefix(&before)).collect();
    // If bash no longer listens, nobody is waiting.
    std::io::stdout().write_all(ends.join(&separator).as_bytes()).ok();
    true
}

/// Prints the script, with one change: clap's own takes a cut for a part of the word that is still empty.
fn register() -> bool {
    const PART: &str = "words[COMP_CWORD]=\"$2\"";
    let Some(script) = clap_says(&[], 0) else { return false };
    let kept = format!("[[ ${{words[COMP_CWORD]}} == [:=@] ]] || {PART}");
    std::io::stdout().write_all(script.replace(PART, &kept).as_bytes()).ok();
    true
}

/// What clap answers, asked by this program once more: it writes to the standard output.
fn clap_says(arguments: &[String], index: usize) -> Option<String> {
    let mut again = Command::new(std::env::current_exe().ok()?);
    // The script calls the program as the user has.
    again.arg0(std::env::args_os().next()?);
    again.args(arguments).env(INDEX, index.to_string()).env(AGAIN, "1").stderr(Stdio::null());
    again.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The words as they were typed, and the place of the one that is being typed; none if nothing was cut.
/// `index` is its place among the parts.
fn joined(words: &[String], index: usize) -> Option<(Vec<String>, usize)> {
    let is_cut = |word: &str| !word.is_empty() && word.chars().all(|c| CUTS.contains(&c));
    let mut whole: Vec<String> = Vec::new();
    let (mut at, mut glue) = (index, false);
    for (place, word) in words.iter().enumerate() {
        let cut = is_cut(word);
        match whole.last_mut() {
            Some(last) if glue || cut => last.push_str(word),
            _ => whole.push(word.clone()),
        }
        if place == index {
            at = whole.len() - 1;
        }
        glue = cut;
    }
    (whole.len() < words.len() && index < words.len()).then_some((whole, at))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn parts_are_joined_around_cuts() {
        let check = |parts: &str, index, whole: &str, at| {
            let words: Vec<String> = parts.split(' ').map(str::to_owned).collect();
            let (found, place) = joined(&words, index).unwrap();
            assert_eq!((found.join(" ").as_str(), place), (whole, at), "{parts}");
        };
        check("remora stat sandbox : na 1", 4, "remora stat sandbox:na 1", 2);
        check("remora restore /repo/a @ 1 --to x", 6, "remora restore /repo/a@1 --to x", 4);
        check("remora stat --url = sandbox : a", 6, "remora stat --url=sandbox:a", 2);
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(joined(&words("remora stat 1"), 2), None);
    }
}
