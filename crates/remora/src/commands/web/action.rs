//! What may be done from a page: asked first, with everything that it means, and written down.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use locks::Picture;
use locks::kill::{How, Limits, Outcome, Selection, Target, choose};
use web::{Html, Request};

use super::super::kill::loss;
use super::audit::{Audit, Entry};
use super::layout::{anchor, command};
use super::server_list::with_url;
use super::watch::Watched;
use crate::report::error_text;

/// The path of the form.
pub(super) const KILL_QUERY: &str = "/kill-query";
/// The most questions that wait for an answer; older ones are forgotten.
const PENDING_MAX: usize = 100;

/// An action that can be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Allowed {
    /// End a statement that runs
    KillQuery,
}

impl Allowed {
    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Allowed::KillQuery => "kill-query",
        }
    }
}

/// Actions that were shown and wait for a yes. What is done is what was shown.
#[derive(Default)]
pub(super) struct Pending(Mutex<Questions>);

/// The questions by their numbers, each with its server.
#[derive(Default)]
struct Questions {
    last: u64,
    open: BTreeMap<u64, (String, Target)>,
}

impl Pending {
    /// Keeps a target until the answer. Returns its number.
    fn add(&self, server: &str, target: Target) -> u64 {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.last += 1;
        let number = questions.last;
        questions.open.insert(number, (server.to_owned(), target));
        if questions.open.len() > PENDING_MAX {
            questions.open.pop_first();
        }
        number
    }

    /// The target of a number on a server, once.
    fn take(&self, server: &str, number: u64) -> Option<Target> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, target) = questions.open.remove(&number).filter(|(asked, _)| asked == server)?;
        Some(target)
    }
}

/// What an action needs.
pub(super) struct ActionContext<'a> {
    pub(super) watched: &'a Watched,
    pub(super) form_token: &'a str,
    pub(super) pending: &'a Pending,
    pub(super) audit: &'a Audit,
}

/// The beginning of a form about a server.
fn form(html: &mut Html, (watched, form_token): (&Watched, &str), fields: &[(&'static str, String)]) {
    html.raw("<form method=\"post\"").attribute("action", KILL_QUERY).raw(">");
    let own = [("token", form_token.to_owned()), ("at", watched.name.clone())];
    for (name, value) in own.iter().chain(fields) {
        html.raw("<input type=\"hidden\"").attribute("name", name).attribute("value", value).raw(">");
    }
}

/// The button that asks for the end of a statement.
pub(super) fn ask_button(html: &mut Html, about: (&Watched, &str), id: u64) {
    form(html, about, &[("id", id.to_string())]);
    html.raw("<button>").text(&format!("End {id}...")).raw("</button></form>");
}

/// Asks, or does what was asked before.
pub(super) fn kill_query(context: &ActionContext<'_>, request: &Request) -> Html {
    let done = match request.field("yes").map(str::parse::<u64>) {
        Some(Ok(number)) => end(context, number),
        Some(Err(_)) => bad_number(),
        None => ask(context, request.field("id").unwrap_or_default()),
    };
    let mut body = done.unwrap_or_else(|error| {
        let mut html = Html::new();
        html.raw("<p>Nothing was done: ").text(&error_text(&error)).raw("</p>\n");
        html
    });
    body.raw("<p>");
    anchor(&mut body, ("/server", &[("at", &context.watched.name)]), "Back to the server");
    body.raw("</p>\n");
    body
}

fn bad_number() -> Result<Html> {
    bail!("the form has no such number")
}

/// Shows whose statement would end, and the form that does it.
fn ask(context: &ActionContext<'_>, id: &str) -> Result<Html> {
    let ActionContext { watched, form_token, pending, .. } = context;
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
    let number = pending.add(&watched.name, target);
    form(&mut html, (watched, form_token), &[("yes", number.to_string())]);
    html.raw("<button>End the statement</button></form>\n");
    Ok(html)
}

/// Ends what was shown, if it is still the same.
fn end(context: &ActionContext<'_>, number: u64) -> Result<Html> {
    let ActionContext { watched, pending, audit, .. } = context;
    let target = pending.take(&watched.name, number);
    let target = target.context("this was answered already, or asked too long ago: look again")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once_and_old_ones_are_forgotten() {
        let target = |id| {
            let connection = locks::Connection { id, ..locks::Connection::default() };
            Target { connection, transaction: None, waiting: 0 }
        };
        let pending = Pending::default();
        let numbers: Vec<u64> = (0..=PENDING_MAX as u64).map(|id| pending.add("db1", target(id))).collect();
        let take = |server, at: usize| pending.take(server, numbers[at]).map(|target| target.connection.id);
        assert_eq!(take("db1", 0), None);
        assert_eq!(take("db1", 5), Some(5));
        assert_eq!(take("db1", 5), None);
        // The connection of this number on another server is somebody else.
        assert_eq!(take("db2", 6), None);
    }
}
