//! What a verification noted, in words.

use block::verify::NotedDamage;

/// What is damaged since when, and what it costs; none if nothing is noted. Also whether some generation
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
        [] => "every generation can still be restored whole".to_owned(),
        [one] => format!("generation {one} can't be restored whole"),
        some => format!("generations {} can't be restored whole", some.join(", ")),
    };
    Some((!numbers.is_empty(), format!("{found}; {costs}")))
}
