//! Which tables a statement may be about, as far as its text says.

use crate::effective_statement::{acting, word};
use innodb::table::sql::{Kind, Token};

/// What a statement does to tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing to their rows and columns.
    None,
    /// It changes what they are, or empties them.
    Definition,
    /// It may change rows.
    Rows,
}

/// Statements that leave rows and columns as they are, by their first word. What a function in them does is
/// logged as SELECT.
const HARMLESS: [&str; 11] =
    ["ANALYZE", "CHECK", "FLUSH", "GRANT", "INSTALL", "KILL", "OPTIMIZE", "REVOKE", "SET", "UNINSTALL", "XA"];

/// What may stand before a parenthesis and is no stored function.
const PLAIN: &str = "ABS ADDDATE ADDTIME ALL AND ANY AS AVG BETWEEN BIGINT BINARY BY CASE CAST CEIL CEILING CHAR \
    CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONVERT COUNT CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURTIME \
    DATE DATEDIFF DATETIME DATE_ADD DATE_FORMAT DATE_SUB DAY DECIMAL DISTINCT DIV DOUBLE ELSE EXISTS EXTRACT FLOOR \
    FORMAT FROM FROM_UNIXTIME GREATEST GROUP_CONCAT HAVING HEX HOUR IF IFNULL IN INDEX INSERT INSTR INT INTEGER INTERVAL \
    ISNULL JOIN JSON_EXTRACT JSON_SET JSON_VALUE KEY LAST_INSERT_ID LEAST LEFT LENGTH LIKE LIMIT LINES LOCATE LOWER LPAD \
    LTRIM MAX MD5 MID MIN MINUTE MOD MONTH NAME_CONST NOT NOW NULLIF ON OR OVER PARTITION POW POWER RAND REGEXP REPEAT \
    REPLACE RIGHT ROUND ROW RPAD RTRIM SECOND SELECT SET SHA1 SHA2 SIGN SIGNED SUBSTR SUBSTRING SUM SYSDATE THAN THEN \
    TIME TIMESTAMP TIMESTAMPDIFF TO_DAYS TRIM TRUNCATE UNHEX UNION UNIX_TIMESTAMP UNSIGNED UPPER USING UTC_TIMESTAMP \
    UUID VALUE VALUES VARCHAR WHEN WHERE XOR YEAR";

/// A statement.
pub struct TableReferences {
    /// What it does.
    pub effect: Effect,
    /// Tables: database, if it says one, and name.
    tables: Vec<(Option<String>, String)>,
    /// A database that it removes.
    schema: Option<String>,
    /// It is not understood: it may be about any table.
    is_unclear: bool,
    /// It may call a stored function, which may change rows of any table.
    is_calling: bool,
}

impl TableReferences {
    /// Reads a statement.
    #[must_use]
    pub fn of(sql: &str) -> TableReferences {
        let unclear = TableReferences {
            effect: Effect::Rows,
            tables: Vec::new(),
            schema: None,
            is_unclear: true,
            is_calling: false,
        };
        let Some(tokens) = acting(sql) else { return unclear };
        let (first, object) = (word(&tokens, 0), object(&tokens));
        let is_table = matches!(word(&tokens, object).as_str(), "TABLE" | "TABLES" | "SEQUENCE");
        let is_schema = matches!(word(&tokens, object).as_str(), "DATABASE" | "SCHEMA");
        let effect = match first.as_str() {
            // Only a comment.
            "" if tokens.is_empty() => Effect::None,
            first if HARMLESS.contains(&first) => Effect::None,
            "DROP" if is_schema => Effect::Definition,
            "CREATE" | "DROP" | "ALTER" | "RENAME" if is_table => Effect::Definition,
            "CREATE" | "DROP" | "ALTER" => Effect::None,
            "RENAME" if word(&tokens, object) == "USER" => Effect::None,
            // It leaves out the rows that it can't read.
            "REPAIR" | "TRUNCATE" => Effect::Definition,
            "DELETE" | "INSERT" | "LOAD" | "REPLACE" | "UPDATE" | "WITH" | "SELECT" | "DO" | "CALL" => {
                Effect::Rows
            }
            _ => return unclear,
        };
        let is_routine = effect == Effect::None && word(&tokens, object) != "TEMPORARY";
        let is_calling = !is_routine && calls(&first, &tokens);
        let effect = if is_calling && effect == Effect::None { Effect::Rows } else { effect };
        let mut tables = named(sql, &tokens);
        // The statement is in another character set.
        let is_unclear = tables.iter().any(|(_, name)| name.contains(char::REPLACEMENT_CHARACTER));
        let mut schema = None;
        if first == "DROP" && is_schema {
            schema = tables.pop().map(|(_, name)| name);
            tables.clear();
        }
        // What it makes is changed, not what it is made of.
        if first == "CREATE" {
            let skipped = ["CREATE", "OR", "REPLACE", "TABLE", "SEQUENCE", "IF", "NOT", "EXISTS"];
            tables.retain(|(schema, name)| {
                schema.is_some() || !skipped.contains(&name.to_uppercase().as_str())
            });
            tables.truncate(1);
        }
        TableReferences { effect, tables, schema, is_unclear, is_calling }
    }

