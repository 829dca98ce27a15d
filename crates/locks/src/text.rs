//! Connections and what they wait for, as lines for people.

use std::collections::BTreeSet;

use humanize::text::plain;
use progress::count;

use crate::kill::{How, Target};
use crate::{Connection, Node, Party, Picture};

/// How many columns further a waiter is than its holder.
const INDENT: usize = 2;
/// Waiters that are deeper than this are not moved further.
const DEPTH_MAX: usize = 12;
/// The least width of a statement.
const STATEMENT_MIN: usize = 40;

/// How to write the connections of a picture.
pub struct Text<'p> {
    /// What is known of them.
    pub picture: &'p Picture,
    /// The columns that a line may have; `None` shows statements whole.
    pub width: Option<usize>,
}

impl Text<'_> {
    /// The lines of one place of the tree.
    pub fn node(&self, node: &Node) -> Vec<String> {
        let left = " ".repeat(node.depth.min(DEPTH_MAX) * INDENT);
        let mut details: Vec<String> = Vec::new();
        details.extend(node.wait.as_ref().map(|wait| {
            let sure = if wait.is_certain { "" } else { "probably " };
            format!("waits {sure}for {}", wait.lock)
        }));
        if node.is_repeated {
            let head = format!("{left}{}  also waits here; it is shown above", node.party);
            return [head].into_iter().chain(self.below(&left, &details)).collect();
        }
        let (head, more) = match &node.party {
            Party::Connection(id) => self.connection(*id),
            Party::Prepared(_) => self.prepared(&node.party),
        };
        details.extend(more);
        [format!("{left}{head}")].into_iter().chain(self.below(&left, &details)).collect()
    }

    /// Lines below the first one of somebody.
    fn below(&self, left: &str, details: &[String]) -> Vec<String> {
        let left = format!("{left}      ");
        let room = self.width.map(|width| width.saturating_sub(left.len()).max(STATEMENT_MIN));
        details.iter().map(|text| format!("{left}{}", fitted(text, room))).collect()
    }

    /// The first line of a connection, and the others.
    pub fn connection(&self, id: u64) -> (String, Vec<String>) {
        let party = Party::Connection(id);
        let Some(connection) = self.picture.connections.get(&id) else {
            return (format!("{id}  a connection that has ended meanwhile"), Vec::new());
        };
        let doing = match (connection.is_idle(), connection.statement.is_empty()) {
            (true, _) => format!("idle for {} s", connection.seconds),
            (false, true) => format!("{} for {} s", connection.command, connection.seconds),
            (false, false) => format!("running for {} s", connection.seconds),
        };
        let behind = waiting(self.picture.waiting_behind(&party)).map(|text| format!(", {text}"));
        let head = format!("{id}  {}, {doing}{}", plain(&connection.account()), behind.unwrap_or_default());
        let mut details = Vec::new();
        if let Some(transaction) = self.picture.transactions.get(&party) {
            details.push(format!(
                "transaction of {} s: {} locked, {}",
                transaction.seconds,
                count(transaction.rows_locked, "row"),
                changed(transaction.rows_modified)
            ));
        }
        details.extend(statement(connection));
        (head, details)
    }

    /// The same for a prepared transaction without a client.
    fn prepared(&self, party: &Party) -> (String, Vec<String>) {
        let behind = waiting(self.picture.waiting_behind(party)).map(|text| format!(", {text}"));
        let head = format!("{party}, prepared, its client is gone{}", behind.unwrap_or_default());
        let mut details = Vec::new();
        if let Some(transaction) = self.picture.transactions.get(party) {
            let rows = count(transaction.rows_locked, "row");
            details.push(format!(
                "transaction of {} s: {rows} locked, {}",
                transaction.seconds,
                changed(transaction.rows_modified)
            ));
        }
        details.push(end_of_prepared(self.picture));
        (head, details)
    }
}

