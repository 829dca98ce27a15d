//! Replication, InnoDB and the last deadlock, in words.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use locks::{Deadlock, Participant};
use progress::{clock, size};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use status::counter::part::Replica;
use status::counter::sample::Sample;

use super::item::{DIM, Item, List, one_line, styled};
use super::screen::Screen;
use super::watched::Server;
use monitor::replication::{State, facts, title};
use progress::as_f64;

const RED: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// The sources that a server follows, each with all that is known of its delay.
pub(super) fn replication(screen: &Screen) -> List {
    let sample = screen.frame().map(|frame| &frame.sample);
    let replicas = sample.and_then(|sample| sample.replicas.as_ref());
    let title = match replicas.map(Vec::len) {
        None => "replication: this account may not see it".to_owned(),
        Some(0) => "this server follows no source".to_owned(),
        Some(count) => format!("replication: {}", progress::count(count, "source")),
    };
    let now_ms = sample.map_or(0, |sample| sample.unix_ms);
    let items = replicas.into_iter().flatten().map(|replica| Item::plain(channel(replica, now_ms)));
    List { title, head: None, items: items.collect() }
}

/// The lines of one source.
fn channel(replica: &Replica, now_ms: i64) -> Vec<Line<'static>> {
    let state = State::of(replica);
    let style = match state {
        State::Stopped => RED,
        State::Connecting => Style::new().fg(Color::Yellow),
        State::Runs => Style::new(),
    };
    let head = (one_line(&title(replica), 200), Style::new().add_modifier(Modifier::BOLD));
    let mut lines = vec![styled(vec![head, (format!("  {}", state.word()), style)])];
    lines.extend(facts(replica, now_ms).into_iter().map(|(name, text)| {
        styled(vec![(format!("  {name:<10} "), DIM), (one_line(&text, 300), Style::new())])
    }));
    if let Some(trouble) = replica.trouble() {
        lines.push(Line::from(format!("  {}", one_line(&trouble, 1000))).style(RED));
    }
    lines
}

/// Where InnoDB begins to write harder and where it makes writers wait, as shares of the room for redo log.
///
/// MariaDB: the room is Innodb_checkpoint_max_age. It flushes without delay from 7/8 of it, and writers wait
/// at all of it. MySQL: of innodb_redo_log_capacity two of 32 files and a margin stay free; flushing rises
/// from 7/8 of the rest.
const LINES_MARIADB: (f64, f64) = (7.0 / 8.0, 1.0);
const LINES_MYSQL: (f64, f64) = (0.78, 0.89);

/// InnoDB's state against the lines at which it becomes slow.
pub(super) fn innodb(screen: &Screen) -> List {
    let server = screen.server();
    let Some(frame) = screen.frame() else { return List::default() };
    let lines = pressure(server, &frame.sample);
    List {
        title: "InnoDB: how near it is to slowing writers down".to_owned(),
        head: None,
        items: lines.into_iter().map(|line| Item::plain(vec![line])).collect(),
    }
}

fn pressure(server: &Server, sample: &Sample) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let setting = |name: &str| sample.settings.number(name).map(|number| number.as_f64());
    let mut add = |name: &str, (text, style): (String, Style)| {
        lines.push(styled(vec![(format!("{name:<14} "), DIM), (text, style)]));
    };
    let is_mariadb = sample.number("Innodb_checkpoint_max_age").is_some();
    let (flush, stall) = if is_mariadb { LINES_MARIADB } else { LINES_MYSQL };
    let checkpoint = server.number("redo", "checkpoint_age_now").zip(server.number("redo", "capacity"));
    match checkpoint.filter(|(_, room)| *room > 0.0) {
        None => add("checkpoint age", ("not shown by this server".to_owned(), DIM)),
        Some((age, room)) => {
            let text = format!("{} of {}, {:.0}%", bytes(age), bytes(room), age / room * 100.0);
            add("checkpoint age", (text, level(age / room, flush, stall)));
            let (flush, stall) = (bytes(room * flush), bytes(room * stall));
            add("", (format!("flushing becomes urgent at {flush}, writers wait from {stall}"), DIM));
        }
    }
    let share = server.number("overview", "pool_dirty");
    let most = setting("innodb_max_dirty_pages_pct").unwrap_or(90.0);
    add(
        "dirty pages",
        match share {
            None => ("not shown by this server".to_owned(), DIM),
            Some(share) => {
                let text = format!(
                    "{:.1}% of the buffer pool; flushing becomes urgent at {most:.0}%",
                    share * 100.0
                );
                (text, level(share * 100.0, most, f64::INFINITY))
            }
        },
    );
    let history = server.number("overview", "purge_lag");
    let lag = setting("innodb_max_purge_lag").filter(|lag| *lag > 0.0);
    add(
        "history",
        match (history, lag) {
            (None, _) => ("not shown by this server, or to this account".to_owned(), DIM),
            (Some(history), Some(lag)) => (
                format!("{history:.0} transactions to purge; writers are delayed from {lag:.0}"),
                level(history, lag, lag),
            ),
            (Some(history), None) => {
                (format!("{history:.0} transactions to purge; no writer is delayed by it"), Style::new())
            }
        },
    );
    for (name, view, key, what) in [
        ("log waits", "redo", "waits", "waits for room in the log buffer per second"),
        ("free pages", "buffer-pool", "wait_free", "waits for a free page per second"),
        ("row locks", "lock", "row_waiting", "wait for a row now"),
    ] {
        add(
            name,
            match server.number(view, key) {
                None => ("-".to_owned(), DIM),
                Some(number) => {
                    let style = if number > 0.0 { RED } else { Style::new() };
                    (format!("{} {what}", monitor::number::short(number)), style)
                }
            },
        );
    }
    lines
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people to read")]
pub(super) fn bytes(number: f64) -> String {
    size(number.max(0.0) as u64)
}

