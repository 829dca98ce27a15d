//! `remora copy --follow replica`: a copy, and then the servers' own replication.

use std::time::Instant;

use dump::CopyRequest;
use failure::usage;
use follow::Replica;
use progress::Progress;

use super::{follow as following, tell_omitted};
use crate::exit::Exit;
use crate::report::Report;

pub(super) fn run(
    context: &dump::Context,
    replica: Replica<'_>,
    mut request: CopyRequest,
    report: &Report,
) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let why = replica.refusals()?;
    if !why.is_empty() {
        return Err(usage(format!("B can't replicate from A: {}", why.join("; "))));
    }
    report.phase("trying whether B reaches A", None);
    let with_tls = replica.try_login()?;
    // In B's log these rows would be transactions of B, which A does not have.
    request.write.no_binlog = true;
    let servers = (replica.from, replica.to);
    if request.write.resume {
        following::forget(servers, &request)?;
    }
    let summary = dump::copy(context, servers, &request)?;
    report.end();
    tell_omitted(&summary.omitted, report);
    super::summarise(&summary, began.elapsed().as_secs_f64(), report)?;
    if !summary.omitted.is_empty() {
        // It may have come before the snapshot, and then no log has it.
        report.warn("B does not replicate from A: --resume compares all rows with a new snapshot first");
        return Ok(Exit::Partial);
    }
    let position = summary.source.position.as_ref();
    let position = position.ok_or_else(|| usage("the position of the snapshot is not known"))?;
    replica.begin(position, with_tls)?;
    report.note(&format!(
        "B replicates from A since {position}; SHOW REPLICA STATUS on B says how far it is, and read_only = ON keeps others \
         from writing to it"
    ));
    Ok(Exit::Done)
}
