//! The third phase: nobody commits, and what is left is staged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use block::tree::LayoutBuilder;

use crate::backup_stage::Stages;
use crate::binary_log::{self, Position};
use crate::data_files::DataFiles;
use crate::file_list::FileList;
use crate::queue;
use crate::redo_log::Stopped;
use crate::released::Released;
use crate::running_server::check_stop;
use crate::staged_files::StagedFiles;
use crate::staging::Staging;

/// A copy of which the last region is staged.
pub(crate) struct CommitsBlocked {
    pub stages: Stages,
    pub log: Stopped,
    /// Set when the run must stop.
    pub stop: Arc<AtomicBool>,
    pub layout: LayoutBuilder,
    pub staged: StagedFiles,
    pub list: FileList,
}

impl CommitsBlocked {
    /// Stages what is left, and lets the server work again.
    pub(crate) fn release(self, files: &DataFiles<'_>) -> io::Result<Released> {
        let CommitsBlocked { mut stages, log, stop, layout, mut staged, mut list } = self;
        let mut stay = || check_stop(&stop).and_then(|()| stages.stay());
        Staging { files, list: &list.no_commit, stay: &mut stay, staged: &mut staged }.all()?;
        let (position, log_end) = stages.position()?;
        // They have been synced with that: what is committed in them needs no coordinator.
        let mut tails = queue::open(files, &list.queues, &mut list.copied, &mut staged)?;
        // They are opened now: later they may be purged.
        let end = Position {
            file: position["file"].as_str().unwrap_or_default(),
            offset: position["offset"].as_u64().unwrap_or_default(),
        };
        let logs = binary_log::up_to(&end, stages.binary_logs()?)?;
        tails.extend(binary_log::open(files, logs, &mut list.copied)?);
        binary_log::stage_index(files, end.file, &mut staged)?;
        let new = list.new_tablespaces(files)?;
        let waited = stages.end()?;
        Ok(Released { log, log_end, layout, staged, list, tails, new, position, waited })
    }
}
