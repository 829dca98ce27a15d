//! Computes the numbers of a view from status variables.

use super::super::change::Interval;
use super::super::kind::{self, Unit};
use super::super::number::Number;
use super::super::part::{Queue, Replica};

/// The sum of the counters' rates. A counter that the server lacks adds nothing; without any of them there is
/// no sum.
pub(super) fn rate_of(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let rates: Vec<f64> = names.iter().filter_map(|name| i.rate(name)).collect();
    (!rates.is_empty()).then(|| rates.iter().sum())
}

/// The rate of the first counter that the server has.
pub(super) fn first_rate(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| i.rate(name))
}

/// The value of a gauge.
pub(super) fn gauge_of(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    i.gauge(names.first()?)
}

/// The first gauge as a share of the second.
pub(super) fn part_of(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let [part, all] = names else { return None };
    let all = i.gauge(all).filter(|all| *all > 0.0)?;
    i.gauge(part).map(|part| part / all)
}

/// The change of the first counter per unit of the second, times in seconds; nothing if the second did not
/// change.
pub(super) fn ratio(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let [part, all] = names else { return None };
    let all = i.change(all).filter(|all| *all > 0.0)?;
    let part_of_unit = match kind::of(part).unit {
        Unit::Time(units) => f64::from(units),
        _ => 1.0,
    };
    i.change(part).map(|part| part / part_of_unit / all)
}

/// Bytes of redo log since the last checkpoint.
pub(super) fn checkpoint_age(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    let lsn = || {
        let checkpoint = i.now.number("Innodb_redo_log_checkpoint_lsn")?;
        Some((i.now.number("Innodb_redo_log_current_lsn")? - checkpoint).as_f64())
    };
    i.gauge("Innodb_checkpoint_age").or_else(lsn)
}

/// Capacity of the redo log in bytes.
pub(super) fn redo_room(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    i.gauge("Innodb_checkpoint_max_age").or_else(|| i.now.settings.redo_capacity())
}

/// The checkpoint age as a share of the capacity.
pub(super) fn checkpoint_share(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let room = redo_room(i, names).filter(|room| *room > 0.0)?;
    checkpoint_age(i, names).map(|age| age / room)
}

/// Connections as a share of the limit.
pub(super) fn connections_used(i: &Interval<'_>, names: &[&str]) -> Option<f64> {
    let most = i.now.settings.number("max_connections")?.as_f64();
    gauge_of(i, names).map(|connected| connected / most)
}

/// The largest delay. None while any replica does not know its own, because the largest is unknown then.
pub(super) fn delay(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    let delays: Option<Vec<u64>> = i.now.replicas.as_ref()?.iter().map(|replica| replica.delay_s).collect();
    delays?.into_iter().max().map(|seconds| Number::from(seconds).as_f64())
}

/// How many sources it follows.
pub(super) fn sources(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    i.now.replicas.as_ref().map(|replicas| count(replicas.len()))
}

/// How many of them it currently does not follow, or not yet.
pub(super) fn stopped(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    let is_stopped = |replica: &&Replica| replica.io != "Yes" || replica.sql != "Yes";
    i.now.replicas.as_ref().map(|replicas| count(replicas.iter().filter(is_stopped).count()))
}

/// How many queues there are.
pub(super) fn queues(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    some_queues(i).map(<[Queue]>::len).map(count)
}

/// Rows that wait in the queues.
pub(super) fn waiting(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    some_queues(i).map(|queues| total(queues.iter().map(|queue| queue.waiting)))
}

/// Rows that somebody owns.
pub(super) fn owned(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    some_queues(i).map(|queues| total(queues.iter().map(|queue| queue.owned)))
}

/// Rows published to the queues, per second.
pub(super) fn published(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    queue_rate(i, |queue| queue.written)
}

/// Rows ended in the queues, per second.
pub(super) fn removed(i: &Interval<'_>, _names: &[&str]) -> Option<f64> {
    queue_rate(i, |queue| queue.removed)
}

fn count(number: usize) -> f64 {
    Number::from(number as u64).as_f64()
}

fn total(numbers: impl Iterator<Item = u64>) -> f64 {
    numbers.map(Number::from).sum::<Number>().as_f64()
}

/// The queues; none for a server without queues, which has nothing to show.
fn some_queues<'a>(i: &Interval<'a>) -> Option<&'a [Queue]> {
    Some(i.now.queues.as_slice()).filter(|queues| !queues.is_empty())
}

