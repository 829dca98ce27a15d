//! Takes samples of a server, across restarts and broken connections.

mod row;

use std::sync::Arc;
use std::time::Duration;

use server::REPLICA_STATUS;
use server::{Error, Flavour, Session, Target};

use super::change::has_gone_on;
use super::kind;
use super::overhead::{Answer, Cost, MeasuredSession};
use super::part::{Digest, Process, Queue, Replica, Settings};
use super::sample::{Begin, Names, Sample, Value};

const QUEUES: &str = "SELECT CONCAT(table_schema, '.', table_name), waiting, owned, rows_written, rows_removed \
     FROM information_schema.queues";

/// The errors of MySQL's threads that apply, by channel.
const WORKER_ERRORS: &str = "SELECT channel_name, last_error_message FROM \
     performance_schema.replication_applier_status_by_worker WHERE last_error_number <> 0";

/// Numbers that MySQL shows only here.
const METRICS: &str = "SELECT name, count FROM information_schema.innodb_metrics WHERE status = 'enabled' \
     AND name IN ('trx_rseg_history_len', 'log_lsn_checkpoint_age', 'log_lsn_current', 'lock_deadlocks')";

/// The names of the same numbers among MariaDB's status variables.
const METRIC_NAMES: [(&str, &str); 4] = [
    ("trx_rseg_history_len", "Innodb_history_list_length"),
    ("log_lsn_checkpoint_age", "Innodb_checkpoint_age"),
    ("log_lsn_current", "Innodb_lsn_current"),
    ("lock_deadlocks", "Innodb_deadlocks"),
];

const DIGESTS: &str = "SELECT schema_name, digest, LEFT(digest_text, 1024), count_star, \
     sum_timer_wait DIV 1000000, sum_rows_examined, sum_rows_sent, sum_errors \
     FROM performance_schema.events_statements_summary_by_digest";

/// The list in information_schema has columns for long texts: MariaDB puts it on disk for each question.
const PROCESSES: &str = "SHOW FULL PROCESSLIST";

/// When the source committed the last transaction of each channel that MySQL has applied.
const APPLIED: &str = "SELECT channel_name, \
     CAST(UNIX_TIMESTAMP(MAX(last_applied_transaction_original_commit_timestamp)) * 1000 AS UNSIGNED) \
     FROM performance_schema.replication_applier_status_by_worker GROUP BY channel_name";

/// Optional parts of a sample, which cost the server more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleRequest {
    /// The only status variables to request; empty for all.
    pub names: Vec<&'static str>,
    /// Statements by digest.
    pub digests: bool,
    /// Current processes.
    pub processes: bool,
    /// When the source committed what a replica applied last, which MySQL knows.
    pub applied: bool,
}

/// A server without replication, or without queues, is asked for them again once in this many samples.
const ASK_AGAIN: u64 = 60;

/// The clocks for the times of samples.
pub trait Clock: Send {
    /// Time since an arbitrary start; it is monotonic.
    fn now(&self) -> Duration;
    /// Milliseconds since 1970.
    fn unix_ms(&self) -> i64;
}

/// Whether a part of a sample is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Yes: requested each time.
    Here,
    /// Currently empty: requested from time to time.
    Empty,
    /// This server does not know it.
    Unknown,
    /// This account may not see it.
    Denied,
}

/// A server that is sampled.
pub struct Sampler {
    target: Target,
    clock: Box<dyn Clock>,
    wants: SampleRequest,
    open: Option<OpenSession>,
    names: Arc<Names>,
    /// When the last answer had come, and the server's uptime in it.
    last: Option<(Duration, Option<f64>)>,
    notes: Vec<String>,
    /// Whether digests are wanted.
    is_digesting: bool,
    /// Whether all status variables are wanted, and not only those that the request names.
    is_whole: bool,
}

