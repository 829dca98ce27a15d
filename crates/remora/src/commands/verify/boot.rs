//! `remora verify --boot`: starts a server on a backup.

use anyhow::Result;
use block::restore::Request;
use instance::Wanted;
use instance::boot::{BootResult, boot};
use instance::requirements::NOTHING;
use instance::table_check::Checked;
use progress::{Progress, count};
use serde_json::json;
use snapshot::identity;

use super::Arguments;
use crate::commands;
use crate::exit::Exit;
use crate::report::Report;

pub(super) fn run(arguments: &Arguments, report: &Report) -> Result<Exit> {
    let text = arguments.repository.to_string_lossy();
    let (named, generation) = repository::one(&text, arguments.key.read_full()?.as_ref())?;
    let is_mixed = identity::warn_of_mixed(&named.name, &named.repository.list()?.generations, report);
    let stop = commands::stop_flag(report)?;
    let wanted = Wanted {
        data_folder: arguments.data_folder.as_deref(),
        server: arguments.server.as_ref(),
        options: &arguments.server_option,
        work: arguments.work.as_deref(),
        needs: &NOTHING,
        account: None,
    };
    let request = Request::new(generation, arguments.jobs.unwrap_or_else(commands::cores));
    let booted = match boot(&named, request, wanted, (&stop, &report.shared())) {
        Ok(booted) => booted,
        Err(error) => return super::after_damage(error, &named, request.jobs, (&stop, report)),
    };
    tell(&named.name, &booted, report)?;
    Ok(match (booted.checked.damages.len(), is_mixed) {
        (0, false) => Exit::Done,
        (0, true) => Exit::Partial,
        _ => Exit::Damaged,
    })
}

/// Says what a server that was started on a generation has found.
pub(crate) fn tell(name: &str, booted: &BootResult, report: &Report) -> Result<()> {
    let BootResult { generation, how, seconds_to_recovery: recovered_s, seconds, position, checked } = booted;
    let Checked { tables, damages, .. } = checked;
    for damage in damages {
        if report.is_json() {
            report.message(&json!({"message_type": "damage", "name": name, "what": damage}))?;
        } else {
            report.data(damage)?;
        }
    }
    if report.is_json() {
        let (file, offset) = position.clone().unzip();
        report.message(&json!({
            "message_type": "summary", "name": name, "generation": generation, "tables": tables,
            "damages": damages.len(), "binlog_file": file, "binlog_offset": offset,
            "seconds_to_recovery": recovered_s, "seconds": seconds,
        }))?;
        return Ok(());
    }
    let place = position
        .as_ref()
        .map_or_else(String::new, |(file, offset)| format!("; binary log position {file} {offset}"));
    let sound = if damages.is_empty() { "all sound".to_owned() } else { count(damages.len(), "problem") };
    report.note(&match recovered_s {
        Some(recovered_s) => format!(
            "{name}@{generation} has been booted: {how} in {recovered_s:.1} s, {} checked, {sound}{place}",
            count(*tables, "table")
        ),
        None => format!("{name}@{generation} could not be booted: {sound}"),
    });
    Ok(())
}