/// Yellow where it becomes urgent, red where it makes others wait.
fn level(number: f64, urgent: f64, stall: f64) -> Style {
    match number {
        _ if number >= stall => RED,
        _ if number >= urgent => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        _ => Style::new(),
    }
}

/// The last deadlock.
pub(super) fn deadlock(screen: &Screen) -> List {
    let frame = screen.frame();
    let Some((frame, found)) = frame.and_then(|frame| Some((frame, frame.incident.deadlock.as_deref()?)))
    else {
        let title = match screen.is_recorded {
            true => "no deadlock is in this recording",
            false => "no deadlock since the start, or none is shown without PROCESS",
        };
        return List { title: title.to_owned(), ..List::default() };
    };
    let age = age_s(&found.time, frame.sample.settings.0.get("system_time_zone"), frame.sample.unix_ms);
    let ago = age.map_or_else(String::new, |age| format!(", {} ago", clock(age)));
    let title = format!("the last deadlock, at {}{ago}", one_line(&found.time, 19));
    let items = match found.parties.as_slice() {
        [] => raw(found),
        parties => parties.iter().map(|party| Item::plain(party_lines(party))).collect(),
    };
    List { title, head: None, items }
}

/// How old a time of the server is. A zone that is not known is taken to be that of this machine, and an age
/// below zero is none.
fn age_s(time: &str, zone: Option<&String>, now_ms: i64) -> Option<f64> {
    let zone = match zone.map(String::as_str) {
        Some("UTC" | "GMT") => TimeZone::UTC,
        _ => TimeZone::system(),
    };
    let time: DateTime = time.parse().ok()?;
    let then: Timestamp = time.to_zoned(zone).ok()?.timestamp();
    let age = now_ms - then.as_millisecond();
    u64::try_from(age).ok().map(|age| as_f64(age) / 1000.0)
}

/// The text as the server wrote it, where it can't be taken apart with certainty.
fn raw(found: &Deadlock) -> Vec<Item> {
    if found.text.is_empty() {
        let why = "it can't be taken apart with certainty; only --record-statements keeps the server's text";
        return vec![Item::plain(vec![Line::from(why).style(DIM)])];
    }
    let line = |text: &str| Item::plain(vec![Line::from(one_line(text, 1000))]);
    let why = "it can't be taken apart with certainty; this is the server's text:";
    std::iter::once(Item::plain(vec![Line::from(why).style(DIM)]))
        .chain(found.text.lines().map(line))
        .collect()
}

fn party_lines(party: &Participant) -> Vec<Line<'static>> {
    let connection = party.connection.unwrap_or(0);
    let seconds = party.seconds.map_or_else(String::new, |seconds| format!(", open for {seconds} s"));
    let head = format!("{connection}  {}{seconds}", one_line(&party.account, 100));
    let end = if party.is_victim { "  ROLLED BACK" } else { "" };
    let mut lines =
        vec![styled(vec![(head, Style::new().add_modifier(Modifier::BOLD)), (end.to_owned(), RED)])];
    let cut = if party.is_cut { "  (cut by the server)" } else { "" };
    lines.push(Line::from(format!("      {}{cut}", one_line(&party.statement, 1000))));
    for (word, locks) in [("held", &party.holds), ("wanted", &party.wants)] {
        for lock in locks {
            let text =
                format!("      {word:<6} {} ({})", one_line(&lock.object, 200), one_line(&lock.mode, 60));
            lines.push(Line::from(text).style(DIM));
        }
    }
    lines
}
