//! Draws the screen.

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Sparkline, Table, Wrap};
use status::counter::kind::Kind;
use status::counter::view::{Column, Shape};

use super::super::output::clock;
use super::super::statements;
use super::screen::{Below, HISTORY, Screen, Sort};
use monitor::number::{shaped, short};

/// The smallest width of a number's box.
const BOX: u16 = 18;
/// The height of a row of boxes, with its frame.
const BOX_HEIGHT: u16 = 4;
/// The most lines that a message takes.
const MESSAGE_HEIGHT: u16 = 4;
/// Words of messages are rarely longer.
const LONG_WORD: u16 = 16;
/// Points in the small graph after a counter.
const GRAPH: usize = 24;

const DIM: Style = Style::new().fg(Color::DarkGray);

const HELP: &str = "\
left right v   another view in the boxes at the top
tab            another server
s              sort counters by rate or by name
/              filter counters by name; enter keeps it, escape drops it
a              show idle counters and gauges too
up down        scroll, also with page up and page down
r              what runs now
d              statements that took the most time
space          pause; the graphs go on
q              end";

pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let area = frame.area();
    let columns = screen.views()[screen.view].columns;
    let across = usize::from((area.width / BOX).max(1));
    let rows = u16::try_from(columns.len().div_ceil(across)).unwrap_or(1);
    let rows = rows.min((area.height / 2 / BOX_HEIGHT).max(1));
    let below = if screen.below == Below::Nothing { 0 } else { (area.height / 4).max(4) };
    let [head, boxes, counters, bottom, foot] = Layout::vertical([
        Constraint::Length(1 + second_line_height(area.width, screen) + trouble_height(area.width, screen)),
        Constraint::Length(rows * BOX_HEIGHT),
        Constraint::Min(3),
        Constraint::Length(below),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, screen);
    draw_boxes(frame, boxes, screen, columns, across);
    draw_counters(frame, counters, screen);
    match screen.below {
        Below::Running => draw_running(frame, bottom, screen),
        Below::Statements => draw_statements(frame, bottom, screen),
        Below::Nothing => {}
    }
    draw_foot(frame, foot, screen);
    if screen.is_helping {
        let height = u16::try_from(HELP.lines().count()).unwrap_or(10) + 2;
        let [middle] =
            Layout::vertical([Constraint::Length(height)]).flex(ratatui::layout::Flex::Center).areas(area);
        let [middle] =
            Layout::horizontal([Constraint::Length(76)]).flex(ratatui::layout::Flex::Center).areas(middle);
        frame.render_widget(Clear, middle);
        let block = Block::bordered().title(" keys ");
        frame.render_widget(Paragraph::new(HELP).block(block), middle);
    }
}

fn second_line_height(width: u16, screen: &Screen) -> u16 {
    screen.server().message.as_ref().map_or(1, |message| height(width, message))
}

fn trouble_height(width: u16, screen: &Screen) -> u16 {
    let trouble = &screen.server().trouble;
    trouble.iter().map(|text| height(width, text)).sum::<u16>().min(MESSAGE_HEIGHT)
}

/// Messages that are wider than the screen take several lines.
fn height(width: u16, message: &str) -> u16 {
    // A line ends before a word that is too long for it.
    let least = usize::from(width.saturating_sub(LONG_WORD).max(LONG_WORD));
    u16::try_from(message.chars().count().div_ceil(least)).unwrap_or(MESSAGE_HEIGHT).clamp(1, MESSAGE_HEIGHT)
}

