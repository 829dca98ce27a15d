//! `remora copy --follow`: a copy, and then every change that A commits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dump::CopyRequest;
use failure::usage;
use follow::{CutOverRequest, LogFile, Noted, Request, State, Summary};
use humanize::date_time;
use progress::{Progress, count};
use serde_json::json;
use server::Target;

use super::tell_omitted;
use crate::exit::{self, Exit};
use crate::report::Report;

/// How to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Follow {
    /// Apply the row events of A's binary log
    Apply,
    /// Make B a replica of A, by the servers' own replication, and end
    Replica,
}

/// What becomes of DDL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DdlPolicy {
    /// It ends following, by name
    Stop,
    /// It is executed on B too: between servers of one family
    Same,
}

/// How often to compare all rows.
const VERIFY_EVERY: Duration = Duration::from_secs(3600);

/// Options of following.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FollowArgs {
    /// After the copy, apply to B what A commits, from A's binary log, until stopped. What can't be applied
    /// exactly ends it by name; --resume then compares all rows and continues. Or let B replicate from A
    #[arg(long, value_name = "HOW", conflicts_with = "no_data")]
    pub(super) follow: Option<Follow>,

    /// With --follow replica: A as B reaches it, and the account with which B logs in to it
    /// [default: A as it was given]
    #[arg(long, value_name = "SERVER", requires = "follow")]
    pub(super) source: Option<String>,

    /// With --follow: apply what A's binary log has now, and end
    #[arg(long, requires = "follow", conflicts_with_all = ["dry_run", "cut_over"])]
    once: bool,

    /// With --follow: what becomes of DDL on A, such as ALTER TABLE, and of new tables among the names
    #[arg(long, value_name = "WHAT", requires = "follow", value_enum, default_value = "stop")]
    ddl: DdlPolicy,

    /// With --follow: compare all rows of A and B this often, without a lock, while both are written: 30m,
    /// 1d; never [default: 1h; with --once never; before --cut-over always]
    #[arg(long, value_name = "TIME", requires = "follow", value_parser = every)]
    verify_every: Option<Every>,

    /// With --follow: let B take over once it has caught up and all rows were compared. A becomes read-only,
    /// with all its databases. Until B has taken over, a failure leaves A as it was
    #[arg(long, requires = "follow", conflicts_with_all = ["dry_run", "condition", "mask"])]
    cut_over: bool,

    /// With --cut-over: the longest time for which nobody can write, such as 3s; after it A is given back
    #[arg(long, value_name = "TIME", requires = "cut_over", value_parser = seconds, default_value = "5s")]
    within: Duration,

    /// With --cut-over: run this command in a shell while nobody can write. It leads the application to B; if
    /// it fails, A is given back. It has REMORA_A, REMORA_B, REMORA_POSITION and REMORA_COPY, an identifier
    #[arg(long, value_name = "COMMAND", requires = "cut_over")]
    hook: Option<String>,

    /// With --cut-over: look this long afterwards for what was still written to A
    #[arg(long, value_name = "TIME", requires = "cut_over", value_parser = seconds, default_value = "60s")]
    watch: Duration,

    /// With --follow and --resume: A has replaced this server, of which B is a copy, after a failover. All
    /// rows are compared with A; what differs is sent
    #[arg(long, value_name = "SERVER", requires_all = ["follow", "resume"])]
    pub(super) failover_from: Option<String>,

    /// With --cut-over: then apply to A what B commits, until stopped, so that the move can be undone. The
    /// same as copy B A --follow apply --resume
    #[arg(long, requires = "cut_over")]
    way_back: bool,
}

/// How often, or never.
#[derive(Clone, Copy, Debug)]
struct Every(Option<Duration>);

