//! A whole recording: numbers over time, and sums.

use std::collections::BTreeMap;

use super::change::{Discontinuity, Interval};
use super::digest;
use super::number::Number;
use super::part::{Digest, Replica};
use super::view::{self, Column};

/// The contents of one plot.
pub(crate) struct Plot {
    /// Its title.
    pub(crate) title: &'static str,
    /// For each line the view, the key of its column, and the line's name.
    pub(crate) lines: &'static [(&'static str, &'static str, &'static str)],
}

/// The plots, in the order on the page.
pub(crate) const PLOTS: [Plot; 17] = [
    Plot {
        title: "Statements per second",
        lines: &[
            ("overview", "statements", "all"),
            ("overview", "selects", "SELECT"),
            ("overview", "writes", "writes"),
            ("overview", "slow", "slow"),
        ],
    },
    Plot {
        title: "Connections",
        lines: &[("overview", "running", "at work"), ("overview", "connected", "connected")],
    },
    Plot {
        title: "Rows per second, by handler: reads",
        lines: &[
            ("handler", "read_key", "by key"),
            ("handler", "read_next", "next in index"),
            ("handler", "read_prev", "previous in index"),
            ("handler", "read_rnd", "by position"),
            ("handler", "read_rnd_next", "table scan"),
        ],
    },
    Plot {
        title: "Rows per second, by handler: writes",
        lines: &[
            ("handler", "write", "insert"),
            ("handler", "update", "update"),
            ("handler", "delete", "delete"),
            ("handler", "tmp_write", "temporary"),
        ],
    },
    Plot {
        title: "Buffer pool: pages per second",
        lines: &[
            ("buffer-pool", "reads", "read"),
            ("buffer-pool", "read_ahead", "read ahead"),
            ("buffer-pool", "written", "written"),
            ("buffer-pool", "wait_free", "waits for a free page"),
        ],
    },
    Plot {
        title: "Buffer pool: share of pages",
        lines: &[("buffer-pool", "used", "with data"), ("buffer-pool", "dirty", "dirty")],
    },
    Plot {
        title: "Buffer pool: share of requests that had to read",
        lines: &[("buffer-pool", "miss", "misses")],
    },
    Plot { title: "Redo log: bytes per second", lines: &[("redo", "written", "written")] },
    Plot { title: "Checkpoint age: share of the room", lines: &[("redo", "checkpoint_age", "age")] },
    Plot { title: "Purge lag: transactions", lines: &[("redo", "purge_lag", "history list")] },
    Plot {
        title: "Syncs per second",
        lines: &[("redo", "fsyncs", "redo log"), ("redo", "data_fsyncs", "all files of InnoDB")],
    },
    Plot {
        title: "Temporary tables and sorts per second",
        lines: &[
            ("temporary", "tables", "temporary tables"),
            ("temporary", "disk_tables", "of those on disk"),
            ("temporary", "merge_passes", "merge passes"),
            ("temporary", "full_joins", "joins without index"),
        ],
    },
    Plot {
        title: "Locks per second",
        lines: &[
            ("lock", "row_waits", "row lock waits"),
            ("lock", "deadlocks", "deadlocks"),
            ("lock", "table_waits", "table lock waits"),
            ("lock", "rollbacks", "ROLLBACK"),
        ],
    },
    Plot {
        title: "Network: bytes per second",
        lines: &[("overview", "received", "received"), ("overview", "sent", "sent")],
    },
    Plot { title: "Binary log: bytes per second", lines: &[("binlog", "written", "written")] },
    Plot { title: "Replication: seconds behind the source", lines: &[("replication", "delay", "delay")] },
    Plot {
        title: "Queues: rows per second",
        lines: &[("queue", "in", "published"), ("queue", "out", "ended")],
    },
];

/// The column of a plot's line.
pub(crate) fn column(view: &str, key: &str) -> Option<&'static Column> {
    view::of(view)?.columns.iter().find(|column| column.key == key)
}

/// A counter's sum over a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) change: Number,
    /// The highest rate in any interval.
    pub(crate) most_per_s: f64,
}

/// A recording of one server.
#[derive(Debug, Default)]
pub struct Series {
    /// The time of each point, in milliseconds since 1970.
    pub(crate) times: Vec<i64>,
    /// The points of each plot and line; none where the value is unknown.
    pub(crate) lines: Vec<Vec<Vec<Option<f64>>>>,
    pub(crate) marks: Vec<(i64, Discontinuity)>,
    /// What happened to replication.
    pub(crate) events: Vec<(i64, String)>,
    /// Seconds for which changes are known.
    pub(crate) seconds: f64,
    pub(crate) sums: BTreeMap<Box<str>, Sum>,
    pub(crate) digests: BTreeMap<(String, String), Digest>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) settings: BTreeMap<String, String>,
}

impl Series {
    /// Notes what happened to replication, at a time in milliseconds since 1970.
    pub fn note(&mut self, unix_ms: i64, event: &str) {
        self.events.push((unix_ms, event.to_owned()));
    }

