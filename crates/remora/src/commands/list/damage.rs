//! What is known to be damaged in the backups of a name.

use std::collections::BTreeSet;

use block::Listing;
use block::verify::NotedDamage;
use repository::Named;

/// What is known to be damaged, without reading the blocks.
pub(crate) struct Damage {
    /// Files that can't be used, and what else could not be read, in words.
    pub(crate) texts: Vec<String>,
    /// What the last verification noted.
    pub(crate) noted: NotedDamage,
}

impl Damage {
    pub(crate) fn of(named: &Named, listing: &Listing) -> Damage {
        let mut texts: Vec<String> = listing.broken.iter().map(ToString::to_string).collect();
        let noted = block::verify::noted(&named.repository).unwrap_or_else(|error| {
            texts.push(format!("what remora verify noted can't be read: {error}"));
            NotedDamage::default()
        });
        Damage { texts, noted }
    }

    /// The generations that can't be restored whole: what they build on is missing, or noted as damaged.
    pub(crate) fn lost(&self, listing: &Listing) -> BTreeSet<u64> {
        let incomplete = listing.generations.iter().filter(|one| !one.is_whole).map(|one| one.number);
        incomplete.chain(self.noted.generations.keys().copied()).collect()
    }
}

/// What was noted since when, and what it costs; none if nothing was noted. Also whether some generation
/// can't be restored whole.
pub(crate) fn told(noted: &NotedDamage, when: impl Fn(i64) -> String) -> Option<(bool, String)> {
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
