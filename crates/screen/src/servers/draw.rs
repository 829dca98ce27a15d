//! Draws the screen: what every page has, and the page.

use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::item::{self, DIM, List, one_line};
use super::popup::Popup;
use super::screen::{Page, Screen};
use super::{blocked, counters, machine, overview, state};
use monitor::time::clock;

/// The most lines that messages take.
const MESSAGE_HEIGHT: u16 = 4;
/// Words of messages are rarely longer.
const LONG_WORD: u16 = 16;
/// With less room for the names of pages there is none between digits and names.
const TABS_WIDTH: u16 = 86;
/// The widest box above a page.
const POPUP_WIDTH: u16 = 100;

pub(super) fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let area = frame.area();
    let alarms = alarms(screen);
    let of_alarms = alarms.iter().map(|(text, _)| height(area.width, text)).sum::<u16>().min(MESSAGE_HEIGHT);
    let columns = screen.views()[screen.view].columns.len();
    let numbers = if screen.page == Page::Overview { overview::height(area, columns) } else { 0 };
    let [head, tabs, trouble, top, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(of_alarms),
        Constraint::Length(numbers),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, screen);
    draw_tabs(frame, tabs, screen);
    let lines: Vec<Line<'_>> = alarms.into_iter().map(|(text, style)| Line::styled(text, style)).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), trouble);
    let width = usize::from(list.width);
    let contents = match screen.page {
        Page::Overview => {
            overview::draw_numbers(frame, top, area, screen);
            overview::running(screen, width)
        }
        Page::Blocked => blocked::list(screen, width),
        Page::Replication => state::replication(screen),
        Page::Innodb => state::innodb(screen),
        Page::Deadlock => state::deadlock(screen),
        Page::Statements => counters::statements(screen),
        Page::Counters => counters::list(screen, width),
        Page::Host => machine::list(screen),
    };
    let contents = match screen.frame() {
        Some(_) => contents,
        None => List { title: "no answer yet".to_owned(), ..List::default() },
    };
    item::draw(frame, list, screen, contents);
    draw_foot(frame, foot, screen);
    if let Some(popup) = &mut screen.popup {
        draw_popup(frame, area, popup);
    }
}

/// What must be seen on every page, with its style.
fn alarms(screen: &Screen) -> Vec<(String, Style)> {
    let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    let watched = screen.watched();
    let away = watched.away.iter().filter(|_| !screen.is_past()).map(|why| (one_line(why, 300), red));
    let silent = screen.silent_s.iter().filter(|_| !screen.is_past());
    let silent = silent.map(|seconds| (format!("the server has not answered for {seconds} s"), red));
    let incident = screen.frame().map(|frame| &frame.incident);
    let picture = incident.and_then(|incident| incident.picture.as_deref());
    let blocked = picture.and_then(blocked::alarm).map(|text| (text, red));
    let trouble = screen.server().trouble.iter().map(|text| (one_line(text, 600), red));
    let yellow = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
    let ending = incident.into_iter().flat_map(|incident| &incident.ending).map(|(id, rows)| {
        (format!("{id} is ending: {} still to be rolled back", progress::count(*rows, "row")), yellow)
    });
    let note = watched.message.iter().filter(|_| !screen.is_past()).map(|text| (one_line(text, 300), yellow));
    away.chain(silent).chain(blocked).chain(trouble).chain(ending).chain(note).collect()
}

