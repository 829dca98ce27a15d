//! The statements that took most time in an interval.

use std::collections::BTreeMap;

use super::change::Interval;
use super::part::Digest;

/// The digests by their time within an interval, longest first, with changes in place of totals; statements
/// that did not run are left out. `None` if digests were not requested or are not available, or if there are
/// no changes.
#[must_use]
pub fn by_time(interval: &Interval<'_>) -> Option<Vec<Digest>> {
    let before = interval.earlier()?.digests.as_ref()?;
    let now = interval.now.digests.as_ref()?;
    let before: BTreeMap<(&str, &str), &Digest> =
        before.iter().map(|digest| ((digest.schema.as_str(), digest.digest.as_str()), digest)).collect();
    let mut all: Vec<Digest> = Vec::new();
    for digest in now {
        let then = before.get(&(digest.schema.as_str(), digest.digest.as_str()));
        // A digest that counts less than before was emptied meanwhile (TRUNCATE): all its numbers are new.
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
