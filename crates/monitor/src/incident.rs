//! What is asked of a server besides samples, over the same session: who waits for whom, the last deadlock,
//! and what ending a connection means. The effect of all of it is subtracted from the next sample.
//!
//! Each of these questions costs much more than a sample, so it is asked only when a sample shows a reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::machine::{self, Elsewhere, Follower, Latest, MachineLoad};
use locks::kill::{How, Limits, Outcome, Selection, Target, choose};
use locks::{Connection, Deadlock, Picture, is_lock_wait, last_deadlock, statement_kind};
use serde::{Deserialize, Serialize};
use server::{Error, Session};
use status::counter::number::Number;
use status::counter::part::Process;
use status::counter::record::Beside;
use status::counter::sample::Sample;
use status::counter::sampler::Sampler;

/// InnoDB renews its copy of transactions only if nobody has read it for 0.1 s.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// While nobody waits, how often it is asked which transactions are open, and how many are kept.
const OPEN_AGAIN: Duration = Duration::from_secs(10);
const OPEN_MAX: usize = 20;

/// How many of those that run a recording keeps at most, the longest.
const RUNNING_MAX: usize = 100;

/// After so many samples a server is asked for the last deadlock even if it counts none: MySQL 5.6 counts
/// them only when it is told to.
const DEADLOCK_AGAIN: u64 = 30;

/// What was found besides a sample.
#[derive(Clone, Debug, Default)]
pub struct Incident {
    /// Who waits for whom. If the sample shows nobody who waits: the oldest open transactions, as they were
    /// at most ten seconds before.
    pub picture: Option<Arc<Picture>>,
    /// The last deadlock; `None` if there was none, or this account may not see it.
    pub deadlock: Option<Arc<Deadlock>>,
    /// Connections that were told to end, and how many rows are still to be brought back.
    pub ending: Vec<(u64, u64)>,
    /// What the machine does that the server runs on, or why that is not known; `None` if nobody said where
    /// that is and it is not this one.
    pub machine: Option<Result<Arc<MachineLoad>, String>>,
    /// How many of those that ran are not in this recording.
    pub left_out: usize,
    /// Why something of this could not be read.
    pub failed: Option<String>,
}

/// The names of what a recording keeps of it.
const LOCKS: &str = "locks";
const HOST: &str = "host";
const RUNNING: &str = "running";
const DEADLOCK: &str = "deadlock";

/// What a recording has of the connections that run something.
#[derive(Serialize, Deserialize)]
struct Running {
    /// Those that have run the longest.
    longest: Vec<Process>,
    /// How many others there were.
    left_out: usize,
}

impl Running {
    fn of(processes: &[Process], statements: bool) -> Running {
        let mut longest: Vec<Process> = processes.iter().take(RUNNING_MAX).cloned().collect();
        if !statements {
            longest.iter_mut().for_each(|process| process.statement = statement_kind(&process.statement));
        }
        Running { left_out: processes.len() - longest.len(), longest }
    }
}

/// What a recording has of a machine.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Host {
    Load(MachineLoad),
    /// Why it could not be read.
    Unread(String),
}

