//! The first phase: the server works, and its pages are read.

use std::io;
use std::path::Path;
use std::time::Instant;

use block::tree::{LayoutBuilder, Node};
use serde_json::Value;

use crate::data_files::DataFiles;
use crate::ddl_blocked::DdlBlocked;
use crate::file;
use crate::file_list::FileList;
use crate::listing::FileState;
use crate::preflight;
use crate::read_files::{self, ReadFile, ReadFiles};
use crate::region::Region;
use crate::running_server::RunningServer;
use crate::staged_files::StagedFiles;

/// A copy whose first region is read.
pub(crate) struct FirstPass {
    pub server: RunningServer,
    layout: LayoutBuilder,
    staged: StagedFiles,
    pub read: ReadFiles,
}

impl FirstPass {
    /// Lists what is read while the server works.
    pub(crate) fn begin(
        files: &mut DataFiles<'_>,
        server: RunningServer,
        mut layout: LayoutBuilder,
        staged: StagedFiles,
    ) -> io::Result<(FirstPass, Region)> {
        let (mut nodes, states): (Vec<Node>, Vec<FileState>) = read_files::list(files)?.into_iter().unzip();
        let region = Region::first(files, &mut layout, &mut nodes)?;
        let read = nodes.into_iter().zip(states);
        let read = read.map(|(node, state)| (node.path.clone(), ReadFile { node, state })).collect();
        Ok((FirstPass { server, layout, staged, read }, region))
    }

    /// Stops DDL, and lists what was not read before, or has become another file since.
    pub(crate) fn block_ddl(
        mut self,
        files: &mut DataFiles<'_>,
        note: &mut Value,
    ) -> io::Result<(DdlBlocked, Region)> {
        let stages = &mut self.server.stages;
        stages.block_ddl()?;
        let ddl = files.contents(Path::new(file::DDL))?.unwrap_or_default();
        let changed = file::named_in(&String::from_utf8(ddl).map_err(io::Error::other)?);
        let listed = files.list()?;
        let listed_at = Instant::now();
        preflight::engines(stages.session())?;
        if let Some(keys) = preflight::keys(stages.session())? {
            note["keys"] = keys;
        }
        // There may be very many files, and each that has changed is asked for.
        let mut stay = || stages.stay();
        let (mut list, mut again) = FileList::new(files, listed, &self.read, &changed, &mut stay)?;
        let region = Region::second(files, &mut self.layout, &mut again)?;
        list.copied.append(&mut again);
        let FirstPass { server, layout, staged, .. } = self;
        Ok((DdlBlocked { server, layout, staged, list, listed_at }, region))
    }
}
