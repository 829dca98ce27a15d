//! The page of one server.

use std::time::{Duration, Instant};

use locks::{Connection, Node, Picture, Role};
use status::counter::page::{plots, statement_table};
use status::counter::part::Digest;
use web::Html;

use crate::action::{self, Allowed};
use crate::layout::{
    TIMES, cell, command, old_note, part, slow_part, state, table_end, table_head, text_cell,
};
use crate::replication;
use crate::server_list::{judged, with_address, with_url};
use crate::watch::{Freshness, Known, Watched, freshness};
use locks::text;
use locks::text::Text;

/// The most open transactions that are listed.
const OPEN_MAX: usize = 20;
/// The most connections that are listed.
const CONNECTIONS_MAX: usize = 100;

/// What a page of a server needs.
pub(crate) struct View<'v> {
    pub(crate) watched: &'v Watched,
    pub(crate) interval: Duration,
    pub(crate) allowed: &'v [Allowed],
    pub(crate) form_token: &'v str,
    /// Whether the plots are wanted, too.
    pub(crate) is_whole: bool,
}

impl View<'_> {
    /// The page's contents.
    pub(crate) fn body(&self) -> Html {
        let known = self.watched.known();
        let fresh = freshness(known.seen, Instant::now(), self.interval);
        let mut body = Html::new();
        let mut head = Html::new();
        self.head(&mut head, &known);
        part(&mut body, "state", &head);
        body.raw("<h2>Who waits for whom</h2>\n");
        let mut waits = Html::new();
        old_note(&mut waits, fresh);
        self.waits(&mut waits, &known);
        part(&mut body, "waits", &waits);
        body.raw("<h2>Replication</h2>\n");
        let mut sources = Html::new();
        old_note(&mut sources, fresh);
        sources.part(&replication::sources(known.last.as_ref(), fresh));
        part(&mut body, "replication", &sources);
        body.raw("<h2>What runs</h2>\n");
        let mut runs = Html::new();
        old_note(&mut runs, fresh);
        self.runs(&mut runs, &known, fresh);
        part(&mut body, "runs", &runs);
        if self.is_whole {
            body.raw("<h2>The last hour</h2>\n");
            slow_part(&mut body, "plots", &drawn(&known));
        }
        body.raw("<h2>Statements that took most of the time</h2>\n");
        let mut statements = Html::new();
        old_note(&mut statements, fresh);
        self.statements(&mut statements, known.statements.as_ref());
        part(&mut body, "statements", &statements);
        body
    }

    fn head(&self, html: &mut Html, known: &Known) {
        let (tone, word) = judged(known, Instant::now(), self.interval);
        html.raw("<p>");
        state(html, tone, &word);
        html.raw("</p>\n<p class=\"about\">").text(&known.version).raw(" ");
        command(html, &with_address("remora top", self.watched));
        html.raw("</p>\n");
        for stopped in known.replication.iter().skip(1) {
            html.raw("<p>");
            state(html, crate::layout::Tone::Bad, stopped);
            html.raw("</p>\n");
        }
        for note in &known.notes {
            html.raw("<p class=\"about\">").text(note).raw("</p>\n");
        }
    }

    fn waits(&self, html: &mut Html, known: &Known) {
        match &known.picture {
            None => {
                html.raw("<p>Nothing is known yet.</p>\n");
            }
            Some(Err(why)) => {
                html.raw("<p>This can't be seen: ").text(why).raw("</p>\n");
            }
            Some(Ok(picture)) => {
                tree(html, picture);
                if picture.waiting().is_empty() {
                    let history =
                        known.last.as_ref().and_then(|last| last.number("Innodb_history_list_length"));
                    open(html, picture, history.map(|length| length.as_f64()));
                }
                html.raw("<p>").text(&text::sum(picture, |line| with_url(line, self.watched)));
                html.raw("</p>\n<p class=\"about\">");
                command(html, &with_address("remora blockers", self.watched));
                html.raw("</p>\n");
                for gap in &picture.gaps {
                    html.raw("<p class=\"about\">").text(&gap.what).raw("</p>\n");
                }
            }
        }
    }

    fn runs(&self, html: &mut Html, known: &Known, fresh: Freshness) {
        let Some(Ok(picture)) = &known.picture else {
            html.raw("<p>Nothing is known.</p>\n");
            return;
        };
        let runs = |one: &&Connection| one.role() == Role::Client && !one.is_idle();
        let mut all: Vec<&Connection> = picture.connections.values().filter(runs).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.seconds));
        if all.is_empty() {
            html.raw("<p>No statement of a client.</p>\n");
            return;
        }
        // An old list must not be acted on.
        let has_action = self.allowed.contains(&Allowed::KillQuery) && fresh == Freshness::Fresh;
        let mut heads = vec![
            ("Connection", false),
            ("Seconds", false),
            ("Account", true),
            ("Database", true),
            ("State", true),
            ("Statement", true),
        ];
        heads.extend(has_action.then_some(("Action", true)));
        table_head(html, "What runs", &heads);
        for one in all.iter().take(CONNECTIONS_MAX) {
            html.raw("<tr>");
            cell(html, &one.id.to_string());
            cell(html, &one.seconds.to_string());
            for text in [&one.account(), &one.database, &one.state] {
                text_cell(html, text);
            }
            html.raw("<td class=\"text\"><code>").text(&one.statement).raw("</code></td>");
            if has_action {
                html.raw("<td class=\"text\">");
                action::ask_button(html, (self.watched, self.form_token), one.id);
                html.raw("</td>");
            }
            html.raw("</tr>\n");
        }
        table_end(html);
        if let Some(more) = all.len().checked_sub(CONNECTIONS_MAX).filter(|more| *more > 0) {
            html.raw("<p>").text(&format!("{more} more are not shown.")).raw("</p>\n");
        }
    }

    fn statements(&self, html: &mut Html, statements: Option<&(Vec<Digest>, f64)>) {
        match statements {
            Some((all, seconds)) if !all.is_empty() => {
                let mut table = String::new();
                statement_table(&mut table, all.iter().collect(), *seconds);
                let minutes = crate::layout::age(Duration::from_secs_f64(seconds.max(0.0)));
                html.raw("<p>In the last ").text(&minutes).raw(", without their values. ");
                command(html, &with_address("remora stat --digests 10", self.watched));
                html.raw(
                    "</p>\n<div class=\"wide statements\" tabindex=\"0\" role=\"region\" aria-label=\"Statements\">",
                );
                html.part(&Html::escaped_elsewhere(table)).raw("</div>\n");
            }
            Some(_) => {
                html.raw("<p>None since these pages began.</p>\n");
            }
            None => {
                html.raw("<p>Not known: two samples are needed, and performance_schema.</p>\n");
            }
        }
    }
}

