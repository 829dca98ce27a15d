//! What is shown above a page: a whole statement, a plan, the question before a kill, the keys.

use humanize::text::plain;
use locks::explain::Plan;
use locks::kill::{How, Target};
use locks::{Connection, Node, Party, Picture};

use locks::text::{Text as Lines, loss, waiting};

const HELP: &str = "\
1 to 8         the pages: overview, blocked, replication, innodb, deadlock,
               statements, counters, host
up down        choose a connection, or scroll; also with page up and down
enter          the whole statement of the chosen connection
k              end its statement (KILL QUERY), after a question
K              end the connection (KILL CONNECTION), after a question
e              the plan of what it runs
/              filter the list; enter keeps it, escape drops it
s              another order of the list
v              other numbers at the top of the overview
a              counters: idle ones and gauges, too
space          pause; again: back to now
left right     back and forward in time, by a sample; < and > by a minute
tab            another server
q              end";

/// A text that may be longer than the screen.
#[derive(Debug)]
pub(super) struct Scrolled {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    /// The first line that is shown.
    pub(super) from: usize,
}

#[derive(Debug)]
pub(super) enum Popup {
    Text(Scrolled),
    /// The server was asked, and this says what.
    Asking(String),
    /// Whether to end this one.
    Confirm(Box<Target>, How),
}

impl Popup {
    /// A text with line ends.
    pub(super) fn text(title: &str, text: &str) -> Popup {
        let lines = text.lines().map(|line| plain(&line.replace('\t', "    ")).into_owned()).collect();
        Popup::Text(Scrolled { title: title.to_owned(), lines, from: 0 })
    }

    pub(super) fn help() -> Popup {
        Popup::text("keys", HELP)
    }

    /// What a connection runs.
    pub(super) fn connection(connection: Option<&Connection>) -> Popup {
        match connection {
            None => Popup::text("", "it has ended"),
            Some(one) if one.statement.is_empty() => {
                Popup::text("", &format!("{} runs no statement now ({})", one.id, one.command))
            }
            Some(one) => Popup::text(&format!("statement of {}", one.id), &one.statement),
        }
    }

    /// A plan, one step below the other. Empty values are left out.
    pub(super) fn plan(plan: Result<Plan, String>) -> Popup {
        let plan = match plan {
            Ok(plan) => plan,
            Err(why) => return Popup::text("no plan", &why),
        };
        let mut text = String::new();
        for row in &plan.rows {
            for (at, (name, value)) in row.iter().filter(|(_, value)| !value.is_empty()).enumerate() {
                let indent = if at == 0 { "" } else { "    " };
                text.push_str(&format!("{indent}{name}: {value}\n"));
            }
        }
        Popup::text(&plan.how, &text)
    }

    /// Its lines.
    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            Popup::Text(text) => text.lines.clone(),
            Popup::Asking(what) => vec![what.clone()],
            Popup::Confirm(target, how) => question(target, *how),
        }
    }

    pub(super) fn title(&self) -> &str {
        match self {
            Popup::Text(text) => &text.title,
            Popup::Asking(_) => "",
            Popup::Confirm(_, How::Query) => "end this statement?",
            Popup::Confirm(_, How::Connection) => "end this connection?",
        }
    }

    /// The first line that is shown, at most `most`.
    pub(super) fn scroll(&mut self, most: usize) -> usize {
        let Popup::Text(text) = self else { return 0 };
        text.from = text.from.min(most);
        text.from
    }
}

/// Whom, and what is lost by it.
fn question(target: &Target, how: How) -> Vec<String> {
    let id = target.connection.id;
    let mut picture = Picture::default();
    picture.connections.insert(id, target.connection.clone());
    if let Some(transaction) = &target.transaction {
        picture.transactions.insert(transaction.party(), transaction.clone());
    }
    let node = Node::alone(Party::Connection(id), 0);
    let mut lines = Lines { picture: &picture, width: None }.node(&node);
    lines.iter_mut().for_each(|line| *line = line.trim_start().to_owned());
    if how == How::Connection {
        lines.extend(waiting(target.waiting));
    }
    lines.push(loss(how, target));
    lines.push(String::new());
    lines.push("y ends it; any other key leaves it alone".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use locks::Transaction;

    use super::*;

    #[test]
    fn the_question_says_whom_and_what_is_lost() {
        let connection = Connection {
            id: 4711,
            user: "app".into(),
            host: "web3".into(),
            command: "Sleep".into(),
            seconds: 40,
            last_statement: Some("UPDATE t SET a = 1".into()),
            ..Connection::default()
        };
        let transaction = Transaction { connection: 4711, rows_modified: 3, ..Transaction::default() };
        let target = Target { connection, transaction: Some(transaction), waiting: 2 };
        let popup = Popup::Confirm(Box::new(target), How::Connection);
        let lines = popup.lines();
        assert_eq!(popup.title(), "end this connection?");
        for expected in [
            "4711  app@web3, idle for 40 s",
            "last statement: UPDATE t SET a = 1",
            "2 wait for it",
            "its transaction would be rolled back: 3 rows changed",
            "y ends it; any other key leaves it alone",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected} in {lines:#?}");
        }
    }

    #[test]
    fn a_plan_leaves_out_what_is_empty_and_shows_no_escapes() {
        let cell = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let rows =
            vec![vec![cell("id", "1"), cell("table", "t\u{1b}[2J"), cell("key", ""), cell("rows", "9")]];
        let popup = Popup::plan(Ok(Plan { how: "SHOW EXPLAIN FOR 7".into(), rows }));
        assert_eq!(popup.lines(), ["id: 1", "    table: t\\u{1b}[2J", "    rows: 9"]);
        assert_eq!(Popup::plan(Err("no".into())).lines(), ["no"]);
    }
}
