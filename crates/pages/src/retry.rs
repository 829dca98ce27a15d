//! Dead letters go back to their queue: counted and asked first, then moved by a thread of its own, so that
//! nobody who looks waits for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use humanize::shell::quoted;
use progress::{Silent, count};
use relay::Ended;
use server::catalogue::filled_column;
use server::{Session, TableName, quote_name};
use web::{Changes, Html, Request};

use crate::action::Allowed;
use crate::audit::{Audit, Entry};
use crate::form::{Back, Form, Pending, answer};
use crate::layout::{Tone, age, anchor, command};
use crate::server_list::with_url;
use crate::watch::Watched;
use queue_admin::retry::{Plan, Wanted};
use queue_admin::sources::sources;

/// The path of the form.
pub(crate) const QUEUE_RETRY: &str = "/queue-retry";

/// How a retry ended.
enum End {
    /// It moved all that was there.
    Done,
    /// remora was stopped.
    Stopped,
    /// Why it could not continue.
    Failed(String),
}

/// The last retry on a server.
struct Run {
    /// `from shop.dead to shop.jobs`
    route: String,
    /// How many rows were shown.
    wanted: u64,
    moved: Arc<AtomicU64>,
    began: Instant,
    ended: Option<(Instant, End)>,
    thread: Option<JoinHandle<()>>,
}

impl Run {
    /// How it is, with its age.
    fn told(&self, now: Instant) -> (Tone, String) {
        let Run { route, wanted, began, .. } = self;
        let since = |then: &Instant| age(now.saturating_duration_since(*then));
        let rows =
            format!("{} of {} moved {route}", self.moved.load(Ordering::Relaxed), count(*wanted, "row"));
        match &self.ended {
            None => (Tone::Unknown, format!("retry runs: {rows}; it began {} ago", since(began))),
            Some((then, End::Done)) => (Tone::Good, format!("retry done: {rows}, {} ago", since(then))),
            Some((then, End::Stopped)) => {
                (Tone::Warning, format!("retry stopped: {rows}, {} ago", since(then)))
            }
            Some((then, End::Failed(why))) => {
                (Tone::Bad, format!("retry failed {} ago: {why}; {rows}", since(then)))
            }
        }
    }
}

/// Who was asked, and what runs: one retry at a time for each server.
pub(crate) struct Retries {
    pending: Pending<Plan>,
    runs: Mutex<BTreeMap<String, Run>>,
    audit: Arc<Audit>,
    stop: Arc<AtomicBool>,
    changes: Changes,
}