/// Messages that are wider than the screen take several lines.
fn height(width: u16, message: &str) -> u16 {
    // A line ends before a word that is too long for it.
    let least = usize::from(width.saturating_sub(LONG_WORD).max(LONG_WORD));
    match message.chars().count() {
        short if short <= usize::from(width) => 1,
        long => u16::try_from(long.div_ceil(least)).unwrap_or(MESSAGE_HEIGHT).clamp(1, MESSAGE_HEIGHT),
    }
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
    let name = ending(&screen.names[screen.shown], usize::from(area.width) / 3);
    let mut line = vec![Span::from(name).bold()];
    if screen.names.len() > 1 {
        line.push(Span::styled(format!("  ({} of {})", screen.shown + 1, screen.names.len()), DIM));
    }
    if let Some(frame) = screen.frame() {
        let sample = &frame.sample;
        let version = sample.settings.0.get("version").map_or("", String::as_str);
        let uptime = sample.number("Uptime").map_or(0.0, |uptime| uptime.as_f64());
        line.push(Span::from(format!("  {version}  up {}", progress::clock(uptime))));
        line.push(Span::from("  "));
        let style = if screen.is_past() { Style::new().fg(Color::Red).bold() } else { DIM };
        line.push(Span::styled(clock(sample), style));
        line.push(Span::styled(
            format!(
                "  every {} s  answered in {:.1} ms",
                screen.interval.as_secs_f64(),
                sample.took.as_secs_f64() * 1000.0
            ),
            DIM,
        ));
    }
    frame.render_widget(Line::from(line), area);
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let picture = screen.frame().and_then(|frame| frame.incident.picture.as_ref());
    let is_blocked = picture.is_some_and(|picture| !picture.waiting().is_empty());
    let is_stopped = !screen.server().trouble.is_empty();
    let space = if area.width < TABS_WIDTH { "" } else { " " };
    let tab = |(at, page): (usize, &Page)| {
        let is_red = (*page == Page::Blocked && is_blocked) || (*page == Page::Replication && is_stopped);
        let style = match (is_red, *page == screen.page) {
            (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED),
            (true, false) => Style::new().fg(Color::Red).bold(),
            (false, true) => Style::new().add_modifier(Modifier::REVERSED),
            (false, false) => DIM,
        };
        [Span::styled(format!("{}{space}{}", at + 1, page.name()), style), Span::from(" ")]
    };
    frame.render_widget(Line::from(Page::ALL.iter().enumerate().flat_map(tab).collect::<Vec<_>>()), area);
}

/// A text line by line, each as wide as the box: statements may have no spaces.
fn folded(lines: &[String], width: usize) -> Vec<String> {
    let letters = lines.iter().map(|line| line.chars().collect::<Vec<char>>());
    letters
        .flat_map(|line| match line.is_empty() {
            true => vec![String::new()],
            false => line.chunks(width.max(1)).map(|part| part.iter().collect()).collect(),
        })
        .collect()
}

fn draw_popup(frame: &mut Frame<'_>, area: Rect, popup: &mut Popup) {
    let width = area.width.saturating_sub(2).min(POPUP_WIDTH);
    let lines = folded(&popup.lines(), usize::from(width.saturating_sub(2)));
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height.saturating_sub(2));
    let room = usize::from(height.saturating_sub(2));
    let from = popup.scroll(lines.len().saturating_sub(room));
    let [middle] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    let [middle] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(middle);
    frame.render_widget(Clear, middle);
    let title = match popup.title() {
        "" => String::new(),
        title => format!(" {title} "),
    };
    let left = lines.len().saturating_sub(from + room);
    let more = if left > 0 { format!(" +{left} more lines: down ") } else { String::new() };
    let block = Block::bordered().title(title).title_bottom(more);
    let lines: Vec<Line<'_>> = lines.into_iter().skip(from).map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).block(block), middle);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let held = match (screen.is_past(), screen.is_recorded) {
        (true, true) => "RECORDING  ",
        (true, false) => "PAUSED  ",
        _ => "",
    };
    let keys = match screen.page {
        Page::Overview | Page::Blocked if !screen.is_recorded => {
            "? keys  enter statement  e plan  k K kill  / filter  s sort  space pause  q end"
        }
        _ => "? keys  / filter  s sort  space pause  left right time  tab server  q end",
    };
    let line = Line::from(vec![Span::from(held).red().bold(), Span::styled(keys, DIM)]);
    frame.render_widget(line, area);
}