/// The plots of the last hour.
fn drawn(known: &Known) -> Html {
    let mut markup = String::new();
    plots(&mut markup, &known.series, &TIMES);
    Html::escaped_elsewhere(markup)
}

/// The tree of waits as nested lists.
fn tree(html: &mut Html, picture: &Picture) {
    let text = Text { picture, width: None };
    let mut open = 0;
    for node in &locks::tree(&picture.waits) {
        if node.depth + 1 > open {
            html.raw("<ul class=\"tree\">");
            open += 1;
        } else {
            html.raw("</li>");
            while open > node.depth + 1 {
                html.raw("</ul></li>");
                open -= 1;
            }
        }
        item(html, &text.node(node));
    }
    for _ in 0..open {
        html.raw("</li></ul>");
    }
    if !picture.unexplained.is_empty() {
        html.raw("<p>Waiting, but the server does not say for whom:</p><ul class=\"tree\">");
        for party in &picture.unexplained {
            item(html, &text.node(&Node::alone(party.clone(), 0)));
            html.raw("</li>");
        }
        html.raw("</ul>\n");
    }
}

/// The oldest open transactions, which may block next.
fn open(html: &mut Html, picture: &Picture, history: Option<f64>) {
    let oldest = picture.oldest();
    let shown = &oldest[..oldest.len().min(OPEN_MAX)];
    if shown.is_empty() {
        return;
    }
    let text = Text { picture, width: None };
    let heading = text::open(shown.len(), oldest.len() - shown.len());
    html.raw("<p>").text(&heading).raw("</p>");
    if let Some(purge) = text::purge(picture, history) {
        html.raw("<p>").text(&purge).raw("</p>");
    }
    html.raw("<ul class=\"tree\">");
    for party in shown {
        item(html, &text.node(&Node::alone((*party).clone(), 0)));
        html.raw("</li>");
    }
    html.raw("</ul>\n");
}

/// The lines of one place of the tree, without the end of the item.
fn item(html: &mut Html, lines: &[String]) {
    html.raw("<li>");
    for (at, line) in lines.iter().enumerate() {
        html.raw(if at == 0 { "<strong>" } else { "<div>" }).text(line.trim());
        html.raw(if at == 0 { "</strong>" } else { "</div>" });
    }
}

#[cfg(test)]
mod tests {
    use locks::{Lock, LockKind, Party, Wait};

    use super::*;

    fn wait(waiter: u64, holder: u64) -> Wait {
        let [waiter, holder] = [waiter, holder].map(Party::Connection);
        let lock = Lock { kind: LockKind::Row, object: "db.<b>".into(), mode: "X".into() };
        Wait { waiter, holder, lock, is_certain: true }
    }

    #[test]
    fn the_tree_is_nested_lists_and_names_stay_text() {
        let connection = |id| {
            let statement = "SELECT '<script>alert(1)</script>'".to_owned();
            (id, Connection { id, statement, user: "<i>".into(), ..Connection::default() })
        };
        let picture = Picture {
            connections: [1, 2, 3, 4].map(connection).into(),
            waits: vec![wait(2, 1), wait(3, 2), wait(4, 1)],
            unexplained: vec![Party::Connection(4)],
            ..Picture::default()
        };
        let mut html = Html::new();
        tree(&mut html, &picture);
        let html = html.into_string();
        for foreign in ["<script", "<i>", "<b>"] {
            assert!(!html.contains(foreign), "{foreign} in {html}");
        }
        assert_eq!(html.matches("<ul").count(), html.matches("</ul>").count());
        assert_eq!(html.matches("<li").count(), html.matches("</li>").count());
        // 3 waits for 2, which waits for 1, as 4 does.
        let shape: String = html
            .split('<')
            .filter_map(|tag| match tag.split(['>', ' ']).next() {
                Some("ul") => Some("("),
                Some("/ul") => Some(")"),
                Some("li") => Some("x"),
                _ => None,
            })
            .collect();
        assert_eq!(shape, "(x(x(x)x))(x)");
        let mut none = Html::new();
        tree(&mut none, &Picture::default());
        assert!(none.is_empty());
    }
}
