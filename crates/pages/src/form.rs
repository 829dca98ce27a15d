//! Forms, and questions that were shown and wait for a yes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use web::{Html, Request};

use crate::layout::anchor;
use crate::watch::Watched;

/// The most questions of a kind that wait for an answer; older ones are forgotten.
const PENDING_MAX: usize = 100;

/// Questions that wait for a yes. What is done is what was shown.
pub(crate) struct Pending<T>(Mutex<Questions<T>>);

/// The questions by their numbers, each with its server.
struct Questions<T> {
    last: u64,
    open: BTreeMap<u64, (String, T)>,
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending(Mutex::new(Questions { last: 0, open: BTreeMap::new() }))
    }
}

impl<T> Pending<T> {
    /// Keeps a question until the answer. Returns its number.
    pub(crate) fn add(&self, server: &str, question: T) -> u64 {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.last += 1;
        let number = questions.last;
        questions.open.insert(number, (server.to_owned(), question));
        if questions.open.len() > PENDING_MAX {
            questions.open.pop_first();
        }
        number
    }

    /// The question of a number about a server, once.
    ///
    /// # Errors
    /// If there is no such question, or not any more.
    pub(crate) fn take(&self, server: &str, number: &str) -> Result<T> {
        let number: u64 = number.parse().context("the form has no such number")?;
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = questions.open.remove(&number).filter(|(asked, _)| asked == server);
        let (_, question) = found.context("this was answered already, or asked too long ago: look again")?;
        Ok(question)
    }
}

/// Where a form about a server goes.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    pub(crate) path: &'static str,
    pub(crate) watched: &'a Watched,
    pub(crate) token: &'a str,
}

impl Form<'_> {
    /// The beginning of a form.
    pub(crate) fn begin(&self, html: &mut Html, fields: &[(&'static str, &str)]) {
        html.raw("<form method=\"post\"").attribute("action", self.path).raw(">");
        let own = [("token", self.token), ("at", self.watched.name.as_str())];
        for (name, value) in own.iter().chain(fields) {
            html.raw("<input type=\"hidden\"").attribute("name", name).attribute("value", value).raw(">");
        }
    }

    /// A whole form with one button. `label`: what a screen reader says, which begins with the button's text.
    pub(crate) fn button(
        &self,
        html: &mut Html,
        fields: &[(&'static str, &str)],
        (text, label): (&str, &str),
    ) {
        self.begin(html, fields);
        html.raw("<button").attribute("aria-label", label).raw(">").text(text).raw("</button></form>");
    }
}

/// A link to where somebody came from.
pub(crate) struct Back<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) text: &'a str,
}

/// The answer to a form: asks, or does what was asked before, and leads back.
pub(crate) fn answer(
    request: &Request,
    back: &Back<'_>,
    ask: impl FnOnce() -> Result<Html>,
    act: impl FnOnce(&str) -> Result<Html>,
) -> Html {
    let done = match request.field("yes") {
        Some(number) => act(number),
        None => ask(),
    };
    let mut body = done.unwrap_or_else(|error| {
        let mut html = Html::new();
        html.raw("<p>Nothing was done: ").text(&failure::text(&error)).raw("</p>\n");
        html
    });
    body.raw("<p>");
    anchor(&mut body, (back.path, back.query), back.text);
    body.raw("</p>\n");
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_once_and_old_ones_are_forgotten() {
        let pending = Pending::default();
        let numbers: Vec<String> = (0..=PENDING_MAX).map(|id| pending.add("db1", id).to_string()).collect();
        let take = |server, at: usize| pending.take(server, &numbers[at]).ok();
        assert_eq!(take("db1", 0), None);
        assert_eq!(take("db1", 5), Some(5));
        assert_eq!(take("db1", 5), None);
        // The connection of this number on another server is somebody else.
        assert_eq!(take("db2", 6), None);
        assert!(pending.take("db1", "x").is_err());
    }
}