/// Who keeps purge from removing old versions of rows, as far as that can be known. `history`: how many
/// transactions purge has not processed yet.
pub fn purge(picture: &Picture, history: Option<f64>) -> Option<String> {
    let id = picture.holds_purge()?;
    let list = history.map_or_else(String::new, |length| format!("; history list: {length}"));
    Some(format!("purge probably waits for the snapshot of {id}{list}"))
}

/// The heading of open transactions of which so many are shown.
pub fn open(shown: usize, younger: usize) -> String {
    match younger {
        0 => format!("open {}, the oldest first, which may block others next", noun(shown)),
        more => {
            format!("the oldest {shown} of {} open transactions, which may block others next", shown + more)
        }
    }
}

fn noun(shown: usize) -> &'static str {
    if shown == 1 { "transaction" } else { "transactions" }
}

/// What it runs, or ran last.
fn statement(connection: &Connection) -> Option<String> {
    match (&connection.last_statement, connection.statement.as_str()) {
        (_, text) if !text.is_empty() => Some(text.to_owned()),
        (Some(last), _) => Some(format!("last statement: {last}")),
        _ if connection.is_idle() => Some("its last statement is not kept by this server".to_owned()),
        _ => None,
    }
}

/// A text in one line of a width, which says what it leaves out.
fn fitted(text: &str, room: Option<usize>) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = plain(&line).into_owned();
    let long = line.chars().count();
    let Some(room) = room.filter(|room| long > *room) else { return line };
    let end = format!("... ({long} characters)");
    let kept: String = line.chars().take(room.saturating_sub(end.len())).collect();
    kept + &end
}

/// What ends a prepared transaction without a client. The server does not say which name is whose.
fn end_of_prepared(picture: &Picture) -> String {
    match picture.prepared.as_slice() {
        [] => {
            "XA RECOVER names it (MySQL: with XA_RECOVER_ADMIN); XA COMMIT or XA ROLLBACK ends it".to_owned()
        }
        [one] => format!("XA COMMIT {one} or XA ROLLBACK {one} ends it"),
        many => format!("XA COMMIT or XA ROLLBACK ends it; its name is one of {}", many.join("  ")),
    }
}

/// How many are seen to wait.
pub fn seen(picture: &Picture) -> String {
    match (picture.waiting().len(), picture.is_complete()) {
        (0, false) => "nobody waits among those that this account may see".to_owned(),
        (waiting, _) => waiters(waiting),
    }
}

/// Why some wait for whom no connection is the one to end: a sentence for each reason.
pub fn unhelped(picture: &Picture) -> Vec<String> {
    let numbers = |ids: &BTreeSet<&Party>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut reasons = Vec::new();
    for party in picture.blocking() {
        if let Party::Prepared(_) = party {
            let behind = picture.waiting_behind(party);
            let wait = if behind == 1 { "waits" } else { "wait" };
            let end = end_of_prepared(picture);
            reasons.push(format!("{behind} {wait} for {party}, which has no connection: {end}"));
        }
    }
    let circle = picture.circle();
    if !circle.is_empty() {
        let ids = numbers(&circle);
        reasons
            .push(format!("{ids} wait for each other in a circle: choose one of them and give its number"));
    }
    let probable = picture.probable();
    if !probable.is_empty() {
        let ids = numbers(&probable);
        reasons
            .push(format!("others probably wait for {ids}, but that is not sure: give the number to end it"));
    }
    match picture.unexplained.len() {
        0 => {}
        1 => reasons.push("1 waits, but the server does not say for whom".to_owned()),
        many => reasons.push(format!("{many} wait, but the server does not say for whom")),
    }
    reasons
}

/// How many wait, and what to do about it: the line below the tree. `on_server`: a command with the options
/// that lead to this server.
pub fn sum(picture: &Picture, on_server: impl Fn(&str) -> String) -> String {
    let who = seen(picture);
    let connections: Vec<String> = picture
        .blocking()
        .iter()
        .filter_map(|party| match party {
            Party::Connection(id) => Some(id.to_string()),
            Party::Prepared(_) => None,
        })
        .collect();
    match connections.as_slice() {
        [] => who,
        ids => {
            let kill = on_server(&format!("remora kill {}", ids.join(" ")));
            format!("{who}; {kill} shows what is lost by ending what they wait for")
        }
    }
}

