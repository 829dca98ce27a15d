//! Shortens statements and messages for errors, and removes secrets.

/// Longest statement shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Words that indicate a secret in one of the statement's string literals: accounts, replication, federated
/// tables, keys.
const SECRETIVE: [&str; 4] = ["PASSWORD", "IDENTIFIED", "CONNECTION", "CRYPT"];

const BLOT: &str = "***";

fn is_secretive(statement: &str) -> bool {
    let upper = statement.to_ascii_uppercase();
    SECRETIVE.iter().any(|word| upper.contains(word))
}

/// The statement's beginning in one line. A statement with secrets is cut at its first quote: where a literal
/// ends depends on modes, comments and quoting, but where the first one begins does not.
pub(crate) fn statement(statement: &str) -> String {
    let (head, tail) = match statement.find(['\'', '"']) {
        Some(quote) if is_secretive(statement) => (&statement[..quote], "'***'..."),
        _ => (statement, ""),
    };
    let mut line = String::new();
    // Four times the limit is enough text for one line, however it is indented.
    for word in head.get(..head.floor_char_boundary(4 * SHOWN_CHARS_MAX)).unwrap_or(head).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((cut, _)) = line.char_indices().nth(SHOWN_CHARS_MAX) {
        line.truncate(cut);
        return line + "...";
    }
    if head.len() > 4 * SHOWN_CHARS_MAX {
        return line + "...";
    }
    if !tail.is_empty() && !line.is_empty() {
        line.push(' ');
    }
    line + tail
}

/// The server's message about `statement`. Syntax errors quote the statement and other errors quote values,
/// so for a statement with secrets both quotations are removed.
pub(crate) fn message(message: &str, statement: &str) -> String {
    let mut text = message.to_owned();
    if !is_secretive(statement) {
        return text;
    }
    if let (Some(near), Some(end)) = (text.find("near '"), text.rfind('\'')) {
        let start = near + "near '".len();
        if start < end {
            text.replace_range(start..end, BLOT);
        }
    }
    for piece in statement.split(['\'', '"']).filter(|piece| !piece.trim().is_empty()) {
        text = text.replace(&format!("'{piece}'"), &format!("'{BLOT}'"));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_statement_is_shown_short_and_without_its_secret(
            before in "[ -~\u{e9}]{0,900}", within in "[ -~]{0,4}", after in "\\PC{0,900}",
        ) {
            let sql = format!("{before} identified {within}'hunter2'{after}");
            let shown = statement(&sql);
            prop_assert!(shown.chars().count() <= SHOWN_CHARS_MAX + 12);
            prop_assert!(!shown.contains("hunter2"));
            prop_assert!(!message("near ''hunter2'' at line 1", &sql).contains("hunter2"));
            let sql = format!("PASSWORD('hunter2'){before}");
            prop_assert!(!message("bad 'hunter2'", &sql).contains("hunter2"));
            message(&after, &sql);
        }
    }

    #[test]
    fn a_statement_is_shown_in_one_short_line() {
        assert_eq!(statement("SELECT 'a'\n  FROM t"), "SELECT 'a' FROM t");
        let long = format!("INSERT INTO t VALUES ('{}')", "\u{e9}".repeat(10_000));
        let shown = statement(&long);
        assert_eq!(shown.chars().count(), SHOWN_CHARS_MAX + 3);
        assert!(shown.ends_with("..."));
    }

    #[test]
    fn secrets_are_not_shown() {
        for sql in [
            "CREATE USER app IDENTIFIED BY 's3cret'",
            "SET PASSWORD FOR `o'x` = PASSWORD(\"s3cret\")",
            "ALTER USER a /* don't */ IDENTIFIED BY 's3cret'",
            "CHANGE MASTER TO MASTER_HOST='h', MASTER_PASSWORD='s3cret'",
            "create table f (a int) engine=federated connection='mysql://u:s3cret@h/d/t'",
        ] {
            let shown = statement(sql);
            assert!(!shown.contains("s3cret"), "{shown}");
            assert!(shown.len() > 8, "{shown}");
        }
    }

    #[test]
    fn a_message_does_not_quote_a_statement_with_secrets() {
        let sql = "CREATE USER app IDENTIFIED FOR 's3cret'";
        let said = "You have an error in your SQL syntax; check the manual for the right syntax to use near 'FOR 's3cret'' at line 1";
        assert!(!message(said, sql).contains("s3cret"));
        assert!(!message("bad value 's3cret' for column", sql).contains("s3cret"));
        assert_eq!(message("Unknown column 'x'", "SELECT 'x'"), "Unknown column 'x'");
    }
}
