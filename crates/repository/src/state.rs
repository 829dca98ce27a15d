//! What is known of the backups of a name without reading their blocks.

use std::collections::BTreeSet;

use block::verify::NotedDamage;
use block::{Generation, Listing};
use serde_json::Value;

use crate::Named;

/// What is known about a server's data since the backup was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: it is no server's, or nobody has tried it.
    Nothing,
    /// It was copied while the server ran, and nobody has tried the copy.
    NeverRecovered,
    /// A server started, but not all tables were checked.
    Booted,
    /// A server started on it, and all tables were checked.
    Proven,
    /// A server did not start on it, or a table was damaged.
    Unsound,
}

impl Evidence {
    /// As its note says.
    pub fn of(generation: &Generation) -> Evidence {
        let note: Value = serde_json::from_str(&generation.note).unwrap_or(Value::Null);
        if note.get("unsound").is_some() {
            return Evidence::Unsound;
        }
        match (note.get("proven"), generation.booted) {
            (Some(proof), _) if proof.get("checked") == proof.get("tables") => Evidence::Proven,
            (Some(_), _) => Evidence::Booted,
            (None, Some(true)) => Evidence::Proven,
            (None, Some(false)) => Evidence::Unsound,
            (None, None) if note.get("way").is_some_and(|way| way == "copy") => Evidence::NeverRecovered,
            (None, None) => Evidence::Nothing,
        }
    }
}

/// What is known to be damaged, without reading the blocks.
pub struct KnownDamage {
    /// Files that can't be used, and what else could not be read, in words.
    pub texts: Vec<String>,
    /// What the last verification noted.
    pub noted: NotedDamage,
}

impl KnownDamage {
    /// That of a name.
    pub fn of(named: &Named, listing: &Listing) -> KnownDamage {
        let mut texts: Vec<String> = listing.broken.iter().map(ToString::to_string).collect();
        let noted = block::verify::noted(&named.repository).unwrap_or_else(|error| {
            texts.push(format!("what remora verify noted can't be read: {error}"));
            NotedDamage::default()
        });
        KnownDamage { texts, noted }
    }

    /// The generations that can't be restored whole: what they build on is missing, or noted as damaged.
    pub fn lost(&self, listing: &Listing) -> BTreeSet<u64> {
        let incomplete = listing.generations.iter().filter(|one| !one.is_whole).map(|one| one.number);
        incomplete.chain(self.noted.generations.keys().copied()).collect()
    }
}

/// What was noted since when, and what it costs; none if nothing was noted. Also whether some generation
/// can't be restored whole.
pub fn told(noted: &NotedDamage, when: impl Fn(i64) -> String) -> Option<(bool, String)> {
    if noted.files.is_empty() {
        return None;
    }
    let since = noted.since_s.map_or_else(String::new, |since_s| format!(" {},", when(since_s)));
    let files = noted.files.iter().cloned().collect::<Vec<_>>().join(", ");
    let found = format!("remora verify noted damage{since} in {files}");
    let numbers: Vec<String> = noted.generations.keys().map(ToString::to_string).collect();
    let costs = match numbers.as_slice() {
        [] => "every generation that is listed can still be restored whole".to_owned(),
        [one] => format!("generation {one} can't be restored whole"),
        some => format!("generations {} can't be restored whole", some.join(", ")),
    };
    Some((!numbers.is_empty(), format!("{found}; {costs}")))
}
