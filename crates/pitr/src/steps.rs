//! A replay in steps: a server is brought from one point of its history to the next.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use instance::{Account, Wanted, settings};
use progress::Shared;
use sandbox::Sandbox;
use server::{Session, TableName};
use transactions::{Place, Transaction};

use crate::replay::{self, Replay};
use crate::replay_plan::ReplayPlan;

/// A private server at a point in time, which can be brought to later ones.
pub struct Steps {
    server: Sandbox,
    account: Account,
    session: Session,
    replay: Replay,
    /// Everything that is to be applied, and was.
    plan: ReplayPlan,
    /// How many transactions of it were applied.
    applied: u64,
    /// Which file of the archive is the first of the replay.
    first: usize,
    is_aimed: bool,
}

impl Steps {
    /// Starts a server on data that are where `plan` begins. `first` says which file of the archive is the
    /// first of the replay.
    pub fn start(
        replay: Replay,
        wanted: Wanted<'_>,
        plan: ReplayPlan,
        first: usize,
        report: &Shared,
    ) -> Result<Steps> {
        let (server, account) = replay.start(wanted, &plan)?;
        let mut session = account.connect(&server)?;
        settings::apply(&mut session, wanted.needs.server(), report)?;
        Ok(Steps { server, account, session, replay, plan, applied: 0, first, is_aimed: false })
    }

    /// A session.
    pub fn session(&self) -> Result<Session> {
        self.account.connect(&self.server)
    }

    /// The next [`Steps::go`] applies this transaction too, which comes behind all that were counted.
    pub fn count(&mut self, whole: &Transaction) {
        self.plan.count(whole);
        let Place { file, at } = whole.end;
        self.plan.end = Some(Place { file: file.saturating_sub(self.first), at });
    }

    /// Applies everything that was counted and is not applied yet.
    pub fn go(&mut self, stop: &AtomicBool, report: &Shared) -> Result<()> {
        if self.plan.transactions == self.applied {
            return Ok(());
        }
        self.plan.refuse()?;
        if !self.is_aimed {
            self.replay.aim(&mut self.session)?;
            self.is_aimed = true;
        }
        self.replay.go(&mut self.session, &self.plan, stop, report)?;
        self.applied = self.plan.transactions;
        Ok(())
    }

    /// How many transactions, of those that were counted, are logged as statements.
    pub fn by_statement(&self) -> u64 {
        self.plan.by_statement
    }

    /// Fails unless the server finds these tables sound.
    pub fn check(&mut self, tables: &[TableName], stop: &AtomicBool, report: &Shared) -> Result<()> {
        replay::check((&mut self.session, &self.server), tables, stop, report)?;
        Ok(())
    }
}
