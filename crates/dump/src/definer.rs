//! Whose rights views, routines, triggers and events run with, and how what was rewritten is told.

use std::collections::BTreeMap;

use server::catalogue::Kind;
use server::{Session, quote_name};

use crate::manifest::Manifest;
use crate::{Error, World};

/// Who is to be the definer of views, routines, triggers and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Definer {
    /// Who it was.
    #[default]
    Keep,
    /// Whoever loads.
    Loader,
    /// This account, in backquotes: `` `app`@`localhost` ``.
    Account(String),
}

impl Definer {
    /// The same, with whoever loads by name: so the server will tell it.
    pub(crate) fn named(&self, session: &mut Session) -> Result<Definer, Error> {
        if *self != Definer::Loader {
            return Ok(self.clone());
        }
        let own = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
        let (user, host) = own.rsplit_once('@').unwrap_or((&own, "%"));
        Ok(Definer::Account(format!("{}@{}", quote_name(user), quote_name(host))))
    }
}

/// Puts another definer into all statements; returns a line for each object.
pub(crate) fn apply(manifest: &mut Manifest, definer: &Definer) -> Vec<String> {
    let with = match definer {
        Definer::Keep => return Vec::new(),
        Definer::Loader => "CURRENT_USER".to_owned(),
        Definer::Account(account) => account.clone(),
    };
    let mut lines = Vec::new();
    for object in manifest.objects.iter_mut().filter(|object| object.kind < Kind::Role) {
        let title = object.title();
        for statement in &mut object.statements {
            let Some((from, to)) = definer_of(statement) else { continue };
            let old = statement[from..to].to_owned();
            statement.replace_range(from..to, &with);
            lines.push(format!("{title}: definer {old} becomes {with}"));
        }
    }
    lines
}

/// Where the definer stands in a statement as the server prints it: before anything that a user wrote.
pub(crate) fn definer_of(statement: &str) -> Option<(usize, usize)> {
    const WORD: &str = " DEFINER=";
    let from = statement.find(WORD)? + WORD.len();
    let quote = statement[from..].chars().next().filter(|first| matches!(first, '`' | '\'' | '"'));
    // A role stands without a host.
    let name = |at: usize| match (quote, statement[at..].chars().next()) {
        (Some(quote), Some(first)) if first == quote => Some(at + closing(&statement[at..], quote)),
        _ => statement[at..].find([' ', '@', '\n']).map(|end| at + end),
    };
    let mut to = name(from)?;
    if statement[to..].starts_with('@') {
        to = name(to + 1)?;
    }
    // Before the first quote there is nothing but the server's own words.
    let head = &statement[..from];
    (!head.contains(['`', '\'', '"'])).then_some((from, to))
}

/// Where a quoted text ends, its closing quote included.
pub(crate) fn closing(text: &str, quote: char) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && quote != '`' {
            at += 2;
            continue;
        }
        if char::from(bytes[at]) == quote {
            if bytes.get(at + 1) != Some(&bytes[at]) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    text.len()
}

/// A line for each rewrite and not for each object: one may be in all of them.
pub(crate) fn tell(world: &World, rewrites: &[String]) {
    let mut by_rewrite: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (object, rewrite) in rewrites.iter().filter_map(|line| line.rsplit_once(": ")) {
        by_rewrite.entry(rewrite).or_default().push(object);
    }
    for (rewrite, objects) in by_rewrite {
        let more = match objects.len() {
            0..=3 => String::new(),
            count => format!(" and {} more", count - 3),
        };
        let first: Vec<_> = objects.into_iter().take(3).collect();
        world.progress.note(&format!("rewritten: {rewrite}, in {}{more}", first.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definer_is_found_where_the_server_puts_it() {
        let found = |sql: &str| definer_of(sql).map(|(from, to)| sql[from..to].to_owned());
        let view =
            "CREATE ALGORITHM=UNDEFINED DEFINER=`a``b`@`%` SQL SECURITY DEFINER VIEW `d`.`v` AS select 1";
        assert_eq!(found(view).as_deref(), Some("`a``b`@`%`"));
        assert_eq!(found("CREATE DEFINER=`role` PROCEDURE `p`() SELECT 1").as_deref(), Some("`role`"));
        assert_eq!(found("CREATE PROCEDURE `p`() SELECT ' DEFINER=`x`@`y`'"), None);
    }
}
