//! Where the transactions that are asked for are.

use std::collections::BTreeSet;

use anyhow::Result;
use transactions::{Asked, Place, Take, Transaction};

/// The transactions that are asked for: where the first and the last begin, and all servers in the log.
#[derive(Default)]
pub(super) struct Span {
    pub(super) ends: Option<(Place, Place)>,
    pub(super) servers: BTreeSet<u32>,
}

impl Take for Span {
    fn transaction(&mut self, whole: &Transaction, asked: Asked) -> Result<()> {
        self.servers.insert(whole.server_id);
        // Where the log has what foreign keys did, nobody needs to be asked.
        if asked == Asked::Yes && !whole.tables.is_empty() && !whole.logs_cascades {
            let first = self.ends.map_or(whole.start, |(first, _)| first);
            self.ends = Some((first, whole.start));
        }
        Ok(())
    }
}
