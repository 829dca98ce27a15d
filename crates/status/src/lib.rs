//! A server's status counters as rates, and its variables, compared and checked.

pub mod counter;
pub mod variable;

/// The first two columns of an answer, name and value, without rows in which one is NULL.
fn pairs(session: &mut server::Session, sql: &str) -> Result<Vec<(String, String)>, server::Error> {
    let pair = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(name), Some(value)]) => Some((name, value)),
        _ => None,
    };
    Ok(session.strings(sql)?.into_iter().filter_map(pair).collect())
}
