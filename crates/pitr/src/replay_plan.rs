//! Finds the place in an archived log at which a replay ends, and what must be known of the log up to there.

use std::collections::{BTreeMap, BTreeSet};
use std::{error, fmt};

use anyhow::{Result, bail};
use binlog::event::mysql_gtid::Tsid;
use binlog::group::GroupId;
use failure::{Completeness, usage};
use innodb::table::sql::Token;
use instance::binary_log::Position;
use progress::Shared;
use server::XaName;
use transactions::effective_statement::{acting, word};
use transactions::{
    Asked, Judged, Known, LogFile, Place, Range, TOLERANCE_S, Take, Transaction, Walk, Xa, names,
};

use crate::before_time::Before;
use crate::describe::{describe, everything, name};
use crate::gtid_set::GtidSet;
use crate::other_timeline::LoggedState;
use crate::recovery_target::{RecoveryTarget, Unreachable};
use crate::scheduled_events::{self, Change};
use crate::{Log, storage_engine};

/// What numbers transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GtidOrigin {
    /// A domain of MariaDB.
    Domain(u32),
    /// A server of MySQL, perhaps with a tag.
    Source(Tsid),
}

/// What is replayed to bring a generation to the goal.
#[derive(Clone, Debug, Default)]
pub struct ReplayPlan {
    /// Behind the last transaction; none when there is none.
    pub end: Option<Place>,
    /// How many transactions there are.
    pub transactions: u64,
    /// The bytes of their events.
    pub bytes: u64,
    /// The last transaction of each domain of MariaDB, or of each source of MySQL.
    pub last: BTreeMap<GtidOrigin, String>,
    /// Those of MySQL that have a GTID.
    pub gtids: GtidSet,
    /// When the last one ended, in seconds since 1970.
    pub time: Option<i64>,
    /// How many have statements instead of rows.
    pub by_statement: u64,
    /// What would come next.
    pub next: Option<String>,
    /// A statement that uses a temporary table which was made before the generation.
    pub temporary: Option<String>,
    /// Those in XA PREPARE that nothing in it ends, and their transactions.
    pub prepared: BTreeMap<XaName, String>,
    /// Those that it ends. What was prepared before is among them, or stays.
    ended: BTreeSet<XaName>,
    /// The engines that statements name which make tables, in capitals.
    pub engines: BTreeSet<String>,
    /// What statements do to events.
    pub events: Vec<Change>,
    /// The connections that have made temporary tables.
    creators: BTreeSet<u32>,
}

impl ReplayPlan {
    /// A transaction that is on it.
    pub fn count(&mut self, whole: &Transaction) {
        self.transactions += 1;
        self.bytes += whole.bytes;
        self.end = Some(whole.end);
        self.time = Some(whole.time);
        self.by_statement += u64::from(!whole.statements.is_empty());
        let origin = match whole.name {
            GroupId::MariaDb(number) => Some(GtidOrigin::Domain(number.domain)),
            GroupId::MySql(source, number) => {
                self.gtids.add(source, number);
                Some(GtidOrigin::Source(source))
            }
            GroupId::None => None,
        };
        if let (Some(origin), Some(name)) = (origin, names::gtid(whole.name)) {
            self.last.insert(origin, name);
        }
        match &whole.xa {
            Xa::No => {}
            Xa::Prepared(xa) => {
                self.prepared.insert(xa.clone(), names::gtid(whole.name).unwrap_or_default());
            }
            Xa::Committed(xa) | Xa::RolledBack(xa) => {
                self.prepared.remove(xa);
                self.ended.insert(xa.clone());
            }
        }
        self.engines
            .extend(whole.statements.iter().filter_map(|statement| storage_engine::named(&statement.sql)));
        let by = (whole.server_id, whole.time);
        let done = whole.statements.iter().filter(|statement| statement.error == 0);
        self.events.extend(
            done.filter_map(|statement| scheduled_events::change(&statement.schema, &statement.sql, by)),
        );
        for statement in whole.statements.iter().filter(|statement| statement.has_temporary) {
            let tokens = acting(&statement.sql).unwrap_or_default();
            let is_temporary = (1..4).any(|at| word(&tokens, at) == "TEMPORARY");
            match word(&tokens, 0).as_str() {
                "CREATE" if is_temporary => drop(self.creators.insert(statement.thread_id)),
                // MariaDB marks some statements whatever they use: each DROP, each CREATE that replaces a
                // table, each DELETE of several tables, and what depends on the connection. If a temporary
                // table is missed in one of these, the replay stops there.
                "DROP" => {}
                "CREATE" if word(&tokens, 1) == "OR" => {}
                "DELETE" if is_of_several(&tokens) => {}
                _ if (1..tokens.len()).any(|at| word(&tokens, at) == "CONNECTION_ID") => {}
                _ if self.creators.contains(&statement.thread_id) => {}
                _ => drop(self.temporary.get_or_insert_with(|| statement.sql.clone())),
            }
        }
    }

