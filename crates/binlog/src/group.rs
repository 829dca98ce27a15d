//! Groups: the events of a transaction, or of a statement outside of transactions.

use crate::event::gtid::Number;
use crate::event::mysql_gtid::Tsid;
use crate::event::{Body, Event};

/// The role of an event in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRole {
    /// It belongs to no group.
    Outside,
    /// A group begins with it.
    First,
    /// It is inside the open group.
    Inside,
    /// It ends the group.
    Last,
    /// It is a whole group.
    Whole,
}

/// How a group is identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupId {
    /// MariaDB's GTID.
    MariaDb(Number),
    /// MySQL's GTID.
    MySql(Tsid, u64),
    /// Not at all: only its position identifies it.
    None,
}

/// What ends a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// The next event that does not prepare a statement.
    Statement,
    /// The next statement; if that is BEGIN, the commit.
    Undecided,
    /// XID, COMMIT, ROLLBACK, XA PREPARE.
    Commit,
}

/// Determines which events form a group. Pass every event of a file to it, and of the next file if the log is
/// a relay log, whose groups may continue there.
#[derive(Clone, Debug, Default)]
pub struct Grouping {
    open: Option<(GroupId, Until)>,
}

/// The role of an event, as far as groups are concerned.
enum Role {
    Outside,
    Starts(GroupId, Until),
    /// BEGIN.
    Begins,
    /// A statement.
    Statement,
    /// The last rows of a statement.
    LastRows,
    /// The end of a transaction.
    Commits,
    /// What prepares a statement, and rows.
    Prepares,
}

impl Grouping {
    /// The identifier of the open group.
    #[must_use]
    pub fn open(&self) -> Option<GroupId> {
        self.open.map(|(name, _)| name)
    }

    /// Abandons the open group: its end never came.
    pub fn abandon(&mut self) {
        self.open = None;
    }

    /// The role of the next event. The second value is true if the previous group never ended.
    pub fn take(&mut self, event: &Event<'_>, body: &Body<'_>) -> (EventRole, bool) {
        let role = role(event, body);
        let cut = matches!(role, Role::Starts(..)) && self.open.is_some();
        let part = match (role, self.open) {
            (Role::Outside, _) => EventRole::Outside,
            (Role::Starts(name, until), _) => {
                self.open = Some((name, until));
                EventRole::First
            }
            (Role::Begins, None) => {
                self.open = Some((GroupId::None, Until::Commit));
                EventRole::First
            }
            (Role::Begins, Some((name, Until::Undecided))) => {
                self.open = Some((name, Until::Commit));
                EventRole::Inside
            }
            (Role::Prepares, None) => {
                self.open = Some((GroupId::None, Until::Undecided));
                EventRole::First
            }
            (Role::LastRows, None) => {
                self.open = Some((GroupId::None, Until::Commit));
                EventRole::First
            }
            (Role::Statement | Role::Commits, None) => EventRole::Whole,
            (Role::Commits, Some(_))
            | (Role::Statement, Some((_, Until::Statement | Until::Undecided)))
            | (Role::LastRows, Some((_, Until::Statement))) => {
                self.open = None;
                EventRole::Last
            }
            (_, Some(_)) => EventRole::Inside,
        };
        (part, cut)
    }
}

fn role(event: &Event<'_>, body: &Body<'_>) -> Role {
    match body {
        Body::Gtid(gtid) => {
            let until = if gtid.is_standalone() { Until::Statement } else { Until::Commit };
            Role::Starts(GroupId::MariaDb(gtid.number), until)
        }
        Body::MySqlGtid(Some((source, number))) => {
            Role::Starts(GroupId::MySql(*source, *number), Until::Undecided)
        }
        Body::MySqlGtid(None) => Role::Starts(GroupId::None, Until::Undecided),
        Body::Query(query) => of_statement(&query.sql),
        Body::ExecuteLoad(_) => Role::Statement,
        // A payload has everything from BEGIN to the commit.
        Body::Xid(_) | Body::XaPrepare(_) | Body::Payload(_) => Role::Commits,
        Body::Rows(rows) if rows.ends_statement() => Role::LastRows,
        Body::Rows(_)
        | Body::Table(_)
        | Body::Annotate(_)
        | Body::Intvar(..)
        | Body::Rand(..)
        | Body::UserVariable(_)
        | Body::LoadBlock(_)
        | Body::DeleteFile(_) => Role::Prepares,
        Body::Incident(..) => Role::Statement,
        Body::Unknown if !event.is_ignorable() => Role::Prepares,
        _ => Role::Outside,
    }
}

fn of_statement(sql: &[u8]) -> Role {
    let starts = |word: &[u8]| sql.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    if sql.eq_ignore_ascii_case(b"BEGIN") || starts(b"XA START ") {
        Role::Begins
    } else if sql.eq_ignore_ascii_case(b"COMMIT")
        || sql.eq_ignore_ascii_case(b"ROLLBACK")
        || starts(b"XA COMMIT ")
        || starts(b"XA ROLLBACK ")
    {
        Role::Commits
    } else {
        Role::Statement
    }
}