impl Incident {
    /// What a recording keeps besides the numbers of a sample: what ran, who waits or may block next, the
    /// last deadlock, and the machine. Without `statements` only their kinds, because they may hold data of
    /// the application.
    #[must_use]
    pub fn kept(&self, sample: &Sample, statements: bool) -> Beside {
        let locks = self.picture.as_ref().map(|picture| {
            let mut picture = Picture::clone(picture);
            picture.keep_parties(OPEN_MAX);
            if !statements {
                picture.hide_statements();
            }
            (LOCKS, serde_json::to_value(&picture))
        });
        let host = self.machine.as_ref().map(|machine| match machine {
            Ok(load) => Host::Load(MachineLoad::clone(load)),
            Err(why) => Host::Unread(why.clone()),
        });
        let host = host.map(|host| (HOST, serde_json::to_value(&host)));
        let deadlock = self.deadlock.as_ref().map(|deadlock| {
            let mut deadlock = Deadlock::clone(deadlock);
            if !statements {
                deadlock.hide_statements();
            }
            (DEADLOCK, serde_json::to_value(&deadlock))
        });
        let running = sample.processes.as_deref().map(|all| Running::of(all, statements));
        let running = running.map(|running| (RUNNING, serde_json::to_value(&running)));
        [locks, host, deadlock, running]
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.to_owned(), value.ok()?)))
            .collect()
    }

    /// What a recording has kept. What ran goes back into the sample.
    #[must_use]
    pub fn recorded(beside: &Beside, sample: &mut Sample) -> Incident {
        let host = beside.get(HOST).map(Host::deserialize);
        let mut failed = None;
        let locks = read::<Picture>(beside, LOCKS, &mut failed);
        let deadlock = read::<Deadlock>(beside, DEADLOCK, &mut failed);
        let running = read::<Running>(beside, RUNNING, &mut failed);
        let machine = host.map(|host| match host {
            Ok(Host::Load(load)) => Ok(Arc::new(load)),
            Ok(Host::Unread(why)) => Err(why),
            Err(error) => Err(error.to_string()),
        });
        let left_out = running.as_ref().map_or(0, |running| running.left_out);
        sample.processes = running.map(|running| running.longest);
        let (picture, deadlock) = (locks.map(Arc::new), deadlock.map(Arc::new));
        Incident { picture, deadlock, machine, left_out, failed, ..Incident::default() }
    }
}

/// Something of a recording, if it has it and this version can read it.
fn read<'a, T: Deserialize<'a>>(beside: &'a Beside, name: &str, failed: &mut Option<String>) -> Option<T> {
    match T::deserialize(beside.get(name)?) {
        Ok(found) => Some(found),
        Err(error) => {
            *failed = Some(error.to_string());
            None
        }
    }
}

/// A question about one connection.
#[derive(Debug)]
pub enum Request {
    /// Whom ending it would mean; nothing is ended.
    Offer(u64, How),
    /// End it.
    End(Box<Target>, How),
    /// What it runs, whole.
    Connection(u64),
}

/// The answer.
#[derive(Debug)]
pub enum Reply {
    /// Whom ending it would mean, or why it must not be ended.
    Offer(Result<Box<Target>, String>, How),
    /// How the attempt to end it ended.
    Ended(u64, How, Outcome),
    /// The connection as it is now; `None` if it has ended.
    Connection(Option<Box<Connection>>),
    /// The plan of what it runs, or why there is none.
    Plan(Result<locks::explain::Plan, String>),
    /// The server answered with an error.
    Failed(String),
}

/// Looks for reasons in samples, and asks.
#[derive(Default)]
pub(crate) struct Attendant {
    found: Incident,
    /// When the waits were read last.
    looked: Option<Instant>,
    /// When the open transactions were read last, since somebody waited.
    looked_open: Option<Instant>,
    /// The number of deadlocks at the time of the last look for one, and the samples since.
    deadlocks: Option<(Option<Number>, u64)>,
    ending: Vec<(Target, How)>,
    machine: Machine,
}

/// What is asked about locks and transactions.
#[derive(Clone, Copy)]
enum Wanted {
    /// Who waits for whom.
    Waits,
    /// The oldest open transactions.
    Open,
    Nothing,
}

/// Where a server runs.
#[derive(Default)]
enum Machine {
    /// The server was not asked yet.
    #[default]
    Unasked,
    Here(Follower),
    Elsewhere(Elsewhere),
    Unknown,
}

impl Machine {
    /// What it does.
    fn look(&mut self, sampler: &mut Sampler, is_new: bool) -> Latest {
        if is_new && !matches!(self, Machine::Elsewhere(_)) {
            // Through a tunnel an address of this machine may lead to another one, and many machines have the
            // name that their system came with.
            let name = sampler.over(|session| session.value("SELECT @@hostname"));
            let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let is_here =
                sampler.target().is_on_this_machine() && name.is_ok_and(|name| name.flatten() == Some(own));
            *self = if is_here { Machine::Here(Follower::default()) } else { Machine::Unknown };
        }
        match self {
            Machine::Here(follower) => follower.take(&machine::here()),
            Machine::Elsewhere(elsewhere) => elsewhere.latest(),
            Machine::Unasked | Machine::Unknown => None,
        }
    }
}

