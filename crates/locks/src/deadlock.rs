//! The last deadlock, out of the text of `SHOW ENGINE INNODB STATUS`.
//!
//! The text is made for people, and statements of users are in it as they are: with line ends, and with lines
//! that look like InnoDB's own. What is not certain is not taken apart; its text is shown instead.
//!
//! The forms were seen on MariaDB 10.11 and MySQL 9.7. MariaDB does not list what a
//! transaction held: it says with which locks another one's wait was in conflict, and whose they were.

use serde::{Deserialize, Serialize};

use crate::connection::statement_kind;

/// Statements are cut by InnoDB at about 3000 bytes.
const STATEMENT_MAX: usize = 2900;

/// A deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlock {
    /// When it was detected, `YYYY-MM-DD hh:mm:ss` in the server's time zone.
    pub time: String,
    /// Who took part; empty if the text could not be taken apart with certainty.
    pub parties: Vec<Participant>,
    /// The text, as the server wrote it; empty if what it holds of the application was taken out.
    pub text: String,
}

impl Deadlock {
    /// Leaves of each statement only what kind of statement it is. The server's text goes: it has statements
    /// and rows.
    pub fn hide_statements(&mut self) {
        self.text.clear();
        for party in &mut self.parties {
            party.statement = statement_kind(&party.statement);
        }
    }
}

/// A transaction that took part in a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    /// InnoDB's number of the transaction.
    pub transaction: String,
    /// For how many seconds it had been open.
    pub seconds: Option<u64>,
    /// Its connection.
    pub connection: Option<u64>,
    /// Host, account and state, in the server's words.
    pub account: String,
    /// Its statement.
    pub statement: String,
    /// Whether the statement is probably longer.
    pub is_cut: bool,
    /// The locks that it held and that others wanted.
    pub holds: Vec<DeadlockLock>,
    /// The locks that it waited for.
    pub wants: Vec<DeadlockLock>,
    /// Whether it was rolled back.
    pub is_victim: bool,
}

/// A lock in a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlockLock {
    /// The table and, for locks on rows, the index.
    pub object: String,
    /// What kind of lock, in the server's words.
    pub mode: String,
}

/// The last deadlock; `None` if there was none since the server was started.
#[must_use]
pub fn last_deadlock(status: &str) -> Option<Deadlock> {
    let lines: Vec<&str> = status.lines().collect();
    let titles: Vec<usize> = (1..lines.len())
        .filter(|at| title(&lines, *at).is_some_and(|title| title == "LATEST DETECTED DEADLOCK"))
        .collect();
    let begin = titles.first()? + 2;
    let end = (begin..lines.len()).find(|at| title(&lines, *at).is_some()).map_or(lines.len(), |at| at - 1);
    let section = lines.get(begin..end)?;
    let time: String = section.first()?.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let parties = if titles.len() == 1 { parties(section).unwrap_or_default() } else { Vec::new() };
    Some(Deadlock { time, parties, text: section.join("\n") })
}

/// The title at this line: a line between two of dashes.
fn title<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let is_rule = |at: Option<usize>| {
        let line = at.and_then(|at| lines.get(at)).copied().unwrap_or_default();
        line.len() >= 3 && line.bytes().all(|byte| byte == b'-')
    };
    let line = lines.get(at).copied().filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))?;
    (is_rule(at.checked_sub(1)) && is_rule(Some(at + 1))).then_some(line)
}

/// What a line announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heading {
    Transaction(usize),
    Holds,
    Wants,
    /// The locks that others hold.
    Conflict,
    RollsBack(usize),
}

fn heading(line: &str, next: &str) -> Option<Heading> {
    let words = line.strip_prefix("*** ")?;
    let is_lock = next.starts_with("RECORD LOCKS ") || next.starts_with("TABLE LOCK ");
    let of = |words: &str| -> Option<Heading> {
        match words {
            "WAITING FOR THIS LOCK TO BE GRANTED:" if is_lock => Some(Heading::Wants),
            "HOLDS THE LOCK(S):" if is_lock => Some(Heading::Holds),
            "CONFLICTING WITH:" if is_lock => Some(Heading::Conflict),
            _ => None,
        }
    };
    if let Some(number) = words.strip_prefix("WE ROLL BACK TRANSACTION ") {
        return Some(Heading::RollsBack(parenthesised(number)?.0));
    }
    match parenthesised(words) {
        Some((number, " TRANSACTION:")) if next.starts_with("TRANSACTION ") => {
            Some(Heading::Transaction(number))
        }
        Some((_, rest)) => of(rest.trim_start()),
        None => of(words),
    }
}

/// `(7) rest`
fn parenthesised(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.strip_prefix('(')?.split_once(')')?;
    Some((number.parse().ok()?, rest))
}

