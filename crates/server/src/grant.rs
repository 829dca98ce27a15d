//! The privileges of an account, from `SHOW GRANTS`: to report everything that is missing at once, before the
//! work.
//!
//! This is for good advice, not for security. What it does not understand it takes as a privilege: the server
//! itself decides in the end.

use crate::access_denied::quote_account;
use crate::{Error, Flavour, Session, TableName, quote_name};

/// What privileges are needed on.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// All tables of a database, including future ones.
    Schema(&'a str),
    /// One table.
    Table(&'a TableName),
}

/// The grants of one account.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    account: String,
    grants: Vec<Grant>,
    /// Whether some of them were not understood.
    unknown: bool,
    /// Whether names of databases and tables are case-insensitive.
    any_case: bool,
}

/// A line of `SHOW GRANTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    privileges: Vec<String>,
    /// A pattern; `None` is every database.
    schema: Option<String>,
    /// `None` is every table.
    table: Option<String>,
}

impl Grants {
    /// Asks the server.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn of(session: &mut Session) -> Result<Grants, Error> {
        let mut lines = session.strings("SHOW GRANTS")?;
        let about = &session.about;
        let since_public =
            about.flavour == Flavour::MariaDb && (about.version.major, about.version.minor) >= (10, 11);
        let any_case = about.lower_case_table_names != 0;
        if since_public {
            // PUBLIC's privileges are not listed with the account's. Perhaps nothing was granted to it.
            lines.extend(session.strings("SHOW GRANTS FOR PUBLIC").unwrap_or_default());
        }
        let account = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
        // MariaDB shows the privileges of an active role; MySQL 8 shows its name.
        let shows_roles = session.about.flavour == Flavour::MariaDb;
        let mut grants = Grants { account, any_case, ..Grants::default() };
        for line in lines.into_iter().flatten().flatten() {
            grants.add(&line, shows_roles);
        }
        Ok(grants)
    }

    fn add(&mut self, line: &str, shows_roles: bool) {
        match parse(line) {
            Some(grant) => self.grants.push(grant),
            None if shows_roles && (!line.contains(" ON ") || line.starts_with("SET DEFAULT ROLE")) => {}
            None if ["GRANT PROXY ", "GRANT USAGE "].iter().any(|start| line.starts_with(start)) => {}
            None if [" ON PROCEDURE ", " ON FUNCTION ", " ON PACKAGE "]
                .iter()
                .any(|on| line.contains(on)) => {}
            None => self.unknown = true,
        }
    }

    /// Whether the account has a privilege.
    #[must_use]
    pub fn has(&self, privilege: &str, scope: Scope<'_>) -> bool {
        self.unknown || self.grants.iter().any(|grant| grant.gives(privilege) && self.covers(grant, scope))
    }

    /// Whether it has any of these global privileges.
    #[must_use]
    pub fn has_global(&self, privileges: &[&str]) -> bool {
        let global = |grant: &&Grant| grant.schema.is_none();
        self.unknown
            || self.grants.iter().filter(global).any(|grant| privileges.iter().any(|name| grant.gives(name)))
    }

    /// The statement that grants global privileges.
    #[must_use]
    pub fn statement(&self, privileges: &[&str]) -> String {
        format!("GRANT {} ON *.* TO {}", privileges.join(", "), quote_account(&self.account))
    }

    /// The error for global privileges that are missing.
    pub(crate) fn lacking(&self, privileges: &[&str]) -> Error {
        let what = format!("{} lacks {} on *.*", self.account, privileges.join(", "));
        Error::Privilege { what, grant: self.statement(privileges), code: 1227 }
    }

    /// The error that lists everything that is missing, with the statements that grant it; `None` if nothing
    /// is missing.
    #[must_use]
    pub fn missing(&self, wanted: &[(Scope<'_>, &[&str])]) -> Option<Error> {
        let account = quote_account(&self.account);
        let (mut lacks, mut statements) = (Vec::new(), Vec::new());
        for (scope, privileges) in wanted {
            let missing: Vec<&str> =
                privileges.iter().copied().filter(|privilege| !self.has(privilege, *scope)).collect();
            if missing.is_empty() {
                continue;
            }
            let (names, on) = (missing.join(", "), scope.sql());
            lacks.push(format!("{names} on {on}"));
            statements.push(format!("GRANT {names} ON {on} TO {account}"));
        }
        if lacks.is_empty() {
            return None;
        }
        let what = format!("{} lacks {}", self.account, lacks.join(" and "));
        Some(Error::Privilege { what, grant: statements.join("; "), code: 1142 })
    }

    fn covers(&self, grant: &Grant, scope: Scope<'_>) -> bool {
        let (schema, table) = match scope {
            Scope::Schema(schema) => (schema, None),
            Scope::Table(name) => (name.schema.as_str(), Some(name.table.as_str())),
        };
        let fold = |text: &str| if self.any_case { text.to_lowercase() } else { text.to_owned() };
        let in_schema = match (&grant.schema, &grant.table) {
            (None, _) => true,
            (Some(pattern), None) => is_like(&fold(schema), &fold(pattern)),
            // In a grant for a table the database is not a pattern.
            (Some(name), Some(_)) => fold(name) == fold(schema),
        };
        in_schema
            && match &grant.table {
                None => true,
                Some(name) => table.is_some_and(|table| fold(name) == fold(table)),
            }
    }
}

impl Scope<'_> {
    fn sql(self) -> String {
        match self {
            Scope::Schema(schema) => format!("{}.*", quote_name(schema)),
            Scope::Table(name) => name.to_string(),
        }
    }
}

