//! Conditions on rows: `--where` of a copy that is followed. The source decides them for the rows that it
//! sends; for those in its binary log they are decided here. So only what no collation and no conversion has
//! a part in is taken:
//!
//! ```text
//! or  = and { OR and }                  and = not { AND not }
//! not = { NOT } ( "(" or ")" | column comparison )
//! comparison = ( "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" ) value
//!            | [ NOT ] IN "(" value { "," value } ")" | [ NOT ] BETWEEN value AND value | IS [ NOT ] NULL
//! ```
//!
//! A column is an integer, a date or time, bytes, an ENUM or a text. The last two have no order here, and a
//! text needs a collation in which only equal characters are equal (`_bin`).

mod operand;
mod parser;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use binlog::row::Value;
use innodb::table;
use server::catalogue::Table;
use server::quote_name;
use transactions::Known;

use operand::{ColumnKind, Operand};

/// A condition on the rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct RowCondition {
    root: Node,
    /// The columns that it asks, by their place in the table.
    columns: BTreeMap<usize, ConditionColumn>,
}

/// A column in a condition.
#[derive(Clone, Debug)]
struct ConditionColumn {
    name: String,
    kind: ColumnKind,
}

/// A part of a condition. Columns are places in the table.
#[derive(Clone, Debug)]
enum Node {
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    IsNull(usize),
    Compare(usize, Comparison, Operand),
}

/// How a column is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl RowCondition {
    /// Reads a condition on a table of the source.
    ///
    /// # Errors
    /// What of it can't be decided here.
    pub(crate) fn new(text: &str, table: &Table) -> Result<RowCondition, String> {
        let name = &table.name;
        let known = Known::of(format!("USE {};\n{};\n", quote_name(&name.schema), table.definition));
        let defined = known.by_name(&name.schema, &name.table).ok_or("its definition is not known")?;
        let defined =
            defined.map_err(|why| format!("the definition of table {name} is not understood: {why}"))?;
        let columns: Vec<&table::Column> = defined.columns().iter().filter(|column| !column.hidden).collect();
        parser::parse(text, &columns)
            .map_err(|why| format!("--where {text:?} can't be decided for rows of the binary log: {why}"))
    }

    /// The names of the columns that it asks, in their order in the table.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.values().map(|column| column.name.as_str())
    }

    /// Whether a row meets it, which has these values in [`RowCondition::columns`].
    ///
    /// # Errors
    /// Which value is not understood.
    pub(crate) fn is_met(&self, values: &[Value<'_>]) -> Result<bool, String> {
        let mut found = BTreeMap::new();
        for ((place, ConditionColumn { name, kind }), value) in self.columns.iter().zip(values) {
            let operand = kind.of_row(value).map_err(|why| format!("a value of column {name}: {why}"))?;
            found.insert(*place, operand);
        }
        Ok(self.root.truth(&found) == Some(true))
    }
}

