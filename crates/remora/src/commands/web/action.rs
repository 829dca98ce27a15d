//! What may be done from a page: asked first, with everything that it means, and written down.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use locks::Picture;
use locks::kill::{How, Limits, Outcome, Selection, Target, choose};
use web::{Html, Request};

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

/// Actions that were shown and wait for a yes, by number. What is done is what was shown.
#[derive(Default)]
pub(super) struct Pending(Mutex<(u64, BTreeMap<u64, Target>)>);

impl Pending {
    /// Keeps a target until the answer. Returns its number.
    fn add(&self, target: Target) -> u64 {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, all) = &mut *inner;
        *last += 1;
        all.insert(*last, target);
        if all.len() > PENDING_MAX {
            all.pop_first();
        }
        *last
    }

    /// The target of a number, once.
    fn take(&self, number: u64) -> Option<Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number)
    }
}

/// What an action needs.
pub(super) struct Desk<'d> {
    pub(super) watched: &'d Watched,
    pub(super) form_token: &'d str,
    pub(super) pending: &'d Pending,
    pub(super) audit: &'d Audit,
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
pub(super) fn kill_query(desk: &Desk<'_>, request: &Request) -> Html {
    let done = match request.field("yes").map(str::parse::<u64>) {
        Some(Ok(number)) => end(desk, number),
        Some(Err(_)) => bad_number(),
        None => ask(desk, request.field("id").unwrap_or_default()),
    };
    let mut body = done.unwrap_or_else(|error| {
        let mut html = Html::new();
        html.raw("<p>Nothing was done: ").text(&error_text(&error)).raw("</p>\n");
        html
    });
    body.raw("<p>");
    anchor(&mut body, ("/server", &[("at", &desk.watched.name)]), "Back to the server");
    body.raw("</p>\n");
    body
}

fn bad_number() -> Result<Html> {
    bail!("the form has no such number")
}

/// Shows whose statement would end, and the form that does it.
fn ask(desk: &Desk<'_>, id: &str) -> Result<Html> {
    let Desk { watched, form_token, pending, .. } = desk;
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
    html.text(&format!("that of connection {id}, {account}, which has been running for {seconds} s. "));
    html.text(&match target.rows_to_roll_back() {
        0 => "Its transaction has changed no rows. ".to_owned(),
        rows => format!(
            "Its transaction has changed {}; those of this statement are taken back, the others stay. ",
            progress::count(rows, "row")
        ),
    });
    html.text(&format!("{} for it.", waiting(target.waiting))).raw("</p>\n<p>");
    command(&mut html, &with_url(&format!("remora kill {id} --query --yes"), watched));
    html.raw("</p>\n");
    let number = pending.add(target);
    form(&mut html, (watched, form_token), &[("yes", number.to_string())]);
    html.raw("<button>End the statement</button></form>\n");
    Ok(html)
}

fn waiting(number: usize) -> String {
    match number {
        0 => "Nobody waits".to_owned(),
        1 => "1 waits".to_owned(),
        many => format!("{many} wait"),
    }
}

/// Ends what was shown, if it is still the same.
fn end(desk: &Desk<'_>, number: u64) -> Result<Html> {
    let Desk { watched, pending, audit, .. } = desk;
    let target = pending.take(number);
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
        let numbers: Vec<u64> = (0..=PENDING_MAX as u64).map(|id| pending.add(target(id))).collect();
        assert_eq!(pending.take(numbers[0]), None);
        assert_eq!(pending.take(numbers[5]).map(|target| target.connection.id), Some(5));
        assert_eq!(pending.take(numbers[5]), None);
    }
}
