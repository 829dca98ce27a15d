//! A replay that goes on: a server is brought from one moment of its history to the next.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use instance::{Account, Wanted, settings};
use progress::Shared;
use sandbox::Sandbox;
use server::{Session, TableName};
use transactions::{Place, Transaction};

use crate::replay::{self, Replay};
use crate::replay_plan::ReplayPlan;

/// A private server at a moment, which can be brought to later ones.
pub struct Steps {
    server: Sandbox,
    account: Account,
    session: Session,
    replay: Replay,
    /// Everything that is to be applied, and was.
    way: ReplayPlan,
    /// How many transactions of it were applied.
    applied: u64,
    /// Which file of the archive is the first of the replay.
    first: usize,
    is_aimed: bool,
}

impl Steps {
    /// Starts a server on data that are where `way` begins. `first` says which file of the archive is the
    /// first of the replay.
    pub fn start(
        replay: Replay,
        (data, wanted): (&Path, Wanted<'_>),
        (way, first): (ReplayPlan, usize),
        report: &Shared,
    ) -> Result<Steps> {
        let (server, account) = replay.start((data, wanted), &way)?;
        let mut session = account.connect(&server)?;
        settings::apply(&mut session, wanted.needs.server(), report)?;
        Ok(Steps { server, account, session, replay, way, applied: 0, first, is_aimed: false })
    }

    /// A session.
    pub fn session(&self) -> Result<Session> {
        self.account.connect(&self.server)
    }

    /// The next [`Steps::go`] applies this transaction too, which comes behind all that were counted.
    pub fn count(&mut self, whole: &Transaction) {
        self.way.count(whole);
        let Place { file, at } = whole.end;
        self.way.end = Some(Place { file: file.saturating_sub(self.first), at });
    }

    /// Applies everything that was counted and is not applied yet.
    pub fn go(&mut self, stop: &AtomicBool, report: &Shared) -> Result<()> {
        if self.way.transactions == self.applied {
            return Ok(());
        }
        self.way.refuse()?;
        if !self.is_aimed {
            self.replay.aim(&mut self.session)?;
            self.is_aimed = true;
        }
        self.replay.go(&mut self.session, &self.way, stop, report)?;
        self.applied = self.way.transactions;
        Ok(())
    }

    /// How many transactions, of those that were counted, are logged as statements.
    pub fn by_statement(&self) -> u64 {
        self.way.by_statement
    }

    /// Fails unless the server finds these tables sound.
    pub fn check(&mut self, tables: &[TableName], stop: &AtomicBool, report: &Shared) -> Result<()> {
        replay::check((&mut self.session, &self.server), tables, stop, report)?;
        Ok(())
    }
}
