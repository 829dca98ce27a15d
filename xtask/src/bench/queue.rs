//! Messages per second through ENGINE=QUEUE, compared with what the server can answer at all, with InnoDB and
//! SKIP LOCKED, and with other servers.

mod burden;
mod clients;
mod nats;
mod ours;
mod peer;
mod postgres;
mod rabbitmq;

use std::rc::Rc;

use anyhow::{Context, Result, bail};
use burden::Burden;
use ours::{METHODS, Method, Ours};
use peer::{Peer, WORKS, Work};
use tempfile::TempDir;

use super::measure::{as_f64, middle};
use crate::{plugin, setup};

const ROUNDS: u64 = 3;
const CONNECTIONS: [u32; 2] = [10, 40];

/// The bytes of a message.
const BODY: usize = 80;

/// A folder for a server's files. All are on the same disk, as the temporary folder of a system need not be,
/// and every account can reach them.
fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("remora-bench-").tempdir_in("/var/tmp")?)
}

/// What comes into the table, in messages per second.
struct Line<'a> {
    name: String,
    source: Source<'a>,
    /// For each number of connections the rates of all rounds.
    rates: [Vec<f64>; CONNECTIONS.len()],
}

enum Source<'a> {
    Ours(&'a Method),
    Peer(&'a dyn Peer, Work),
}

impl<'a> Line<'a> {
    fn ours(method: &'static Method) -> Self {
        Line { name: method.name.to_owned(), source: Source::Ours(method), rates: Default::default() }
    }

    fn peer(peer: &'a dyn Peer, work: Work) -> Self {
        let name = format!("{}: {}", peer.name(), work.name);
        Line { name, source: Source::Peer(peer, work), rates: Default::default() }
    }

    fn mode(&self) -> Option<&'static str> {
        match self.source {
            Source::Ours(method) => Some(method.mode),
            Source::Peer(..) => None,
        }
    }

    fn floor(&self) -> Option<&'static str> {
        match self.source {
            Source::Ours(method) => method.floor(),
            Source::Peer(..) => None,
        }
    }
}

pub(crate) fn run_bench(arguments: &[String]) -> Result<()> {
    let number = |name: &str, default: u64| {
        let value = super::value(arguments, name);
        value.map_or(Ok(default), |text| text.parse()).with_context(|| format!("{name} takes a number"))
    };
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let (seconds, rounds) = (number("--seconds", 5)?, number("--rounds", ROUNDS)?);
    if has("--clients") {
        return clients::run(seconds, rounds, super::value(arguments, "--only"));
    }
    let backlog = number("--backlog", 0)?;
    let burdens = [
        Burden::later(number("--later", 0)?),
        Burden::keys(number("--keys", 0)?),
        Burden::leases(number("--leases", 0)?),
    ];
    setup::run_quietly()?;
    let ours = Ours::start(plugin::build()?, seconds, has("--binlog"))?;
    let peers = if has("--peers") { start_peers(seconds)? } else { Vec::new() };
    let theirs = peers.iter().flat_map(|peer| WORKS.map(|work| Line::peer(peer.as_ref(), work)));
    let lines = METHODS.iter().map(Line::ours).chain(theirs).collect();
    let only = super::value(arguments, "--only");
    let mut lines = chosen(lines, only);
    for _ in 0..rounds {
        for line in &mut lines {
            for (rates, connections) in line.rates.iter_mut().zip(CONNECTIONS) {
                let rate = match line.source {
                    Source::Ours(method) => ours.rate(method, connections)?,
                    Source::Peer(peer, work) => peer.rate(work, connections)?,
                };
                println!("{} at {connections} connections: {rate:.0}/s", line.name);
                if rate < as_f64(1) {
                    bail!("{}: there was no message", line.name);
                }
                rates.push(rate);
            }
        }
    }
    print(&lines);
    if only.is_none() {
        for sync in ["none", "always"] {
            let (median, late) = ours.handoff(sync)?;
            println!("hand-off, sync {sync}: {median:.0} us at the median, {late:.0} us at 99 of 100");
        }
    }
    if backlog > 0 {
        ours.backlog(backlog)?;
    }
    burden::measure(&ours, &burdens, rounds)
}

/// Starts those that are available, and names the others.
fn start_peers(seconds: u64) -> Result<Vec<Box<dyn Peer>>> {
    let mut peers: Vec<Box<dyn Peer>> = Vec::new();
    let left_out = |what: &str, error: anyhow::Error| println!("{what} is left out: {error:#}");
    match postgres::Postgres::start(seconds, &[]) {
        Ok(server) => {
            let server = Rc::new(server);
            peers.push(Box::new(postgres::Queue { server: server.clone(), statements: &postgres::PGMQ }));
            peers.push(Box::new(postgres::Queue { server, statements: &postgres::RIVER }));
        }
        Err(error) => left_out("PostgreSQL", error),
    }
    match rabbitmq::RabbitMq::start(seconds) {
        Ok(server) => peers.push(Box::new(server)),
        Err(error) => left_out("RabbitMQ", error),
    }
    match nats::Nats::start(seconds) {
        Ok(server) => peers.push(Box::new(server)),
        Err(error) => left_out("NATS", error),
    }
    Ok(peers)
}

/// The lines whose names have one of these words, and those that they are compared with.
fn chosen<'a>(lines: Vec<Line<'a>>, only: Option<&str>) -> Vec<Line<'a>> {
    let Some(only) = only else { return lines };
    let is_named = |line: &Line<'_>| only.split(',').any(|word| line.name.contains(word));
    let mut bases: Vec<_> = lines.iter().filter(|line| is_named(line)).filter_map(Line::floor).collect();
    bases.push("select1");
    lines
        .into_iter()
        .filter(|line| is_named(line) || line.mode().is_some_and(|mode| bases.contains(&mode)))
        .collect()
}

/// The median over the rounds of the ratio to the same round of `base`.
fn ratio(rates: &[f64], base: &[f64]) -> String {
    let ratios = rates.iter().zip(base).map(|(rate, base)| rate / base).collect();
    middle(ratios).map_or_else(String::new, |ratio| format!("{ratio:.3}"))
}

/// Prints median rates, and their ratios to `SELECT 1` and to the floor.
fn print(lines: &[Line<'_>]) {
    let each = |text: &str, of: &str| CONNECTIONS.map(|count| text.replace(of, &count.to_string())).concat();
    println!(
        "\n| messages a second |{}",
        each(" COUNT connections | of `SELECT 1` | of the floor |", "COUNT")
    );
    println!("|---|{}", each("--:|--:|--:|", "COUNT"));
    for line in lines {
        let of = |mode: &str, column: usize| {
            let base = lines.iter().find(|line| line.mode() == Some(mode));
            base.and_then(|base| base.rates.get(column)).map(Vec::as_slice).unwrap_or_default()
        };
        let cells = line.rates.iter().enumerate().map(|(column, rates)| {
            let base = ratio(rates, of("select1", column));
            let floor = line.floor().map_or_else(String::new, |mode| ratio(rates, of(mode, column)));
            format!(" {:.0} | {base} | {floor} |", middle(rates.clone()).unwrap_or_default())
        });
        println!("| {} |{}", line.name, cells.collect::<String>());
    }
    println!();
}