    /// Adds transactions that were in XA PREPARE before it, unless it ends them.
    pub fn add_prepared(&mut self, before: Vec<XaName>) {
        for xa in before.into_iter().filter(|xa| !self.ended.contains(xa)) {
            self.prepared.entry(xa).or_insert_with(|| "before the backup".to_owned());
        }
    }

    /// Refuses what a replay would do wrong.
    pub fn refuse(&self) -> Result<()> {
        if let Some(sql) = &self.temporary {
            bail!(
                "a statement uses a temporary table that was made before the backup, and so is not in it: {sql}; an older generation \
                 may have what made it in the log behind it"
            );
        }
        Ok(())
    }
}

/// Whether a DELETE names the tables that it deletes from apart from those that it reads.
fn is_of_several(tokens: &[Token]) -> bool {
    let options = ["LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY"];
    let first = (1..).find(|at| !options.contains(&word(tokens, *at).as_str())).unwrap_or(1);
    word(tokens, first) != "FROM" || (first..tokens.len()).any(|at| word(tokens, at) == "USING")
}

/// The result of scanning the log.
pub struct Found {
    /// What is replayed.
    pub plan: ReplayPlan,
    /// All numbers of servers in the log.
    pub servers: BTreeSet<u32>,
    /// How many earlier transactions have the text that is looked for.
    pub others: u64,
    /// Whether the goal is a time at which the archive may not have been complete yet.
    pub is_open: bool,
    /// Transactions that are before the goal or behind it, and say otherwise.
    pub judged: Judged,
}

/// Everything that matters is known: the rest of the log need not be read.
#[derive(Debug)]
struct Enough;

impl fmt::Display for Enough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rest of the log is not needed")
    }
}

impl error::Error for Enough {}

struct Scan<'a> {
    goal: &'a RecoveryTarget,
    /// The names of the files.
    files: Vec<String>,
    start: Place,
    /// Whether what the generation has is not later than the goal, which is a time.
    before: Option<Before>,
    /// The transactions so far.
    now: ReplayPlan,
    /// The plan, once it is known.
    chosen: Option<ReplayPlan>,
    /// The first transaction of which nobody knows whether it is behind the time, if nothing has shown it
    /// yet. The plan is made as if it were.
    doubt: Option<String>,
    judged: Judged,
    servers: BTreeSet<u32>,
    /// The named transactions that have not come yet.
    unseen: Vec<&'a Range>,
    /// The last transaction before the place of the generation, in its file.
    newest_before: Option<GroupId>,
    /// Where those stand that have come.
    seen: BTreeMap<String, String>,
    /// How many transactions have the text that is looked for.
    matches: u64,
}

/// Plans the replay from where a generation is in the log to the goal. The copy began at `taken_s`.
///
/// # Errors
/// [`Unreachable`] if the goal is not there; errors of files, and damage.
pub(crate) fn scan(
    goal: &RecoveryTarget,
    log: &Log,
    (position, taken_s): (&Position, i64),
    report: &Shared,
) -> Result<Found> {
    let files = log.from(&position.0).unwrap_or_default();
    let unseen = match goal {
        RecoveryTarget::After(names) => unseen(names, log, position)?,
        _ => Vec::new(),
    };
    if let RecoveryTarget::Position(file, at) = goal {
        must_be_archived(files, file, *at)?;
    }
    let mut scan = Scan {
        goal,
        files: files.iter().map(|path| names::file(path)).collect(),
        start: Place { file: 0, at: position.1 },
        before: if let RecoveryTarget::Time(until) = goal {
            Some(Before::new(*until, taken_s))
        } else {
            None
        },
        now: ReplayPlan::default(),
        chosen: None,
        doubt: None,
        judged: Judged::default(),
        servers: BTreeSet::new(),
        unseen,
        newest_before: None,
        seen: BTreeMap::new(),
        matches: 0,
    };
    let statement = match goal {
        RecoveryTarget::BeforeStatement(text) => Some(text.clone()),
        _ => None,
    };
    match Walk::new(files, &everything(statement), &Known::default(), &mut scan, report).all() {
        Ok(Completeness::Complete) => {}
        Ok(_) => bail!("the archived log can't be read to the end of what is to be replayed"),
        Err(error) if error.is::<Enough>() => {}
        Err(error) => return Err(error),
    }
    // Nothing may be behind the generation.
    scan.must_be_behind()?;
    if let Some(mut before) = scan.before.take() {
        let earlier = log.files.len() - files.len();
        before.look_back(log.files.get(..earlier).unwrap_or_default(), report)?;
        before.prove()?;
    }
    let servers = std::mem::take(&mut scan.servers);
    let others = scan.matches.saturating_sub(1);
    if let Some(doubt) = &scan.doubt {
        return Err(undecided(doubt));
    }
    let is_open = match goal {
        RecoveryTarget::Time(until) => {
            scan.chosen.is_none() && log.caught_up.is_none_or(|when| when <= *until)
        }
        _ => false,
    };
    let judged = std::mem::take(&mut scan.judged);
    Ok(Found { plan: scan.plan()?, servers, others, is_open, judged })
}

