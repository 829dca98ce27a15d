//! Which page is where.

use std::sync::Arc;
use std::time::Duration;

use status::counter::page::{SCRIPT, STYLE};
use web::{Answer, Html, Request, Site};

use crate::action::{self, ActionContext, Allowed};
use crate::archive::Archive;
use crate::audit::Audit;
use crate::form::Pending;
use crate::layout::Page;
use crate::retry::{self, Retries, RetryContext};
use crate::server_page::View;
use crate::watch::Watched;
use crate::{backups, queues, server_list};

/// All pages.
pub(crate) struct Pages {
    pub(crate) servers: Vec<Arc<Watched>>,
    pub(crate) archives: Vec<Arc<Archive>>,
    pub(crate) interval: Duration,
    pub(crate) allowed: Vec<Allowed>,
    pub(crate) form_token: String,
    /// Statements that were shown and wait for a yes to their end.
    pub(crate) kills: Pending<locks::kill::Target>,
    pub(crate) retries: Arc<Retries>,
    pub(crate) audit: Arc<Audit>,
}

impl Pages {
    /// The server that a page or a form is about.
    pub(crate) fn server(&self, name: Option<&str>) -> Option<&Arc<Watched>> {
        self.servers.iter().find(|watched| Some(watched.name.as_str()) == name)
    }

    /// A page with everything around it.
    pub(crate) fn page(&self, title: &str, at: &str, body: Html) -> Answer {
        let foot = match self.allowed.as_slice() {
            [] => "Nothing can be changed from these pages.".to_owned(),
            some => {
                let names: Vec<&str> = some.iter().map(|one| one.name()).collect();
                format!("Allowed from these pages: {}.", names.join(", "))
            }
        };
        Answer::page(200, Page { title, at, foot: &foot, body }.html())
    }
}

impl Site for Pages {
    fn get(&self, request: &Request) -> Option<Answer> {
        match request.path.as_str() {
            "/" => Some(self.page("Servers", "/", server_list::body(&self.servers, self.interval))),
            "/server" => {
                let watched = self.server(request.value("at"))?;
                let view = View {
                    watched,
                    interval: self.interval,
                    allowed: &self.allowed,
                    form_token: &self.form_token,
                    is_whole: request.value("part") != Some("now"),
                };
                Some(self.page(&watched.name, "/", view.body()))
            }
            "/backups" => Some(self.page("Backups", "/backups", backups::body(&self.archives))),
            "/queues" => {
                let Pages { servers, interval, form_token, retries, .. } = self;
                let retries = self.allowed.contains(&Allowed::QueueRetry).then_some(retries);
                let view = queues::View { servers, interval: *interval, form_token, retries };
                Some(self.page("Queues", "/queues", view.body()))
            }
            "/style.css" => {
                let style = format!("{STYLE}{}", include_str!("style.css"));
                Some(Answer::text(200, "text/css; charset=utf-8", &style))
            }
            "/script.js" => {
                let script = format!("{SCRIPT}{}", include_str!("script.js"));
                Some(Answer::text(200, "text/javascript; charset=utf-8", &script))
            }
            _ => None,
        }
    }

    fn post(&self, request: &Request) -> Option<Answer> {
        match request.path.as_str() {
            action::KILL_QUERY if self.allowed.contains(&Allowed::KillQuery) => {
                let watched = self.server(request.field("at"))?;
                let Pages { form_token, kills: pending, audit, .. } = self;
                let context = ActionContext { watched, form_token, pending, audit };
                Some(self.page("End a statement", "/", action::kill_query(&context, request)))
            }
            retry::QUEUE_RETRY if self.allowed.contains(&Allowed::QueueRetry) => {
                let watched = self.server(request.field("at"))?;
                let Pages { form_token, retries, .. } = self;
                let context = RetryContext { watched, form_token, retries };
                Some(self.page("Retry dead letters", "/queues", context.answer(request)))
            }
            _ => None,
        }
    }
}