    /// Forgets the points before a time, in milliseconds since 1970, and what happened before the first that
    /// is left.
    pub fn forget_before(&mut self, unix_ms: i64) {
        let excess = self.times.partition_point(|time| *time < unix_ms);
        self.times.drain(..excess);
        for line in self.lines.iter_mut().flatten() {
            line.drain(..excess.min(line.len()));
        }
        let Some(begin) = self.times.first().copied() else { return };
        self.marks.retain(|(when, _)| *when >= begin);
        self.events.retain(|(when, _)| *when >= begin);
    }

    /// Appends an interval.
    pub fn add(&mut self, interval: &Interval<'_>) {
        let sample = interval.now;
        self.lines.resize_with(PLOTS.len(), Vec::new);
        for (plot, lines) in PLOTS.iter().zip(&mut self.lines) {
            lines.resize_with(plot.lines.len(), Vec::new);
            for ((view, key, _), line) in plot.lines.iter().zip(lines) {
                let point = column(view, key).and_then(|column| column.of(interval));
                line.push(point.filter(|_| interval.is_whole()));
            }
        }
        self.times.push(sample.unix_ms);
        self.settings = sample.settings.0.clone();
        if let Some(replicas) = &sample.replicas {
            self.replicas.clone_from(replicas);
        }
        if let Some(mark) = interval.mark {
            self.marks.push((sample.unix_ms, mark));
            return;
        }
        self.seconds += interval.seconds;
        for row in interval.rows() {
            if let (Some(change), Some(per_s)) = (row.change, row.per_s(interval.seconds)) {
                let sum = self.sums.entry(row.name.text.clone()).or_default();
                sum.change = sum.change + change;
                sum.most_per_s = sum.most_per_s.max(per_s);
            }
        }
        for digest in digest::by_time(interval).into_iter().flatten() {
            let key = (digest.schema.clone(), digest.digest.clone());
            match self.digests.get_mut(&key) {
                Some(sum) => {
                    sum.count += digest.count;
                    sum.time_us += digest.time_us;
                    sum.examined += digest.examined;
                    sum.sent += digest.sent;
                    sum.errors += digest.errors;
                }
                None => drop(self.digests.insert(key, digest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::change::between;
    use super::super::part::Settings;
    use super::super::sample::Sample;
    use super::*;

    fn sample(second: u64, questions: &str, count: u64) -> Sample {
        let digest = Digest {
            schema: "a".into(),
            digest: "x".into(),
            count,
            time_us: 10 * count,
            examined: 20 * count,
            sent: 30 * count,
            errors: 40 * count,
            ..Digest::default()
        };
        Sample {
            unix_ms: 1000 * i64::try_from(second).unwrap(),
            digests: Some(vec![digest]),
            replicas: (second == 1).then(|| vec![Replica { io: "Yes".into(), ..Replica::default() }]),
            settings: Arc::new(Settings([("version".to_owned(), second.to_string())].into())),
            ..Sample::of(second, &[("Questions", questions), ("Slow_queries", "3")])
        }
    }

    #[test]
    fn intervals_are_added_up() {
        let samples = [sample(0, "10", 1), sample(1, "14", 2), sample(3, "40", 5), sample(4, "41", 5)];
        let mut series = Series::default();
        series.add(&between(None, &samples[0]));
        for pair in samples.windows(2) {
            series.add(&between(Some(&pair[0]), &pair[1]));
        }
        assert_eq!((series.times, series.seconds), (vec![0, 1000, 3000, 4000], 4.0));
        assert_eq!(
            series.marks.iter().map(|(at, mark)| (*at, mark.name())).collect::<Vec<_>>(),
            [(0, "first")]
        );
        assert_eq!(series.lines[0][0], [None, Some(4.0), Some(13.0), Some(1.0)]);
        let sum = series.sums["Questions"];
        assert_eq!((sum.change, sum.most_per_s), (Number::from(31), 13.0));
        let digest = series.digests.values().next().unwrap();
        let numbers = (digest.count, digest.time_us, digest.examined, digest.sent, digest.errors);
        assert_eq!(numbers, (4, 40, 80, 120, 160));
        // What a sample does not tell is as it was; settings are the last ones.
        assert_eq!((series.replicas.len(), &*series.settings["version"]), (1, "4"));
    }

    #[test]
    fn the_oldest_points_are_forgotten() {
        let samples = [0, 1, 2, 3].map(|second| sample(second, &(7 * second).to_string(), 1));
        let mut series = Series::default();
        series.add(&between(None, &samples[0]));
        for pair in samples.windows(2) {
            series.add(&between(Some(&pair[0]), &pair[1]));
        }
        series.note(500, "old");
        series.note(2500, "new");
        series.forget_before(1500);
        assert_eq!(series.times, [2000, 3000]);
        assert!(series.lines.iter().flatten().all(|line| line.len() == 2), "{:?}", series.lines);
        assert_eq!(series.lines[0][0], [Some(7.0); 2]);
        assert_eq!((series.marks.len(), &*series.events), (0, &[(2500, "new".to_owned())][..]));
        series.forget_before(2000);
        assert_eq!(series.times.len(), 2);
    }

    #[test]
    fn every_line_of_a_plot_is_a_column() {
        for (view, key, _) in PLOTS.iter().flat_map(|plot| plot.lines) {
            assert_eq!(column(view, key).map(|column| column.key), Some(*key), "{view} {key}");
        }
        assert!(column("overview", "no_such").is_none() && column("no_such", "statements").is_none());
    }
}