/// Takes a section apart; `None` if anything in it is not as it must be.
fn parties(section: &[&str]) -> Option<Vec<Participant>> {
    let mut parties: Vec<Participant> = Vec::new();
    let mut conflicts: Vec<(String, DeadlockLock)> = Vec::new();
    let mut part = None;
    let mut victim = None;
    for (at, line) in section.iter().enumerate() {
        let next = section.get(at + 1).copied().unwrap_or_default();
        let found = heading(line, next);
        if victim.is_some() {
            // Nothing but empty lines may follow.
            if !line.trim().is_empty() {
                return None;
            }
            continue;
        }
        match found {
            Some(Heading::Transaction(number)) => {
                if number != parties.len() + 1 {
                    return None;
                }
                parties.push(Participant::default());
            }
            Some(Heading::RollsBack(number)) => victim = Some(number),
            // Each of them occurs once; a second one is in a statement, or the first was.
            Some(Heading::Wants) if !parties.last()?.wants.is_empty() => return None,
            Some(Heading::Holds) if !parties.last()?.holds.is_empty() => return None,
            _ => {}
        }
        if found.is_some() {
            part = found;
            continue;
        }
        let Some(party) = parties.last_mut() else { continue };
        match part {
            Some(Heading::Transaction(_)) => party.read(line),
            Some(Heading::Wants) => party.wants.extend(lock(line).map(|(_, lock)| lock)),
            Some(Heading::Holds) => party.holds.extend(lock(line).map(|(_, lock)| lock)),
            Some(Heading::Conflict) => conflicts.extend(lock(line)),
            Some(Heading::RollsBack(_)) | None => {}
        }
    }
    for (transaction, lock) in conflicts {
        let owner = parties.iter_mut().find(|party| party.transaction == transaction);
        if let Some(owner) = owner.filter(|owner| !owner.holds.contains(&lock)) {
            owner.holds.push(lock);
        }
    }
    // Older versions of MariaDB name transaction 0.
    if let Some(party) = victim?.checked_sub(1).and_then(|at| parties.get_mut(at)) {
        party.is_victim = true;
    }
    let is_known = |party: &Participant| party.connection.is_some() && !party.wants.is_empty();
    parties.iter_mut().for_each(Participant::end);
    (parties.len() > 1 && parties.iter().all(is_known)).then_some(parties)
}

impl Participant {
    /// Reads a line of its first part: numbers, then the statement.
    fn read(&mut self, line: &str) {
        if self.transaction.is_empty() {
            let rest = line.strip_prefix("TRANSACTION ").unwrap_or_default();
            self.transaction = rest.chars().take_while(char::is_ascii_digit).collect();
            let active = rest.split_once("ACTIVE ").map(|(_, rest)| rest);
            let number = active.and_then(|active| active.split_whitespace().next());
            self.seconds = number.and_then(|number| number.parse().ok());
            return;
        }
        if self.connection.is_some() {
            self.statement.push_str(line);
            self.statement.push('\n');
            return;
        }
        let thread =
            line.strip_prefix("MariaDB thread id ").or_else(|| line.strip_prefix("MySQL thread id "));
        let Some(thread) = thread else { return };
        self.connection = thread.split(',').next().and_then(|id| id.parse().ok());
        let query = thread.split_once("query id ").map_or("", |(_, rest)| rest);
        self.account = query.split_once(' ').map_or("", |(_, rest)| rest).trim().to_owned();
    }

    /// Cleans up its statement, which MySQL separates by an empty line.
    fn end(&mut self) {
        self.is_cut = self.statement.len() >= STATEMENT_MAX;
        self.statement.truncate(self.statement.trim_end().len());
    }
}

