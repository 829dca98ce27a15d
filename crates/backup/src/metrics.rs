//! What is in a repository as metrics, for the textfile collector of Prometheus' node_exporter.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use block::{Generation, Listing};
use disk::{Output, RealDisk};
use repository::state::Evidence;
use snapshot::identity;

/// All metrics: the name and what it means. All are gauges.
const NEWEST: (&str, &str) = ("remora_backup_newest_timestamp_seconds", "When the newest backup was made.");
const PROVEN: (&str, &str) = (
    "remora_backup_proven_timestamp_seconds",
    "When the newest backup was made on which a server was started and found sound.",
);
const UNSOUND: (&str, &str) =
    ("remora_backup_unsound", "Backups on which a server was started and not found sound.");
const DAMAGED: (&str, &str) = ("remora_backup_damaged", "Backups that can't be restored whole.");
const GENERATIONS: (&str, &str) = ("remora_backup_generations", "Backups that are kept.");
const STORED: (&str, &str) = ("remora_backup_stored_bytes", "Bytes of all files of backups.");
const BROKEN: (&str, &str) = ("remora_backup_broken_files", "Files that can't be used.");
const LOCKED: (&str, &str) = (
    "remora_backup_locked",
    "1 if the backups are encrypted and no key of theirs was given, so that their age is unknown.",
);
const CAUGHT_UP: (&str, &str) =
    ("remora_log_caught_up_timestamp_seconds", "When the archive of the binary log last had everything.");

/// A file that the collector reads.
///
/// # Errors
/// If its name does not say so.
pub fn textfile(text: &str) -> Result<PathBuf> {
    let file = PathBuf::from(text);
    ensure!(
        file.extension().is_some_and(|end| end == "prom"),
        "the collector reads only files that end with .prom"
    );
    Ok(file)
}

/// The metrics of one repository.
pub struct Metrics {
    repository: String,
    lines: BTreeMap<(&'static str, &'static str), Vec<String>>,
}

impl Metrics {
    /// None yet, of this repository.
    #[must_use]
    pub fn new(repository: &Path) -> Metrics {
        Metrics { repository: escaped(&repository.display().to_string()), lines: BTreeMap::new() }
    }

    fn add(&mut self, metric: (&'static str, &'static str), name: &str, value: impl std::fmt::Display) {
        let labels = format!("repository=\"{}\",name=\"{}\"", self.repository, escaped(name));
        self.lines.entry(metric).or_default().push(format!("{}{{{labels}}} {value}", metric.0));
    }

    /// The backups of a name, and the numbers of those that can't be restored whole.
    pub fn backups(&mut self, name: &str, listing: &Listing, lost: &BTreeSet<u64>) {
        let all = &listing.generations;
        self.add(LOCKED, name, 0);
        self.add(GENERATIONS, name, all.len());
        self.add(STORED, name, listing.file_bytes);
        self.add(BROKEN, name, listing.broken.len());
        self.add(DAMAGED, name, lost.len());
        self.add(UNSOUND, name, all.iter().filter(|one| Evidence::of(one) == Evidence::Unsound).count());
        // Of several sources the one that is backed up least.
        let newest = identity::sources(all).iter().filter_map(|source| Some(source.last()?.taken_s)).min();
        if let Some(taken_s) = newest {
            self.add(NEWEST, name, taken_s);
        }
        let is_proven =
            |one: &&Generation| Evidence::of(one) == Evidence::Proven && !lost.contains(&one.number);
        if let Some(proven) = all.iter().rfind(is_proven) {
            self.add(PROVEN, name, proven.taken_s);
        }
    }

    /// Backups that can't be opened, and the bytes of their files.
    pub fn locked(&mut self, name: &str, bytes: u64) {
        self.add(LOCKED, name, 1);
        self.add(STORED, name, bytes);
    }

    /// The archive of a name's binary log, which had everything then.
    pub fn log(&mut self, name: &str, caught_up: Option<i64>) {
        self.add(CAUGHT_UP, name, caught_up.unwrap_or(0));
    }

    /// Writes the file in one step, so that nobody reads half of it.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut text = String::new();
        for ((name, help), lines) in &self.lines {
            // Writing into a string can't fail.
            writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge").ok();
            lines.iter().for_each(|line| writeln!(text, "{line}").unwrap_or_default());
        }
        let write = || {
            let mut output = Output::create(&RealDisk, file)?;
            output.write_all(text.as_bytes())?;
            // The collector is another user.
            std::fs::set_permissions(Output::partial(file), Permissions::from_mode(0o644))?;
            output.finish()
        };
        write().with_context(|| file.display().to_string())
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_have_any_letter() {
        let mut metrics = Metrics::new(Path::new("a \"b\"\\c"));
        metrics.log("d\ne", Some(5));
        let line = r#"remora_log_caught_up_timestamp_seconds{repository="a \"b\"\\c",name="d\ne"} 5"#;
        assert_eq!(metrics.lines.values().next(), Some(&vec![line.to_owned()]));
    }

    #[test]
    fn what_is_damaged_is_not_proven() {
        let generation = |number| Generation {
            number,
            parent: 0,
            content: [0; 32],
            taken_s: 100 * i64::try_from(number).unwrap(),
            len: 0,
            blocks: 0,
            stored: 0,
            file_bytes: 0,
            file: String::new(),
            note: "{}".into(),
            is_whole: true,
            booted: Some(true),
        };
        let listing = Listing { generations: vec![generation(1), generation(2)], ..Listing::default() };
        let proven = |lost: &[u64]| {
            let mut metrics = Metrics::new(Path::new("repo"));
            metrics.backups("a", &listing, &lost.iter().copied().collect());
            let line = metrics.lines.get(&PROVEN).and_then(|lines| lines.first());
            line.and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
        };
        assert_eq!(proven(&[]).as_deref(), Some("200"));
        assert_eq!(proven(&[2]).as_deref(), Some("100"));
        assert_eq!(proven(&[1, 2]), None);
    }
}
