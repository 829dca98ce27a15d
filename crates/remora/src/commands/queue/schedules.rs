//! `remora queue schedules`

use anyhow::Result;
use clap::Args;
use queue_admin::schedules::{Schedule, schedules};
use serde_json::json;

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let mut session = arguments.server.target(password)?.connect()?;
    let schedules = schedules(&mut session)?;
    if report.is_json() {
        for one in &schedules {
            report.message(&json!({
                "message_type": "schedule", "name": one.name, "spec": one.spec, "zone": one.zone, "queue": one.target,
                "enabled": one.is_enabled, "last": one.last, "next": one.next, "until_s": one.until_s, "error": one.error,
            }))?;
        }
        return Ok(Exit::Done);
    }
    let head = ["name", "queue", "spec", "zone", "last (UTC)", "next (UTC)"].map(str::to_owned);
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(schedules.iter().map(cells)).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let errors = std::iter::once(None).chain(schedules.iter().map(|one| one.error.as_deref()));
    for (line, error) in lines.iter().zip(errors) {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let text = format!("{}  {}", cells.join("  "), error.unwrap_or_default());
        report.data(text.trim_end())?;
    }
    Ok(Exit::Done)
}

fn cells(one: &Schedule) -> [String; 6] {
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    let next = if one.is_enabled { time(&one.next) } else { "disabled".to_owned() };
    [one.name.clone(), one.target.clone(), one.spec.clone(), one.zone.clone(), time(&one.last), next]
}
