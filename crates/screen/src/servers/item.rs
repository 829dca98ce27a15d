//! Lists: what pages consist of.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};

use super::screen::Screen;

/// What is less important. It has no colour of its own, so it can be read on any background.
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// An entry of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    /// The connection that keys act on.
    pub(super) id: Option<u64>,
    /// Its lines, the first of which shows that it is chosen.
    pub(super) lines: Vec<Line<'static>>,
}

impl Item {
    /// One that is not a connection.
    pub(super) fn plain(lines: Vec<Line<'static>>) -> Item {
        Item { id: None, lines }
    }

    fn has(&self, wanted: &str) -> bool {
        self.lines.iter().any(|line| line.to_string().to_lowercase().contains(wanted))
    }
}

/// The contents of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    pub(super) title: String,
    /// The names of columns.
    pub(super) head: Option<Line<'static>>,
    pub(super) items: Vec<Item>,
}

/// A line that consists of parts with styles.
pub(super) fn styled(parts: Vec<(String, Style)>) -> Line<'static> {
    Line::from(parts.into_iter().map(|(text, style)| Span::styled(text, style)).collect::<Vec<_>>())
}

/// A foreign text in one line of at most this many characters, which says that it was cut.
pub(super) fn one_line(text: &str, room: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = humanize::text::plain(&line).into_owned();
    if line.chars().count() <= room {
        return line;
    }
    line.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// Draws a list so that the chosen connection is visible, and says how many entries are left out.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen, mut list: List) {
    let wanted = screen.filter.to_lowercase();
    list.items.retain(|item| item.has(&wanted));
    screen.ids = list.items.iter().filter_map(|item| item.id).collect();
    let mut title = format!(" {} ", list.title);
    if screen.is_typing || !screen.filter.is_empty() {
        let pen = if screen.is_typing { "_" } else { "" };
        title.push_str(&format!("filter: {}{pen} ", screen.filter));
    }
    let block = Block::new().borders(Borders::TOP).border_style(DIM).title(Span::raw(title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let head = u16::from(list.head.is_some());
    let [top, rest] = Layout::vertical([Constraint::Length(head), Constraint::Fill(1)]).areas(inner);
    if let Some(head) = list.head {
        frame.render_widget(head.style(DIM), top);
    }
    let room = usize::from(rest.height);
    let chosen = screen.chosen.and_then(|id| list.items.iter().position(|item| item.id == Some(id)));
    screen.from = first(&list.items, screen.from, chosen, room);
    let (lines, left) = lines(&list.items, screen.from, chosen, room);
    frame.render_widget(Paragraph::new(lines), rest);
    if left > 0 {
        let last = Rect { y: rest.bottom().saturating_sub(1), height: rest.height.min(1), ..rest };
        let blank = " ".repeat(usize::from(last.width));
        frame.render_widget(Line::from(blank), last);
        frame.render_widget(Line::from(format!("+{left} more")).style(DIM), last);
    }
}

/// The first item to show: that of the last time, unless the chosen one would not be visible.
fn first(items: &[Item], from: usize, chosen: Option<usize>, room: usize) -> usize {
    let mut from = from.min(items.len().saturating_sub(1));
    let Some(chosen) = chosen else { return from };
    from = from.min(chosen);
    let height = |from: usize| items[from..=chosen].iter().map(|item| item.lines.len()).sum::<usize>();
    // The last line may be needed to say that there are more.
    while from < chosen && height(from) > room.saturating_sub(1) {
        from += 1;
    }
    from
}

/// The lines from an item on, and how many items have no room; then the last line is free.
fn lines(items: &[Item], from: usize, chosen: Option<usize>, room: usize) -> (Vec<Line<'static>>, usize) {
    let total: usize = items.iter().skip(from).map(|item| item.lines.len()).sum();
    let room = if total > room { room.saturating_sub(1) } else { room };
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut left = 0;
    for (at, item) in items.iter().enumerate().skip(from) {
        if lines.len() + item.lines.len() > room && at > from {
            left = items.len() - at;
            break;
        }
        let begin = lines.len();
        lines.extend(item.lines.iter().cloned());
        if chosen == Some(at)
            && let Some(line) = lines.get_mut(begin)
        {
            *line = std::mem::take(line).patch_style(Modifier::REVERSED);
        }
    }
    lines.truncate(room.max(1));
    (lines, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(heights: &[usize]) -> Vec<Item> {
        let item = |(at, height): (usize, &usize)| Item {
            id: Some(u64::try_from(at).unwrap()),
            lines: vec![Line::from(format!("{at}")); *height],
        };
        heights.iter().enumerate().map(item).collect()
    }

    fn shown(items: &[Item], from: usize, chosen: Option<usize>, room: usize) -> (usize, Vec<String>, usize) {
        let from = first(items, from, chosen, room);
        let (lines, left) = lines(items, from, chosen, room);
        (from, lines.iter().map(ToString::to_string).collect(), left)
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let items = items(&[1, 2, 1, 3]);
        assert_eq!(shown(&items, 0, None, 7).2, 0);
        let (_, lines, left) = shown(&items, 0, None, 6);
        assert_eq!((lines, left), (["0", "1", "1", "2"].map(str::to_owned).to_vec(), 1));
        assert_eq!(shown(&items, 9, None, 3).1, ["3", "3", "3"]);
    }

    #[test]
    fn the_chosen_item_is_visible() {
        let items = items(&[1, 2, 1, 3]);
        assert_eq!(shown(&items, 0, Some(3), 5).0, 2);
        assert_eq!(shown(&items, 3, Some(1), 5).0, 1);
        let (lines, _) = lines(&items, 0, Some(1), 9);
        assert!(lines[1].style.add_modifier.contains(Modifier::REVERSED));
        assert!(!lines[2].style.add_modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn a_long_text_is_cut_to_its_room() {
        assert_eq!(one_line("SELECT\n  1\u{1b}", 40), "SELECT 1\\u{1b}");
        assert_eq!(one_line("SELECT 1234", 8), "SELECT \u{2026}");
    }
}
