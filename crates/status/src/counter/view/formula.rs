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

/// How many of them it currently does not follow.
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