/// A name of at most so many letters: of a long one, such as a socket's path, the end tells more.
fn ending(name: &str, most: usize) -> String {
    match name.chars().count().checked_sub(most) {
        Some(over) if over > 0 && most > 0 => {
            std::iter::once('\u{2026}').chain(name.chars().skip(over + 1)).collect()
        }
        _ => name.to_owned(),
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let server = screen.server();
    let name = ending(&screen.names[screen.shown], usize::from(area.width) / 3);
    let mut line = vec![Span::from(name).bold()];
    if screen.names.len() > 1 {
        line.push(Span::styled(format!("  ({} of {})", screen.shown + 1, screen.names.len()), DIM));
    }
    if let Some(sample) = &server.last {
        let version = sample.settings.0.get("version").map_or("", String::as_str);
        let uptime = sample.number("Uptime").map_or(0.0, |uptime| uptime.as_f64());
        line.push(Span::from(format!("  {version}  up {}", crate::report::clock(uptime))));
        line.push(Span::styled(
            format!(
                "  {}  every {} s  answered in {:.1} ms",
                clock(sample),
                screen.interval.as_secs_f64(),
                sample.took.as_secs_f64() * 1000.0
            ),
            DIM,
        ));
    }
    let second = match &server.message {
        Some(message) if server.is_away => Line::from(message.clone()).red(),
        Some(message) => Line::from(message.clone()).yellow(),
        None => {
            let names = screen.views().iter().enumerate().map(|(at, view)| {
                let style =
                    if at == screen.view { Style::new().add_modifier(Modifier::REVERSED) } else { DIM };
                [Span::styled(format!(" {} ", view.name), style), Span::from(" ")]
            });
            Line::from(names.flatten().collect::<Vec<_>>())
        }
    };
    let [first, rest, trouble] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(trouble_height(area.width, screen)),
    ])
    .areas(area);
    let lines: Vec<Line<'_>> =
        server.trouble.iter().map(|text| Line::from(humanize::text::plain(text)).red().bold()).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), trouble);
    frame.render_widget(Line::from(line), first);
    frame.render_widget(Paragraph::new(second).wrap(Wrap { trim: true }), rest);
}

fn draw_boxes(frame: &mut Frame<'_>, area: Rect, screen: &Screen, columns: &[Column], across: usize) {
    let server = screen.server();
    let numbers = server.views.get(screen.view);
    let histories = server.view_histories.get(screen.view);
    let lines = Layout::vertical(vec![Constraint::Length(BOX_HEIGHT); usize::from(area.height / BOX_HEIGHT)])
        .split(area);
    let mut columns = columns.iter().enumerate();
    for line in lines.iter() {
        let places = Layout::horizontal(vec![Constraint::Fill(1); across]).split(*line);
        for (place, (at, column)) in places.iter().zip(columns.by_ref()) {
            let number = numbers.and_then(|numbers| numbers.get(at).copied().flatten());
            let history = histories.and_then(|histories| histories.get(at));
            draw_box(frame, *place, column, number, history);
        }
    }
}

fn draw_box(
    frame: &mut Frame<'_>,
    area: Rect,
    column: &Column,
    number: Option<f64>,
    history: Option<&VecDeque<f64>>,
) {
    let value = shaped(number, column.shape);
    let block = Block::new().borders(Borders::TOP).border_style(DIM).title(Line::from(vec![
        Span::from(format!("{} ", column.head)),
        Span::from(value).bold(),
        Span::from(" "),
    ]));
    let inner = Rect { width: block.inner(area).width.saturating_sub(1), ..block.inner(area) };
    frame.render_widget(block, area);
    if let Some(history) = history {
        let points = points(history, usize::from(inner.width));
        // A percentage is drawn relative to the whole.
        let graph = Sparkline::default().style(Style::new().fg(Color::Cyan)).data(points);
        let graph = if column.shape == Shape::Share { graph.max(1_000_000) } else { graph };
        frame.render_widget(graph, inner);
    }
}

/// The last points as whole numbers, in millionths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, which a graph may"
)]
fn points(history: &VecDeque<f64>, count: usize) -> Vec<u64> {
    let from = history.len().saturating_sub(count.min(HISTORY));
    history.iter().skip(from).map(|number| (number.max(0.0) * 1e6) as u64).collect()
}

/// A graph in one line of text.
fn graph(history: Option<&VecDeque<f64>>) -> String {
    const BARS: [char; 8] =
        ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
    let Some(history) = history else { return String::new() };
    let points = points(history, GRAPH);
    let most = points.iter().copied().max().unwrap_or(0).max(1);
    let bar = |point: &u64| {
        let at = usize::try_from(u128::from(*point) * 7 / u128::from(most)).unwrap_or(7);
        if *point == 0 { ' ' } else { BARS[at.min(7)] }
    };
    let bars: String = points.iter().map(bar).collect();
    format!("{bars:>GRAPH$}")
}