impl Attendant {
    /// `elsewhere`: the machine of the server, if the user has said which.
    pub(crate) fn new(elsewhere: Option<Elsewhere>) -> Attendant {
        Attendant { machine: elsewhere.map_or(Machine::Unasked, Machine::Elsewhere), ..Attendant::default() }
    }

    /// Asks what this sample gives a reason for. Errors of single questions are a part of the result.
    pub(crate) fn attend(&mut self, sampler: &mut Sampler, sample: &Sample) -> Incident {
        let machine = self.machine.look(sampler, sample.begin.is_some());
        self.found.machine = machine.map(|found| found.map(Arc::new));
        let is_time = |looked: Option<Instant>, least| looked.is_none_or(|looked| looked.elapsed() >= least);
        let wants_deadlock = self.wants_deadlock(sample);
        let waits = somebody_waits(sample);
        if !waits && self.looked_open.is_none() {
            self.found.picture = None;
        }
        let wants = match (waits, wants_deadlock || !self.ending.is_empty()) {
            (true, is_asked) if is_asked || is_time(self.looked, LOOK_AGAIN) => Some(Wanted::Waits),
            (false, _) if is_time(self.looked_open, OPEN_AGAIN) => Some(Wanted::Open),
            (_, true) => Some(Wanted::Nothing),
            (_, false) => None,
        };
        if let Some(wanted) = wants {
            let asked = sampler.over(|session| self.ask(session, wanted, wants_deadlock));
            self.found.failed = asked.err().map(|error| error.to_string());
        }
        self.found.clone()
    }

    fn wants_deadlock(&mut self, sample: &Sample) -> bool {
        let count = sample.number("Innodb_deadlocks");
        match &mut self.deadlocks {
            Some((known, since)) if *known == count && *since < DEADLOCK_AGAIN => {
                *since += 1;
                false
            }
            deadlocks => {
                *deadlocks = Some((count, 0));
                true
            }
        }
    }

