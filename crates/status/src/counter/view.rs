//! Views: metrics computed from several counters, grouped by subject.

mod formula;
mod table;

use self::table::{BINLOG, BUFFER_POOL, HANDLER, LOCK, OVERVIEW, QUEUE, REDO, REPLICATION, TEMPORARY};
use super::change::{CLOCKS, Interval};

/// How to show a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Things per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Current number of things.
    Count,
    /// Current number of bytes.
    Bytes,
    /// A share, 0 to 1.
    Share,
    /// Seconds.
    Seconds,
}

impl Shape {
    /// The suffix of the key in data for programs.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Shape::PerSecond => "_per_s",
            Shape::BytesPerSecond => "_bytes_per_s",
            Shape::Count => "",
            Shape::Bytes => "_bytes",
            Shape::Share => "_share",
            Shape::Seconds => "_s",
        }
    }
}

/// Computes a number from an interval and the status variables of its column.
type Formula = fn(&Interval<'_>, &[&str]) -> Option<f64>;

/// One number of a view.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name for programs, without the [`Shape::suffix`].
    pub key: &'static str,
    /// Its header above a column.
    pub head: &'static str,
    /// How to show it.
    pub shape: Shape,
    /// Its meaning.
    pub what: &'static str,
    /// The status variables that it is computed from; some of them may be enough.
    names: &'static [&'static str],
    formula: Formula,
}

impl Column {
    /// Its full name for programs.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.key, self.shape.suffix())
    }

    /// The number; `None` if the server does not tell, or if the interval has no changes.
    #[must_use]
    pub fn of(&self, interval: &Interval<'_>) -> Option<f64> {
        (self.formula)(interval, self.names)
    }
}

/// Numbers of one subject.
pub struct View {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Its numbers, from left to right.
    pub columns: &'static [Column],
}

/// All views; the first one is the default.
pub static VIEWS: [View; 9] =
    [OVERVIEW, BUFFER_POOL, REDO, HANDLER, TEMPORARY, LOCK, REPLICATION, BINLOG, QUEUE];

/// The status variables that views use, and those that reveal a restart and a reset. It costs a server much
/// less to return only these.
#[must_use]
pub fn names(views: &[&View]) -> Vec<&'static str> {
    let columns = views.iter().flat_map(|view| view.columns);
    let mut names: Vec<&str> = columns.flat_map(|column| column.names).chain(&CLOCKS).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The view with this name.
#[must_use]
pub fn of(name: &str) -> Option<&'static View> {
    VIEWS.iter().find(|view| view.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::change::between;
    use super::super::kind::{Kind, of as kind_of};
    use super::super::sample::Sample;
    use super::super::series::column;
    use super::*;

    /// Two samples of these status variables, one second apart; each has grown by a number of its own.
    fn samples(names: &[&str]) -> [Sample; 2] {
        [0, 1].map(|second| {
            let value =
                |name: &str| (1000 + (2 + second) * name.bytes().map(u64::from).sum::<u64>()).to_string();
            let values: Vec<String> = names.iter().map(|name| value(name)).collect();
            let values = names.iter().copied().zip(values.iter().map(String::as_str));
            Sample::of(second, &values.collect::<Vec<_>>())
        })
    }

    fn all_names() -> Vec<&'static str> {
        names(&VIEWS.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_view_asks_only_for_the_variables_that_it_needs() {
        let known = include_str!("known.txt").lines().filter(|line| !line.starts_with(['#', '*']));
        // The list also has families of names, such as Com_*.
        let known = known.filter_map(|line| line.split(' ').next()).chain(all_names());
        let known: std::collections::BTreeSet<&str> = known.collect();
        // Some servers have only one of several variables for a number.
        for hidden in [&[][..], &["Innodb_checkpoint_age"], &["Innodb_lsn_current"]] {
            let is_there = |name: &&str| !hidden.contains(name);
            let all = samples(&known.iter().copied().filter(is_there).collect::<Vec<_>>());
            let all = between(Some(&all[0]), &all[1]);
            for view in &VIEWS {
                let some = samples(&names(&[view]).into_iter().filter(is_there).collect::<Vec<_>>());
                let some = between(Some(&some[0]), &some[1]);
                for column in view.columns {
                    let number = column.of(&some);
                    assert_eq!(number, column.of(&all), "{} {}", view.name, column.name());
                    let is_of_others = column.names.is_empty() || column.key == "connections_used";
                    assert_eq!(number.is_none(), is_of_others, "{} {}", view.name, column.name());
                }
            }
        }
    }

    #[test]
    fn a_name_says_its_unit() {
        let names = [
            ("overview", "statements"),
            ("redo", "written"),
            ("overview", "connected"),
            ("replication", "delay"),
        ];
        let names = names.map(|(view, key)| column(view, key).unwrap().name());
        assert_eq!(names, ["statements_per_s", "written_bytes_per_s", "connected", "delay_s"]);
        assert_eq!([Shape::Bytes, Shape::Share].map(Shape::suffix), ["_bytes", "_share"]);
        assert!(of("no_such").is_none());
    }

    #[test]
    fn every_status_variable_of_a_view_is_known() {
        let names = all_names().into_iter();
        let unknown: Vec<_> = names.filter(|name| kind_of(name).kind == Kind::Untyped).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_view_names_each_column_once() {
        for view in &VIEWS {
            let mut names: Vec<String> = view.columns.iter().map(Column::name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), view.columns.len(), "{}", view.name);
        }
    }
}