    /// Whether it may be about a table for which this holds, or about all of a database. `schema` is the
    /// default database.
    pub fn is_about(&self, schema: &str, is_meant: impl FnMut(&str, Option<&str>) -> bool) -> bool {
        self.is_calling || self.names(schema, is_meant)
    }

    /// Names that differ in upper and lower case may be the same table.
    fn names(&self, schema: &str, mut is_meant: impl FnMut(&str, Option<&str>) -> bool) -> bool {
        let mut is_any_meant = |schema: &str, name: Option<&str>| {
            is_meant(schema, name) || is_meant(&schema.to_lowercase(), name.map(str::to_lowercase).as_deref())
        };
        self.is_unclear
            || self.schema.as_ref().is_some_and(|own| is_any_meant(own, None))
            || self
                .tables
                .iter()
                .any(|(own, name)| is_any_meant(own.as_deref().unwrap_or(schema), Some(name)))
    }

    /// Whether it may change what this table is.
    #[must_use]
    pub fn redefines(&self, default: &str, schema: &str, table: &str) -> bool {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        self.effect == Effect::Definition
            && self.names(default, |own, name| same(own, schema) && name.is_none_or(|name| same(name, table)))
    }
}

/// Where a statement says what it makes, alters or removes.
fn object(tokens: &[Token]) -> usize {
    let is_between =
        |at: &usize| matches!(word(tokens, *at).as_str(), "OR" | "REPLACE" | "ONLINE" | "OFFLINE" | "IGNORE");
    (1..).find(|at| !is_between(at)).unwrap_or(1)
}

/// Whether a statement may call stored functions, which may do anything.
fn calls(first: &str, tokens: &[Token]) -> bool {
    // Before these there are names with columns.
    let begins: &[&str] = match first {
        "INSERT" | "REPLACE" => &["VALUES", "VALUE", "SELECT", "SET"],
        "CREATE" => &["VALUES", "SELECT"],
        "LOAD" => &["SET"],
        "DELETE" | "UPDATE" | "WITH" => &[first],
        // They are logged because of what they call.
        "SELECT" | "DO" | "CALL" => return true,
        _ => return false,
    };
    let from = (0..tokens.len()).find(|at| begins.contains(&word(tokens, *at).as_str()));
    let is_sign = |at: usize, sign: &str| {
        tokens.get(at).is_some_and(|token| token.kind == Kind::Sign && token.text == sign)
    };
    let is_plain = |at: usize| {
        let word = word(tokens, at);
        let is_of_schema = at.checked_sub(1).is_some_and(|at| is_sign(at, "."));
        !word.is_empty() && !is_of_schema && PLAIN.split_ascii_whitespace().any(|plain| plain == word)
    };
    let is_name =
        |at: usize| tokens.get(at).is_some_and(|token| matches!(token.kind, Kind::Word | Kind::Name));
    from.is_some_and(|from| {
        (from..tokens.len()).any(|at| is_name(at) && is_sign(at + 1, "(") && !is_plain(at))
    })
}

