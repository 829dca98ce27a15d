//! `remora queue list`

use anyhow::Result;
use clap::Args;
use dump::{Pattern, Selection};
use failure::usage;
use progress::{Progress, count};
use serde_json::json;
use server::catalogue::Wanted;

use crate::args::ServerArgs;
use crate::exit::Exit;
use crate::report::{self, Report};
use queue_admin::overview::{Line, Reader, lines, open, readers};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these: databases, and tables as db.table; * for any characters, ? for one
    #[arg(value_name = "PATTERN")]
    patterns: Vec<Pattern>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(arguments: &Arguments, password: Option<String>, report: &Report) -> Result<Exit> {
    let mut session = arguments.server.target(password)?.connect()?;
    let wanted = Selection { include: arguments.patterns.clone(), ..Selection::default() };
    let queues = open(&mut session, |schema, table| wanted.table(schema, table), report)?;
    for pattern in &arguments.patterns {
        let alone = Selection { include: vec![pattern.clone()], ..Selection::default() };
        if !queues.iter().any(|(queue, _)| alone.table(&queue.schema, &queue.table)) {
            return Err(usage(format!("{pattern}: there is no such queue")));
        }
    }
    let mut found = lines(&mut session)?;
    let queues: Vec<(Line, String)> = queues
        .into_iter()
        .filter_map(|(queue, options)| {
            let name = format!("{}.{}", queue.schema, queue.table);
            // It may be gone by now.
            let at = found.iter().position(|line| line.name == name)?;
            Some((found.swap_remove(at), options))
        })
        .collect();
    let unseen = found.iter().filter(|line| wanted_line(&wanted, line)).count();
    if unseen > 0 {
        report.warn(&format!(
            "{} of this server not shown: this account has no privilege on the tables",
            count(unseen as u64, "queue")
        ));
    }
    let readers = readers(&mut session)?;
    let of = |line: &Line| {
        let queue = format!("{}@", line.name);
        readers.iter().filter(move |reader| reader.name.starts_with(&queue))
    };
    let names = queues
        .iter()
        .flat_map(|(line, _)| std::iter::once(&line.name).chain(of(line).map(|reader| &reader.name)));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max("queue".len());
    if !report.is_json() {
        let head = ["waiting", "behind", "owned", "leased", "later", "dead", "buried", "kept", "oldest"]
            .map(str::to_owned);
        report.data(&row("queue", width, &head, "options"))?;
    }
    for (line, options) in &queues {
        show(line, options, width, report)?;
        for reader in of(line) {
            show_reader(reader, width, report)?;
        }
    }
    Ok(Exit::Done)
}

/// Whether the queue of a line was asked for.
fn wanted_line(wanted: &Selection, line: &Line) -> bool {
    line.name.split_once('.').is_some_and(|(schema, table)| wanted.table(schema, table))
}

/// A line of the table; the name column is as wide as the longest name.
fn row(name: &str, width: usize, cells: &[String; 9], options: &str) -> String {
    let [waiting, behind, owned, leased, later, dead, buried, kept, oldest] = cells;
    let text = format!(
        "{name:width$} {waiting:>9} {behind:>7} {owned:>7} {leased:>7} {later:>7} {dead:>5} {buried:>7} {kept:>7} {oldest:>9}  {options}"
    );
    text.trim_end().to_owned()
}

/// What of a queue is paused, before its options.
fn paused(line: &Line) -> String {
    match (line.paused, line.keys_paused) {
        (0, 0) => String::new(),
        (0, keys) => format!("{keys} keys paused, "),
        _ => "paused ".to_owned(),
    }
}

fn show(line: &Line, options: &str, width: usize, report: &Report) -> Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "queue", "name": line.name, "waiting": line.waiting, "owned": line.owned,
            "leased": line.leased, "due_later": line.later, "dead": line.dead, "buried": line.buried,
            "behind": line.behind, "left_out": line.left_out, "kept": line.kept, "oldest_s": line.oldest_s,
            "paused": line.paused > 0, "keys_paused": line.keys_paused, "options": options,
        }))?;
        return Ok(());
    }
    let counts =
        [line.waiting, line.behind, line.owned, line.leased, line.later, line.dead, line.buried, line.kept];
    let [waiting, behind, owned, leased, later, dead, buried, kept] = counts.map(|count| count.to_string());
    let cells = [waiting, behind, owned, leased, later, dead, buried, kept, age(line.oldest_s)];
    // The server writes the names of options in backquotes.
    let options = format!("{}{}", paused(line), options.replace('`', ""));
    report.data(&row(&line.name, width, &cells, &options))?;
    Ok(())
}

/// A reader has only some of the numbers of a queue.
fn show_reader(reader: &Reader, width: usize, report: &Report) -> Result<()> {
    if report.is_json() {
        report.message(&json!({
            "message_type": "reader", "name": reader.name, "waiting": reader.waiting, "owned": reader.owned,
            "oldest_s": reader.oldest_s,
        }))?;
        return Ok(());
    }
    let mut cells = [const { String::new() }; 9];
    (cells[0], cells[2], cells[8]) =
        (reader.waiting.to_string(), reader.owned.to_string(), age(reader.oldest_s));
    report.data(&row(&reader.name, width, &cells, ""))?;
    Ok(())
}

fn age(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| report::clock(report::as_f64(seconds)))
}
