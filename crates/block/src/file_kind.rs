//! What the names of files say of them.

use crate::format::NUMBER_MAX;

/// Kinds of files, in the order in which a mirror copies them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Keys,
    Blocks,
    /// A piece of an archived log.
    Log,
    Catalogue,
    Note,
    /// What a mirror knows of its files. It is that of one place, so it is not copied.
    Mirror,
}

/// What a file is; None if a mirror has nothing to do with it. Known damage is that of one place.
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

/// When an archived log last had everything: written anew every few seconds.
const CAUGHT_UP: &str = "caught-up.note";

/// Whether a file is worth keeping from being removed. Locks, and what is written anew all the time, are not.
#[must_use]
pub fn is_lasting(name: &str) -> bool {
    kind(name).is_some() && name != CAUGHT_UP
}

/// Whether it is a number from 1 on, as these names have it.
fn is_number(text: &str, digits: usize) -> bool {
    let is_whole = |number| number > 0 && number <= NUMBER_MAX && format!("{number:0digits$}") == text;
    text.parse::<u64>().is_ok_and(is_whole)
}

/// Whether a file is numbered, and so has the same content for ever.
#[must_use]
pub fn never_changes(name: &str) -> bool {
    kind(name).is_some_and(|kind| kind <= Kind::Log)
}
