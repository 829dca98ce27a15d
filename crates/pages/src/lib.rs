//! The pages of `remora web`: servers with their load, locks and replication, backups, queues.
//!
//! For each server and repository one thread asks, however many look: `watch` and `archive` keep what is
//! known, `queue_watch` that of queues. Of it pages are made (`server_list`, `server_page`, `replication`,
//! `backups`, `queues`, all with `layout`). What may be changed is asked first and written down: `action` and
//! `retry`, with `form` and `audit`. `site` says which page is where. `web` listens and checks who asks.

mod action;
mod archive;
mod audit;
mod backups;
mod form;
mod layout;
mod queue_watch;
mod queues;
mod replication;
mod retry;
mod server_list;
mod server_page;
mod site;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use seal::Key;
use status::counter::sampler::Sampler;
use web::{Changes, Gate, Listener};

pub use self::action::Allowed;
use self::archive::Archive;
pub use self::audit::Audit;
use self::form::Pending;
use self::retry::Retries;
use self::site::Pages;
pub use self::watch::Watched;

/// What the pages show, and what may be done from them.
pub struct Window {
    /// The servers, each with what asks it.
    pub servers: Vec<(Watched, Sampler)>,
    /// The repositories: folders, or `s3://BUCKET/PREFIX`.
    pub repositories: Vec<PathBuf>,
    /// Opens what is encrypted in them.
    pub key: Option<Key>,
    /// The time between two looks at a server.
    pub interval: Duration,
    /// What may be done.
    pub allowed: Vec<Allowed>,
    /// Where each action is written down.
    pub audit: Audit,
}

impl Window {
    /// Serves the pages until `stop` is set, and waits for the end of what was begun from them.
    ///
    /// # Errors
    /// If nothing can be served.
    pub fn serve(self, listener: Listener, gate: Gate, stop: &Arc<AtomicBool>) -> Result<()> {
        let Window { servers, repositories, key, interval, allowed, audit } = self;
        let (changes, audit) = (Changes::default(), Arc::new(audit));
        let mut shown = Vec::new();
        for (watched, sampler) in servers {
            let watched = Arc::new(watched);
            watched.start(sampler, interval, (stop, &changes));
            shown.push(watched);
        }
        let archives: Vec<Arc<Archive>> =
            repositories.iter().map(|root| Arc::new(Archive::new(root))).collect();
        for archive in &archives {
            archive.start(key.clone(), (stop, &changes));
        }
        let retries = Retries::new(Arc::clone(&audit), Arc::clone(stop), changes.clone());
        let pages = Pages {
            servers: shown,
            archives,
            interval,
            allowed,
            form_token: gate.form_token().to_owned(),
            kills: Pending::default(),
            retries: Arc::clone(&retries),
            audit,
        };
        web::serve(listener, gate, Box::new(pages), &changes, stop)?;
        retries.finish();
        Ok(())
    }
}
