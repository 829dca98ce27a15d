//! The statements that took most of an interval's time.

use std::collections::BTreeMap;

use super::change::Interval;
use super::part::Digest;

/// The digests by the time they took within an interval, most first, with what changed in place of what was
/// so far; those that did not run are left out. `None` where they were not asked for, are not to be had, or
/// there are no changes.
#[must_use]
pub fn by_time(interval: &Interval<'_>) -> Option<Vec<Digest>> {
    let before = interval.earlier()?.digests.as_ref()?;
    let now = interval.now.digests.as_ref()?;
    let before: BTreeMap<(&str, &str), &Digest> =
        before.iter().map(|digest| ((digest.schema.as_str(), digest.digest.as_str()), digest)).collect();
    let mut all: Vec<Digest> = Vec::new();
    for digest in now {
        let then = before.get(&(digest.schema.as_str(), digest.digest.as_str()));
        // One that counts less than before was emptied meanwhile (TRUNCATE): all it has is new.
        let then = then.filter(|then| then.count <= digest.count && then.time_us <= digest.time_us);
        let less = |of: fn(&Digest) -> u64| of(digest).saturating_sub(then.map_or(0, |then| of(then)));
        let change = Digest {
            count: less(|it| it.count),
            time_us: less(|it| it.time_us),
            examined: less(|it| it.examined),
            sent: less(|it| it.sent),
            errors: less(|it| it.errors),
            ..digest.clone()
        };
        if change.count > 0 {
            all.push(change);
        }
    }
    all.sort_by(|a, b| b.time_us.cmp(&a.time_us).then_with(|| a.text.cmp(&b.text)));
    Some(all)
}