/// How many wait for locks, in words.
pub fn waiters(number: usize) -> String {
    match number {
        0 => "nobody waits for a lock".to_owned(),
        1 => "1 waits for a lock".to_owned(),
        many => format!("{many} wait for locks"),
    }
}

/// How many wait behind somebody, in words.
pub fn waiting(number: usize) -> Option<String> {
    match number {
        0 => None,
        1 => Some("1 waits for it".to_owned()),
        many => Some(format!("{many} wait for it")),
    }
}

/// What a rollback brings back, in words.
pub fn changed(rows: u64) -> String {
    count(rows, "row") + " changed"
}

/// What ending it takes back, in words.
pub fn loss(how: How, target: &Target) -> String {
    let rows = target.rows_to_roll_back();
    match (how, &target.transaction) {
        (How::Query, Some(_)) => {
            let waits = waiting(target.waiting).map(|text| format!("; {text}")).unwrap_or_default();
            format!("only its statement would be taken back: its transaction and its locks stay{waits}")
        }
        (How::Query, None) => "only its statement would end".to_owned(),
        (How::Connection, Some(_)) => format!("its transaction would be rolled back: {}", changed(rows)),
        (How::Connection, None) => "it has no transaction of InnoDB".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lock, LockKind, Wait};

    fn wait(waiter: u64, holder: Party, is_certain: bool) -> Wait {
        let lock = Lock { kind: LockKind::Row, object: "d.t".to_owned(), mode: "X".to_owned() };
        Wait { waiter: Party::Connection(waiter), holder, lock, is_certain }
    }

    #[test]
    fn why_nobody_is_ended_is_said() {
        let of = |waits: Vec<Wait>| Picture { waits, ..Picture::default() };
        let on = |id| Party::Connection(id);
        assert_eq!(unhelped(&of(vec![wait(2, on(1), true)])), Vec::<String>::new());
        // 4 waits for the circle and is not part of it.
        let circle = of(vec![wait(2, on(3), true), wait(3, on(2), true), wait(4, on(2), true)]);
        assert!(unhelped(&circle)[0].starts_with("2, 3 wait for each other in a circle"));
        assert_eq!((unhelped(&circle).len(), seen(&circle)), (1, "3 wait for locks".to_owned()));
        let mut prepared = of(vec![wait(2, Party::Prepared("77".into()), true)]);
        let why = unhelped(&prepared);
        assert!(
            why[0].starts_with("1 waits for XA transaction 77") && why[0].contains("XA RECOVER names it")
        );
        prepared.prepared = vec!["'x'".to_owned()];
        assert!(unhelped(&prepared)[0].ends_with("XA ROLLBACK 'x' ends it"));
        assert!(unhelped(&of(vec![wait(2, on(1), false)]))[0].starts_with("others probably wait for 1,"));
        let unexplained = Picture { unexplained: vec![on(5), on(6)], ..Picture::default() };
        assert_eq!(unhelped(&unexplained), ["2 wait, but the server does not say for whom"]);
    }

    #[test]
    fn a_hint_leads_to_the_same_server() {
        let picture = Picture { waits: vec![wait(2, Party::Connection(1), true)], ..Picture::default() };
        let line = sum(&picture, |line| format!("{line} --url sandbox:a"));
        assert!(line.starts_with("1 waits for a lock; remora kill 1 --url sandbox:a shows"), "{line}");
    }

    #[test]
    fn a_long_statement_is_cut_and_says_so() {
        let long = format!("SELECT\n  {}", "a, ".repeat(100));
        let line = fitted(&long, Some(60));
        assert_eq!(line.len(), 60);
        assert!(line.starts_with("SELECT a, a,") && line.ends_with("... (306 characters)"), "{line}");
        assert_eq!(fitted("SELECT\t1", Some(60)), "SELECT 1");
        assert_eq!(fitted(&long, None).len(), 306);
        assert_eq!(fitted("a\u{1b}[31mb", None), "a\\u{1b}[31mb");
    }
}
