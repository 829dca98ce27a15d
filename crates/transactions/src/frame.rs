//! Statements that begin or end transactions, distributed ones too.

use binlog::event::Body;
use binlog::event::gtid::Xid;
use server::XaName;

use crate::transaction::Xa;

/// Whether a statement begins with this.
pub(crate) fn starts(sql: &[u8], word: &[u8]) -> bool {
    sql.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// Whether a transaction, or a statement that is none, can begin with an event.
pub(crate) fn is_head(body: &Body<'_>) -> bool {
    matches!(body, Body::Gtid(_) | Body::MySqlGtid(_) | Body::Query(_) | Body::Payload(_))
}

/// Whether a statement only begins or ends a transaction or a part of it.
pub fn is_frame(sql: &[u8]) -> bool {
    const PARTS: [&[u8]; 5] =
        [b"XA START ", b"XA END ", b"SAVEPOINT ", b"ROLLBACK TO ", b"RELEASE SAVEPOINT "];
    [&b"BEGIN"[..], b"COMMIT", b"ROLLBACK"].iter().any(|word| sql.eq_ignore_ascii_case(word))
        || PARTS.iter().any(|part| starts(sql, part))
}

/// What a transaction is to a distributed one, if it has this statement. MariaDB's GTID event names the one
/// that ends, `known`; MySQL names it in the statement only.
pub(crate) fn ended_xa(sql: &[u8], known: Xa) -> Xa {
    let (rest, is_commit) = match (sql.get(10..), sql.get(12..)) {
        (Some(rest), _) if starts(sql, b"XA COMMIT ") => (rest, true),
        (_, Some(rest)) if starts(sql, b"XA ROLLBACK ") => (rest, false),
        _ => return known,
    };
    let name = match known {
        Xa::Committed(name) => Some(name),
        _ => xa_name(rest),
    };
    match name {
        Some(name) if is_commit => Xa::Committed(name),
        Some(name) => Xa::RolledBack(name),
        None => Xa::No,
    }
}

/// The name of a distributed transaction as servers log it: `X'6b657074',X'',1`.
fn xa_name(text: &[u8]) -> Option<XaName> {
    let text = std::str::from_utf8(text).ok()?;
    let mut parts = text.split(',').map(str::trim);
    let mut bytes = || {
        let digits = parts.next()?.strip_prefix(['X', 'x'])?.strip_prefix('\'')?.strip_suffix('\'')?;
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        (0..digits.len()).step_by(2).map(pair).collect::<Option<Vec<u8>>>()
    };
    let (global, branch) = (bytes()?, bytes()?);
    Some((parts.next()?.parse().ok()?, global, branch))
}

/// The identifier of a distributed transaction.
pub(crate) fn named(xid: Xid<'_>) -> XaName {
    (xid.format, xid.global.to_vec(), xid.branch.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_the_distributed_transaction_that_it_ends() {
        let kept: XaName = (1, b"kept".to_vec(), Vec::new());
        let ended = |sql: &str| ended_xa(sql.as_bytes(), Xa::No);
        assert_eq!(ended("XA COMMIT X'6b657074',X'',1"), Xa::Committed(kept.clone()));
        assert_eq!(ended("xa rollback X'6B657074', X'', 1"), Xa::RolledBack(kept.clone()));
        assert_eq!(ended("XA COMMIT X'00ff',X'07',9"), Xa::Committed((9, vec![0, 255], vec![7])));
        for sql in
            ["XA COMMIT X'6b6',X'',1", "XA COMMIT 'kept'", "XA COMMIT X'6b',X''", "XA COMMIT ", "COMMIT"]
        {
            assert_eq!(ended(sql), Xa::No, "{sql}");
        }
        // What MariaDB says in another event counts.
        let known = || Xa::Committed(kept.clone());
        assert_eq!(ended_xa(b"XA ROLLBACK X'00',X'',1", known()), Xa::RolledBack(kept.clone()));
        assert_eq!(ended_xa(b"INSERT INTO t VALUES (1)", known()), Xa::Committed(kept.clone()));
    }
}