/// A connection and what is known about its server.
struct OpenSession {
    asker: MeasuredSession,
    /// Whether all status variables are asked for.
    is_whole: bool,
    begin: Option<Begin>,
    settings: Arc<Settings>,
    replicas: (Part, &'static str),
    applied: Part,
    queues: Part,
    metrics: Part,
    digests: Part,
    processes: Part,
    samples: u64,
}

impl Sampler {
    /// A server to sample. Nothing is requested yet.
    #[must_use]
    pub fn new(target: Target, clock: Box<dyn Clock>, wants: SampleRequest) -> Sampler {
        let names = Arc::new(Names::default());
        let (is_digesting, is_whole) = (wants.digests, wants.names.is_empty());
        let (open, last, notes) = (None, None, Vec::new());
        Sampler { target, clock, wants, open, names, last, notes, is_digesting, is_whole }
    }

    /// Notes since the last call that are not errors: parts that this account may not see.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Takes a sample, over a new connection if necessary.
    ///
    /// # Errors
    /// Errors of connecting and querying. The next call tries again.
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let sample = self.take(&mut open)?;
        self.open = Some(open);
        Ok(sample)
    }

    /// Asks something else over the same session, if there is one; what that adds to the counters is
    /// subtracted, too.
    ///
    /// # Errors
    /// Those of the question. A connection that it lost is made again by the next sample.
    pub fn over<T>(
        &mut self,
        ask: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        let answer = open.asker.measure(ask);
        if !answer.as_ref().is_err_and(|error| error.code().is_none() || error.is_connection_lost()) {
            self.open = Some(open);
        }
        answer.map(Some)
    }

    /// The server that is asked.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether to ask for statements by digest, which are many. Only a sampler that was made with them can.
    pub fn set_digests(&mut self, wanted: bool) {
        self.is_digesting = wanted;
    }

    /// Whether to ask for all status variables, and not only for those that the request names.
    pub fn set_whole(&mut self, wanted: bool) {
        self.is_whole = wanted || self.wants.names.is_empty();
    }

    /// The status variables to ask for, or none for all.
    fn wanted(&self) -> &[&'static str] {
        if self.is_whole { &[] } else { &self.wants.names }
    }

    fn take(&mut self, open: &mut OpenSession) -> Result<Sample, Error> {
        if open.is_whole != self.is_whole {
            open.asker.want(self.wanted())?;
            open.is_whole = self.is_whole;
        }
        // This query counts for the next sample.
        let own = open.asker.take();
        let began = self.clock.now();
        let answer = open.asker.status()?;
        let took = self.clock.now().saturating_sub(began);
        let unix_ms = self.clock.unix_ms() - i64::try_from(took.as_millis() / 2).unwrap_or(0);
        let at = began + took / 2;
        let metrics = open.metrics()?;
        let values = values(&mut self.names, &answer, &metrics);
        let mut sample = Sample {
            at,
            unix_ms,
            took,
            begin: open.begin.take(),
            names: Arc::clone(&self.names),
            values,
            own,
            replicas: None,
            queues: Vec::new(),
            digests: None,
            processes: None,
            settings: Arc::clone(&open.settings),
        };
        self.mark_restart(&mut sample);
        sample.replicas = open.replicas()?;
        sample.queues = open.queues()?;
        if self.is_digesting {
            sample.digests = open.digests()?;
        }
        sample.processes = open.processes()?;
        open.samples += 1;
        Ok(sample)
    }

    /// Distinguishes a restart from a broken connection by the server's own clock.
    fn mark_restart(&mut self, sample: &mut Sample) {
        let uptime = sample.number("Uptime").map(super::number::Number::as_f64);
        if let (Some(Begin::First), Some(last)) = (sample.begin, self.last) {
            sample.begin = Some(begin_again(last, (sample.asked(), uptime)));
        }
        self.last = Some((sample.answered(), uptime));
    }

