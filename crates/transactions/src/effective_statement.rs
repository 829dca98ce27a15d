//! The statement that is executed in the end: servers log also what stands in front of it.

use innodb::table::sql::{Kind, Token, split};

/// The words and signs of a statement, without SET STATEMENT ... FOR, and without ANALYZE if it executes what
/// follows. `None` if it is not understood.
pub fn acting(sql: &str) -> Option<Vec<Token>> {
    let mut tokens = split(sql).ok()?;
    loop {
        let len = match (word(&tokens, 0).as_str(), word(&tokens, 1).as_str()) {
            ("SET", "STATEMENT") => settings(sql, &tokens)?,
            ("ANALYZE", "TABLE" | "TABLES") => return Some(tokens),
            ("ANALYZE", "LOCAL" | "NO_WRITE_TO_BINLOG") => {
                return matches!(word(&tokens, 2).as_str(), "TABLE" | "TABLES").then_some(tokens);
            }
            ("ANALYZE", "FORMAT") => 4,
            ("ANALYZE", _) => 1,
            _ => return Some(tokens),
        };
        tokens = tokens.split_off(len.min(tokens.len()));
    }
}

/// How many tokens SET STATEMENT ... FOR has. If a value has a FOR of its own, something follows that is no
/// statement.
fn settings(sql: &str, tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match (&token.kind, token.text.as_str()) {
            (Kind::Sign, "(") => depth += 1,
            (Kind::Sign, ")") => depth = depth.checked_sub(1)?,
            (Kind::Word, text) if depth == 0 && text.eq_ignore_ascii_case("FOR") => {
                // With NO_BACKSLASH_ESCAPES a text may end elsewhere.
                return (!sql.get(..token.start)?.contains('\\')).then_some(at + 1);
            }
            _ => {}
        }
    }
    None
}

/// A word in capitals; empty where there is none.
pub fn word(tokens: &[Token], at: usize) -> String {
    let token = tokens.get(at).filter(|token| token.kind == Kind::Word);
    token.map_or_else(String::new, |token| token.text.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_a_statement_are_skipped() {
        let said = |sql: &str| {
            let tokens = acting(sql)?;
            Some(tokens.into_iter().map(|token| token.text).collect::<Vec<_>>().join(" "))
        };
        for sql in [
            "DELETE FROM t",
            "SET STATEMENT max_statement_time=100 FOR DELETE FROM t",
            "set /* FOR */ statement a='x FOR y', b=\"it''s FOR\", `for`=1 -- FOR\n for DELETE FROM t",
            "SET STATEMENT a=(SELECT SUBSTRING('abc' FROM 1 FOR 2) FOR UPDATE) FOR DELETE FROM t",
            "SET STATEMENT a=1 FOR /*!50000 SET STATEMENT b=1 FOR */ analyze format=json DELETE FROM t",
            "/*M!100000 SET STATEMENT a=1 */ # FOR\nFOR ANALYZE DELETE FROM t",
        ] {
            assert_eq!(said(sql).as_deref(), Some("DELETE FROM t"), "{sql}");
        }
        for sql in
            ["ANALYZE TABLE t", "ANALYZE LOCAL TABLE t", "ANALYZE NO_WRITE_TO_BINLOG TABLES t", "SET a = 1"]
        {
            assert_eq!(said(sql).unwrap().replace(' ', ""), sql.replace(' ', ""));
        }
        for sql in [
            "SET STATEMENT a=1",
            "SET STATEMENT a='\\' FOR FLUSH TABLES",
            "SET STATEMENT a='FOR t",
            "ANALYZE LOCAL t",
        ] {
            assert_eq!(said(sql), None, "{sql}");
        }
        assert_eq!(
            said("SET STATEMENT a=NEXT VALUE FOR s FOR DELETE FROM t").unwrap(),
            "s FOR DELETE FROM t"
        );
    }
}
