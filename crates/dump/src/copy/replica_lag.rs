//! Waits for replicas of the target that are late.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use server::{Session, Target};

use crate::reading::throttle::pause;
use crate::{Context, Error};

/// How often a replica is asked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A replica that must not fall behind.
#[derive(Clone, Debug)]
pub struct MaxLag {
    /// The replica.
    pub replica: Target,
    /// By how much it may be behind its source when a chunk begins.
    pub at_most: Duration,
}

/// Replicas that must not fall behind.
#[derive(Default)]
pub(crate) struct ReplicaLags(Mutex<Vec<Watched>>);

struct Watched {
    limit: MaxLag,
    /// `None` before it is asked, and after the connection was lost.
    session: Option<Session>,
    /// When it was asked last by a session that had a chunk.
    looked: Option<Instant>,
    /// Whether chunks wait for it.
    is_late: bool,
}

impl ReplicaLags {
    /// Connects to replicas.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a server that is no replica; errors of the servers.
    pub(super) fn new(limits: &[MaxLag]) -> Result<ReplicaLags, Error> {
        let watched = |limit: &MaxLag| {
            let shown = format!("--max-lag {}", limit.replica);
            let mut watched = Watched { limit: limit.clone(), session: None, looked: None, is_late: false };
            let delays = watched.delays();
            let delays =
                delays.map_err(|error| Error::Object { object: shown.clone(), source: Box::new(error) })?;
            if delays.is_empty() {
                return Err(Error::Mismatch(format!("{shown}: it is no replica")));
            }
            Ok(watched)
        };
        Ok(ReplicaLags(Mutex::new(limits.iter().map(watched).collect::<Result<_, Error>>()?)))
    }

    /// Waits until no replica is late.
    pub(super) fn wait(&self, context: &Context, is_over: &dyn Fn() -> bool) {
        while !is_over() {
            let mut replicas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            replicas.iter_mut().for_each(|replica| replica.look(context));
            if replicas.iter().all(|replica| !replica.is_late) {
                return;
            }
            drop(replicas);
            pause(LOOK_AGAIN / 4);
        }
    }
}

impl Watched {
    /// Looks at the replica, if the last time is long enough ago, and says when waiting begins and ends.
    fn look(&mut self, context: &Context) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return;
        }
        let why = match self.delays() {
            Ok(delays) => late(&delays, self.limit.at_most),
            Err(error) => {
                self.session = None;
                Some(error.to_string())
            }
        };
        self.looked = Some(Instant::now());
        let replica = &self.limit.replica;
        match (&why, self.is_late) {
            (Some(why), false) => context.progress.note(&format!("waiting for replica {replica}: {why}")),
            (None, true) => context.progress.note(&format!("replica {replica} has caught up")),
            _ => {}
        }
        self.is_late = why.is_some();
    }

    fn delays(&mut self) -> Result<Vec<Option<u64>>, server::Error> {
        match &mut self.session {
            Some(session) => session.replica_delays(),
            none => none.insert(self.limit.replica.connect()?).replica_delays(),
        }
    }
}

/// Why a replica with these delays is late; `None` if it is not.
fn late(delays: &[Option<u64>], at_most: Duration) -> Option<String> {
    // What does not run falls behind, and no number says by how much.
    if delays.iter().any(Option::is_none) || delays.is_empty() {
        return Some("its replication does not run".to_owned());
    }
    let most = delays.iter().flatten().max().copied().unwrap_or(0);
    let limit = at_most.as_secs();
    (most > limit).then(|| format!("it is {most} s behind its source, and --max-lag allows {limit} s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_channel_counts_and_one_that_does_not_run_is_late() {
        let limit = Duration::from_secs(5);
        for (delays, is_late) in [
            (&[Some(0)][..], false),
            (&[Some(5), Some(3)], false),
            (&[Some(3), Some(6)], true),
            (&[Some(0), None], true),
            (&[], true),
        ] {
            assert_eq!(late(delays, limit).is_some(), is_late, "{delays:?}");
        }
    }
}
