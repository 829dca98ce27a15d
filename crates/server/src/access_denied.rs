//! Finds the `GRANT` that helps against a "denied" error.
//!
//! The server reports a missing privilege in five forms of message. What they leave out (the schema of a
//! table, the privilege behind "access denied to database") is taken from the statement.

use crate::name::quote_name;

/// The server's message and its circumstances.
pub(crate) struct Denial<'a> {
    /// Server error code.
    pub(crate) code: u16,
    /// Server message.
    pub(crate) message: &'a str,
    /// The statement that was denied.
    pub(crate) statement: &'a str,
    /// `CURRENT_USER()`: the account that has the privileges, as `user@host`.
    pub(crate) account: &'a str,
    /// `DATABASE()`.
    pub(crate) database: Option<&'a str>,
}

/// A missing privilege.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) what: String,
    pub(crate) grant: String,
}

/// Privileges that can only be granted on whole schemas, although they are reported for a table.
const SCHEMA_ONLY: [&str; 4] = ["LOCK TABLES", "CREATE TEMPORARY TABLES", "EVENT", "CREATE ROUTINE"];

/// Whether an error code is about a privilege at all. Inside a session 1045 is: it means `FILE`.
pub(crate) fn is_denial(code: u16) -> bool {
    matches!(code, 1044 | 1045 | 1142 | 1143 | 1227 | 1370)
}

/// What is missing; `None` if the message has an unknown form.
pub(crate) fn missing(denial: &Denial<'_>) -> Option<Missing> {
    match denial.code {
        1142 => table(denial),
        1143 => column(denial),
        1227 => global(denial),
        1044 => schema(denial),
        1370 => routine(denial),
        1045 => file(denial),
        _ => None,
    }
}

fn granted(denial: &Denial<'_>, privilege: &str, on: &str) -> Missing {
    let to = quote_account(denial.account);
    let grant = match without_grant_option(privilege) {
        Some(rest) => format!("GRANT {rest} ON {on} TO {to} WITH GRANT OPTION"),
        None => format!("GRANT {privilege} ON {on} TO {to}"),
    };
    Missing { what: format!("{} lacks {privilege} on {on}", denial.account), grant }
}

/// `GRANT` is not granted by name but as `WITH GRANT OPTION`, with some other privilege.
fn without_grant_option(privilege: &str) -> Option<String> {
    let names: Vec<&str> = privilege.split(", ").collect();
    let rest: Vec<&str> = names.iter().copied().filter(|name| !name.starts_with("GRANT")).collect();
    if rest.len() == names.len() {
        return None;
    }
    Some(if rest.is_empty() { "USAGE".to_owned() } else { rest.join(", ") })
}

/// "SELECT, INSERT command denied to user 'a'@'h' for table `db`.`t`"; older servers name `'t'` alone.
fn table(denial: &Denial<'_>) -> Option<Missing> {
    let (privileges, rest) = denial.message.split_once(" command denied to user ")?;
    let (_, named) = rest.rsplit_once(" for table ")?;
    let (schema, table) = table_named(denial, named)?;
    let names: Vec<&str> = privileges.split(", ").collect();
    if let Some(privilege) = names.iter().find(|name| SCHEMA_ONLY.contains(name)) {
        return Some(granted(denial, privilege, &format!("{}.*", quote_name(&schema))));
    }
    // "SHOW" means any privilege on the table; there is no privilege of that name.
    let privileges = if privileges == "SHOW" { "SELECT" } else { privileges };
    // A privilege on a table that need not exist yet can't be granted by the table's name.
    let upper = denial.statement.to_ascii_uppercase();
    let creates = names.iter().any(|name| matches!(*name, "CREATE" | "CREATE VIEW"));
    let may_be_missing = creates || upper.contains("IF EXISTS") || upper.contains("OR REPLACE");
    let table = if may_be_missing { "*".to_owned() } else { quote_name(&table) };
    Some(granted(denial, privileges, &format!("{}.{table}", quote_name(&schema))))
}

/// "SELECT command denied to user 'a'@'h' for column 'c' in table 't'".
fn column(denial: &Denial<'_>) -> Option<Missing> {
    let (privilege, rest) = denial.message.split_once(" command denied to user ")?;
    let (_, rest) = rest.split_once(" for column ")?;
    let (column, named) = rest.rsplit_once(" in table ")?;
    let (schema, table) = table_named(denial, named)?;
    let privilege = format!("{privilege} ({})", quote_name(unquote(column)));
    Some(granted(denial, &privilege, &format!("{}.{}", quote_name(&schema), quote_name(&table))))
}

