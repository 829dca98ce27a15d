//! `remora web`: servers, backups and queues as pages for browsers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use failure::usage;
use monitor::fleet::samplers;
use pages::{Audit, Watched, Window};
use progress::Progress;
use repository::address;
use serde_json::json;
use server::{Password, Target};
use status::counter::sampler::SampleRequest;
use web::{Gate, Listener, PublicUrl};

use crate::args::ServerArgs;
use crate::commands::stop_flag;
use crate::exit::{Exit, stopped};
use crate::keys::KeyArguments;
use crate::password::without_password;
use crate::report::Report;

const EXAMPLES: &str = "EXAMPLES
  remora web                          the usual server, at http://127.0.0.1:8306
  remora web mysql://mon@db1 mysql://mon@db2 --repository /backup      two servers and the backups
  remora web --repository s3://company-backups/db --key /etc/remora.key     backups only
  remora web mysql://mon@db1 --allow kill-query,queue-retry --audit-log /var/log/remora-web.log
  ssh -L 8306:127.0.0.1:8306 db1      then open the address that remora web printed on db1";

/// Show servers, backups and queues in a browser: load, who waits for whom, what is known of each backup
///
/// Serves this machine only, until it is stopped, and prints the address to open. Nothing is changed, unless
/// --allow names it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Servers as mysql://user@host:port, unix:///path or sandbox:NAME [default: the one that the options and
    /// option files name; none, if only repositories are named]
    #[arg(value_name = "SERVER")]
    servers: Vec<String>,

    /// Also show the backups of this repository: a folder or s3://BUCKET/PREFIX. May be given several times
    #[arg(long, value_name = "REPO")]
    repository: Vec<PathBuf>,

    /// Where to listen: an address of this machine that others can't reach; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8306")]
    listen: String,

    /// The address of a reverse proxy with TLS in front, https://NAME: requests for it are answered, too
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,

    /// Seconds between two looks at a server, 1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,

    /// Show statements as they are. They may hold data of the application
    #[arg(long)]
    show_statements: bool,

    /// What may be done from the pages [default: nothing]
    #[arg(long, value_name = "ACTION,...", value_delimiter = ',')]
    allow: Vec<Allowed>,

    /// Where to write a line for each action [default: standard error]
    #[arg(long, value_name = "FILE", requires = "allow")]
    audit_log: Option<PathBuf>,

    #[command(flatten)]
    key: KeyArguments,

    #[command(flatten)]
    server: ServerArgs,
}

/// An action that can be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Allowed {
    /// End a statement that runs
    KillQuery,
    /// Move dead letters back to their queue
    QueueRetry,
}

impl From<Allowed> for pages::Allowed {
    fn from(allowed: Allowed) -> pages::Allowed {
        match allowed {
            Allowed::KillQuery => pages::Allowed::KillQuery,
            Allowed::QueueRetry => pages::Allowed::QueueRetry,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let repositories = &arguments.repository;
    let servers = watched(arguments, password.as_deref())?;
    let audit = Audit::open(arguments.audit_log.as_deref(), report.shared())?;
    let listener = Listener::bind(&arguments.listen).map_err(|error| usage(format!("--listen: {error}")))?;
    let key = arguments.key.read()?;
    if servers.is_empty() && repositories.is_empty() {
        return Err(usage("name a server or a repository"));
    }
    let stop = stop_flag(report)?;
    for root in repositories.iter().filter(|root| !address::is_in_store(root) && !root.exists()) {
        // It may be mounted later, so the other pages are served.
        report.warn(&format!(
            "{}: there is no such repository; the page of backups says so, too",
            root.display()
        ));
    }
    let random = || Ok::<_, anyhow::Error>(Password::random()?.expose().to_owned());
    let gate = Gate::new(random()?, random()?, listener.port()?, arguments.public_url.clone());
    if report.is_json() {
        report.message(&json!({"message_type": "serving", "url": gate.url()}))?;
    } else {
        report.data(&gate.url())?;
    }
    report.note("open this address in a browser; whoever has it sees the pages. Ctrl-C ends them");
    let window = Window {
        servers,
        repositories: repositories.clone(),
        key,
        interval: Duration::from_secs(arguments.interval),
        allowed: arguments.allow.iter().copied().map(pages::Allowed::from).collect(),
        audit,
    };
    window.serve(listener, gate, &stop)?;
    Ok(stopped())
}

type Sampled = (Watched, status::counter::sampler::Sampler);

/// The servers, with what asks each of them.
fn watched(arguments: &Arguments, password: Option<&str>) -> Result<Vec<Sampled>> {
    let Arguments { servers, server, repository, .. } = arguments;
    let all: Vec<(String, ServerArgs)> = match servers.as_slice() {
        [] if !repository.is_empty() && !server.is_named() => Vec::new(),
        [] => vec![(String::new(), server.clone())],
        words => words.iter().map(|word| (word.clone(), server.at(word))).collect(),
    };
    let mut targets: Vec<Target> = Vec::new();
    for (_, one) in &all {
        targets.push(one.target(password.map(str::to_owned))?);
    }
    let request = SampleRequest { names: Vec::new(), digests: true, processes: false, applied: true };
    let samplers = samplers(targets.clone(), &request)?;
    let watched =
        samplers.into_iter().zip(targets).zip(&all).map(|(((name, sampler), target), (word, _))| {
            let address = without_password(word).map_or_else(|| word.clone(), |(address, _)| address);
            let name = shown(name, &address);
            let watched = Watched::new(name, address, target, arguments.show_statements);
            (watched, sampler)
        });
    Ok(watched.collect())
}

/// What a server is called on the pages: the name of a sandbox says more than the path of its socket.
fn shown(name: String, address: &str) -> String {
    if address.starts_with("sandbox:") { address.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_sandbox_is_called_by_its_name() {
        assert_eq!(shown("/s/a/server.sock".into(), "sandbox:a"), "sandbox:a");
        assert_eq!(shown("db1".into(), "mysql://db1"), "db1");
    }
}
