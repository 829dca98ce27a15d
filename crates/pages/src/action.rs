//! What may be done from a page: asked first, with everything that it means, and written down.

use anyhow::{Context, Result, bail};
use locks::Picture;
use locks::kill::{How, Limits, Outcome, Selection, Target, choose};
use web::{Html, Request};

use crate::audit::{Audit, Entry};
use crate::form::{Back, Form, Pending, answer};
use crate::layout::command;
use crate::server_list::with_url;
use crate::watch::Watched;
use locks::text::loss;

/// The path of the form.
pub(crate) const KILL_QUERY: &str = "/kill-query";

/// An action that can be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// End a statement that runs.
    KillQuery,
    /// Move dead letters back to their queue.
    QueueRetry,
}

impl Allowed {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Allowed::KillQuery => "kill-query",
            Allowed::QueueRetry => "queue-retry",
        }
    }
}

/// What the end of a statement needs.
pub(crate) struct ActionContext<'a> {
    pub(crate) watched: &'a Watched,
    pub(crate) form_token: &'a str,
    pub(crate) pending: &'a Pending<Target>,
    pub(crate) audit: &'a Audit,
}

/// The button that asks for the end of a statement.
pub(crate) fn ask_button(html: &mut Html, (watched, token): (&Watched, &str), id: u64) {
    let form = Form { path: KILL_QUERY, watched, token };
    let label = format!("End {id}: the statement that it runs");
    form.button(html, &[("id", &id.to_string())], (&format!("End {id}..."), &label));
}

/// Asks, or does what was asked before.
pub(crate) fn kill_query(context: &ActionContext<'_>, request: &Request) -> Html {
    let query = [("at", context.watched.name.as_str())];
    let back = Back { path: "/server", query: &query, text: "Back to the server" };
    let ask = || ask(context, request.field("id").unwrap_or_default());
    answer(request, &back, ask, |number| end(context, number))
}

/// Shows whose statement would end, and the form that does it.
fn ask(context: &ActionContext<'_>, id: &str) -> Result<Html> {
    let ActionContext { watched, form_token: token, pending, .. } = context;
    let id: u64 = id.parse().context("the form names no connection")?;
    let mut session = watched.target.connect()?;
    let limits = Limits { own: session.connection_id().into(), replication: false };
    let picture = Picture::read(&mut session)?;
    let chosen = choose(&picture, &Selection { ids: vec![id], ..Selection::default() });
    let Some(target) = chosen.into_iter().next() else { bail!("{id} has ended by itself") };
    if let Some(objection) = target.objection(How::Query, &limits) {
        bail!(objection);
    }
    let mut html = Html::new();
    let (account, seconds) = (target.connection.account(), target.connection.seconds);
    html.raw("<p>1 statement matches: ");
    html.text(&format!("that of connection {id}, {account}, which has been running for {seconds} s."));
    html.raw("</p>\n<p>").text(&loss(How::Query, &target)).raw(".</p>\n<p>");
    command(&mut html, &with_url(&format!("remora kill {id} --query --yes"), watched));
    html.raw("</p>\n");
    let number = pending.add(&watched.name, target).to_string();
    Form { path: KILL_QUERY, watched, token }.begin(&mut html, &[("yes", &number)]);
    html.raw("<button>End the statement</button></form>\n");
    Ok(html)
}

/// Ends what was shown, if it is still the same.
fn end(context: &ActionContext<'_>, number: &str) -> Result<Html> {
    let ActionContext { watched, pending, audit, .. } = context;
    let target = pending.take(&watched.name, number)?;
    let connection = &target.connection;
    let named = format!("connection {}, {}", connection.id, connection.account());
    let entry =
        |outcome| Entry { action: Allowed::KillQuery.name(), server: &watched.name, target: &named, outcome };
    // What can't be written down is not done.
    audit.write(&entry("asked"))?;
    let outcome = watched.target.connect().and_then(|mut session| target.end(&mut session, How::Query));
    let outcome = match outcome {
        Ok(Outcome::Told) => "the server was told to end the statement".to_owned(),
        Ok(Outcome::LeftOut(why)) => format!("left alone: {why}"),
        Err(error) => format!("failed: {error}"),
    };
    audit.write(&entry(&outcome))?;
    let mut html = Html::new();
    html.raw("<p role=\"status\">").text(&format!("{named}: {outcome}.")).raw("</p>\n");
    Ok(html)
}