/// "Access denied; you need (at least one of) the SUPER, BINLOG ADMIN privilege(s) for this operation". The
/// last one is the narrowest.
fn global(denial: &Denial<'_>) -> Option<Missing> {
    let (_, rest) = denial.message.split_once(" the ")?;
    let (names, _) = rest.split_once(" privilege")?;
    let names = names.replace(" or ", ", ");
    let privilege = names.rsplit(", ").map(str::trim).find(|name| *name != "SUPER").unwrap_or("SUPER");
    Some(granted(denial, privilege, "*.*"))
}

/// "Access denied for user 'a'@'h' to database 'db'": the privilege follows from the statement.
fn schema(denial: &Denial<'_>) -> Option<Missing> {
    let (_, named) = denial.message.rsplit_once(" to database ")?;
    let on = format!("{}.*", quote_name(unquote(named)));
    Some(granted(denial, schema_privilege(denial.statement), &on))
}

fn schema_privilege(statement: &str) -> &'static str {
    let words: Vec<String> = statement.split_whitespace().take(12).map(str::to_ascii_uppercase).collect();
    let first = words.first().map_or("", String::as_str);
    let has = |word: &str| words.iter().any(|found| found == word);
    match first {
        "CREATE" if has("TEMPORARY") => "CREATE TEMPORARY TABLES",
        "CREATE" | "ALTER" | "DROP" if has("EVENT") => "EVENT",
        "CREATE" if has("PROCEDURE") || has("FUNCTION") || has("PACKAGE") => "CREATE ROUTINE",
        "CREATE" => "CREATE",
        "DROP" => "DROP",
        "ALTER" => "ALTER",
        "LOCK" | "FLUSH" => "LOCK TABLES",
        "SHOW" if has("EVENTS") => "EVENT",
        "GRANT" | "REVOKE" => "GRANT OPTION",
        _ => "SELECT",
    }
}

/// "alter routine command denied to user 'a'@'h' for routine 'db.p'".
fn routine(denial: &Denial<'_>) -> Option<Missing> {
    let (privilege, rest) = denial.message.split_once(" command denied to user ")?;
    let (_, named) = rest.rsplit_once(" for routine ")?;
    let (schema, name) = unquote(named).split_once('.')?;
    let upper = denial.statement.to_ascii_uppercase();
    let kind = if upper.contains("PACKAGE") {
        "PACKAGE"
    } else if upper.contains("PROCEDURE") || upper.trim_start().starts_with("CALL") {
        "PROCEDURE"
    } else {
        "FUNCTION"
    };
    let on = format!("{kind} {}.{}", quote_name(schema), quote_name(name));
    Some(granted(denial, &privilege.to_ascii_uppercase(), &on))
}

/// "Access denied for user 'a'@'h' (using password: YES)" in a session: this is about a file on the server.
fn file(denial: &Denial<'_>) -> Option<Missing> {
    let upper = denial.statement.to_ascii_uppercase();
    let reaches_files = ["OUTFILE", "DUMPFILE", "INFILE", "LOAD_FILE", "DATA DIRECTORY", "LOAD XML"];
    reaches_files.iter().any(|word| upper.contains(word)).then(|| granted(denial, "FILE", "*.*"))
}

/// The schema and table of a message: `` `db`.`t` ``, or `'t'` with the schema taken from the statement or
/// the session, or for some statements `'db.t'`. If none of these applies (a trigger's table is not in `DROP
/// TRIGGER db.r`), it is the first schema that the statement names.
fn table_named(denial: &Denial<'_>, named: &str) -> Option<(String, String)> {
    if let Ok(name) = named.parse::<crate::TableName>()
        && named.starts_with('`')
    {
        return Some((name.schema, name.table));
    }
    let table = unquote(named);
    if let Some(schema) = schema_in(denial.statement, table) {
        return Some((schema, table.to_owned()));
    }
    if let Some((schema, table)) = table.split_once('.') {
        return Some((schema.to_owned(), table.to_owned()));
    }
    let first = || denial.statement.split_once('.').and_then(|(head, _)| last_identifier(head));
    let schema = denial.database.map(str::to_owned).or_else(first)?;
    Some((schema, table.to_owned()))
}

/// The identifier before `.table` in a statement.
fn schema_in(statement: &str, table: &str) -> Option<String> {
    [format!(".{}", quote_name(table)), format!(".{table}")]
        .iter()
        .find_map(|tail| statement.find(tail.as_str()))
        .and_then(|at| last_identifier(&statement[..at]))
}