fn every(text: &str) -> Result<Every, String> {
    if text == "never" { Ok(Every(None)) } else { Ok(Every(Some(seconds(text)?))) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    date_time::duration_s(text).map(Duration::from_secs).map_err(|error| error.to_string())
}

impl FollowArgs {
    /// Whether we apply what A commits.
    pub(super) fn applies(&self) -> bool {
        self.follow == Some(Follow::Apply)
    }

    /// Whether B is to replicate from A, which takes everything that A has.
    pub(super) fn replicates(&self, request: &CopyRequest) -> anyhow::Result<bool> {
        let FollowArgs { once, ddl, verify_every, cut_over, failover_from, .. } = self;
        let is_ours = *once || *ddl == DdlPolicy::Same || verify_every.is_some() || *cut_over;
        match self.follow {
            Some(Follow::Replica) if is_ours || failover_from.is_some() => Err(usage(
                "--once, --ddl, --verify-every, --cut-over and --failover-from go with --follow apply",
            )),
            Some(Follow::Replica) if !request.is_everything() => Err(usage(
                "--follow replica copies everything as it is, because a replica applies all that A commits: leave names, \
                 --exclude, --where, --mask, --rename and --no-history out, or use --follow apply",
            )),
            Some(Follow::Replica) => Ok(true),
            _ if self.source.is_some() => Err(usage("--source goes with --follow replica")),
            _ => Ok(false),
        }
    }

    fn verify_every(&self) -> Option<Duration> {
        match self.verify_every {
            _ if self.cut_over => Some(VERIFY_EVERY),
            Some(Every(every)) => every,
            None => (!self.once).then_some(VERIFY_EVERY),
        }
    }

    fn cut_over(&self) -> Option<CutOverRequest> {
        let FollowArgs { within, watch, hook, .. } = self;
        self.cut_over.then(|| CutOverRequest { within: *within, watch: *watch, hook: hook.clone() })
    }
}

/// The servers: A and B.
type Servers<'a> = (&'a Target, &'a Target);

/// A copy that is continued without following is of another time than B has noted.
pub(super) fn forget((from, to): Servers<'_>, request: &CopyRequest) -> anyhow::Result<()> {
    let state = State::of(&dump::copy_id(from, request)?);
    if let Some(Noted { cut_over: Some(_), .. }) = state.read(&mut to.connect()?)? {
        return Err(usage("B has begun to take over from A; continue with --follow apply --resume"));
    }
    Ok(follow::forget(&state, to, request.write.no_binlog)?)
}

pub(super) fn run(
    context: &dump::Context,
    servers: Servers<'_>,
    request: &CopyRequest,
    options: &FollowArgs,
    report: &Report,
) -> anyhow::Result<Exit> {
    let (from, to) = servers;
    let state = State::of(&dump::copy_id(from, request)?);
    if options.way_back {
        if !request.renames.is_empty() {
            return Err(usage("--way-back does not go with --rename: begin it after the cut-over, by hand"));
        }
        let why = follow::refusals(&mut to.connect()?, &[])?;
        if !why.is_empty() {
            return Err(usage(format!("--way-back: B can't be followed: {}", why.join("; "))));
        }
    }
    if options.ddl == DdlPolicy::Same {
        let flavours = [from, to].map(|target| Ok::<_, anyhow::Error>(target.connect()?.about.flavour));
        let [a, b] = flavours;
        if a? != b? || !request.renames.is_empty() || !request.is_whole() {
            return Err(usage(
                "--ddl same needs two servers of one family, and does not go with --rename, --where or --mask: the same \
                 statement must mean the same",
            ));
        }
    }
    let mut open = Open::default();
    if !follow::is_way_back(context, &state, servers, request)?
        && !is_noted(&state, servers, request, report)?
    {
        open = copy(context, &state, servers, request, report)?;
    }
    match options.once {
        true => report.phase("following", None),
        false => report.endless("following"),
    }
    let following = Request {
        context,
        copy: request,
        from,
        to,
        state,
        once: options.once,
        verify_every: options.verify_every(),
        cut_over: options.cut_over(),
        ddl: options.ddl == DdlPolicy::Same,
    };
    let stop: &AtomicBool = &context.stop;
    let summary = follow::follow(&following, stop, report)?;
    report.end();
    summarise(&summary, report)?;
    if summary.is_cut_over && options.way_back && summary.late.is_empty() && !stop.load(Ordering::Relaxed) {
        let options = FollowArgs { cut_over: false, way_back: false, ..options.clone() };
        return run(context, (to, from), &request.turned(), &options, report);
    }
    if !summary.is_cut_over {
        open.omitted.append(&mut open.postponed);
    }
    open.omitted.extend(summary.omitted);
    Ok(match (summary.is_stopped, open.omitted.is_empty()) {
        _ if !summary.late.is_empty() => Exit::Damaged,
        (true, _) => exit::stopped(),
        (false, true) => Exit::Done,
        (false, false) => Exit::Partial,
    })
}

/// What is missing on B after it was copied.
#[derive(Default)]
struct Open {
    omitted: Vec<String>,
    /// Until B takes over.
    postponed: Vec<String>,
}

/// Copies, and notes on B from where to follow.
fn copy(
    context: &dump::Context,
    state: &State,
    servers: Servers<'_>,
    request: &CopyRequest,
    report: &Report,
) -> anyhow::Result<Open> {
    let (from, to) = servers;
    let began = Instant::now();
    let before = LogFile::of(state, from)?;
    let summary = dump::copy(context, servers, request)?;
    super::summarise(&summary, began.elapsed().as_secs_f64(), report)?;
    tell_omitted(&summary.omitted, report);
    for line in &summary.postponed {
        report.note(&format!("not yet on B: {line}"));
    }
    let noted = before.noted(state, from, &summary)?;
    follow::begin(state, to, &noted, request.write.no_binlog)?;
    Ok(Open { omitted: summary.omitted, postponed: summary.postponed })
}

/// Whether B knows from where to follow. If following has ended for good, the copy is made again.
fn is_noted(
    state: &State,
    servers: Servers<'_>,
    request: &CopyRequest,
    report: &Report,
) -> anyhow::Result<bool> {
    let mut target = servers.1.connect()?;
    let Some(noted) = state.read(&mut target)? else {
        for other in State::all(&mut target)?.iter().filter(|_| request.write.resume) {
            if let Some(Noted { source, .. }) = other.read(&mut target)? {
                report.note(&format!(
                    "B has a copy that follows {source}; if A has taken that server's place: --failover-from"
                ));
            }
        }
        return Ok(false);
    };
    if !request.write.resume {
        return Err(usage("B has such a copy, which follows A; continue it with --resume"));
    }
    if noted.cut_over.is_some() && follow::give_back(state, servers, request.write.no_binlog)? {
        report.warn(
            "a cut-over was cut off: A can be written again; if --hook was given, lead the application to A",
        );
    }
    let Some(why) = noted.stopped else { return Ok(true) };
    report.note(&format!("following had ended at {why}"));
    Ok(false)
}

fn summarise(summary: &Summary, report: &Report) -> anyhow::Result<()> {
    let Summary { transactions, changes, definitions, omitted, reached, .. } = summary;
    if report.is_json() {
        report.message(&json!({
            "message_type": "followed", "transactions": transactions, "changes": changes, "reached": reached,
            "ddl": definitions, "omitted": omitted, "cut_over": summary.is_cut_over, "late": summary.late,
        }))?;
        return Ok(());
    }
    let ddl = (*definitions > 0).then(|| format!(", {}", count(*definitions, "DDL statement")));
    report.note(&format!(
        "followed up to {reached}: {} of {} applied{}",
        count(*changes, "change"),
        count(*transactions, "transaction"),
        ddl.unwrap_or_default(),
    ));
    Ok(())
}
