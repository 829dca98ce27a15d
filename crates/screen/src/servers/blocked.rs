//! Who waits for whom.

use locks::{Node, Party, Picture};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use super::item::{DIM, Item, List};
use super::screen::Screen;
use locks::text::{self, Text, waiters};

const HOLDER: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// The tree of those who wait, the words of `remora blockers`; if there are none, who may block next.
pub(super) fn list(screen: &Screen, width: usize) -> List {
    let frame = screen.frame();
    let picture = frame.and_then(|frame| frame.incident.picture.as_deref());
    let failed = frame.and_then(|frame| frame.incident.failed.as_ref());
    let mut items: Vec<Item> = picture.map_or_else(Vec::new, |picture| tree(picture, width));
    let waiting = picture.map_or(0, |picture| picture.waiting().len());
    if let Some((frame, picture)) = frame.zip(picture).filter(|_| waiting == 0) {
        let history = frame.sample.number("Innodb_history_list_length").map(|length| length.as_f64());
        open(&mut items, &Text { picture, width: Some(width) }, history);
    }
    items.extend(failed.map(|why| Item::plain(vec![Line::from(format!("not read: {why}")).style(DIM)])));
    let title = match (waiting, screen.is_recorded && picture.is_none()) {
        (_, true) => "who waited is not in this recording".to_owned(),
        (0, _) => "nobody is seen to wait for a lock".to_owned(),
        (waiting, _) => waiters(waiting),
    };
    List { title, head: None, items }
}

/// The oldest open transactions.
fn open(items: &mut Vec<Item>, text: &Text<'_>, history: Option<f64>) {
    let picture = text.picture;
    let oldest = picture.oldest();
    if oldest.is_empty() {
        return;
    }
    let heading = [Some(text::open(oldest.len(), picture.younger)), text::purge(picture, history)];
    items.push(Item::plain(heading.into_iter().flatten().map(Line::from).collect()));
    items.extend(oldest.into_iter().map(|party| {
        let node = Node::alone(party.clone(), 0);
        Item { id: id(party), lines: text.node(&node).into_iter().map(Line::from).collect() }
    }));
}

fn id(party: &Party) -> Option<u64> {
    match party {
        Party::Connection(id) => Some(*id),
        Party::Prepared(_) => None,
    }
}

fn tree(picture: &Picture, width: usize) -> Vec<Item> {
    let text = Text { picture, width: Some(width) };
    let nodes = locks::tree(&picture.waits);
    let mut items: Vec<Item> = nodes.iter().map(|node| item(node, text.node(node))).collect();
    for party in &picture.unexplained {
        let node = Node::alone(party.clone(), 1);
        let mut lines = text.node(&node);
        lines.push("        it waits, but the server does not say for whom".to_owned());
        items.push(item(&node, lines));
    }
    let gaps = picture.gaps.iter().map(|gap| Item::plain(vec![Line::from(gap.what.clone()).style(DIM)]));
    items.extend(gaps);
    items
}

fn item(node: &Node, lines: Vec<String>) -> Item {
    let style = if node.depth == 0 { HOLDER } else { Style::new() };
    let mut lines: Vec<Line<'static>> = lines.into_iter().map(Line::from).collect();
    if let Some(first) = lines.first_mut() {
        *first = std::mem::take(first).style(style);
    }
    Item { id: id(&node.party), lines }
}

/// What is told above every page: how many wait, and behind whom.
pub(super) fn alarm(picture: &Picture) -> Option<String> {
    let waiting = picture.waiting().len();
    if waiting == 0 {
        return None;
    }
    let who = waiters(waiting);
    let worst = picture.blocking().into_iter().max_by_key(|party| picture.waiting_behind(party));
    let Some(Party::Connection(id)) = worst else { return Some(format!("{who} (2 shows them)")) };
    let connection = picture.connections.get(id);
    let doing = connection.map(|one| match one.is_idle() {
        true => format!(", which has been idle for {} s", one.seconds),
        false => format!(", which runs for {} s", one.seconds),
    });
    Some(format!("{who}, most behind {id}{} (2 shows them)", doing.unwrap_or_default()))
}