    fn ask(&mut self, session: &mut Session, wanted: Wanted, wants_deadlock: bool) -> Result<(), Error> {
        match wanted {
            Wanted::Waits => {
                (self.looked, self.looked_open) = (Some(Instant::now()), None);
                self.found.picture = Some(Arc::new(Picture::read(session)?));
            }
            Wanted::Open => {
                self.looked_open = Some(Instant::now());
                self.found.picture = Some(Arc::new(Picture::of_oldest(session, OPEN_MAX)?));
            }
            Wanted::Nothing => {}
        }
        let mut left = Vec::new();
        for (target, how) in std::mem::take(&mut self.ending) {
            if let Some(rows) = target.remaining(session, how)? {
                left.push((target.connection.id, rows));
                self.ending.push((target, how));
            }
        }
        self.found.ending = left;
        if wants_deadlock {
            match session.strings("SHOW ENGINE INNODB STATUS") {
                Ok(rows) => {
                    let text = rows.into_iter().flatten().flatten().max_by_key(String::len);
                    self.found.deadlock = text.and_then(|text| last_deadlock(&text)).map(Arc::new);
                }
                // Not every account may see it.
                Err(error) if error.code().is_some() && !error.is_connection_lost() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Answers a question.
    pub(crate) fn answer(&mut self, sampler: &mut Sampler, request: Request) -> Reply {
        match sampler.over(|session| answer(session, request)) {
            Ok(Some((reply, ended))) => {
                self.ending.extend(ended);
                reply
            }
            Ok(None) => Reply::Failed("there is no connection to the server now".to_owned()),
            Err(error) => Reply::Failed(error.to_string()),
        }
    }
}

/// The answer, and who was told to end.
fn answer(session: &mut Session, request: Request) -> Result<(Reply, Option<(Target, How)>), Error> {
    Ok(match request {
        Request::Offer(id, how) => {
            let picture = Picture::read(session)?;
            let found = choose(&picture, &Selection { ids: vec![id], ..Selection::default() }).pop();
            let limits = Limits { own: session.connection_id().into(), replication: false };
            let offer = match found {
                None => Err(format!("there is no connection {id}")),
                Some(target) => target.objection(how, &limits).map_or(Ok(Box::new(target)), Err),
            };
            (Reply::Offer(offer, how), None)
        }
        Request::End(target, how) => {
            let outcome = target.end(session, how)?;
            let id = target.connection.id;
            let is_told = outcome == Outcome::Told;
            (Reply::Ended(id, how, outcome), is_told.then_some((*target, how)))
        }
        Request::Connection(id) => (Reply::Connection(locks::connection(session, id)?.map(Box::new)), None),
    })
}

/// Whether a sample shows somebody who waits for a lock.
fn somebody_waits(sample: &Sample) -> bool {
    let is_waiting = sample.processes.iter().flatten().any(|process| is_lock_wait(&process.state));
    is_waiting || sample.number("Innodb_row_lock_current_waits").is_some_and(|waits| !waits.is_zero())
}

#[cfg(test)]
mod tests {
    use locks::{Lock, LockKind, Participant, Party, Transaction, Wait};

    use super::*;

    fn sample() -> Sample {
        Sample {
            at: Duration::ZERO,
            unix_ms: 0,
            took: Duration::ZERO,
            begin: None,
            names: Arc::default(),
            values: Vec::new(),
            own: std::collections::BTreeMap::new(),
            replicas: None,
            queues: Vec::new(),
            digests: None,
            processes: None,
            settings: Arc::default(),
        }
    }

    #[test]
    fn a_recording_has_the_parties_and_the_machine_and_statements_if_asked() {
        let connection = |id| {
            let connection = Connection { id, statement: "UPDATE 'secret'".into(), ..Connection::default() };
            (id, connection)
        };
        let open = Transaction { connection: 1, seconds: 5, ..Transaction::default() };
        let lock = Lock { kind: LockKind::Row, object: "d.t".into(), mode: "X".into() };
        let [waiter, holder] = [2, 1].map(Party::Connection);
        let mut picture = Picture {
            connections: [1, 2, 3].map(connection).into(),
            transactions: [(open.party(), open)].into(),
            waits: vec![Wait { waiter, holder, lock, is_certain: true }],
            unexplained: vec![Party::Prepared("7".into())],
            ..Picture::default()
        };
        let machine = Some(Err("no way".to_owned()));
        let party = Participant { statement: "DELETE 'secret'".into(), ..Participant::default() };
        let deadlock = Deadlock { parties: vec![party], text: "secret".into(), ..Deadlock::default() };
        let incident = Incident {
            picture: Some(Arc::new(picture.clone())),
            deadlock: Some(Arc::new(deadlock)),
            machine,
            ..Incident::default()
        };
        let runs = |id| Process { id, statement: "SELECT 'secret'".into(), ..Process::default() };
        let looked = Sample { processes: Some((0..103).map(runs).collect()), ..sample() };
        let mut replayed = sample();
        let found = Incident::recorded(&incident.kept(&looked, true), &mut replayed);
        picture.connections.remove(&3);
        assert_eq!(found.picture.as_deref(), Some(&picture));
        assert_eq!((found.machine, found.failed), (incident.machine.clone(), None));
        assert_eq!(found.deadlock, incident.deadlock);
        assert_eq!((replayed.processes, found.left_out), (Some((0..100).map(runs).collect()), 3));
        let kept = serde_json::to_string(&incident.kept(&looked, false)).unwrap();
        let kinds = ["UPDATE ...", "DELETE ...", "SELECT ..."].map(|kind| kept.contains(kind));
        assert!(kinds == [true; 3] && !kept.contains("secret"), "{kept}");
        // What another version wrote is not taken for calm.
        for name in ["locks", "running", "deadlock"] {
            let strange = Incident::recorded(&[(name.to_owned(), 7.into())].into(), &mut sample());
            assert!(strange.picture.is_none() && strange.failed.is_some(), "{name}");
        }
        // Recordings from before have none of it.
        let mut replayed = sample();
        let old = Incident::recorded(&Beside::new(), &mut replayed);
        assert!(old.picture.is_none() && old.machine.is_none() && old.failed.is_none());
        assert!(old.deadlock.is_none() && replayed.processes.is_none());
    }
}
