//! The changes between two samples.

use super::kind::Kind;
use super::number::Number;
use super::sample::{Begin, Name, Sample, Value};

/// Why an interval has no changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discontinuity {
    /// The later sample begins a new sequence.
    Begin(Begin),
    /// Somebody reset the counters (FLUSH STATUS): their values just before are unknown.
    Reset,
}

impl Discontinuity {
    /// Its name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Discontinuity::Begin(begin) => begin.name(),
            Discontinuity::Reset => "reset",
        }
    }

    /// What it means, for people.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Discontinuity::Begin(Begin::First) => "another recording began",
            Discontinuity::Begin(Begin::Restarted) => {
                "the server was restarted; its counters began again at zero"
            }
            Discontinuity::Begin(Begin::Reconnected) => {
                "the connection broke and is back; the server kept running"
            }
            Discontinuity::Reset => "somebody reset the counters (FLUSH STATUS)",
        }
    }
}

/// A status variable over an interval.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Its name.
    pub name: &'a Name,
    /// Its value at the end, without remora's own part if it is a gauge.
    pub value: Value,
    /// How much a counter grew, without what remora itself caused. `None` for anything but a counter, in an
    /// interval with a mark, and for a counter that decreased.
    pub change: Option<Number>,
    /// Whether it is a counter that decreased, in an interval without a mark.
    pub fell: bool,
}

impl Row<'_> {
    /// Its change per second.
    #[must_use]
    pub fn per_s(&self, seconds: f64) -> Option<f64> {
        self.change.filter(|_| seconds > 0.0).map(|change| change.as_f64() / seconds)
    }
}

/// Two consecutive samples of one server.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    before: Option<&'a Sample>,
    /// The later one.
    pub now: &'a Sample,
    /// The time between them, in seconds; 0 when there is no earlier one.
    pub seconds: f64,
    /// Set when there are no changes.
    pub mark: Option<Discontinuity>,
}

/// Whether a clock of the server went on from `then` to `now` while `seconds` passed on ours. The server
/// gives whole seconds, and is asked at any time within one.
pub(super) fn has_gone_on(then: f64, now: f64, seconds: f64) -> bool {
    now + 1.5 >= then + seconds
}

/// Status variables that are the server's own clocks, which always advance.
pub(crate) const CLOCKS: [&str; 2] = ["Uptime", "Uptime_since_flush_status"];

/// Status variables that count our own connection.
const THREADS: [&str; 2] = ["Threads_connected", "Threads_running"];

/// The interval between two samples, the earlier of which may be missing.
#[must_use]
pub fn between<'a>(before: Option<&'a Sample>, now: &'a Sample) -> Interval<'a> {
    let before = before.filter(|_| now.begin.is_none());
    let seconds = before.map_or(0.0, |before| now.at.saturating_sub(before.at).as_secs_f64());
    let mark = match (now.begin, before) {
        (Some(begin), _) => Some(Discontinuity::Begin(begin)),
        (None, None) => Some(Discontinuity::Begin(Begin::First)),
        (None, Some(before)) => has_reset(before, now).then_some(Discontinuity::Reset),
    };
    Interval { before, now, seconds, mark }
}

/// Whether one of the server's own clocks was set back.
fn has_reset(before: &Sample, now: &Sample) -> bool {
    // The server looked at its clock at any time between question and answer, which may be seconds.
    let seconds = now.asked().saturating_sub(before.answered()).as_secs_f64();
    CLOCKS.into_iter().any(|clock| {
        let then = before.number(clock).zip(now.number(clock));
        then.is_some_and(|(then, now)| !has_gone_on(then.as_f64(), now.as_f64(), seconds))
    })
}