    fn connect(&mut self) -> Result<OpenSession, Error> {
        let mut session = self.target.connect()?;
        prepare(&mut session)?;
        let settings = settings(&mut session)?;
        if self.wants.digests {
            // Keeps our own statements out of the digests, if this account may do that.
            not_fatal(session.execute(
                "UPDATE performance_schema.threads SET instrumented = 'NO' \
                 WHERE processlist_id = CONNECTION_ID()",
            ))?;
        }
        let asker = MeasuredSession::new(session, self.wanted())?;
        let mut open = OpenSession {
            is_whole: self.is_whole,
            asker,
            begin: Some(Begin::First),
            settings: Arc::new(settings),
            replicas: (Part::Unknown, REPLICA_STATUS[0]),
            applied: Part::Unknown,
            queues: Part::Unknown,
            metrics: Part::Unknown,
            digests: Part::Unknown,
            processes: Part::Unknown,
            samples: 0,
        };
        // Every query is run once before the first sample, so that its effect is known.
        let status = open.asker.status()?;
        open.find_replicas()?;
        open.queues = open.try_part(QUEUES)?;
        if open.queues == Part::Empty && open.try_part("SHOW ENGINE QUEUE STATUS")? == Part::Denied {
            // An account that may not see the list gets an empty one.
            open.queues = Part::Denied;
        }
        let has_history =
            status.pairs().any(|(name, _)| name.eq_ignore_ascii_case("Innodb_history_list_length"));
        let is_mysql = open.asker.session().about.flavour == Flavour::MySql;
        if is_mysql && !has_history {
            open.metrics = open.try_part(METRICS)?;
        }
        if self.wants.digests {
            open.digests = open.try_part(DIGESTS)?;
        }
        if self.wants.processes {
            open.processes = open.try_part(PROCESSES)?;
        }
        if self.wants.applied && is_mysql {
            open.applied = open.try_part(APPLIED)?;
        }
        self.note_denied(&open);
        open.asker.take();
        Ok(open)
    }

    fn note_denied(&mut self, open: &OpenSession) {
        let mut note = |part: Part, what: &str, right: &str| {
            if part == Part::Denied {
                self.notes.push(format!("{what}: not shown; this account needs the privilege {right}"));
            }
        };
        note(open.replicas.0, "replication", "REPLICATION CLIENT (MariaDB: SLAVE MONITOR)");
        note(open.metrics, "purge lag and deadlocks", "PROCESS");
        note(open.queues, "queues", "PROCESS");
        note(open.digests, "statements by digest", "SELECT on performance_schema.*");
        if self.wants.digests && open.digests != Part::Denied {
            let off = open.settings.0.get("performance_schema").is_none_or(|on| on != "ON");
            if off || open.digests == Part::Unknown {
                self.notes
                    .push("statements by digest: the server runs without performance_schema".to_owned());
            }
        }
    }
}

impl OpenSession {
    /// Whether a part is available, and the effect of requesting it.
    fn try_part(&mut self, statement: &str) -> Result<Part, Error> {
        match self.asker.ask(statement, Cost::Varies) {
            Ok(answer) if answer.rows().next().is_none() => Ok(Part::Empty),
            Ok(_) => Ok(Part::Here),
            Err(error) => refused(error),
        }
    }

    fn find_replicas(&mut self) -> Result<(), Error> {
        for statement in REPLICA_STATUS {
            let part = self.try_part(statement)?;
            self.replicas = (part, statement);
            if part != Part::Unknown {
                break;
            }
        }
        Ok(())
    }

    /// Whether to request a part this time.
    fn is_time(&self, part: Part) -> bool {
        part == Part::Here || (part == Part::Empty && (self.samples + 1).is_multiple_of(ASK_AGAIN))
    }