/// The lock of a line, and the transaction that has it.
fn lock(line: &str) -> Option<(String, DeadlockLock)> {
    let is_row = line.starts_with("RECORD LOCKS ");
    if !is_row && !line.starts_with("TABLE LOCK ") {
        return None;
    }
    let (before, after) = line.split_once(" trx id ")?;
    let (transaction, mode) = after.split_once(' ')?;
    let (_, table) = before.split_once("table ")?;
    let table = table.replace('`', "");
    let index = before.split_once(" index ").and_then(|(_, rest)| rest.split_once(" of table "));
    let object = match index {
        Some((index, _)) if is_row => format!("{table}, index {}", index.replace('`', "")),
        _ => table,
    };
    let mode = mode.trim_end_matches(" waiting").replace("lock_mode ", "").replace("lock mode ", "");
    Some((transaction.to_owned(), DeadlockLock { object, mode }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: &str = include_str!("deadlock/mariadb-10.11.txt");
    const THREE: &str = include_str!("deadlock/mariadb-10.11-three.txt");
    const MYSQL: &str = include_str!("deadlock/mysql-9.7.txt");

    /// Those who took part, in the order of their statements.
    fn parties(text: &str) -> Vec<Participant> {
        let mut parties = last_deadlock(text).unwrap().parties;
        parties.sort_by(|a, b| a.statement.cmp(&b.statement));
        parties
    }

    #[test]
    fn deadlock_both_grammars() {
        for (text, first, second) in [(MARIADB, "Updating", "Updating"), (MYSQL, "updating", "updating")] {
            let found = last_deadlock(text).unwrap();
            assert!(found.time.starts_with("2026-11-2") && found.time.len() == 19, "{}", found.time);
            let sorted = parties(text);
            let [a, b] = sorted.as_slice() else { panic!("{sorted:?}") };
            assert_eq!(a.statement, "UPDATE d.t1 SET a = 2 WHERE id = 5");
            assert_eq!(b.statement, "UPDATE d.t1 SET a = 3\n  WHERE id = 1");
            assert!(a.account.ends_with(first) && b.account.ends_with(second), "{} {}", a.account, b.account);
            assert!(a.account.starts_with("localhost root"), "{}", a.account);
            assert_ne!(a.connection, b.connection);
            assert_eq!((a.is_victim, b.is_victim), (false, true));
            for party in [a, b] {
                let lock = DeadlockLock {
                    object: "d.t1, index PRIMARY".into(),
                    mode: "X locks rec but not gap".into(),
                };
                assert_eq!((&party.holds, &party.wants), (&vec![lock.clone()], &vec![lock]));
                assert!(party.seconds.is_some() && !party.is_cut);
            }
        }
    }

    #[test]
    fn deadlock_three() {
        let found = parties(THREE);
        assert_eq!(found.len(), 3);
        assert_eq!(found.iter().filter(|party| party.is_victim).count(), 1);
        assert!(found.iter().all(|party| party.holds.len() == 1 && party.wants.len() == 1), "{found:?}");
    }

    #[test]
    fn deadlock_fake_header() {
        let statement = "UPDATE d.t1 SET a = 2 WHERE id = 5";
        let with = |text: &str, more: &str| {
            assert!(text.contains(statement));
            text.replacen(statement, &format!("{statement}{more}"), 1)
        };
        for text in [MARIADB, MYSQL] {
            // Lines that can't be InnoDB's belong to the statement.
            for more in [
                "\n*** (2) TRANSACTION:\nx",
                "\n*** (1) HOLDS THE LOCK(S):\nx",
                "\n*** CONFLICTING WITH:",
                "\n*** more",
            ] {
                let found = parties(&with(text, more));
                assert_eq!(found.first().map(|party| &party.statement), Some(&format!("{statement}{more}")));
            }
            // Those that can be make the whole doubtful: only the text is shown.
            let lock = "RECORD LOCKS space id 1 page no 4 n bits 72 index PRIMARY of table `d`.`t1` trx id 9 \
                        lock_mode X waiting";
            for more in [
                "\n*** (2) TRANSACTION:\nTRANSACTION 99, ACTIVE 1 sec\nMariaDB thread id 4, query id 3 x y",
                "\n*** (3) TRANSACTION:\nTRANSACTION 99, ACTIVE 1 sec",
                &format!("\n*** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n{lock}"),
                &format!("\n*** WAITING FOR THIS LOCK TO BE GRANTED:\n{lock}"),
                "\n*** WE ROLL BACK TRANSACTION (1)",
                "\n---\nTRANSACTIONS\n---",
                "\n---\nLATEST DETECTED DEADLOCK\n---",
            ] {
                let found = last_deadlock(&with(text, more)).unwrap();
                assert!(found.parties.is_empty(), "{more}: {:?}", found.parties);
                assert!(found.text.contains(statement));
            }
        }
    }

    #[test]
    fn a_whole_transaction_in_a_statement_is_noticed_by_the_next_number() {
        let lock = "RECORD LOCKS space id 1 page no 4 n bits 72 index PRIMARY of table `d`.`t1` trx id 9 lock_mode X";
        let fake = format!(
            "\n*** (1) HOLDS THE LOCK(S):\n{lock}\n\n*** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n{lock} waiting\n\
             *** (2) TRANSACTION:\nTRANSACTION 99, ACTIVE 1 sec\nMySQL thread id 4, query id 3 x y\nSELECT 1"
        );
        let statement = "UPDATE d.t1 SET a = 2 WHERE id = 5";
        let text = MYSQL.replacen(statement, &format!("{statement}{fake}"), 1);
        assert_eq!(parties(&text), []);
    }

    #[test]
    fn deadlock_cut_statement() {
        let long = format!("SELECT '{}", "x".repeat(2995));
        let text = MARIADB.replacen("UPDATE d.t1 SET a = 2 WHERE id = 5", &long, 1);
        let found = parties(&text);
        let cut: Vec<&Participant> = found.iter().filter(|party| party.is_cut).collect();
        assert!(cut.len() == 1 && cut[0].statement == long, "{found:?}");
    }

    #[test]
    fn without_a_deadlock_or_with_half_of_it_nothing_is_made_up() {
        assert_eq!(last_deadlock("------------\nTRANSACTIONS\n------------\nTrx id counter 5\n"), None);
        for end in (0..MARIADB.len()).step_by(97) {
            let part = MARIADB.get(..end).unwrap_or_default();
            if let Some(found) = last_deadlock(part) {
                assert!(found.parties.is_empty() || part.contains("WE ROLL BACK"), "{end}");
            }
        }
        // Older versions of MariaDB name transaction 0.
        let nobody = MARIADB.replace("WE ROLL BACK TRANSACTION (1)", "WE ROLL BACK TRANSACTION (0)");
        assert!(parties(&nobody).len() == 2 && !parties(&nobody).iter().any(|party| party.is_victim));
    }
}