/// Rows per second over the queues that existed before too. A queue that was emptied or reopened counts less
/// than before; it is left out.
fn queue_rate(i: &Interval<'_>, rows: fn(&Queue) -> u64) -> Option<f64> {
    let before = i.earlier()?;
    let queues = some_queues(i)?;
    let change = |now: &Queue| {
        let then = before.queues.iter().find(|then| then.name == now.name)?;
        rows(now).checked_sub(rows(then))
    };
    (i.seconds > 0.0).then(|| total(queues.iter().filter_map(change)) / i.seconds)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::super::change::between;
    use super::super::super::part::Settings;
    use super::super::super::sample::Sample;
    use super::*;

    /// What a formula makes of two samples, two seconds apart.
    fn made(formula: super::super::Formula, names: &[&str], samples: &[Sample; 2]) -> Option<f64> {
        formula(&between(Some(&samples[0]), &samples[1]), names)
    }

    fn samples(values: &[(&str, &str, &str)]) -> [Sample; 2] {
        let before: Vec<_> = values.iter().map(|(name, before, _)| (*name, *before)).collect();
        let now: Vec<_> = values.iter().map(|(name, _, now)| (*name, *now)).collect();
        [Sample::of(0, &before), Sample::of(2, &now)]
    }

    #[test]
    fn rates_are_added_up_or_the_first_one_counts() {
        let both = samples(&[("Questions", "10", "30"), ("Slow_queries", "1", "5")]);
        let names = ["No_such", "Slow_queries", "Questions"];
        assert_eq!(made(rate_of, &names, &both), Some(12.0));
        assert_eq!(made(first_rate, &names, &both), Some(2.0));
        assert_eq!((made(rate_of, &names[..1], &both), made(first_rate, &names[..1], &both)), (None, None));
    }

    #[test]
    fn shares_and_means_need_something_to_divide_by() {
        let names = ["Innodb_row_lock_time", "Innodb_row_lock_waits"];
        let waits =
            |now| samples(&[("Innodb_row_lock_time", "1000", "4000"), ("Innodb_row_lock_waits", "1", now)]);
        // Milliseconds there, seconds here.
        assert_eq!(made(ratio, &names, &waits("3")), Some(1.5));
        assert_eq!((made(ratio, &names, &waits("1")), made(ratio, &names[..1], &waits("3"))), (None, None));
        let plain = samples(&[("Created_tmp_disk_tables", "1", "2"), ("Created_tmp_tables", "1", "5")]);
        assert_eq!(made(ratio, &["Created_tmp_disk_tables", "Created_tmp_tables"], &plain), Some(0.25));
        let names = ["Innodb_buffer_pool_pages_data", "Innodb_buffer_pool_pages_total"];
        let pages = |all| samples(&[(names[0], "1", "30"), (names[1], "1", all)]);
        assert_eq!(
            (made(part_of, &names, &pages("40")), made(part_of, &names, &pages("0"))),
            (Some(0.75), None)
        );
        assert_eq!(made(gauge_of, &names, &pages("40")), Some(30.0));
    }

    #[test]
    fn the_age_of_a_checkpoint_is_told_or_computed() {
        let mut told =
            samples(&[("Innodb_checkpoint_age", "1", "50"), ("Innodb_checkpoint_max_age", "1", "200")]);
        assert_eq!(made(checkpoint_age, &[], &told), Some(50.0));
        assert_eq!(
            (made(redo_room, &[], &told), made(checkpoint_share, &[], &told)),
            (Some(200.0), Some(0.25))
        );
        told[1].values[1] = super::super::super::sample::Value::parse("0");
        assert_eq!(made(checkpoint_share, &[], &told), None);
        let mut computed = samples(&[
            ("Innodb_redo_log_checkpoint_lsn", "1", "1000"),
            ("Innodb_redo_log_current_lsn", "1", "1300"),
        ]);
        assert_eq!(
            (made(checkpoint_age, &[], &computed), made(redo_room, &[], &computed)),
            (Some(300.0), None)
        );
        computed[1].settings = setting("innodb_redo_log_capacity", "600");
        assert_eq!(made(checkpoint_share, &[], &computed), Some(0.5));
    }

    fn setting(name: &str, value: &str) -> Arc<Settings> {
        Arc::new(Settings([(name.to_owned(), value.to_owned())].into()))
    }

    #[test]
    fn connections_are_a_share_of_the_most() {
        let mut both = samples(&[("Threads_connected", "3", "41")]);
        assert_eq!(made(connections_used, &["Threads_connected"], &both), None);
        both[1].settings = setting("max_connections", "160");
        assert_eq!(made(connections_used, &["Threads_connected"], &both), Some(0.25));
    }

    #[test]
    fn the_largest_delay_counts_and_none_that_is_unknown() {
        let replica =
            |sql: &str, delay_s| Replica { io: "Yes".into(), sql: sql.into(), delay_s, ..Replica::default() };
        let mut both = samples(&[]);
        let of = |both: &[Sample; 2]| [delay, sources, stopped].map(|formula| made(formula, &[], both));
        assert_eq!(of(&both), [None; 3]);
        both[1].replicas = Some(vec![replica("Yes", Some(3)), replica("Yes", Some(40))]);
        assert_eq!(of(&both), [40.0, 2.0, 0.0].map(Some));
        let stopped = Replica { io: "Connecting".into(), ..replica("Yes", Some(1)) };
        both[1].replicas = Some(vec![replica("Yes", Some(3)), replica("No", None), stopped]);
        assert_eq!(of(&both), [None, Some(3.0), Some(2.0)]);
    }

    #[test]
    fn queues_count_that_were_there_before() {
        let queue = |name: &str, written| Queue {
            name: name.into(),
            waiting: 5,
            owned: 2,
            written,
            removed: written / 2,
        };
        let of =
            |both: &[Sample; 2]| [queues, waiting, owned, published, removed].map(|it| made(it, &[], both));
        let mut both = samples(&[]);
        assert_eq!(of(&both), [None; 5]);
        both[0].queues = vec![queue("a", 100), queue("opened again", 50)];
        both[1].queues = vec![queue("new", 1000), queue("a", 140), queue("opened again", 10)];
        assert_eq!(of(&both), [3.0, 15.0, 6.0, 20.0, 10.0].map(Some));
        both[1].at = both[0].at;
        assert_eq!(made(published, &[], &both), None);
        both[1].begin = Some(super::super::super::sample::Begin::Restarted);
        assert_eq!(made(waiting, &[], &both), Some(15.0));
        assert_eq!(made(published, &[], &both), None);
    }
}
