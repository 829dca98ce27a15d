//! The second phase: DDL is blocked, and so are changes of tables without transactions.

use std::io;
use std::time::Instant;

use block::tree::LayoutBuilder;

use crate::commits_blocked::CommitsBlocked;
use crate::file_list::FileList;
use crate::quiesce;
use crate::running_server::RunningServer;
use crate::staged_files::StagedFiles;

/// A copy whose second region is read.
pub(crate) struct DdlBlocked {
    pub server: RunningServer,
    pub layout: LayoutBuilder,
    pub staged: StagedFiles,
    pub list: FileList,
    /// When the files were listed.
    pub listed_at: Instant,
}

impl DdlBlocked {
    /// Stops commits.
    pub(crate) fn block_commits(self) -> io::Result<CommitsBlocked> {
        let DdlBlocked { server: RunningServer { mut stages, log, stop }, layout, staged, list, listed_at } =
            self;
        quiesce::wait_after(listed_at);
        stages.block_commit()?;
        // From here on it must not be read beyond the end, which is not known yet.
        let log = log.stop()?;
        Ok(CommitsBlocked { stages, log, stop, layout, staged, list })
    }
}