/// The identifier, quoted or not, at the end of a text.
fn last_identifier(text: &str) -> Option<String> {
    let name = match text.strip_suffix('`') {
        Some(quoted) => quoted.rsplit_once('`')?.1,
        None => text.rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).next()?,
    };
    (!name.is_empty()).then(|| name.to_owned())
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    for quote in ['\'', '`', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

/// `` `app`@`10.%` `` from `app@10.%`. The host contains no `@`, but the user may.
pub(crate) fn quote_account(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    format!("{}@{}", quote_name(user), quote_name(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(code: u16, message: &str, statement: &str) -> Option<String> {
        let denial = Denial { code, message, statement, account: "a@b@10.%", database: Some("here") };
        missing(&denial).map(|missing| missing.grant)
    }

    fn expect(code: u16, message: &str, statement: &str, on: &str) {
        let expected = format!("GRANT {on} TO `a@b`@`10.%`");
        assert_eq!(grant(code, message, statement).as_deref(), Some(expected.as_str()), "{message}");
    }

    #[test]
    fn messages_that_name_the_table_alone_are_completed() {
        let said = "SELECT command denied to user 'a'@'h' for table 'orders'";
        expect(1142, said, "SELECT 1 FROM shop.orders", "SELECT ON `shop`.`orders`");
        expect(1142, said, "SELECT 1 FROM `sh op`.`orders`", "SELECT ON `sh op`.`orders`");
        expect(1142, said, "SELECT 1 FROM `shop`.orders", "SELECT ON `shop`.`orders`");
        expect(1142, said, "SELECT 1 FROM orders", "SELECT ON `here`.`orders`");
        let said = "REFERENCES command denied to user 'a'@'h' for table 'shop.orders'";
        expect(1142, said, "ALTER TABLE x.c ...", "REFERENCES ON `shop`.`orders`");
        let said = "SELECT command denied to user 'a'@'h' for column 'c' in table 'orders'";
        expect(1143, said, "SELECT c FROM orders", "SELECT (`c`) ON `here`.`orders`");
    }

    #[test]
    fn other_servers_words_are_understood() {
        let said = "Access denied; you need (at least one of) the SUPER or SYSTEM_VARIABLES_ADMIN privilege(s) for this operation";
        expect(1227, said, "SET GLOBAL x = 1", "SYSTEM_VARIABLES_ADMIN ON *.*");
        let said = "Access denied; you need (at least one of) the SUPER privilege(s) for this operation";
        expect(1227, said, "SET GLOBAL x = 1", "SUPER ON *.*");
        let said = "Access denied; you need (at least one of) the BINLOG ADMIN, BINLOG REPLAY privilege(s) for this operation";
        expect(1227, said, "SET x = 1", "BINLOG REPLAY ON *.*");
        let said = "Access denied; you need the RELOAD privilege for this operation";
        expect(1227, said, "FLUSH TABLES", "RELOAD ON *.*");
        let said = "Access denied for user 'a'@'h' to database 'it''s'";
        expect(1044, said, "CREATE TEMPORARY TABLE x (a INT)", "CREATE TEMPORARY TABLES ON `it''s`.*");
    }

    #[test]
    fn unknown_words_give_no_wrong_advice() {
        for code in [1044, 1045, 1142, 1143, 1227, 1370, 1064] {
            for message in ["", "denied", "x command denied to user y", "Access denied for user 'a'@'h'"] {
                assert_eq!(grant(code, message, "SELECT 1"), None, "{code} {message}");
            }
        }
    }

    #[test]
    fn the_schema_of_a_trigger_is_its_tables() {
        let denial = Denial {
            code: 1142,
            message: "TRIGGER command denied to user 'a'@'h' for table 't'",
            statement: "DROP TRIGGER shop.r",
            account: "a@h",
            database: None,
        };
        assert_eq!(missing(&denial).unwrap().grant, "GRANT TRIGGER ON `shop`.`t` TO `a`@`h`");
    }

    #[test]
    fn odd_statements_do_no_harm() {
        let said = "SELECT command denied to user 'a'@'h' for table 't'";
        for statement in ["", ".t", "`.t", "``.t", "\u{e9}.t", "\u{20ac}x.`t`", "a.b.t"] {
            assert!(grant(1142, said, statement).is_some(), "{statement}");
        }
    }
}
