//! PARTITION BY.

use super::{corrupt, name, quoted};
use crate::Error;
use crate::table::dictionary::{DictPartition, Object};

/// Whether partitions are listed; otherwise their number may be said.
const LISTED: u8 = 1;
const NUMBER: u8 = 3;
/// The types whose values are columns, which are in another version of the comment.
const COLUMNS: [u8; 2] = [9, 10];

impl Object {
    /// The clause, in a comment that other servers skip.
    pub(super) fn partitions_text(&self) -> Result<String, Error> {
        let version = if COLUMNS.contains(&self.partition_type) { 50_500 } else { 50_100 };
        let mut text = format!(
            "\n/*!{version} PARTITION BY {}",
            method(self.partition_type, &self.partition_expression)?
        );
        let has_parts = self.subpartition_type != 0;
        if self.default_partitioning == NUMBER {
            text.push_str(&format!("\nPARTITIONS {}", self.partitions.len()));
        }
        if has_parts {
            let by = method(self.subpartition_type, &self.subpartition_expression)?;
            text.push_str(&format!("\nSUBPARTITION BY {by}"));
            if self.default_subpartitioning == NUMBER {
                let count = self.partitions.first().map_or(0, |partition| partition.subpartitions.len());
                text.push_str(&format!("\nSUBPARTITIONS {count}"));
            }
        }
        if self.default_partitioning == LISTED {
            let are_listed = has_parts && self.default_subpartitioning == LISTED;
            let parts: Vec<String> =
                self.partitions.iter().map(|part| self.partition_text(part, are_listed)).collect();
            text.push_str(&format!("\n({})", parts.join(",\n ")));
        }
        text.push_str(" */");
        Ok(text)
    }

    fn partition_text(&self, partition: &DictPartition, are_listed: bool) -> String {
        let mut text = format!("PARTITION {}", part_name(&partition.name));
        let values = &partition.description_utf8;
        match self.partition_type {
            7 if values == "MAXVALUE" => text.push_str(" VALUES LESS THAN MAXVALUE"),
            7 | 9 => text.push_str(&format!(" VALUES LESS THAN ({values})")),
            8 | 10 => text.push_str(&format!(" VALUES IN ({values})")),
            _ => {}
        }
        if !are_listed {
            text.push_str(&partition.options_text());
            return text;
        }
        let parts: Vec<String> = partition
            .subpartitions
            .iter()
            .map(|part| format!("SUBPARTITION {}{}", part_name(&part.name), part.options_text()))
            .collect();
        text.push_str(&format!("\n ({})", parts.join(",\n  ")));
        text
    }
}

impl DictPartition {
    fn options_text(&self) -> String {
        let mut text = String::new();
        for (own, word) in [("max_rows", "MAX_ROWS"), ("min_rows", "MIN_ROWS")] {
            if let Some(number) = self.options.get(own).filter(|number| *number != "0") {
                text.push_str(&format!(" {word} = {number}"));
            }
        }
        if !self.comment.is_empty() {
            text.push_str(&format!(" COMMENT = {}", quoted(&self.comment)));
        }
        text.push_str(" ENGINE = InnoDB");
        text
    }
}

/// How rows are divided, by MySQL's number of it.
fn method(kind: u8, expression: &str) -> Result<String, Error> {
    let word = match kind {
        1 => "HASH ",
        2 => "KEY ALGORITHM = 1 ",
        3 => "KEY ",
        4 => "LINEAR HASH ",
        5 => "LINEAR KEY ALGORITHM = 1 ",
        6 => "LINEAR KEY ",
        7 => "RANGE ",
        8 => "LIST ",
        9 => "RANGE  COLUMNS",
        10 => "LIST  COLUMNS",
        other => return Err(corrupt(format!("it has partitions of type {other}, which there is not"))),
    };
    // A list of columns has other separators.
    let columns = || expression.split_terminator(';').map(part_name).collect::<Vec<_>>().join(",");
    let is_list = matches!(kind, 2 | 3 | 5 | 6 | 9 | 10);
    Ok(format!("{word}({})", if is_list { columns() } else { expression.to_owned() }))
}

/// A name, in quotes where it needs them.
fn part_name(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    if is_plain && !is_number { text.to_owned() } else { name(text) }
}

#[cfg(test)]
mod tests {
    use super::method;

    #[test]
    fn each_method_has_its_words_and_its_list() {
        let wanted = [
            "HASH (a;`b c`)",
            "KEY ALGORITHM = 1 (a,`b c`)",
            "KEY (a,`b c`)",
            "LINEAR HASH (a;`b c`)",
            "LINEAR KEY ALGORITHM = 1 (a,`b c`)",
            "LINEAR KEY (a,`b c`)",
            "RANGE (a;`b c`)",
            "LIST (a;`b c`)",
            "RANGE  COLUMNS(a,`b c`)",
            "LIST  COLUMNS(a,`b c`)",
        ];
        for (kind, wanted) in (1..).zip(wanted) {
            let expression = if wanted.contains(';') { "a;`b c`" } else { "a;b c" };
            assert_eq!(method(kind, expression).as_deref(), Ok(wanted));
        }
        assert!(method(0, "a").is_err() && method(11, "a").is_err());
    }
}