fn draw_counters(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    let room = usize::from(area.height.saturating_sub(2));
    let count = screen.lines().len();
    screen.from = screen.from.min(count.saturating_sub(room));
    let lines = screen.lines();
    let server = screen.server();
    let rows = lines.iter().skip(screen.from).take(room).map(|line| {
        let rate = match line.kind {
            Kind::Counter => line.per_s.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", short(rate))),
            kind => kind.name().to_owned(),
        };
        Row::new([
            Cell::from(line.name.clone()),
            Cell::from(Line::from(rate).right_aligned()),
            Cell::from(Span::styled(graph(server.history.get(&line.name)), Style::new().fg(Color::Cyan))),
            Cell::from(Line::from(line.value.clone()).right_aligned()),
        ])
    });
    let order = if screen.sort == Sort::Rate { "by rate" } else { "by name" };
    let which = if screen.is_all { "all" } else { "those that changed" };
    let mut title = format!(" status variables, {which}, {order}: {count} ");
    if screen.is_typing || !screen.filter.is_empty() {
        let pen = if screen.is_typing { "_" } else { "" };
        title.push_str(&format!("filter: {}{pen} ", screen.filter));
    }
    let widths =
        [Constraint::Min(30), Constraint::Length(10), Constraint::Length(26), Constraint::Length(22)];
    let head = Row::new([
        Cell::from("name"),
        Cell::from(Line::from("now").right_aligned()),
        Cell::from("before"),
        Cell::from(Line::from("value").right_aligned()),
    ])
    .style(DIM);
    let block = Block::new().borders(Borders::TOP).border_style(DIM).title(Span::from(title).not_dim());
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(2).block(block), area);
}

fn draw_running(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let processes = screen.server().processes.as_deref();
    let rows = processes.unwrap_or_default().iter().map(|process| {
        let text: String = process.statement.split_whitespace().collect::<Vec<_>>().join(" ");
        Row::new([
            Cell::from(process.id.to_string()),
            Cell::from(process.account.clone()),
            Cell::from(process.schema.clone()),
            Cell::from(
                Line::from(crate::report::clock(crate::report::as_f64(process.seconds))).right_aligned(),
            ),
            Cell::from(if process.state.is_empty() {
                process.command.clone()
            } else {
                process.state.clone()
            }),
            Cell::from(text.chars().filter(|c| !c.is_control()).collect::<String>()),
        ])
    });
    let title = match processes {
        None => " what runs now: not shown by this server or to this account ".to_owned(),
        Some(processes) => format!(" what runs now: {} ", processes.len()),
    };
    let widths = [
        Constraint::Length(8),
        Constraint::Length(20),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Length(24),
        Constraint::Fill(1),
    ];
    let block = Block::new().borders(Borders::TOP).border_style(DIM).title(title);
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

fn draw_statements(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let server = screen.server();
    let lines: Vec<Line<'_>> = server
        .digests
        .iter()
        .flatten()
        .take(usize::from(area.height))
        .map(|digest| Line::from(statements::line(digest, server.seconds)))
        .collect();
    let title = match &server.digests {
        None => " statements: the server runs without performance_schema, or this account may not read it ",
        Some(_) => " statements that took the most time ",
    };
    let block = Block::new().borders(Borders::TOP).border_style(DIM).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let held = if screen.is_paused { "PAUSED  " } else { "" };
    let keys = "? keys  v view  / filter  s sort  a all  r running  d statements  tab server  q end";
    frame.render_widget(
        Paragraph::new(Line::from(vec![Span::from(held).red(), Span::styled(keys, DIM)])),
        area,
    );
}

#[cfg(test)]
mod tests {
    use super::ending;

    #[test]
    fn of_a_long_name_the_end_is_shown() {
        let name = "/run/\u{e4}/server.sock";
        let shown = [18, 40, 12, 1, 0].map(|most| ending(name, most));
        assert_eq!(shown, [name, name, "\u{2026}server.sock", "\u{2026}", name]);
    }
}