impl Retries {
    pub(crate) fn new(audit: Arc<Audit>, stop: Arc<AtomicBool>, changes: Changes) -> Arc<Retries> {
        let (pending, runs) = (Pending::default(), Mutex::default());
        Arc::new(Retries { pending, runs, audit, stop, changes })
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a retry runs on this server.
    pub(crate) fn is_running(&self, server: &str) -> bool {
        self.runs().get(server).is_some_and(|run| run.ended.is_none())
    }

    /// How the last retry on this server is.
    pub(crate) fn told(&self, server: &str) -> Option<(Tone, String)> {
        Some(self.runs().get(server)?.told(Instant::now()))
    }

    /// Writes a line down, and starts the thread that moves the rows.
    fn start(self: &Arc<Retries>, server: &str, plan: Plan) -> Result<()> {
        let mut runs = self.runs();
        must_be_free(runs.get(server))?;
        let Wanted { queue, into, condition, limit } = &plan.wanted;
        let route = format!("from {} to {}", queue.plain(), into.plain());
        let wanted = limit.unwrap_or_default();
        let only = condition.as_ref().map_or_else(String::new, |condition| format!(", where {condition}"));
        let target = format!("{} {route}{only}", count(wanted, "row"));
        // What can't be written down is not done.
        self.write(server, &target, "asked")?;
        let (moved, began) = (Arc::default(), Instant::now());
        let work = Work { retries: Arc::clone(self), server: server.to_owned(), target, plan };
        let counter = Arc::clone(&moved);
        let thread = Some(std::thread::spawn(move || work.run(counter)));
        runs.insert(server.to_owned(), Run { route, wanted, moved, began, ended: None, thread });
        Ok(())
    }

    fn write(&self, server: &str, target: &str, outcome: &str) -> Result<()> {
        self.audit.write(&Entry { action: Allowed::QueueRetry.name(), server, target, outcome })
    }

    /// Waits until what runs has been written down. It ends at its next row when remora is stopped.
    pub(crate) fn finish(&self) {
        let threads: Vec<_> = self.runs().values_mut().filter_map(|run| run.thread.take()).collect();
        for thread in threads {
            thread.join().ok();
        }
    }
}

/// Refuses a second retry while one runs.
fn must_be_free(run: Option<&Run>) -> Result<()> {
    match run.filter(|run| run.ended.is_none()) {
        Some(run) => bail!("one retry at a time: {}", run.told(Instant::now()).1),
        None => Ok(()),
    }
}

/// What the thread of a retry has.
struct Work {
    retries: Arc<Retries>,
    server: String,
    target: String,
    plan: Plan,
}

impl Work {
    fn run(self, moved: Arc<AtomicU64>) {
        let Work { retries, server, target, plan } = self;
        let ended = plan.route(Arc::clone(&retries.stop), Arc::clone(&moved)).run(&Silent);
        let mut end = match ended {
            Ok(summary) => {
                // The last row is counted when it has ended at its queue.
                moved.store(summary.moved.rows, Ordering::Relaxed);
                match summary.ended {
                    Ended::Done => End::Done,
                    Ended::Stopped => End::Stopped,
                }
            }
            Err(error) => End::Failed(failure::text(&error)),
        };
        let rows = count(moved.load(Ordering::Relaxed), "row");
        let outcome = match &end {
            End::Done => format!("{rows} moved"),
            End::Stopped => format!("stopped; {rows} moved"),
            End::Failed(why) => format!("failed: {why}; {rows} moved"),
        };
        if let Err(error) = retries.write(&server, &target, &outcome) {
            end = End::Failed(failure::text(&error));
        }
        if let Some(run) = retries.runs().get_mut(&server) {
            run.ended = Some((Instant::now(), end));
        }
        retries.changes.tell();
    }
}

/// A server, its retries, and the token of forms.
#[derive(Clone, Copy)]
pub(crate) struct RetryContext<'a> {
    pub(crate) watched: &'a Watched,
    pub(crate) form_token: &'a str,
    pub(crate) retries: &'a Arc<Retries>,
}

