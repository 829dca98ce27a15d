//! `remora dump --list` and `--check`: examine a dump without a server.

use std::path::Path;
use std::time::Instant;

use dump::Manifest;
use progress::{Progress, count};
use repository::AnyDisk;
use serde_json::json;

use crate::commands;
use crate::exit::Exit;
use crate::report::{self, Report};

/// Prints what is in a dump.
pub(super) fn list(folder: &Path, report: &Report) -> anyhow::Result<Exit> {
    let disk = AnyDisk::default();
    disk.check(folder)?;
    let manifest = Manifest::read(&disk, folder)?;
    for entry in &manifest.tables {
        let name = &entry.table.name;
        let bytes: u64 = entry.chunks.iter().map(|chunk| chunk.text_bytes).sum();
        if report.is_json() {
            report.message(&json!({
                "message_type": "table", "schema": name.schema, "table": name.table, "engine": entry.table.engine,
                "rows": entry.data.then_some(entry.sum.rows), "text_bytes": bytes, "chunks": entry.chunks.len(),
                "where": entry.condition, "hash": entry.sum.hash,
            }))?;
            continue;
        }
        let rows = if entry.data { count(entry.sum.rows, "row") } else { "no rows".to_owned() };
        let condition = entry.condition.as_ref().map(|sql| format!(", where {sql}")).unwrap_or_default();
        report.data(&format!("table {name}: {rows}, {}{condition}", report::size(bytes)))?;
    }
    for object in &manifest.objects {
        if report.is_json() {
            let (kind, schema, name) = (object.kind, &object.schema, &object.name);
            report
                .message(&json!({"message_type": "object", "kind": kind, "schema": schema, "name": name}))?;
        } else {
            report.data(&object.title())?;
        }
    }
    notes(&manifest, report);
    let source = &manifest.source;
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "folder": folder, "format": manifest.version, "source": source,
            "tables": manifest.tables.len(), "objects": manifest.objects.len(), "omitted": manifest.omitted,
        }))?;
        return Ok(Exit::Done);
    }
    let position = source.position.as_ref().map_or_else(String::new, |position| {
        format!(", at {}:{} {}", position.file, position.offset, position.gtid).trim_end().to_owned()
    });
    // Rows that were read from files have no server.
    let server = match source.host.as_str() {
        "" => String::new(),
        host => format!(" of {host} ({})", source.server_version),
    };
    report.note(&format!(
        "{} and {}{server}{position}",
        count(manifest.tables.len(), "table"),
        count(manifest.objects.len(), "other object"),
    ));
    Ok(Exit::Done)
}

/// Reads all of a dump and compares it with its manifest.
pub(super) fn check(folder: &Path, threads: usize, report: &Report) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let found = dump::check(&super::world(report, [folder])?, folder, threads.max(commands::cores()))?;
    report.end();
    notes(&found.manifest, report);
    for path in &found.strays {
        report.warn(&format!("{}: the manifest does not list it", path.display()));
    }
    if report.is_json() {
        report.message(&json!({
            "message_type": "summary", "folder": folder, "chunks": found.chunks, "file_bytes": found.file_bytes,
            "damaged": found.damaged, "strays": found.strays, "seconds": began.elapsed().as_secs_f64(),
        }))?;
    } else {
        for line in &found.damaged {
            report.data(line)?;
        }
        report.note(&format!(
            "{} in {} read, {} damaged, {:.1} s",
            count(found.chunks, "chunk"),
            report::size(found.file_bytes),
            found.damaged.len(),
            began.elapsed().as_secs_f64()
        ));
    }
    Ok(if found.damaged.is_empty() { Exit::Done } else { Exit::Damaged })
}

/// Repeats the notes that were shown when the dump was made.
fn notes(manifest: &Manifest, report: &Report) {
    manifest.states().iter().chain(&manifest.age()).for_each(|line| report.note(line));
    manifest.omitted.iter().for_each(|line| report.note(&format!("not in the dump: {line}")));
}
