//! What a relay of rows has done, for people and programs.

use anyhow::Result;
use progress::{Progress, count};
use relay::{Ended, Moved, Summary};
use serde_json::json;

use crate::exit::{Exit, stopped};
use crate::report::{self, Report};

/// Says how many rows moved, and how many of them came twice; `done` is what was done with them.
pub(super) fn tell(done: &str, summary: Summary, report: &Report) -> Result<Exit> {
    let Summary { ended, moved: Moved { rows, duplicates }, time } = summary;
    let seconds = time.as_secs_f64();
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "rows": rows, "duplicates": duplicates, "seconds": seconds,
        }))?;
    } else {
        report.note(&format!("{} {done} in {}", count(rows, "row"), report::clock(seconds)));
        if duplicates > 0 {
            report.note(&format!(
                "{} came twice: a copy was still under way when its forwarder was killed",
                count(duplicates, "row")
            ));
        }
    }
    Ok(match ended {
        Ended::Done => Exit::Done,
        Ended::Stopped => stopped(),
    })
}
