//! Scheduled events. A replica disables each event that its source makes or alters, so that it does not run
//! twice. What is replayed is no replica, so events get the state that they had in the original.

use std::collections::BTreeMap;

use anyhow::Result;
use innodb::table::sql::{Kind, Token};
use progress::{Progress, Shared};
use server::{Flavour, Session, Version, quote_name};
use transactions::effective_statement::{acting, word};

/// Since then MySQL has events in its data dictionary, which only its own statements change.
const IN_DICTIONARY: Version = Version { major: 8, minor: 0, patch: 0 };

/// An event: its database, and its name in lower case, because upper and lower case are the same there.
type Key = (String, String);

/// What a statement does to events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes one, or replaces one that is there.
    Make {
        event: Key,
        replaces: bool,
        state: State,
    },
    /// Alters one, and may give it a new name. Without a clause for it, its state stays.
    Alter {
        event: Key,
        renamed: Option<Key>,
        state: Option<State>,
    },
    Drop(Key),
    /// Drops all of a database.
    DropAll(String),
}

/// Whether an event runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    status: String,
    /// The server on which it was made.
    originator: u32,
    /// When that was, in seconds since 1970: a time of the event that was over by then disables it.
    time: Option<i64>,
}

/// What a statement does to events, if it does anything. `by` is the server that ran it, and when.
pub(crate) fn change(schema: &str, sql: &str, by: (u32, i64)) -> Option<Change> {
    // Most statements have none of these words, and may be long.
    let has = |what: &[u8]| sql.as_bytes().windows(what.len()).any(|bytes| bytes.eq_ignore_ascii_case(what));
    (has(b"EVENT") || has(b"DATABASE") || has(b"SCHEMA")).then_some(())?;
    let tokens = acting(sql)?;
    let first = word(&tokens, 0);
    let object = object(&tokens)?;
    let named = |at: usize| name(&tokens, at, schema);
    match (first.as_str(), word(&tokens, object).as_str()) {
        ("DROP", "DATABASE" | "SCHEMA") => {
            let at = behind_exists(&tokens, object + 1);
            tokens.get(at).map(|token| Change::DropAll(token.text.clone()))
        }
        ("DROP", "EVENT") => named(behind_exists(&tokens, object + 1)).map(|(event, _)| Change::Drop(event)),
        ("CREATE", "EVENT") => {
            let (event, at) = named(behind_exists(&tokens, object + 1))?;
            let state = state(&tokens, at, by).unwrap_or_else(|| State::new("ENABLED", by));
            Some(Change::Make { event, replaces: word(&tokens, 1) == "OR", state })
        }
        ("ALTER", "EVENT") => {
            let (event, at) = named(object + 1)?;
            let to = head(&tokens, at).find(|at| word(&tokens, *at) == "RENAME").map(|at| at + 2);
            let renamed = to.and_then(named).map(|(event, _)| event);
            Some(Change::Alter { event, renamed, state: state(&tokens, at, by) })
        }
        _ => None,
    }
}

/// Where the word is that says what is made: behind OR REPLACE, and behind DEFINER = user@host.
fn object(tokens: &[Token]) -> Option<usize> {
    let mut at = 1;
    if word(tokens, at) == "OR" {
        at += 2;
    }
    if word(tokens, at) == "DEFINER" {
        at = (at..tokens.len().min(at + 10)).find(|at| word(tokens, *at) == "EVENT")?;
    }
    Some(at)
}

/// Behind IF EXISTS or IF NOT EXISTS.
fn behind_exists(tokens: &[Token], at: usize) -> usize {
    match (word(tokens, at).as_str(), word(tokens, at + 1).as_str()) {
        ("IF", "NOT") => at + 3,
        ("IF", _) => at + 2,
        _ => at,
    }
}

/// The event that is named there, and where its name ends.
fn name(tokens: &[Token], at: usize, schema: &str) -> Option<(Key, usize)> {
    let text = |at: usize| {
        let token = tokens.get(at).filter(|token| matches!(token.kind, Kind::Word | Kind::Name | Kind::Text));
        token.map(|token| token.text.clone())
    };
    let has_schema = tokens.get(at + 1).is_some_and(|sign| sign.kind == Kind::Sign && sign.text == ".");
    match has_schema {
        true => Some(((text(at)?, text(at + 2)?.to_lowercase()), at + 3)),
        false => Some(((schema.to_owned(), text(at)?.to_lowercase()), at + 1)),
    }
}