/// All words that may be the name of a table, with their database.
fn named(sql: &str, tokens: &[Token]) -> Vec<(Option<String>, String)> {
    let is_name = |token: &&Token| match token.kind {
        Kind::Word | Kind::Name => true,
        // With ANSI_QUOTES that is a name.
        Kind::Text => sql.as_bytes().get(token.start) == Some(&b'"'),
        _ => false,
    };
    let is_dot = |at: Option<usize>| {
        at.and_then(|at| tokens.get(at)).is_some_and(|token| token.kind == Kind::Sign && token.text == ".")
    };
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| is_name(token)) {
        if is_dot(at.checked_add(1)) {
            continue;
        }
        let schema = at.checked_sub(2).filter(|_| is_dot(at.checked_sub(1)));
        let schema = schema.and_then(|at| tokens.get(at)).filter(is_name).map(|token| token.text.clone());
        names.push((schema, token.text.clone()));
    }
    // With NO_BACKSLASH_ESCAPES such a text ends earlier.
    let is_long = |text: &&str| text.contains("\\'") || text.contains("\\\"");
    let texts = tokens.iter().filter(|token| token.kind == Kind::Text);
    for text in texts.filter_map(|token| sql.get(token.start..token.end)).filter(is_long) {
        let plain = text.replace('`', "");
        for name in plain.split(|char: char| !char.is_alphanumeric() && !"._$".contains(char)) {
            let (schema, name) =
                name.split_once('.').map_or((None, name), |(schema, name)| (Some(schema), name));
            names.push((schema.map(str::to_owned), name.to_owned()));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redefines(sql: &str) -> bool {
        TableReferences::of(sql).redefines("app", "app", "orders")
    }

    #[test]
    fn statements_that_change_a_table_are_found() {
        for sql in [
            "ALTER TABLE orders ADD note TEXT",
            "alter table `app` . `Orders` drop note",
            "ALTER TABLE other RENAME TO orders",
            "TRUNCATE orders",
            "TRUNCATE TABLE app.orders",
            "DROP TABLE IF EXISTS `a`, `orders` /* generated by server */",
            "DROP DATABASE IF EXISTS app",
            "RENAME TABLE orders TO orders_old",
            "CREATE OR REPLACE TABLE orders (id INT)",
            "CREATE TABLE IF NOT EXISTS app.orders LIKE other",
            "/*!40000 ALTER TABLE `orders` DISABLE KEYS */",
            "ALTER TABLE \"orders\" ADD note TEXT",
            "SET STATEMENT a=1 FOR TRUNCATE orders",
            "REPAIR TABLE orders",
            "ALTER IGNORE TABLE orders ADD UNIQUE (n)",
            "CREATE OR REPLACE TABLE orders (temporary INT)",
            "CREATE OR REPLACE TABLE orders SELECT f(1)",
            "DROP TABLE `temporary`, `database`, orders",
            "DROP SEQUENCE orders",
        ] {
            assert!(redefines(sql), "{sql}");
        }
        for sql in [
            "ALTER TABLE other.orders ADD note TEXT",
            "ALTER TABLE t COMMENT 'orders'",
            "CREATE TABLE copy SELECT * FROM orders",
            "CREATE TABLE line (id INT, FOREIGN KEY (id) REFERENCES orders (id))",
            "DROP TEMPORARY TABLE IF EXISTS orders",
            "DROP DATABASE other",
            "CREATE INDEX i ON orders (id)",
            "DROP TRIGGER orders",
            "CREATE TABLE copy SELECT f(id) FROM orders",
            "CREATE EVENT e ON SCHEDULE AT NOW() DO TRUNCATE TABLE orders",
            "RENAME USER orders TO a",
            "ANALYZE TABLE orders",
            "INSERT INTO orders VALUES (1)",
        ] {
            assert!(!redefines(sql), "{sql}");
        }
    }

    #[test]
    fn statements_that_change_rows_name_their_tables() {
        let is_about = |sql: &str| {
            let mention = TableReferences::of(sql);
            let is = mention.is_about("app", |schema, name| (schema, name) == ("app", Some("orders")));
            (mention.effect, is)
        };
        assert_eq!(is_about("INSERT INTO orders VALUES (1)"), (Effect::Rows, true));
        assert_eq!(is_about("DELETE o FROM x.y, app.orders o"), (Effect::Rows, true));
        assert_eq!(is_about("INSERT INTO t VALUES ('orders')"), (Effect::Rows, false));
        assert_eq!(is_about("INSERT INTO t VALUES ('without end"), (Effect::Rows, true));
        assert_eq!(is_about("GRANT SELECT ON orders TO a").0, Effect::None);
        assert_eq!(is_about("XA COMMIT 'x'").0, Effect::None);
        assert_eq!(is_about("# Dummy event").0, Effect::None);
        assert_eq!(is_about("CREATE TEMPORARY TABLE t SELECT MAX(id) FROM x").0, Effect::None);
        assert_eq!(is_about("DROP DATABASE app"), (Effect::Definition, false));
        for sql in [
            "CREATE INDEX i ON orders (id)",
            "DROP TRIGGER orders",
            "ALTER VIEW v AS SELECT 1",
            "RENAME USER a TO b",
        ] {
            assert_eq!(is_about(sql).0, Effect::None, "{sql}");
        }
        for sql in [
            "SET STATEMENT a=1 FOR ANALYZE DELETE FROM Orders",
            "SET STATEMENT a='\\' FOR DELETE FROM t",
            "SELECT `app`.`f`(1)",
            "DO f(1)",
            "INSERT INTO t (a) VALUES (f(1))",
            "DELETE FROM t WHERE id = other.now()",
            "CREATE TEMPORARY TABLE t SELECT f(id) FROM x",
            "NEW STATEMENT OF SOME KIND",
            "DELETE FROM t WHERE a = '\\' AND b IN (SELECT 1 FROM `app`.`orders` WHERE c = '\\')",
            "DELETE FROM \u{fffd}",
            "(SELECT 1)",
            "RENAME SOMETHING a TO b",
            "LOAD DATA INFILE 'x' INTO TABLE t (a) SET b = f(a)",
            "DELETE FROM t WHERE a = '\\' AND b IN (SELECT 1 FROM `app`.`orders`) -- '",
            "DELETE FROM t WHERE a = \"\\\" AND b IN (SELECT 1 FROM orders) -- \"",
        ] {
            assert_eq!(is_about(sql), (Effect::Rows, true), "{sql}");
        }
        for sql in [
            "SET STATEMENT a=1 FOR INSERT INTO t (a, b) VALUES (NOW(), (1))",
            "INSERT INTO app.t(a) SELECT COUNT(*) FROM x JOIN y USING (a)",
            "LOAD DATA INFILE 'x' INTO TABLE t CHARACTER SET utf8 FIELDS TERMINATED BY ',' (a, b)",
            "UPDATE t SET a = CONCAT('it\\'s', b) WHERE id IN (1, 2)",
        ] {
            assert_eq!(is_about(sql), (Effect::Rows, false), "{sql}");
        }
    }
}
