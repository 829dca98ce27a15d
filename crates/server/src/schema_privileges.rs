//! The privileges of an account per database, from SHOW GRANTS, so that everything that is missing is
//! reported at once before the work.

use crate::access_denied::quote_account;
use crate::name::quote_name;
use crate::{Error, Flavour, Session};

/// The privileges of a session's account. If they can't be known for sure, the account is assumed to have
/// them: the server itself will say otherwise.
#[derive(Clone, Debug, Default)]
pub struct SchemaPrivileges {
    account: String,
    /// Privileges, and the pattern of databases that they apply to.
    lines: Vec<(String, String)>,
    is_known: bool,
}

impl SchemaPrivileges {
    /// Reads the privileges.
    ///
    /// # Errors
    /// [`Error::LostConnection`] and the like.
    pub fn read(session: &mut Session) -> Result<SchemaPrivileges, Error> {
        let account = session.value("SELECT CURRENT_USER()")?.unwrap_or_default();
        let mut texts = Vec::new();
        for (sql, must) in [("SHOW GRANTS", true), ("SHOW GRANTS FOR PUBLIC", false)] {
            match session.strings(sql) {
                Ok(rows) => texts.extend(rows.into_iter().flatten().flatten()),
                Err(error) if error.code().is_some() && !must => {}
                Err(error) if error.code().is_some() => {
                    return Ok(SchemaPrivileges { account, ..SchemaPrivileges::default() });
                }
                Err(error) => return Err(error),
            }
        }
        // MySQL's roles have privileges that are not listed, and MySQL can revoke parts of a privilege.
        let roles = session.about.flavour == Flavour::MySql
            && texts.iter().any(|text| !text.contains(" ON ") || text.starts_with("REVOKE "));
        let lines = texts.iter().filter_map(|text| line(text)).collect();
        Ok(SchemaPrivileges { account, lines, is_known: !roles })
    }

    /// Whether it has a privilege on a database, or on anything in it.
    #[must_use]
    pub fn has(&self, privilege: &str, schema: &str) -> bool {
        let grants = |privileges: &str| {
            privileges == "ALL PRIVILEGES"
                || privileges.split(", ").any(|one| one.split(" (").next() == Some(privilege))
        };
        let holds = |(privileges, pattern): &(String, String)| {
            grants(privileges) && (pattern == "*" || matches(&pattern.to_lowercase(), &schema.to_lowercase()))
        };
        !self.is_known || self.lines.iter().any(holds)
    }

    /// Which of these privileges on databases are missing, as one error with every statement to run; `None`
    /// when none is missing.
    #[must_use]
    pub fn missing(&self, wanted: &[(String, Vec<&str>)]) -> Option<Error> {
        let (mut whats, mut grants) = (Vec::new(), Vec::new());
        for (schema, privileges) in wanted {
            let lacks: Vec<&str> = privileges.iter().copied().filter(|one| !self.has(one, schema)).collect();
            if !lacks.is_empty() {
                let (lacks, on) = (lacks.join(", "), format!("{}.*", quote_name(schema)));
                whats.push(format!("{lacks} on {on}"));
                grants.push(format!("GRANT {lacks} ON {on} TO {}", quote_account(&self.account)));
            }
        }
        let what = format!("{} lacks {}", self.account, whats.join("; "));
        (!grants.is_empty()).then(|| Error::Privilege { what, grant: grants.join("; "), code: 1044 })
    }
}

/// The privileges in a line of `SHOW GRANTS`, and its database, `*` for all; `None` for a line about anything
/// else.
fn line(text: &str) -> Option<(String, String)> {
    let (privileges, rest) = text.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let scope = rest.split(" TO ").next()?;
    let scope = ["TABLE ", "FUNCTION ", "PROCEDURE "]
        .iter()
        .find_map(|word| scope.strip_prefix(word))
        .unwrap_or(scope);
    let pattern = match scope.strip_prefix('`') {
        Some(quoted) => quoted.split("`.").next()?.replace("``", "`"),
        None => scope.split('.').next()?.to_owned(),
    };
    Some((privileges.to_owned(), pattern))
}

/// `LIKE`, where a backslash makes the next character literal.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => name.is_empty(),
        Some('%') => {
            let rest = rest.as_str();
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| matches(rest, &name[at..]))
        }
        Some(first) => {
            let wanted = if first == '\\' { rest.next() } else { Some(first) };
            let mut chars = name.chars();
            let found = chars.next();
            let any = first == '_' && found.is_some();
            (any || (found.is_some() && found == wanted)) && matches(rest.as_str(), chars.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(texts: &[&str]) -> SchemaPrivileges {
        let lines = texts.iter().filter_map(|text| line(text)).collect();
        SchemaPrivileges { account: "app@localhost".to_owned(), lines, is_known: true }
    }

    #[test]
    fn all_missing_privileges_are_reported_at_once() {
        let some = rights(&[
            "GRANT USAGE ON *.* TO `app`@`localhost`",
            "GRANT SELECT, SHOW VIEW ON `shop\\_%`.* TO `app`@`localhost`",
            "GRANT INSERT (`id`), TRIGGER ON `web`.`t` TO `app`@`localhost`",
            "GRANT `reader` TO `app`@`localhost`",
        ]);
        assert!(some.has("SELECT", "shop_1") && some.has("SHOW VIEW", "SHOP_1") && some.has("INSERT", "web"));
        assert!(!some.has("SELECT", "shopx1") && !some.has("VIEW", "shop_1") && !some.has("SELECT", "web"));
        let wanted =
            [("shop_1".to_owned(), vec!["SELECT", "EVENT", "TRIGGER"]), ("web".to_owned(), vec!["SELECT"])];
        let error = some.missing(&wanted).unwrap().to_string();
        assert!(
            error
                .contains("GRANT EVENT, TRIGGER ON `shop_1`.* TO `app`@`localhost`; GRANT SELECT ON `web`.*"),
            "{error}"
        );
        assert!(
            rights(&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"])
                .missing(&wanted)
                .is_none()
        );
        assert!(SchemaPrivileges::default().missing(&wanted).is_none());
    }
}
