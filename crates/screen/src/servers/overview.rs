//! The overview: numbers, and what runs now.

use std::collections::VecDeque;

use locks::{Party, Picture, is_lock_wait};
use monitor::number::shaped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use status::counter::part::Process;
use status::counter::view::{Column, Shape};

use super::item::{DIM, Item, List, one_line};
use super::screen::Screen;
use super::watched::HISTORY;

/// The smallest width of a number's box.
const BOX: u16 = 18;
/// The height of a row of boxes, with its frame.
const BOX_HEIGHT: u16 = 4;
/// A screen of this height has room for graphs.
const TALL: u16 = 34;
/// The width of a number without a graph.
const CELL: usize = 16;
/// The width from which more columns are shown.
const WIDE: usize = 110;

/// The height of the numbers at the top of a screen.
pub(super) fn height(area: Rect, columns: usize) -> u16 {
    let rows =
        |width: u16| u16::try_from(columns.div_ceil(usize::from((area.width / width).max(1)))).unwrap_or(1);
    match has_boxes(area, columns) {
        true => rows(BOX) * BOX_HEIGHT,
        false => rows(u16::try_from(CELL).unwrap_or(BOX)).min(area.height / 3),
    }
}

/// Whether there is room for a graph of every number.
fn has_boxes(area: Rect, columns: usize) -> bool {
    let rows = columns.div_ceil(usize::from((area.width / BOX).max(1)));
    area.height >= TALL && rows * usize::from(BOX_HEIGHT) <= usize::from(area.height / 3)
}

/// Draws the numbers of a view into `place`, which is a part of the screen's `area`.
pub(super) fn draw_numbers(frame: &mut Frame<'_>, place: Rect, area: Rect, screen: &Screen) {
    let columns = screen.views()[screen.view].columns;
    if has_boxes(area, columns.len()) {
        draw_boxes(frame, place, screen, columns);
        return;
    }
    let across = (usize::from(place.width) / CELL).max(1);
    let numbers = screen.server().views.get(screen.view);
    let cell = |(at, column): (usize, &Column)| {
        let number = numbers.and_then(|numbers| numbers.get(at).copied().flatten());
        let value = shaped(number, column.shape);
        let room = CELL.saturating_sub(column.head.len() + 2);
        [Span::styled(column.head, DIM), Span::raw(" "), Span::raw(format!("{value:<room$} ")).bold()]
    };
    let cells: Vec<_> = columns.iter().enumerate().map(cell).collect();
    let mut lines: Vec<Line<'_>> = cells
        .chunks(across)
        .map(|row| Line::from(row.iter().flatten().cloned().collect::<Vec<_>>()))
        .collect();
    let room = usize::from(place.height);
    if lines.len() > room {
        let left = columns.len().saturating_sub(across * room.saturating_sub(1));
        lines.truncate(room.saturating_sub(1));
        lines.push(Line::from(format!("+{left} more numbers")).style(DIM));
    }
    frame.render_widget(Paragraph::new(lines), place);
}

fn draw_boxes(frame: &mut Frame<'_>, area: Rect, screen: &Screen, columns: &[Column]) {
    let server = screen.server();
    let across = usize::from((area.width / BOX).max(1));
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
pub(super) fn points(history: &VecDeque<f64>, count: usize) -> Vec<u64> {
    let from = history.len().saturating_sub(count.min(HISTORY));
    history.iter().skip(from).map(|number| (number.max(0.0) * 1e6) as u64).collect()
}

/// What runs now: the statement has the room that is left.
pub(super) fn running(screen: &Screen, width: usize) -> List {
    let processes = screen.frame().and_then(|frame| frame.sample.processes.as_deref());
    let Some(processes) = processes else {
        let title = match screen.is_recorded {
            true => "what ran is not in this recording",
            false => "what runs now: not shown by this server or to this account",
        };
        return List { title: title.to_owned(), ..List::default() };
    };
    // The server's own threads run all the time.
    let mut sorted: Vec<&Process> = processes.iter().filter(|process| process.command != "Daemon").collect();
    if screen.is_by_name {
        sorted.sort_by(|a, b| a.account.cmp(&b.account));
    }
    let picture = screen.frame().and_then(|frame| frame.incident.picture.as_deref());
    let waiting = picture.map(Picture::waiting).unwrap_or_default();
    let is_waiting =
        |process: &Process| is_lock_wait(&process.state) || waiting.contains(&Party::Connection(process.id));
    let is_wide = width >= WIDE;
    let order = if screen.is_by_name { "by account" } else { "longest first" };
    let head = cells(["id", "time", "account", "database", "state"], is_wide) + "statement";
    let item = |process: &&Process| {
        let style = if is_waiting(process) { Style::new().fg(Color::Red) } else { Style::new() };
        Item { id: Some(process.id), lines: vec![Line::styled(line(process, width, is_wide), style)] }
    };
    let left_out = screen.frame().map_or(0, |frame| frame.incident.left_out);
    let title = match left_out {
        0 => format!("what runs now: {}, {order}", sorted.len()),
        more => format!("what runs now: {}, {order}; {more} more are not in this recording", sorted.len()),
    };
    List { title, items: sorted.iter().map(item).collect(), head: Some(Line::from(head)) }
}

/// The columns before the statement. Database and state need a wide screen.
fn cells([id, time, account, database, state]: [&str; 5], is_wide: bool) -> String {
    let left = format!("{id:>8} {time:>8}  ");
    match is_wide {
        true => format!(
            "{left}{:<16} {:<10} {:<20} ",
            one_line(account, 16),
            one_line(database, 10),
            one_line(state, 20)
        ),
        false => format!("{left}{:<12} ", one_line(account, 12)),
    }
}

fn line(process: &Process, width: usize, is_wide: bool) -> String {
    let (id, time) = (process.id.to_string(), progress::clock(progress::as_f64(process.seconds)));
    let state = if process.state.is_empty() { &process.command } else { &process.state };
    let left = cells([&id, &time, &process.account, &process.schema, state], is_wide);
    let room = width.saturating_sub(left.chars().count());
    // Who runs no statement, such as a thread of replication, shows what it does instead.
    match process.statement.as_str() {
        "" => left + &one_line(&format!("({state})"), room),
        statement => left + &one_line(statement, room),
    }
}