impl Node {
    /// Whether it holds; `None` for NULL.
    fn truth(&self, row: &BTreeMap<usize, Option<Operand>>) -> Option<bool> {
        match self {
            Node::Or(one, other) => match (one.truth(row), other.truth(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Node::And(one, other) => match (one.truth(row), other.truth(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Node::Not(inner) => inner.truth(row).map(|is_met| !is_met),
            Node::IsNull(column) => Some(row.get(column).is_none_or(Option::is_none)),
            Node::Compare(column, comparison, value) => {
                let order = row.get(column)?.as_ref()?.compare(value);
                Some(comparison.holds(order))
            }
        }
    }
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use server::TableName;

    use super::*;

    fn table() -> Table {
        Table {
            name: TableName { schema: "d".to_owned(), table: "t".to_owned() },
            engine: "InnoDB".to_owned(),
            definition: "CREATE TABLE `t` (`id` int NOT NULL, `x` int GENERATED ALWAYS AS (`id`) VIRTUAL, `n` bigint, `day` date, \
                         `at` datetime(3), `kind` enum('a','b') CHARACTER SET latin1, `code` varbinary(9), `word` \
                         varchar(9) COLLATE utf8mb4_bin, `exact` varchar(9) COLLATE utf8mb4_0900_bin, `loose` varchar(9) \
                         COLLATE utf8mb4_general_ci, `twice` enum('a','A') COLLATE utf8mb4_general_ci, PRIMARY KEY \
                         (`id`)) CHARSET=utf8mb4"
                .to_owned(),
            created: String::new(),
            rows: 0,
            bytes: 0,
            columns: Vec::new(),
            key: vec!["id".to_owned()],
            key_name: "PRIMARY".to_owned(),
            partitions: Vec::new(),
            versioned: false,
        }
    }

    fn condition(text: &str) -> RowCondition {
        RowCondition::new(text, &table()).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Whether a row meets a condition, with these values of the columns that it asks.
    #[track_caller]
    fn assert_met(text: &str, values: &[Value<'_>], expected: bool) {
        assert_eq!(condition(text).is_met(values), Ok(expected), "{text} {values:?}");
    }

    fn text(text: &str) -> Value<'_> {
        Value::Bytes(text.as_bytes().into(), None)
    }

    fn time(text: &str) -> Value<'_> {
        Value::Time(text.to_owned())
    }

    #[test]
    fn null_is_neither_met_nor_its_contrary() {
        for (sql, met) in [
            ("n = 1", [true, false, false]),
            ("n <> 1", [false, true, false]),
            ("NOT n = 1", [false, true, false]),
            ("n IS NULL", [false, false, true]),
            ("n IS NOT NULL", [true, true, false]),
            ("n = 1 OR n IS NULL", [true, false, true]),
            ("NOT (n = 1 AND id = 5)", [true, true, true]),
            ("NOT (n = 1 AND id = 4)", [false, true, false]),
            ("n <> 1 OR id = 4", [true, true, true]),
            ("n NOT IN (1, 3)", [false, true, false]),
            ("n between 2 and 3", [false, true, false]),
            ("n NOT BETWEEN 2 AND 3", [true, false, false]),
            ("n = 1 AND id = 4 OR n = 2 AND id = 4", [true, true, false]),
            ("n = 1 AND (id = 4 OR n = 2)", [true, false, false]),
        ] {
            let asked = condition(sql);
            let places: Vec<&str> = asked.columns().collect();
            for (n, expected) in [Value::Int(1), Value::Int(2), Value::Null].into_iter().zip(met) {
                let values: Vec<_> =
                    places.iter().map(|name| if *name == "id" { Value::Int(4) } else { n.clone() }).collect();
                assert_met(sql, &values, expected);
            }
        }
    }

    #[test]
    fn values_are_compared_as_their_types_are() {
        for (sql, value, expected) in [
            ("n = -7", Value::Int(-7), true),
            ("n >= 18446744073709551615", Value::Unsigned(u64::MAX), true),
            ("n > -1", Value::Unsigned(u64::MAX), true),
            ("day < '2026-11-30'", time("0000-00-00"), true),
            ("day <= '2026-11-30'", time("2026-11-30"), true),
            ("at = '2026-11-30'", time("2026-11-30 00:00:00.000"), true),
            ("at > '2026-11-30 00:00:00.12'", time("2026-11-30 00:00:00.119"), false),
            ("at > '2026-11-30 00:00:00.12000'", time("2026-11-30 00:00:00.121"), true),
            ("kind = 'b'", Value::Enum(2, Some(b"b")), true),
            ("kind IN ('a', 'b')", Value::Enum(0, Some(b"")), false),
            ("code = x'6100'", text("a\0"), true),
            ("code < 'b'", text("a\u{ff}"), true),
            ("code = 'a '", text("a"), false),
            ("word = 'a  '", text("a "), true),
            ("word = 'A'", text("a"), false),
            ("word <> '\u{e9}'", text("\u{e9}"), false),
            ("exact = 'a '", text("a"), false),
            ("exact = \"a\"", text("a"), true),
        ] {
            assert_met(sql, &[value], expected);
        }
        assert!(
            condition("n = 1")
                .is_met(&[text("1")])
                .unwrap_err()
                .contains("column n: the log has it with another")
        );
    }

    #[test]
    fn columns_are_asked_in_their_order_in_the_table_and_once() {
        let asked = condition("`word` = 'a' AND ID = 1 AND (n = 2 OR id = 3)");
        assert_eq!(asked.columns().collect::<Vec<_>>(), ["id", "n", "word"]);
    }

    #[test]
    fn what_a_collation_or_a_conversion_would_decide_is_refused() {
        for (sql, why) in [
            ("x = 1", "column x is generated"),
            ("y = 1", "there is no column \"y\""),
            ("loose = 'a'", "its collation is utf8mb4_general_ci"),
            ("twice = 'a'", "several of its members may be equal"),
            ("word < 'a'", "only =, <> and IN"),
            ("kind < 'b'", "only =, <> and IN"),
            ("kind = 'B'", "no member \"B\""),
            ("kind = 1", "a text in quotes"),
            ("kind = ''", "no member \"\""),
            ("n = '1'", "an integer without quotes"),
            ("n = 1e3", "a value is expected instead of \"1e3\""),
            ("n = -'1'", "a value is expected instead of \"'1'\""),
            ("day = '2026-1-1'", "a date such as"),
            ("day = '2026-02-29'", "a date such as"),
            ("day = '2026-00-10'", "a date such as"),
            ("day = '2026-11-30 00:00:00'", "a date such as"),
            ("day = 20261130", "a date such as"),
            ("at = '2026-11-30 24:00:00'", "a time such as"),
            ("at = '2026-11-30T12:00:00'", "a time such as"),
            ("at = '2026-11-30 12:00'", "a time such as"),
            ("at = '2026-11-30 12:00:00.'", "a time such as"),
            ("at = '2026-11-30 12:00:00.1234'", "with 3 decimals at most"),
            ("code = x'6'", "a value is expected instead of \"x\""),
            ("code = x '61'", "a value is expected instead of \"x\""),
            ("code = 'a\\%'", "\"\\\\%\" is not expected"),
            ("code = 'a' 'b'", "\"'b'\" is not expected"),
            ("n < 1 < 2", "\"<\" is not expected"),
            ("n NOT 1", "IN or BETWEEN is expected after NOT"),
            ("n IS 1", "NULL is expected instead of \"1\""),
            ("n IN (1", ") is expected at its end"),
            ("n", "is expected instead of \"\""),
            ("n =", "it ends too early"),
            ("n == 1", "instead of \"==\""),
            ("", "it ends too early"),
        ] {
            let found = RowCondition::new(sql, &table()).unwrap_err();
            assert!(found.contains(why), "{sql}: {found}");
        }
        let deep = format!("{}n = 1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(RowCondition::new(&deep, &table()).unwrap_err().contains("too many parentheses"));
    }
}