    fn replicas(&mut self) -> Result<Option<Vec<Replica>>, Error> {
        let (part, statement) = self.replicas;
        if !self.is_time(part) {
            return Ok((part == Part::Empty).then(Vec::new));
        }
        if part == Part::Empty {
            if self.asker.ask(statement, Cost::Same)?.rows().next().is_none() {
                return Ok(Some(Vec::new()));
            }
            // The server follows a source now: the answer costs more than an empty one.
            self.try_part(statement)?;
        }
        // Column names need another call, with the same effect.
        let rows = self.asker.named(statement)?;
        self.replicas.0 = if rows.is_empty() { Part::Empty } else { Part::Here };
        let mut replicas: Vec<Replica> = rows.iter().map(|row| row::replica(row)).collect();
        // MySQL applies by several threads, and this says only that one of them failed.
        if replicas.iter().any(|replica| replica.error.starts_with("Coordinator stopped")) {
            match self.asker.ask(WORKER_ERRORS, Cost::Varies) {
                Ok(answer) => replicas.iter_mut().for_each(|replica| row::add_worker_error(replica, &answer)),
                Err(error) => not_fatal::<()>(Err(error))?,
            }
        }
        if matches!(self.applied, Part::Here | Part::Empty) && !replicas.is_empty() {
            let answer = self.asker.ask(APPLIED, Cost::Varies)?;
            replicas.iter_mut().for_each(|replica| row::add_applied_time(replica, &answer));
        }
        Ok(Some(replicas))
    }

    fn queues(&mut self) -> Result<Vec<Queue>, Error> {
        if !self.is_time(self.queues) {
            return Ok(Vec::new());
        }
        let answer = self.asker.ask(QUEUES, Cost::Varies)?;
        let queues: Vec<Queue> = answer.rows().filter_map(|row| row::queue(&row)).collect();
        self.queues = if queues.is_empty() { Part::Empty } else { Part::Here };
        Ok(queues)
    }

    fn metrics(&mut self) -> Result<Vec<(&'static str, Value)>, Error> {
        if self.metrics != Part::Here {
            return Ok(Vec::new());
        }
        let answer = self.asker.ask(METRICS, Cost::Same)?;
        let name = |found: &str| METRIC_NAMES.iter().find(|(name, _)| *name == found).map(|(_, name)| *name);
        Ok(answer.pairs().filter_map(|(found, value)| Some((name(found)?, Value::parse(value)))).collect())
    }

    fn processes(&mut self) -> Result<Option<Vec<Process>>, Error> {
        if !matches!(self.processes, Part::Here | Part::Empty) {
            return Ok(None);
        }
        let answer = self.asker.ask(PROCESSES, Cost::Same)?;
        let own = u64::from(self.asker.session().connection_id());
        let mut all: Vec<Process> = answer.rows().filter_map(|row| row::process(&row)).collect();
        all.retain(|process| process.command != "Sleep" && process.id != own);
        all.sort_by_key(|process| (std::cmp::Reverse(process.seconds), process.id));
        Ok(Some(all))
    }

    fn digests(&mut self) -> Result<Option<Vec<Digest>>, Error> {
        if !matches!(self.digests, Part::Here | Part::Empty) {
            return Ok(None);
        }
        let answer = self.asker.ask(DIGESTS, Cost::Varies)?;
        Ok(Some(answer.rows().filter_map(|row| row::digest(&row)).collect()))
    }
}