/// The named transactions that the generation lacks.
fn unseen<'a>(names: &'a [Range], log: &Log, position: &Position) -> Result<Vec<&'a Range>> {
    let Some(has) = LoggedState::read(log, position, "")? else { return Ok(names.iter().collect()) };
    let is_in = |name: &&Range| matches!(name, Range::One(number) if has.has(*number));
    let unseen: Vec<&Range> = names.iter().filter(|name| !is_in(name)).collect();
    let is_here =
        || has.newest().is_some_and(|newest| names.iter().any(|name| name.has(GroupId::MariaDb(newest))));
    if unseen.is_empty() && !is_here() {
        return Err(has_already(names).into());
    }
    Ok(unseen)
}

/// The generation is behind the goal.
fn has_already(names: &[Range]) -> Unreachable {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    Unreachable(format!("the generation has {} already, and later ones", names.join(" and ")))
}

/// Refuses a position behind the end of a file: whoever names one may mean another file.
fn must_be_archived(files: &[LogFile], file: &str, at: u64) -> Result<()> {
    let Some(archived) = files.iter().find(|path| names::file(path) == file) else { return Ok(()) };
    let len = archived.open()?.stat()?.len;
    if at > len {
        return Err(Unreachable(format!("{file} ends at {len} in the archive, before {at}")).into());
    }
    Ok(())
}

/// That nobody knows whether a transaction is behind the goal.
fn undecided(doubt: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "whether this was before that time can't be proven: {doubt}. When it came shows that it did not end at the time that it \
         says, and nothing shows more. 'remora log' shows its neighbours; give a GTID or FILE:POSITION"
    )
}

