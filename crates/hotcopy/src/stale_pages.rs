//! Pages that are other ones than in the generation before, although nobody has written to them since.
//!
//! A copy has each page as it was at its first checkpoint, or later. So a page that is another one now has a
//! later LSN. If it has not, the disk has lost a write, or a read has returned something old, now or then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::data_files::DataFiles;

/// Whether a block can't be right, by what it was and what it is.
pub(crate) type IsSuspect = Box<dyn Fn(&[u8], &[u8]) -> bool + Sync>;

/// Looks for pages that can't be right.
pub(crate) struct StalePages {
    /// Pages that nobody has written to since this LSN are as they were in the generation before.
    since: Option<u64>,
    page_bytes: usize,
    /// Whether there was one.
    any: Arc<AtomicBool>,
}

impl StalePages {
    pub(crate) fn new(since: Option<u64>, page_bytes: usize) -> StalePages {
        StalePages { since, page_bytes, any: Arc::default() }
    }

    /// Whether a block can't be right; none if nothing tells.
    pub(crate) fn check(&self) -> Option<IsSuspect> {
        let (since, page_bytes, any) = (self.since?, self.page_bytes, Arc::clone(&self.any));
        Some(Box::new(move |before, now| {
            let is_stale = innodb::page_check::has_stale_page(before, now, page_bytes, since);
            any.fetch_or(is_stale, Ordering::Relaxed);
            is_stale
        }))
    }

    /// Whether a block was that can't be right.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

/// Tells these data from those of another server, and from what was restored since: the first file of the
/// system tablespace, which is made with them and never again.
pub(crate) fn identity(files: &DataFiles<'_>) -> io::Result<String> {
    let Some(path) = files.places.system().next() else { return Ok(String::new()) };
    let entry = files.entry(path)?;
    Ok(format!("{}-{}", entry.inode, entry.born_ns))
}

/// The LSN since which pages in a copy of the same data have changed if they differ from those of the
/// generation before. `begins`: where the log of this copy begins.
pub(crate) fn since(before: &Value, now: &Value, begins: u64) -> Option<u64> {
    let of = |note: &Value| note.pointer("/log/of").and_then(Value::as_str).map(str::to_owned);
    let from = before.pointer("/log/from").and_then(Value::as_u64)?;
    let same = of(now).is_some_and(|of| !of.is_empty() && !of.ends_with("-0"));
    (same && of(before) == of(now) && from <= begins).then_some(from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::since;

    #[test]
    fn only_copies_of_the_same_data_are_compared() {
        let note = |of: &str, from: u64| json!({"log": {"of": of, "from": from}});
        assert_eq!(since(&note("7-99", 500), &note("7-99", 0), 600), Some(500));
        assert_eq!(since(&note("7-99", 500), &note("7-98", 0), 600), None, "they were restored");
        assert_eq!(since(&note("7-99", 500), &note("7-99", 0), 400), None, "the log has gone back");
        assert_eq!(since(&note("7-0", 500), &note("7-0", 0), 600), None, "inodes are used again");
        assert_eq!(since(&json!({}), &note("7-99", 0), 600), None, "it was made in another way");
        assert_eq!(since(&json!({"log": {"from": 500}}), &note("", 0), 600), None);
    }
}
