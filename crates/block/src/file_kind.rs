//! Kinds of files, by their names.

use crate::format::NUMBER_MAX;

/// Kinds of files, in the order in which a mirror copies them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Keys,
    Blocks,
    /// A segment of an archived log.
    Log,
    Catalogue,
    Note,
    /// A mirror's own note. It belongs to one place, so it is not copied.
    Mirror,
}

/// The kind of a file; `None` if a mirror ignores it. Known damage belongs to one place.
pub(crate) fn kind(name: &str) -> Option<Kind> {
    match name.rsplit_once('.')? {
        (_, "keys") => Some(Kind::Keys),
        (number, "blk") if is_number(number, 6) => Some(Kind::Blocks),
        (numbers, "log") => {
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            (is_number(first, 10) && is_number(last, 10)).then_some(Kind::Log)
        }
        (_, "catalogue") => Some(Kind::Catalogue),
        ("mirror", "note") => Some(Kind::Mirror),
        ("newest" | "booted" | "places" | "first" | "caught-up", "note") => Some(Kind::Note),
        _ => None,
    }
}

/// When an archived log last had everything: rewritten every few seconds.
const CAUGHT_UP: &str = "caught-up.note";

/// Whether a file is worth retaining. Locks, and what is rewritten all the time, are not.
#[must_use]
pub fn is_lasting(name: &str) -> bool {
    kind(name).is_some() && name != CAUGHT_UP
}

/// Whether it is a number from 1 on, written as in these names.
fn is_number(text: &str, digits: usize) -> bool {
    let is_whole = |number| number > 0 && number <= NUMBER_MAX && format!("{number:0digits$}") == text;
    text.parse::<u64>().is_ok_and(is_whole)
}

/// Whether a file is numbered, and so never changes.
#[must_use]
pub fn never_changes(name: &str) -> bool {
    kind(name).is_some_and(|kind| kind <= Kind::Log)
}