impl RetryContext<'_> {
    fn form(&self) -> Form<'_> {
        Form { path: QUEUE_RETRY, watched: self.watched, token: self.form_token }
    }

    /// The button that asks for a retry of all rows of a queue, or of those that failed for this reason.
    pub(crate) fn button(&self, html: &mut Html, queue: &TableName, why: Option<&str>) {
        let queue = queue.plain();
        let mut fields = vec![("queue", queue.as_str())];
        fields.extend(why.map(|why| ("why", why)));
        let label = match why {
            Some(why) => format!("Retry... those of {queue} that failed with: {why}"),
            None => format!("Retry... all rows of {queue}"),
        };
        self.form().button(html, &fields, ("Retry...", &label));
    }

    /// Asks, or does what was asked before.
    pub(crate) fn answer(&self, request: &Request) -> Html {
        let back = Back { path: "/queues", query: &[], text: "Back to the queues" };
        answer(request, &back, || self.ask(request), |number| self.start(number))
    }

    /// Counts the rows and shows them, with the form that moves them.
    fn ask(&self, request: &Request) -> Result<Html> {
        let RetryContext { watched, retries, .. } = self;
        let queue: TableName = request.field("queue").context("the form names no queue")?.parse()?;
        let mut session = watched.target.connect()?;
        let all = sources(&mut session)?;
        let Some(from) = all.get(&queue) else {
            bail!("{} is the dead-letter queue of no queue that this account can see", queue.plain());
        };
        let into = match (request.field("to"), from.as_slice()) {
            (Some(name), _) => from.iter().find(|one| one.plain() == name).context("choose one of them")?,
            (None, [one]) => one,
            (None, _) => return Ok(self.choose(request, from)),
        };
        let condition = request.field("why").map(|why| failed_with(&mut session, &queue, why)).transpose()?;
        let wanted = Wanted { queue, into: into.clone(), condition, limit: None };
        let mut plan = Plan::make(watched.target.clone(), &mut session, wanted)?;
        let rows = plan.count(&mut session)?;
        if rows == 0 {
            bail!("no row matches that waits");
        }
        // Rows that come after the question are not a part of the answer.
        plan.wanted.limit = Some(rows);
        let mut html = self.question(&plan, rows);
        let number = retries.pending.add(&watched.name, plan).to_string();
        self.form().begin(&mut html, &[("yes", &number)]);
        html.raw("<button>").text(&format!("Retry {}", count(rows, "row"))).raw("</button></form>\n");
        Ok(html)
    }

    /// The form that asks which of several queues gets the rows.
    fn choose(&self, request: &Request, from: &[TableName]) -> Html {
        let mut html = Html::new();
        let carried = ["queue", "why"].into_iter().filter_map(|name| Some((name, request.field(name)?)));
        html.raw("<p>Several queues move their dead letters there, and a row does not say which one it is from.</p>\n");
        self.form().begin(&mut html, &carried.collect::<Vec<_>>());
        html.raw("<p><label>To <select name=\"to\">");
        for name in from.iter().map(TableName::plain) {
            html.raw("<option").attribute("value", &name).raw(">").text(&name).raw("</option>");
        }
        html.raw("</select></label> <button>Count the rows</button></p></form>\n");
        html
    }

    /// What would be done.
    fn question(&self, plan: &Plan, rows: u64) -> Html {
        let Wanted { queue, into, condition, .. } = &plan.wanted;
        let (queue, into) = (queue.plain(), into.plain());
        let mut html = Html::new();
        let matches = if rows == 1 { "matches" } else { "match" };
        html.raw("<p>")
            .text(&format!("{} {matches}: retry?", count(rows, "row")))
            .raw("</p>\n<ul class=\"facts\">");
        html.raw("<li>")
            .text(&format!("From {queue} to {into}, where each is tried again."))
            .raw("</li><li>");
        match condition {
            Some(condition) => html.raw("Condition: <code>").text(condition).raw("</code>"),
            None => html.raw("Condition: none, all rows that wait."),
        };
        html.raw(
            "</li><li>Rows that come from now on stay, and so do those that somebody owns.</li></ul>\n<p>",
        );
        let only = condition.as_ref().map(|condition| format!(" --where {}", quoted(condition)));
        let line = format!(
            "remora queue retry {} --to {}{} -n {rows}",
            quoted(&queue),
            quoted(&into),
            only.unwrap_or_default()
        );
        command(&mut html, &with_url(&line, self.watched));
        html.raw("</p>\n");
        html
    }

    /// Starts what was shown.
    fn start(&self, number: &str) -> Result<Html> {
        let RetryContext { watched, retries, .. } = self;
        let plan = retries.pending.take(&watched.name, number)?;
        retries.start(&watched.name, plan)?;
        let mut html = Html::new();
        html.raw("<p role=\"status\">It has begun; ");
        anchor(&mut html, ("/queues", &[]), "the page of queues");
        html.raw(" says how far it is.</p>\n");
        Ok(html)
    }
}

/// The condition for the rows of a queue that failed for a reason.
fn failed_with(session: &mut Session, queue: &TableName, why: &str) -> Result<String> {
    let definition = session.definition(queue)?;
    let column = filled_column(&definition, "why").context("the queue has no column for reasons any more")?;
    Ok(format!("{} = {}", quote_name(&column), session.quote(why)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_says_how_far_it_is_and_how_long_ago_that_was() {
        let now = Instant::now() + Duration::from_secs(1000);
        let before = |seconds| now - Duration::from_secs(seconds);
        let made = |ended| {
            let (route, moved) = ("from d.dead to d.jobs".to_owned(), Arc::new(AtomicU64::new(5)));
            Run { route, wanted: 17, moved, began: before(300), ended, thread: None }
        };
        let run = |ended| made(ended).told(now);
        let rows = "5 of 17 rows moved from d.dead to d.jobs";
        assert_eq!(run(None), (Tone::Unknown, format!("retry runs: {rows}; it began 5 min ago")));
        let done = run(Some((before(20), End::Done)));
        assert_eq!(done, (Tone::Good, format!("retry done: {rows}, 20 s ago")));
        let stopped = run(Some((before(20), End::Stopped)));
        assert_eq!(stopped, (Tone::Warning, format!("retry stopped: {rows}, 20 s ago")));
        let failed = run(Some((before(20), End::Failed("denied".into()))));
        assert_eq!(failed, (Tone::Bad, format!("retry failed 20 s ago: denied; {rows}")));
        let refused = must_be_free(Some(&made(None))).unwrap_err().to_string();
        assert!(refused.starts_with("one retry at a time: retry runs: "), "{refused}");
        assert!(
            must_be_free(Some(&made(Some((before(20), End::Done))))).is_ok() && must_be_free(None).is_ok()
        );
    }
}