/// The values in the order of the names, which are replaced when they differ from the last ones.
fn values(known: &mut Arc<Names>, answer: &Answer, metrics: &[(&'static str, Value)]) -> Vec<Value> {
    let mut values = Vec::with_capacity(known.all().len());
    let mut are_same = true;
    let mut names = known.all().iter();
    for (name, value) in answer.pairs() {
        are_same &= names.next().is_some_and(|known| known.text.eq_ignore_ascii_case(name));
        values.push(Value::parse(value));
    }
    for (name, value) in metrics {
        are_same &= names.next().is_some_and(|known| &*known.text == *name);
        values.push(value.clone());
    }
    if !are_same || names.next().is_some() {
        let written = answer.pairs().map(|(name, _)| kind::written(name));
        *known = Arc::new(Names::new(written.chain(metrics.iter().map(|(name, _)| (*name).to_owned()))));
    }
    values
}

/// Why a new connection was necessary, from the times and uptimes of the last sample and of this one.
fn begin_again((at, before): (Duration, Option<f64>), (now, uptime): (Duration, Option<f64>)) -> Begin {
    let passed = now.saturating_sub(at).as_secs_f64();
    let is_same = before.zip(uptime).is_some_and(|(before, uptime)| has_gone_on(before, uptime, passed));
    if is_same { Begin::Reconnected } else { Begin::Restarted }
}

/// Turns a server's refusal into the state of a part; any other error is returned.
fn refused(error: Error) -> Result<Part, Error> {
    match &error {
        Error::Privilege { .. } => Ok(Part::Denied),
        _ if error.code().is_some() && !error.is_connection_lost() => Ok(Part::Unknown),
        _ => Err(error),
    }
}

fn not_fatal<T>(done: Result<T, Error>) -> Result<(), Error> {
    match done {
        Err(error) if error.code().is_none() || error.is_connection_lost() => Err(error),
        _ => Ok(()),
    }
}

/// Long pauses between samples must not end the session, and no query may wait for a lock.
fn prepare(session: &mut Session) -> Result<(), Error> {
    session.execute("SET SESSION wait_timeout = 2592000, SESSION lock_wait_timeout = 2")?;
    // The query cache, if there is one, counts queries that it does not cache only globally.
    not_fatal(session.execute("SET SESSION query_cache_type = OFF"))
}

fn settings(session: &mut Session) -> Result<Settings, Error> {
    let names = Settings::NAMES.map(|name| format!("'{name}'")).join(", ");
    let pairs = crate::pairs(session, &format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))?;
    Ok(Settings(pairs.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_recognised_by_the_uptime() {
        let (then, now) = (Duration::from_secs(10), Duration::from_secs(40));
        let begin = |before: Option<f64>, uptime: Option<f64>| begin_again((then, before), (now, uptime));
        assert_eq!(begin(Some(100.0), Some(130.0)), Begin::Reconnected);
        // Whole seconds may be cut off at either end.
        assert_eq!(begin(Some(100.0), Some(128.5)), Begin::Reconnected);
        assert_eq!([begin(Some(100.0), Some(128.0)), begin(Some(5.0), Some(31.0))], [Begin::Restarted; 2]);
        assert_eq!([begin(None, Some(1.0)), begin(Some(1.0), None)], [Begin::Restarted; 2]);
    }

    #[test]
    fn names_are_learnt_when_they_differ() {
        let two = Answer::of(&[&[Some("QUESTIONS"), Some("1")], &[Some("UPTIME"), Some("2")]]);
        let metric = |name| [(name, Value::parse("3"))];
        let mut names = Arc::default();
        let found = values(&mut names, &two, &metric("Innodb_deadlocks"));
        assert_eq!(found.iter().map(Value::to_string).collect::<Vec<_>>(), ["1", "2", "3"]);
        let written =
            |names: &Names| names.all().iter().map(|name| name.text.to_string()).collect::<Vec<_>>();
        assert_eq!(written(&names), ["Questions", "Uptime", "Innodb_deadlocks"]);
        // Each change of the answer makes new names, and the same answer none.
        let one = Answer::of(&[&[Some("Uptime"), Some("2")]]);
        let other = Answer::of(&[&[Some("Questions"), Some("1")]]);
        for (answer, metrics) in [
            (&two, &metric("Innodb_lsn_current")[..]),
            (&two, &[]),
            (&one, &[]),
            (&other, &[]),
            (&Answer::of(&[]), &[]),
        ] {
            let before = Arc::clone(&names);
            values(&mut names, answer, metrics);
            assert!(!Arc::ptr_eq(&before, &names));
            let before = Arc::clone(&names);
            values(&mut names, answer, metrics);
            assert!(Arc::ptr_eq(&before, &names));
        }
    }
}
