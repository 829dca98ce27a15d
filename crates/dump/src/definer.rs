//! With whose rights views, routines, triggers and events run, and how rewritten statements are reported.

use std::collections::BTreeMap;

use server::catalogue::Kind;
use server::definition::closing;
use server::{Session, quote_name};

use crate::manifest::Manifest;
use crate::{Context, Error};

/// The definer of views, routines, triggers and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Definer {
    /// The definer in the dump.
    #[default]
    Keep,
    /// The account that loads.
    Loader,
    /// This account, in backquotes: `` `app`@`localhost` ``.
    Account(String),
}

impl Definer {
    /// The same, with the name of the account that loads, as the server shows it.
    pub(crate) fn named(&self, session: &mut Session) -> Result<Definer, Error> {
        if *self != Definer::Loader {
            return Ok(self.clone());
        }
        let own = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
        let (user, host) = own.rsplit_once('@').unwrap_or((&own, "%"));
        Ok(Definer::Account(format!("{}@{}", quote_name(user), quote_name(host))))
    }
}

/// Puts another definer into all statements. Returns a line for each object.
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

/// Where the definer is in a statement that the server printed: before any text of a user.
pub(crate) fn definer_of(statement: &str) -> Option<(usize, usize)> {
    const WORD: &str = " DEFINER=";
    let from = statement.find(WORD)? + WORD.len();
    let quote = statement[from..].chars().next().filter(|first| matches!(first, '`' | '\'' | '"'));
    // A role has no host.
    let name = |at: usize| match (quote, statement[at..].chars().next()) {
        (Some(quote), Some(first)) if first == quote => Some(at + closing(&statement[at..], quote)),
        _ => statement[at..].find([' ', '@', '\n']).map(|end| at + end),
    };
    let mut to = name(from)?;
    if statement[to..].starts_with('@') {
        to = name(to + 1)?;
    }
    // Before the first quote there are only words of the server.
    let head = &statement[..from];
    (!head.contains(['`', '\'', '"'])).then_some((from, to))
}

/// Prints a line for each kind of rewrite and not for each object, because all objects may need it.
pub(crate) fn tell(context: &Context, rewrites: &[String]) {
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
        context.progress.note(&format!("rewritten: {rewrite}, in {}{more}", first.join(", ")));
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
