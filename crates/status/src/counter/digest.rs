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

#[cfg(test)]
mod tests {
    use super::super::change::between;
    use super::super::sample::Sample;
    use super::*;

    fn digest(schema: &str, text: &str, count: u64, time_us: u64) -> Digest {
        Digest {
            schema: schema.into(),
            digest: format!("hash of {text}"),
            text: text.into(),
            count,
            time_us,
            examined: 10 * count,
            sent: 2 * count,
            errors: count / 4,
        }
    }

    fn sample(second: u64, digests: &[Digest]) -> Sample {
        Sample { digests: Some(digests.to_vec()), ..Sample::of(second, &[]) }
    }

    #[test]
    fn the_slowest_statements_come_first() {
        let before = [digest("a", "x", 4, 400), digest("b", "x", 1, 1), digest("a", "idle", 9, 900)];
        let now = [
            digest("a", "x", 8, 500),
            digest("b", "x", 3, 1000),
            digest("a", "idle", 9, 900),
            digest("a", "new", 1, 100),
        ];
        let (before, now) = (sample(0, &before), sample(1, &now));
        let found = by_time(&between(Some(&before), &now)).unwrap();
        // Those of equal time stand in the order of their texts.
        let expected = [
            Digest { count: 2, time_us: 999, examined: 20, sent: 4, errors: 0, ..digest("b", "x", 0, 0) },
            digest("a", "new", 1, 100),
            Digest { count: 4, time_us: 100, examined: 40, sent: 8, errors: 1, ..digest("a", "x", 0, 0) },
        ];
        assert_eq!(found, expected);
        assert_eq!(by_time(&between(None, &now)), None);
        assert_eq!(by_time(&between(Some(&Sample::of(0, &[])), &now)), None);
    }

    #[test]
    fn a_digest_that_was_emptied_counts_from_zero() {
        let before =
            sample(0, &[digest("a", "x", 5, 500), digest("a", "y", 5, 500), digest("a", "z", 5, 500)]);
        let now = sample(1, &[digest("a", "x", 4, 700), digest("a", "y", 7, 400), digest("a", "z", 6, 500)]);
        let found = by_time(&between(Some(&before), &now)).unwrap();
        let counts: Vec<_> =
            found.iter().map(|digest| (&*digest.text, digest.count, digest.time_us)).collect();
        assert_eq!(counts, [("x", 4, 700), ("y", 7, 400), ("z", 1, 0)]);
    }
}