/// The places of tokens that are before the body of an event, and in no parentheses.
fn head(tokens: &[Token], from: usize) -> impl Iterator<Item = usize> {
    let mut depth = 0_usize;
    (from..tokens.len()).take_while(|at| word(tokens, *at) != "DO").filter(move |at| {
        match tokens.get(*at).map(|token| (&token.kind, token.text.as_str())) {
            Some((Kind::Sign, "(")) => depth += 1,
            Some((Kind::Sign, ")")) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// What a statement says about whether the event runs.
fn state(tokens: &[Token], from: usize, by: (u32, i64)) -> Option<State> {
    let at = head(tokens, from).find(|at| matches!(word(tokens, *at).as_str(), "ENABLE" | "DISABLE"))?;
    Some(match (word(tokens, at).as_str(), word(tokens, at + 1).as_str()) {
        ("ENABLE", _) => State::new("ENABLED", by),
        (_, "ON") => State::new("SLAVESIDE_DISABLED", by),
        _ => State::new("DISABLED", by),
    })
}

impl State {
    fn new(status: &str, (originator, time): (u32, i64)) -> State {
        State { status: status.to_owned(), originator, time: Some(time) }
    }
}

/// The states of all events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct States(BTreeMap<Key, State>);

impl States {
    /// Those that a server has.
    pub(crate) fn read(session: &mut Session) -> Result<States> {
        let mut all = BTreeMap::new();
        let query = "SELECT event_schema, event_name, status, originator FROM information_schema.events";
        for row in session.strings(query)? {
            let [Some(schema), Some(name), Some(status), Some(originator)] = &*row else { continue };
            // MySQL has another word for it since 8.2.
            let status = status.replace("REPLICA_SIDE", "SLAVESIDE");
            let state = State { status, originator: originator.parse().unwrap_or(0), time: None };
            all.insert((schema.clone(), name.to_lowercase()), state);
        }
        Ok(States(all))
    }

    /// What statements make of them.
    fn follow(&mut self, changes: &[Change]) {
        for change in changes {
            match change.clone() {
                Change::Make { event, replaces: false, .. } if self.0.contains_key(&event) => {}
                Change::Make { event, state, .. } => drop(self.0.insert(event, state)),
                Change::Drop(event) => drop(self.0.remove(&event)),
                Change::DropAll(schema) => self.0.retain(|(of, _), _| *of != schema),
                Change::Alter { event, renamed, state } => {
                    let Some(before) = self.0.remove(&event) else { continue };
                    self.0.insert(renamed.unwrap_or(event), state.unwrap_or(before));
                }
            }
        }
    }

    /// Gives the events of a server that has replayed the statements the state that they had in the original.
    /// `self` are the states before.
    pub(crate) fn put_back(
        mut self,
        session: &mut Session,
        changes: &[Change],
        report: &Shared,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.follow(changes);
        let now = States::read(session)?;
        if session.about.flavour == Flavour::MySql && session.about.version >= IN_DICTIONARY {
            return self.alter(&now, session, report);
        }
        session.execute("SET time_zone = '+00:00'")?;
        for ((schema, name), State { status, originator, time }) in &self.0 {
            let key = (schema.clone(), name.clone());
            if now.0.get(&key).is_none_or(|now| now.status == *status && now.originator == *originator) {
                continue;
            }
            let (schema, name, quoted) = (session.quote(schema), session.quote(name), session.quote(status));
            // In the table they are in UTC.
            let status = match time.filter(|_| status == "ENABLED") {
                Some(time) => {
                    format!("IF(COALESCE(execute_at, ends) < FROM_UNIXTIME({time}), 'DISABLED', {quoted})")
                }
                None => quoted,
            };
            session.execute(&format!(
                "UPDATE mysql.event SET status = {status}, originator = {originator}, created = created, modified = modified \
                 WHERE db = {schema} AND name = {name}"
            ))?;
        }
        Ok(())
    }

    /// The same where the table of events can't be written. What ALTER EVENT takes from its session is as it
    /// was when the event was made. It notes our own server as the one that did it, which only informs.
    fn alter(&self, now: &States, session: &mut Session, report: &Shared) -> Result<()> {
        for ((schema, name), State { status, time, .. }) in &self.0 {
            let key = (schema.clone(), name.clone());
            if now.0.get(&key).is_none_or(|now| now.status == *status) {
                continue;
            }
            let (quoted, own) = (session.quote(schema), session.quote(name));
            let query = format!(
                "SELECT definer, sql_mode, character_set_client, collation_connection, \
                 UNIX_TIMESTAMP(COALESCE(execute_at, ends)), NOW() > COALESCE(execute_at, ends) \
                 FROM information_schema.events WHERE event_schema = {quoted} AND event_name = {own}"
            );
            let rows = session.strings(&query)?;
            let Some([Some(definer), Some(mode), Some(client), Some(collation), end, is_over]) =
                rows.first().map(Vec::as_slice)
            else {
                continue;
            };
            let (user, host) = definer.rsplit_once('@').unwrap_or((definer, "%"));
            let event = format!("{}.{}", quote_name(schema), quote_name(name));
            let was_over = || {
                let end = end.as_ref().and_then(|end| end.split('.').next()?.parse::<i64>().ok());
                end.zip(*time).is_some_and(|(end, time)| end < time)
            };
            let word = match status.as_str() {
                "ENABLED" if was_over() => "DISABLE",
                "ENABLED" if is_over.as_deref() == Some("1") => {
                    report.warn(&format!(
                        "the event {event} was to run, and its time is over by now: it is disabled. ALTER EVENT with another time \
                         enables it"
                    ));
                    "DISABLE"
                }
                "ENABLED" => "ENABLE",
                "DISABLED" => "DISABLE",
                // A replica leaves it so.
                _ => continue,
            };
            let (user, host) = (session.quote(user), session.quote(host));
            let (mode, client, collation) =
                (session.quote(mode), session.quote(client), session.quote(collation));
            session.execute(&format!(
                "SET sql_mode = {mode}, character_set_client = {client}, collation_connection = {collation}"
            ))?;
            session.execute(&format!("ALTER DEFINER = {user}@{host} EVENT {event} {word}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: (u32, i64) = (7, 100);

    #[test]
    fn events_have_the_state_that_statements_gave_them() {
        let mut states = States::default();
        let mut follow = |sql: &str| {
            let made = change("app", sql, BY).unwrap_or_else(|| panic!("{sql}"));
            states.follow(&[made]);
            let shown =
                states.0.iter().map(|((schema, name), state)| format!("{schema}.{name} {}", state.status));
            shown.collect::<Vec<_>>().join(", ")
        };
        let on = "ON SCHEDULE EVERY 1 DAY";
        for (sql, wanted) in [
            (
                format!("CREATE DEFINER=`root`@`localhost` event E {on} DO UPDATE t SET disable = 1"),
                "app.e ENABLED",
            ),
            (format!("CREATE EVENT IF NOT EXISTS app.e {on} DISABLE DO SELECT 1"), "app.e ENABLED"),
            ("ALTER EVENT `e` COMMENT 'DISABLE'".to_owned(), "app.e ENABLED"),
            ("alter definer = root@localhost event e disable".to_owned(), "app.e DISABLED"),
            (format!("ALTER EVENT e {on} RENAME TO b.F"), "b.f DISABLED"),
            ("ALTER EVENT b.f ENABLE DO SELECT 2".to_owned(), "b.f ENABLED"),
            (
                format!("CREATE OR REPLACE DEFINER=`x` EVENT b.f {on} DISABLE ON SLAVE DO SELECT 1"),
                "b.f SLAVESIDE_DISABLED",
            ),
            (format!("CREATE EVENT g {on} DISABLE DO SELECT 1"), "app.g DISABLED, b.f SLAVESIDE_DISABLED"),
            ("DROP EVENT IF EXISTS app.g".to_owned(), "b.f SLAVESIDE_DISABLED"),
            ("DROP DATABASE IF EXISTS `b` /* generated */".to_owned(), ""),
        ] {
            assert_eq!(follow(&sql), wanted, "{sql}");
        }
        for none in
            ["CREATE TABLE event (a INT)", "INSERT INTO t VALUES ('DROP EVENT e')", "CREATE DATABASE event"]
        {
            assert_eq!(change("app", none, BY), None, "{none}");
        }
    }
}
