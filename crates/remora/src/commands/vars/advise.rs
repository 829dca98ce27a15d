//! `remora vars advise`

use clap::Args;
use humanize::text;
use progress::Progress;
use serde_json::json;
use status::variable::advise::{Facts, advise};

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

/// Name settings that lose data, are too small or are lost at a restart, each with its reason
///
/// Few rules, and each is about something seen on this server: a setting, a counter. The reason names the
/// page of the manual or the measurement. Nothing is changed. Ends with 4 when a rule fires.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server: mysql://user@host:port or unix:///path [default: as the options and option files say]
    #[arg(value_name = "SERVER")]
    at: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> anyhow::Result<Exit> {
    let server = match &arguments.at {
        Some(at) => arguments.server.at(at),
        None => arguments.server.clone(),
    };
    let target = server.target(password)?;
    let mut facts = Facts::read(&mut target.connect()?)?;
    // A socket leads to this machine.
    facts.memory_bytes = target.socket.is_some().then(memory_bytes).flatten();
    let all = advise(&facts);
    report.end();
    for advice in &all {
        if report.is_json() {
            report.message(&json!({
                "message_type": "advice", "rule": advice.rule, "seen": advice.seen, "why": advice.why,
                "source": advice.source, "remedy": advice.remedy,
            }))?;
        } else {
            report.data(&text::plain(&format!(
                "{}: {}\n    why:    {}\n    source: {}\n    remedy: {}\n",
                advice.rule, advice.seen, advice.why, advice.source, advice.remedy
            )))?;
        }
    }
    if report.is_json() {
        report.message(
            &json!({"message_type": "summary", "server": facts.settings.title, "advice": all.len()}),
        )?;
    } else {
        let pieces = progress::count(all.len(), "piece");
        report.note(&format!("{}: {pieces} of advice", facts.settings.title));
    }
    Ok(if all.is_empty() { Exit::Done } else { Exit::Damaged })
}

/// The memory of this machine.
fn memory_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
