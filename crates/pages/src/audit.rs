//! The record of what was done from the pages.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use humanize::{date_time, text};
use progress::Shared;
use serde_json::json;

/// Where the lines go.
pub struct Audit {
    file: Option<Mutex<File>>,
    report: Shared,
}

/// Something that is about to be done, or was done.
pub(crate) struct Entry<'e> {
    pub(crate) action: &'e str,
    pub(crate) server: &'e str,
    /// Whom or what it is about.
    pub(crate) target: &'e str,
    /// `asked`, or how it ended.
    pub(crate) outcome: &'e str,
}

impl Audit {
    /// A file, to which lines are added; none for standard error.
    ///
    /// # Errors
    /// If the file can't be opened.
    pub fn open(file: Option<&Path>, report: Shared) -> Result<Audit> {
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            file.with_context(|| format!("--audit-log {}", path.display()))
        };
        let file = file.map(open).transpose()?.map(Mutex::new);
        Ok(Audit { file, report })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If the file can't be written. Then nothing may be done.
    pub(crate) fn write(&self, entry: &Entry<'_>) -> Result<()> {
        let time = date_time::machine(date_time::now_s());
        let Entry { action, server, target, outcome } = entry;
        let Some(file) = &self.file else {
            self.report.note(&text::plain(&format!("{action} on {server}: {target}: {outcome}")));
            return Ok(());
        };
        let line = json!({
            "time": time, "action": action, "server": server, "target": target, "outcome": outcome,
        });
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes()).context("the audit log can't be written")?;
        file.sync_data().context("the audit log can't be written")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use progress::Silent;

    use super::*;

    #[test]
    fn each_action_is_a_line_that_nobody_can_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit");
        for run in ["a", "b"] {
            let audit = Audit::open(Some(&path), Arc::new(Silent)).unwrap();
            let entry = Entry { action: "kill-query", server: "db1", target: "7\n\"x\"", outcome: run };
            audit.write(&entry).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| &line["outcome"]).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(lines[0]["target"], "7\n\"x\"");
    }
}
