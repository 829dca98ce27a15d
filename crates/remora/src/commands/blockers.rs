//! `remora blockers`

use anyhow::Result;
use clap::Args;
use locks::text::{Text, sum};
use locks::{Node, Party, Picture};
use progress::Progress;
use serde_json::{Value, json};

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::Report;
use crate::way_in;
use screen::terminal;

const EXAMPLES: &str = "EXAMPLES
  remora blockers                     who waits for whom on the usual server
  remora blockers sandbox:test        on a sandbox
  remora blockers -h db1 --full       with whole statements
  remora blockers mysql://mon@db1 --json     a line of JSON for each connection
  remora blockers || remora kill --blocking     if somebody waits: what ending the holders takes";

/// Show who waits for whom: locks on rows, tables, names and the whole server, as one tree
///
/// Those who keep others waiting come first, also when they run nothing; below each are those who wait for
/// it. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server as mysql://user@host:port, unix:///path or sandbox:NAME [default: the one that -h, -S and
    /// the option files lead to]
    #[arg(value_name = "SERVER", conflicts_with = "url")]
    address: Option<String>,

    /// Show whole statements instead of one line of each
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let server = &arguments.server;
    let server = arguments.address.as_ref().map_or_else(|| server.clone(), |address| server.at(address));
    let mut session = way_in::enter(&server, password, report)?;
    let picture = Picture::read(&mut session)?;
    let tree = locks::tree(&picture.waits);
    if report.is_json() {
        json_lines(&picture, &tree, report)?;
    } else {
        let width = (!arguments.full).then(|| terminal::width().unwrap_or(terminal::USUAL_WIDTH));
        lines(&tree, &Text { picture: &picture, width }, &server, report)?;
    }
    let nobody = picture.waiting().is_empty() && picture.is_complete();
    Ok(if nobody { Exit::Done } else { Exit::Partial })
}

/// The tree for people.
fn lines(tree: &[Node], text: &Text<'_>, server: &ServerArgs, report: &Report) -> Result<()> {
    let picture = text.picture;
    for node in tree {
        text.node(node).iter().try_for_each(|line| report.data(line))?;
    }
    if !picture.unexplained.is_empty() {
        report.data("waiting, but the server does not say for whom:")?;
    }
    for party in &picture.unexplained {
        text.node(&Node::alone(party.clone(), 1)).iter().try_for_each(|line| report.data(line))?;
    }
    for gap in &picture.gaps {
        report.warn(&gap.what);
    }
    report.note(&sum(picture, |line| server.on_server(line)));
    Ok(())
}

/// Everybody of the tree once, with all waits.
fn json_lines(picture: &Picture, tree: &[Node], report: &Report) -> Result<()> {
    let unexplained = picture.unexplained.iter();
    let shown = tree.iter().filter(|node| !node.is_repeated).map(|node| &node.party);
    for party in shown.chain(unexplained) {
        report.message(&object(picture, party))?;
    }
    for gap in &picture.gaps {
        report.warn(&gap.what);
    }
    report.message(&json!({
        "message_type": "summary", "waiting": picture.waiting().len(), "blocking": picture.blocking().len(),
        "complete": picture.is_complete(),
    }))?;
    Ok(())
}

fn object(picture: &Picture, party: &Party) -> Value {
    let (id, prepared) = numbers(party);
    let connection = id.and_then(|id| picture.connections.get(&id));
    let transaction = picture.transactions.get(party);
    let mine = picture.waits.iter().filter(|wait| wait.waiter == *party);
    let waits_for: Vec<Value> = mine
        .map(|wait| {
            let (id, prepared) = numbers(&wait.holder);
            json!({
                "connection": id, "xa_transaction": prepared, "kind": wait.lock.kind.name(),
                "object": wait.lock.object, "mode": wait.lock.mode, "certain": wait.is_certain,
            })
        })
        .collect();
    json!({
        "message_type": "connection", "connection": id, "xa_transaction": prepared,
        "xa_names": prepared.map(|_| &picture.prepared),
        "user": connection.map(|one| &one.user), "host": connection.map(|one| &one.host),
        "database": connection.map(|one| &one.database), "command": connection.map(|one| &one.command),
        "state": connection.map(|one| &one.state), "seconds": connection.map(|one| one.seconds),
        "idle": connection.is_some_and(locks::Connection::is_idle),
        "statement": connection.map(|one| &one.statement),
        "last_statement": connection.and_then(|one| one.last_statement.as_ref()),
        "transaction_seconds": transaction.map(|one| one.seconds),
        "rows_locked": transaction.map(|one| one.rows_locked),
        "rows_changed": transaction.map(|one| one.rows_modified),
        "waits": picture.waiting().contains(party), "waits_for": waits_for,
        "waiting_behind": picture.waiting_behind(party),
    })
}

/// The number of a connection, or that of a transaction without one.
fn numbers(party: &Party) -> (Option<u64>, Option<&String>) {
    match party {
        Party::Connection(id) => (Some(*id), None),
        Party::Prepared(id) => (None, Some(id)),
    }
}
