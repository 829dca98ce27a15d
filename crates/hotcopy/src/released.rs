//! The last phases: the server works again; the copy's log ends, and then all files have their places.

use std::io;

use block::tree::{Layout, LayoutBuilder, Node};
use physical::redo_copy::CopiedLog;
use progress::Progress;
use serde_json::Value;
use snapshot::server_lock;

use crate::backup_stage::Waited;
use crate::data_files::DataFiles;
use crate::file;
use crate::file_list::FileList;
use crate::redo_log::Stopped;
use crate::region::{Region, SpooledFile};
use crate::spool::Spool;
use crate::staged_files::{StagedFiles, Tail};

/// A copy whose server works again.
pub(crate) struct Released {
    pub log: Stopped,
    /// The LSN of the end of the log.
    pub log_end: u64,
    pub layout: LayoutBuilder,
    pub staged: StagedFiles,
    pub list: FileList,
    /// Files to which the server only adds.
    pub tails: Vec<Tail>,
    /// Tablespaces of which only the names are known.
    pub new: Vec<Node>,
    pub position: Value,
    pub waited: Waited,
}

impl Released {
    /// Reads the redo log up to its end, and gives places to the files of the last region.
    pub(crate) fn store(self, files: &DataFiles<'_>) -> io::Result<(Stored, Region)> {
        let Released { log, log_end, mut layout, mut staged, list, tails, new, position, waited } = self;
        // First, because the server may write over it.
        let began = log.began;
        let (log, redo) = log.finish(log_end)?;
        list.tablespaces.check(&log.spaces, began, &files.places)?;
        redo.replace(0, &log.head)?;
        // To these files the server only adds.
        staged.add_tails(tails, &files.places)?;
        let entry = files.machine.tree().entry(&files.places.log)?;
        let mut nodes = vec![Node::of(file::REDO.into(), entry).with_len(log.file_bytes())];
        nodes.extend(staged.files().iter().map(|staged| staged.node.clone()));
        nodes.extend(new);
        layout.add(&mut nodes);
        let mut all = list.copied;
        all.extend(nodes.iter().cloned());
        all.sort_by(|one, other| one.path.cmp(&other.path));
        let layout = layout.finish(all);
        let spooled = std::iter::once((&redo, 0));
        let spooled = spooled.chain(staged.files().iter().map(|file| (staged.spool(), file.offset)));
        let spooled = nodes.iter().zip(spooled);
        let spooled = spooled.map(|(node, (spool, offset))| SpooledFile { node, spool, offset });
        let region = Region::last(&layout, spooled);
        Ok((Stored { layout, position, waited, log, _redo: redo, _staged: staged.into_spool() }, region))
    }
}

/// A copy whose files all have their places.
pub(crate) struct Stored {
    pub layout: Layout,
    position: Value,
    waited: Waited,
    log: CopiedLog,
    /// They are read until all is stored.
    _redo: Spool,
    _staged: Spool,
}

impl Stored {
    /// Reports how long others had to wait for the copy of `source`.
    pub(crate) fn report(&self, source: &str, report: &dyn Progress) {
        let (ddl_s, commits_s) = (self.waited.ddl.as_secs_f64(), self.waited.commits.as_secs_f64());
        report.note(&format!(
            "{source}: commits waited for {commits_s:.3} s, DDL and tables without transactions for {ddl_s:.3} s"
        ));
        if let Some(text) = server_lock::shown(&self.position) {
            report.note(&format!("{source}: {text}"));
        }
    }

    /// Notes the position and the log.
    pub(crate) fn note(&self, note: &mut Value) {
        note["way"] = "copy".into();
        note["position"] = self.position.clone();
        note["position"]["lock"] = "backup-stage".into();
        note["position"]["seconds_held"] = self.waited.commits.as_secs_f64().into();
        note["position"]["seconds_without_ddl"] = self.waited.ddl.as_secs_f64().into();
        note["log"]["from"] = self.log.checkpoint.into();
        note["log"]["to"] = self.log.end.into();
        note["log"]["size"] = self.log.log_size().into();
        note["log"]["mark"] = self.log.mark.clone().into();
    }
}