impl Scan<'_> {
    /// The plan, when nothing more comes.
    fn plan(self) -> Result<ReplayPlan, Unreachable> {
        if let Some(plan) = self.chosen {
            return Ok(plan);
        }
        let end = self.now.end.unwrap_or(self.start);
        Err(Unreachable(match self.goal {
            RecoveryTarget::End | RecoveryTarget::Time(_) => return Ok(self.now),
            RecoveryTarget::After(_) if self.unseen.is_empty() => return Ok(self.now),
            // Behind the last transaction there may be events that belong to none.
            RecoveryTarget::Position(file, at) if self.place(file, *at) >= Some(end) => return Ok(self.now),
            RecoveryTarget::After(_) => {
                let names: Vec<String> = self.unseen.iter().map(ToString::to_string).collect();
                format!("there is no transaction {} in the log after the generation", names.join(" and no "))
            }
            RecoveryTarget::Position(file, at) => {
                format!("{file}:{at} is not in the log after the generation")
            }
            RecoveryTarget::Before(name) => {
                format!("there is no transaction {name} in the log after the generation")
            }
            RecoveryTarget::BeforeStatement(_) => {
                "no statement in the log after the generation has this text".to_owned()
            }
        }))
    }

    fn place(&self, file: &str, at: u64) -> Option<Place> {
        let file = self.files.iter().position(|name| name == file)?;
        Some(Place { file, at })
    }

    /// The plan ends before this transaction.
    fn choose(&mut self, whole: &Transaction) {
        self.chosen = Some(ReplayPlan { next: Some(self.describe(whole)), ..self.now.clone() });
    }

    /// The name of the file in which a transaction begins.
    fn file(&self, whole: &Transaction) -> &str {
        self.files.get(whole.start.file).map_or("", String::as_str)
    }

    /// A transaction for people.
    fn describe(&self, whole: &Transaction) -> String {
        describe(whole, self.file(whole))
    }

    /// Whether the plan ends before this transaction, and nothing more need be known.
    fn ends_before(&mut self, whole: &Transaction) -> Result<bool> {
        match self.goal {
            RecoveryTarget::End => Ok(false),
            RecoveryTarget::Time(until) => self.time(whole, *until).map(|()| false),
            RecoveryTarget::After(_) => {
                if self.unseen.is_empty() && self.chosen.is_none() {
                    self.choose(whole);
                }
                Ok(false)
            }
            RecoveryTarget::Before(name) => {
                if name.has(whole.name) && self.chosen.is_none() {
                    self.choose(whole);
                }
                Ok(false)
            }
            RecoveryTarget::BeforeStatement(_) => {
                if whole.has_text {
                    self.matches += 1;
                    self.choose(whole);
                }
                Ok(false)
            }
            RecoveryTarget::Position(file, at) => {
                let Some(goal) = self.place(file, *at) else { return Ok(false) };
                if whole.start < goal && goal < whole.end {
                    let (start, end) = (whole.start.at, whole.end.at);
                    bail!(
                        "{file}:{at} is within a transaction, which is from {start} to {end}: name one of these"
                    );
                }
                Ok(whole.start >= goal && goal >= self.start)
            }
        }
    }

    /// The first transaction that is later than a time is the next one. All behind it must be later too, and
    /// what is before one that is not later isn't either: the log has them in the order of their commits.
    fn time(&mut self, whole: &Transaction, until: i64) -> Result<()> {
        let is_by = whole.ended.is_by(until);
        let is_behind = self.chosen.is_some() && self.doubt.is_none();
        let is_in = !is_behind && is_by != Some(false);
        if is_in != (whole.time <= until) {
            self.judged.add(&name(whole, self.file(whole)), whole.time, whole.ended);
        }
        match (&self.chosen, &self.doubt, is_by) {
            (None, _, Some(true)) => {}
            (Some(_), Some(_), Some(true)) => (self.chosen, self.doubt) = (None, None),
            (None, _, Some(false)) => self.choose(whole),
            (None, _, None) => {
                self.choose(whole);
                self.doubt = Some(self.describe(whole));
            }
            (Some(_), Some(doubt), Some(false)) => return Err(undecided(doubt)),
            (Some(chosen), None, _) if whole.ended.latest().saturating_add(TOLERANCE_S) < until => bail!(
                "the times in the log contradict one another. This is too late: {}. But behind it in the log is {}. A session may \
                 have set its timestamp, or the clock was put back. 'remora log' shows more; give a GTID or FILE:POSITION",
                chosen.next.as_deref().unwrap_or_default(),
                self.describe(whole)
            ),
            (Some(_), ..) => {}
        }
        Ok(())
    }

    /// Refuses a name that occurs twice in the log: somebody has set `gtid_seq_no`, and nobody knows which
    /// one is meant.
    fn must_be_once(&mut self, whole: &Transaction) -> Result<()> {
        let named: &[Range] = match self.goal {
            RecoveryTarget::After(names) => names,
            RecoveryTarget::Before(name) => std::slice::from_ref(name),
            _ => return Ok(()),
        };
        if !named.iter().any(|name| name.has(whole.name)) {
            return Ok(());
        }
        let name = name(whole, self.file(whole));
        let place = |at: u64| format!("{}:{at}", self.file(whole));
        let here = format!("from {} to {}", place(whole.start.at), place(whole.end.at));
        let Some(before) = self.seen.insert(name.clone(), here.clone()) else { return Ok(()) };
        Err(usage(format!(
            "{name} occurs twice in the log: {before}, and {here}. '--until FILE:POSITION' says which one is meant: where it ends, to \
             have it in, or where it begins"
        )))
    }

    /// Refuses a generation that has all that is named, and later ones.
    fn must_be_behind(&mut self) -> Result<(), Unreachable> {
        let (RecoveryTarget::After(names), Some(newest)) = (self.goal, self.newest_before.take()) else {
            return Ok(());
        };
        if self.unseen.is_empty() && !names.iter().any(|name| name.has(newest)) {
            return Err(has_already(names));
        }
        Ok(())
    }

    /// Counts a transaction.
    fn count(&mut self, whole: &Transaction) {
        self.unseen.retain(|name| !name.has(whole.name));
        self.now.count(whole);
    }
}

impl Take for Scan<'_> {
    fn transaction(&mut self, whole: &Transaction, _: Asked) -> Result<()> {
        self.servers.insert(whole.server_id);
        self.must_be_once(whole)?;
        if whole.end <= self.start {
            let file = self.file(whole).to_owned();
            self.before.iter_mut().for_each(|before| before.take(whole, &file));
            // MySQL's log does not show at once what is before its files.
            self.unseen.retain(|name| !name.has(whole.name));
            self.newest_before = Some(whole.name);
            return Ok(());
        }
        self.must_be_behind()?;
        if whole.start < self.start {
            let at = self.start.at;
            bail!("the generation ends at {at} in the log, which is within a transaction of the archive");
        }
        // What follows need not be read if the generation is too late.
        if let Some(before) = self.before.take_if(|before| before.is_seen()) {
            before.prove()?;
        }
        if self.ends_before(whole)? {
            self.choose(whole);
            return Err(Enough.into());
        }
        self.count(whole);
        Ok(())
    }
}
