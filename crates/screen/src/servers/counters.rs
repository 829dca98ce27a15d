//! Status variables, and statements by digest.

use std::collections::VecDeque;

use monitor::number::short;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use status::counter::kind::Kind;

use super::item::{Item, List, one_line, styled};
use super::overview::points;
use super::screen::Screen;
use super::watched::Variable;
use monitor::statement;

/// Points in the small graph after a counter.
const GRAPH: usize = 24;

/// The status variables, those that changed or all.
pub(super) fn list(screen: &Screen, width: usize) -> List {
    let server = screen.server();
    let is_shown = |line: &&Variable| screen.is_all || line.per_s.is_some_and(|rate| rate != 0.0);
    let mut variables: Vec<&Variable> = server.variables.iter().filter(is_shown).collect();
    if screen.is_by_name {
        variables.sort_by_key(|line| line.name.to_lowercase());
    } else {
        let rate = |line: &Variable| line.per_s.unwrap_or(-1.0);
        variables.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then_with(|| a.name.cmp(&b.name)));
    }
    let order = if screen.is_by_name { "by name" } else { "by rate" };
    let which = if screen.is_all { "all" } else { "those that changed" };
    // Names have up to 50 characters; a narrow screen leaves them 30.
    let name = width.saturating_sub(GRAPH + 26).clamp(20, 50);
    let item = |line: &Variable| {
        let rate = match line.kind {
            Kind::Counter => line.per_s.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", short(rate))),
            kind => kind.name().to_owned(),
        };
        let left = format!("{:<name$} {rate:>10} ", one_line(&line.name, name));
        Item::plain(vec![styled(vec![
            (left, Style::new()),
            (graph(server.history.get(&line.name)), Style::new().fg(Color::Cyan)),
            (format!(" {}", one_line(&line.value, 40)), Style::new()),
        ])])
    };
    List {
        title: format!("status variables, {which}, {order}: {}", variables.len()),
        items: variables.iter().map(|line| item(line)).collect(),
        head: Some(Line::from(format!("{:<name$} {:>10} {:<GRAPH$} value", "name", "now", "before"))),
    }
}

/// A graph in one line of text.
fn graph(history: Option<&VecDeque<f64>>) -> String {
    const BARS: [char; 8] =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let Some(history) = history else { return " ".repeat(GRAPH) };
    let points = points(history, GRAPH);
    let most = points.iter().copied().max().unwrap_or(0).max(1);
    let bar = |point: &u64| {
        let at = usize::try_from(u128::from(*point) * 7 / u128::from(most)).unwrap_or(7);
        if *point == 0 { ' ' } else { BARS[at.min(7)] }
    };
    let bars: String = points.iter().map(bar).collect();
    format!("{bars:>GRAPH$}")
}

/// The statements that took the most time.
pub(super) fn statements(screen: &Screen) -> List {
    let server = screen.server();
    let title = match (&server.digests, screen.is_past()) {
        (_, true) => "statements by time: only of now",
        (None, _) => "statements by time: none yet; they need performance_schema and SELECT on it",
        (Some(_), _) => "statements that took the most time",
    };
    let digests = server.digests.iter().flatten().filter(|_| !screen.is_past());
    let line = |digest| Item::plain(vec![Line::from(statement::line(digest, server.seconds))]);
    List { title: title.to_owned(), head: None, items: digests.map(line).collect() }
}
