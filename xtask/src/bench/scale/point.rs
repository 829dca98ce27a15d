//! What was measured, and what is shown of it.

use super::super::measure::as_f64;
use super::fit::Growth;

/// What a step cost at a size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) step: String,
    pub(super) size: u64,
    pub(super) wall_s: f64,
    /// User and system time of the command.
    pub(super) processor_s: f64,
    /// The same of the server.
    pub(super) server_s: f64,
    /// The most that one process had in memory.
    pub(super) memory_mb: f64,
    /// By how much the folder grew on the disk.
    pub(super) megabytes: f64,
    pub(super) files: f64,
}

/// What is shown of points.
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) value: fn(&Point) -> f64,
    /// Less than this can't be told from nothing.
    least: f64,
    /// Exponents above this one are shown in bold; none where steps are what there is to see.
    limit: Option<f64>,
}

pub(super) static MEASURES: [Measure; 5] = [
    Measure { name: "wall s", value: |point| point.wall_s, least: 0.01, limit: Some(1.1) },
    Measure {
        name: "processor s",
        value: |point| point.processor_s + point.server_s,
        least: 0.01,
        limit: Some(1.1),
    },
    Measure { name: "memory MB", value: |point| point.memory_mb, least: 1.0, limit: Some(0.2) },
    Measure { name: "written MB", value: |point| point.megabytes, least: 0.1, limit: Some(1.1) },
    Measure { name: "files", value: |point| point.files, least: 3.0, limit: None },
];

impl Measure {
    /// Sizes and values of one step.
    pub(super) fn values(&self, points: &[&Point]) -> Vec<(f64, f64)> {
        points.iter().map(|point| (as_f64(point.size), (self.value)(point).max(self.least))).collect()
    }

    /// A line of the table, unless there was nothing to measure.
    pub(super) fn line(&self, step: &str, points: &[&Point]) -> Option<String> {
        if points.iter().all(|point| (self.value)(point) <= self.least) {
            return None;
        }
        let values = self.values(points);
        let growth = self.limit.and_then(|limit| Some((limit, Growth::of(&values)?)));
        let shown = growth.map_or_else(String::new, |(_, growth)| growth.shown(&values));
        let mark = if growth.is_some_and(|(limit, growth)| growth.exceeds(limit)) { "**" } else { "" };
        let cells: String =
            points.iter().map(|point| format!(" {} |", number((self.value)(point)))).collect();
        Some(format!("| {step} | {} |{cells} {mark}{shown}{mark} |\n", self.name))
    }
}

impl Point {
    pub(super) fn shown(&self) -> String {
        let values =
            MEASURES.iter().map(|measure| format!("{} {}", number((measure.value)(self)), measure.name));
        format!("{}: {}", self.step, values.collect::<Vec<_>>().join(", "))
    }

    pub(super) fn line(&self) -> String {
        let Point { step, size, wall_s, processor_s, server_s, memory_mb, megabytes, files } = self;
        format!(
            "{step}\t{size}\t{wall_s:.3}\t{processor_s:.3}\t{server_s:.3}\t{memory_mb:.1}\t{megabytes:.2}\t{files}\n"
        )
    }

    pub(super) fn read(line: &str) -> Option<Point> {
        let mut fields = line.split('\t');
        let (step, size) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let mut number = || fields.next()?.parse().ok();
        Some(Point {
            step,
            size,
            wall_s: number()?,
            processor_s: number()?,
            server_s: number()?,
            memory_mb: number()?,
            megabytes: number()?,
            files: number()?,
        })
    }
}

/// Two or three digits that count.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