impl Grant {
    fn gives(&self, privilege: &str) -> bool {
        self.privileges.iter().any(|own| own == privilege || own == "ALL PRIVILEGES" || own == "ALL")
    }
}

/// ``GRANT SELECT, INSERT (`a`) ON `db`.`t` TO ...``; `None` for anything else.
fn parse(line: &str) -> Option<Grant> {
    let (privileges, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let rest = rest.strip_prefix("TABLE ").unwrap_or(rest);
    let (schema, rest) = name(rest)?;
    let (table, rest) = name(rest.strip_prefix('.')?)?;
    rest.strip_prefix(" TO ")?;
    Some(Grant { privileges: words(privileges), schema, table })
}

/// A name in backquotes, or `*` for any, and the rest of the text.
fn name(text: &str) -> Option<(Option<String>, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((None, rest));
    }
    let inner = text.strip_prefix('`')?;
    let mut end = 0;
    loop {
        end += inner.get(end..)?.find('`')?;
        if !inner.get(end + 1..)?.starts_with('`') {
            let name = inner.get(..end)?.replace("``", "`");
            return Some((Some(name), inner.get(end + 1..)?));
        }
        end += 2;
    }
}

/// The privileges of a list. A privilege on some columns counts like one on the table.
fn words(list: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut depth) = (String::new(), 0_u32);
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => words.push(std::mem::take(&mut word).trim().to_owned()),
            letter if depth == 0 => word.push(letter),
            _ => {}
        }
    }
    words.push(word.trim().to_owned());
    words
}

/// LIKE: `%` is any text, `_` any character, and a backslash makes the next character literal.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut pattern_rest = pattern.chars();
    match pattern_rest.next() {
        None => text.is_empty(),
        Some('%') => {
            let rest = pattern_rest.as_str();
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| is_like(&text[at..], rest))
        }
        Some(wanted) => {
            let wanted = match wanted {
                '_' => None,
                '\\' => Some(pattern_rest.next().unwrap_or('\\')),
                other => Some(other),
            };
            let mut text_rest = text.chars();
            let fits = text_rest.next().is_some_and(|letter| wanted.is_none_or(|wanted| wanted == letter));
            fits && is_like(text_rest.as_str(), pattern_rest.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(lines: &[&str]) -> Grants {
        let mut grants = Grants { account: "a@h".into(), ..Grants::default() };
        lines.iter().for_each(|line| grants.add(line, true));
        grants
    }

    fn table(schema: &str, table: &str) -> TableName {
        TableName { schema: schema.into(), table: table.into() }
    }

    #[test]
    fn a_grant_covers_what_it_names() {
        let grants = grants(&[
            "GRANT USAGE ON *.* TO `a`@`h` IDENTIFIED BY PASSWORD '*12'",
            "GRANT SELECT, INSERT (`x`, `y`), CREATE TEMPORARY TABLES ON `my\\_db%`.* TO `a`@`h`",
            "GRANT DROP ON `o``dd`.`t` TO `a`@`h` WITH GRANT OPTION",
            "GRANT `role` TO `a`@`h`",
            "GRANT EXECUTE ON PROCEDURE `d`.`p` TO `a`@`h`",
        ]);
        let (one, other) = (table("my_db1", "t"), table("mydb1", "t"));
        assert!(grants.has("SELECT", Scope::Schema("my_db1")) && grants.has("INSERT", Scope::Table(&one)));
        assert!(!grants.has("SELECT", Scope::Table(&other)) && !grants.has("DROP", Scope::Table(&one)));
        let odd = table("o`dd", "t");
        assert!(grants.has("DROP", Scope::Table(&odd)) && !grants.has("DROP", Scope::Schema("o`dd")));
    }

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let grants = grants(&["GRANT SELECT ON `d`.`t` TO `a`@`h`"]);
        let t = table("d", "t");
        let wanted =
            [(Scope::Table(&t), ["SELECT", "INSERT"].as_slice()), (Scope::Schema("w"), &["CREATE", "DROP"])];
        let error = grants.missing(&wanted).unwrap().to_string();
        assert_eq!(
            error,
            "a@h lacks INSERT on `d`.`t` and CREATE, DROP on `w`.*; let an administrator run: \
             GRANT INSERT ON `d`.`t` TO `a`@`h`; GRANT CREATE, DROP ON `w`.* TO `a`@`h`"
        );
        assert!(grants.missing(&wanted[..0]).is_none());
    }

    #[test]
    fn grants_that_are_not_understood_are_left_to_the_server() {
        for line in ["GRANT ALL PRIVILEGES ON *.* TO `a`@`h`", "REVOKE SELECT ON `d`.* FROM `a`@`h`"] {
            assert!(grants(&[line]).has("DROP", Scope::Schema("d")), "{line}");
        }
    }
}
