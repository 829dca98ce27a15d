//! Interprets the server's warnings about rows: the row, the column, and the reason.

use server::Warning;

/// The rows that warnings name by number, from 0, each with its first warning. Empty unless every warning
/// names a row: a duplicate without a number could be any row.
pub(crate) fn named_rows(warnings: &[Warning], rows: usize) -> Vec<(usize, &Warning)> {
    let mut named: Vec<(usize, &Warning)> = Vec::new();
    for warning in warnings {
        let Some(row) = row_number(&warning.message).filter(|row| (1..=rows).contains(row)) else {
            return Vec::new();
        };
        if !named.iter().any(|(known, _)| *known == row - 1) {
            named.push((row - 1, warning));
        }
    }
    named
}

/// The number in "... at row 17", or in "Row 17 ...", as warnings of LOAD DATA begin.
pub(crate) fn row_number(message: &str) -> Option<usize> {
    let number = match message.rsplit_once(" at row ") {
        Some((_, number)) => number,
        None => message.strip_prefix("Row ")?.split(' ').next()?,
    };
    number.trim_end_matches('.').parse().ok()
}

/// A message without its row number, which counts from the start of the statement and means nothing to the
/// user.
pub(crate) fn without_row(message: &str) -> &str {
    match message.rsplit_once(" at row ") {
        Some((head, number)) if number.parse::<u64>().is_ok() => head,
        _ => match message.strip_prefix("Row ").and_then(|rest| rest.split_once(' ')) {
            Some((number, rest)) if number.parse::<u64>().is_ok() => rest,
            _ => message,
        },
    }
}

/// A warning without the column, if that is shown separately: the server names the work table, which the
/// user does not know.
pub(crate) fn plain_reason(message: &str, column_is_told: bool) -> &str {
    let plain = without_row(message);
    match plain.rsplit_once(" for column ") {
        Some((reason, _)) if column_is_told => reason,
        _ => plain,
    }
}

/// The column in "... for column 'a' ...", "... for column `db`.`t`.`a` ..." or "Column 'a' ...".
pub(crate) fn named_column(message: &str) -> Option<String> {
    let rest = match message.strip_prefix("Column '") {
        Some(rest) => rest.split_once('\'')?.0,
        None => {
            ["for column ", "to column ", "NOT NULL column "]
                .iter()
                .find_map(|before| message.split_once(before))?
                .1
        }
    };
    let end = rest.rfind(" at row ").unwrap_or(rest.len());
    let name = rest.get(..end)?.trim();
    let name = name.rsplit_once("`.`").map_or(name, |(_, column)| column);
    // MySQL ends a message about JSON with 'table.column' and a period.
    let name = match message.starts_with("Invalid JSON ") {
        true => name.trim_end_matches('.').rsplit_once('.').map_or(name, |(_, column)| column),
        false => name,
    };
    Some(name.trim_matches(|quote| matches!(quote, '\'' | '`')).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_are_read_from_the_servers_words() {
        for (message, row, column, plain) in [
            ("Out of range value for column 'a' at row 3", 3, "a", "Out of range value for column 'a'"),
            (
                "Incorrect integer value: 'x at row 9' for column `d`.`t`.`a b` at row 12",
                12,
                "a b",
                "Incorrect integer value: 'x at row 9' for column `d`.`t`.`a b`",
            ),
        ] {
            assert_eq!(row_number(message), Some(row), "{message}");
            assert_eq!(named_column(message).as_deref(), Some(column), "{message}");
            assert_eq!(without_row(message), plain);
        }
        for message in ["Column 'a b' cannot be null", "NULL supplied to NOT NULL column 'a b' at row 2"] {
            assert_eq!(named_column(message).as_deref(), Some("a b"));
        }
        let json = "Invalid JSON text: \"Invalid value.\" at position 1 in value for column 'js.j'.";
        assert_eq!(named_column(json).as_deref(), Some("j"));
        let short = "Row 2 doesn't contain data for all columns";
        assert_eq!((row_number(short), named_column(short)), (Some(2), None));
        assert_eq!(without_row(short), "doesn't contain data for all columns");
        assert_eq!(row_number("Duplicate entry '5' for key 'PRIMARY'"), None);
    }
}