impl<'a> Interval<'a> {
    /// Whether changes are known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.mark.is_none()
    }

    /// All status variables.
    pub fn rows(&self) -> impl Iterator<Item = Row<'a>> + '_ {
        (0..self.now.values.len()).filter_map(|at| self.row_at(at))
    }

    /// One of them.
    #[must_use]
    pub fn row(&self, name: &str) -> Option<Row<'a>> {
        self.now.names.place(name).and_then(|at| self.row_at(at))
    }

    fn row_at(&self, at: usize) -> Option<Row<'a>> {
        let (name, value) = (self.now.names.all().get(at)?, self.now.values.get(at)?);
        let mut row = Row { name, value: value.clone(), change: None, fell: false };
        match (name.ty.kind, value) {
            (Kind::Counter, Value::Number(now)) => {
                if let Some(before) = self.number_before(at).filter(|_| self.is_whole()) {
                    row.fell = *now < before;
                    row.change = (!row.fell).then(|| self.others(&name.text, *now - before));
                }
            }
            (Kind::Gauge, Value::Number(now)) if THREADS.contains(&&*name.text) => {
                row.value = Value::Number((*now - Number::from(1)).max(Number::default()));
            }
            _ => {}
        }
        Some(row)
    }

    fn number_before(&self, at: usize) -> Option<Number> {
        let before = self.before?;
        // Normally a server has the same names in the same order.
        if std::sync::Arc::ptr_eq(&before.names, &self.now.names) {
            return before.values.get(at)?.number();
        }
        before.number(&self.now.names.all().get(at)?.text)
    }

    /// A change without remora's own part.
    fn others(&self, name: &str, change: Number) -> Number {
        match self.now.own.get(name) {
            Some(own) => (change - *own).max(Number::default()),
            None => change,
        }
    }

    /// The sample at its beginning.
    #[must_use]
    pub fn earlier(&self) -> Option<&'a Sample> {
        self.before.filter(|_| self.is_whole())
    }

    /// How much a counter grew.
    #[must_use]
    pub fn change(&self, name: &str) -> Option<f64> {
        self.row(name).and_then(|row| row.change).map(Number::as_f64)
    }

    /// How much it grew per second.
    #[must_use]
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.row(name).and_then(|row| row.per_s(self.seconds))
    }

    /// The value of a gauge.
    #[must_use]
    pub fn gauge(&self, name: &str) -> Option<f64> {
        self.row(name).and_then(|row| row.value.number()).map(Number::as_f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_counter_changes_and_a_gauge_is() {
        let before = Sample::of(0, &[("Questions", "10"), ("Threads_cached", "3"), ("Version", "x")]);
        let mut now = Sample::of(2, &[("Questions", "30"), ("Threads_cached", "2"), ("Version", "x")]);
        let interval = between(Some(&before), &now);
        assert!(interval.is_whole() && interval.earlier().is_some());
        assert_eq!((interval.seconds, interval.change("Questions")), (2.0, Some(20.0)));
        assert_eq!(interval.rate("Questions"), Some(10.0));
        assert_eq!((interval.change("Threads_cached"), interval.gauge("Threads_cached")), (None, Some(2.0)));
        assert_eq!((interval.gauge("Version"), interval.gauge("No_such")), (None, None));
        let names: Vec<String> = interval.rows().map(|row| row.name.text.to_string()).collect();
        assert_eq!(names, ["Questions", "Threads_cached", "Version"]);
        // In no time there is no rate.
        assert_eq!(interval.row("Questions").unwrap().per_s(0.0), None);
        // What remora asked is not what others asked, and no counter goes back by it.
        now.own = [("Questions".into(), Number::from(5))].into();
        assert_eq!(between(Some(&before), &now).change("Questions"), Some(15.0));
        now.own = [("Questions".into(), Number::from(50))].into();
        assert_eq!(between(Some(&before), &now).change("Questions"), Some(0.0));
    }

    #[test]
    fn our_own_connection_is_not_counted() {
        let now =
            Sample::of(0, &[("Threads_connected", "5"), ("Threads_running", "0"), ("Threads_cached", "5")]);
        let gauge = |name| between(None, &now).gauge(name);
        assert_eq!(gauge("Threads_connected"), Some(4.0));
        assert_eq!((gauge("Threads_running"), gauge("Threads_cached")), (Some(0.0), Some(5.0)));
    }

    #[test]
    fn names_may_come_in_another_order() {
        let mut before = Sample::of(0, &[("Questions", "10"), ("Slow_queries", "1")]);
        let now = Sample::of(1, &[("Slow_queries", "4"), ("Questions", "12"), ("Opened_tables", "7")]);
        let changes = |before: &Sample| {
            ["Questions", "Slow_queries", "Opened_tables"]
                .map(|name| between(Some(before), &now).change(name))
        };
        assert_eq!(changes(&before), [Some(2.0), Some(3.0), None]);
        before.values[0] = Value::parse("12");
        assert_eq!(changes(&before), [Some(0.0), Some(3.0), None]);
        before.values[0] = Value::parse("50");
        assert_eq!(changes(&before), [None, Some(3.0), None]);
        let interval = between(Some(&before), &now);
        assert!(interval.row("Questions").unwrap().fell && !interval.row("Slow_queries").unwrap().fell);
    }

    #[test]
    fn an_interval_without_a_beginning_has_no_changes() {
        let before = Sample::of(0, &[("Questions", "10")]);
        let mut now = Sample::of(1, &[("Questions", "12")]);
        let first = between(None, &now);
        assert_eq!((first.mark, first.change("Questions")), (Some(Discontinuity::Begin(Begin::First)), None));
        now.begin = Some(Begin::Restarted);
        let restarted = between(Some(&before), &now);
        assert_eq!(restarted.mark.map(Discontinuity::name), Some("restarted"));
        assert_eq!((restarted.seconds, restarted.change("Questions")), (0.0, None));
        assert!(restarted.earlier().is_none() && !restarted.row("Questions").unwrap().fell);
    }

    #[test]
    fn a_server_that_answers_late_has_not_reset_its_counters() {
        let at = |seconds: f64, took: f64, uptime: &str| {
            let mut sample = Sample::of(0, &[("Uptime", uptime)]);
            (sample.at, sample.took) = (Duration::from_secs_f64(seconds), Duration::from_secs_f64(took));
            sample
        };
        let is_reset =
            |before: &Sample, now: &Sample| between(Some(before), now).mark == Some(Discontinuity::Reset);
        // Asked at 10 and answered at 14, in which time the server was frozen. Which of the two times it took
        // is unknown.
        let (late, next) = (at(12.0, 4.0, "110"), at(15.0, 0.0, "115"));
        assert!(!is_reset(&at(9.0, 0.0, "109"), &late) && !is_reset(&late, &next));
        let early = at(12.0, 4.0, "114");
        assert!(!is_reset(&at(9.0, 0.0, "109"), &early) && !is_reset(&early, &next));
        assert!(is_reset(&late, &at(25.0, 0.0, "112")) && is_reset(&early, &at(15.0, 0.0, "3")));
    }

    #[test]
    fn counters_were_reset_when_a_clock_stays_behind() {
        let is_reset = |then: &str, now: &str, passed: Duration| {
            let before = Sample::of(0, &[("Uptime", "1000"), ("Uptime_since_flush_status", then)]);
            let uptime = (1000 + passed.as_secs()).to_string();
            let mut now = Sample::of(0, &[("Uptime", &uptime), ("Uptime_since_flush_status", now)]);
            now.at = passed;
            let interval = between(Some(&before), &now);
            assert_eq!(interval.earlier().is_none(), interval.mark == Some(Discontinuity::Reset));
            interval.mark.map(Discontinuity::name) == Some("reset")
        };
        let seconds = Duration::from_secs;
        assert!(!is_reset("10", "70", seconds(60)));
        // Whole seconds may be cut off at either end.
        assert!(!is_reset("10", "69", seconds(60)) && !is_reset("10", "10", Duration::from_millis(1500)));
        assert!(is_reset("10", "60", seconds(60)) && is_reset("3", "60", seconds(60)));
        assert!(is_reset("10", "1", seconds(60)));
    }
}
