//! Which transactions and rows are shown.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use binlog::column::Type;
use binlog::event::gtid::Number;
use binlog::event::mysql_gtid::Tag;
use binlog::event::table::{self, Table};
use binlog::group::GroupId;
use binlog::row::{Image, Row};
use dump::Selection;
use server::catalogue::Wanted;

use crate::end_time::EndTime;
use crate::statement_text::Wording;

/// Tables whose choice is kept. Servers that run for long give ever higher numbers.
const KNOWN_MAX: usize = 4096;

/// Transactions of a domain, or of a MySQL server, from one number to another.
#[derive(Clone, Debug)]
pub enum Range {
    /// One of MariaDB.
    One(Number),
    /// Several: the domain, the first and the last number.
    Domain(u32, u64, u64),
    /// MySQL: the server, perhaps with a tag, and the first and the last number.
    MySql(String, u64, u64),
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let error = || {
            format!(
                "{text} is no GTID; write 0-1-42, 0-1-42-0-1-50 for those of a domain from one to another, or UUID:42, \
                 UUID:42-50 or UUID:TAG:42-50 of MySQL"
            )
        };
        if let Some((source, numbers)) = text.rsplit_once(':') {
            // Behind the server there may be a tag.
            if source
                .split_once(':')
                .is_some_and(|(_, tag)| Tag::new(tag.to_lowercase().as_bytes()).is_none())
            {
                return Err(error());
            }
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let [first, last] = [first, last].map(|number| number.parse::<u64>().map_err(|_| error()));
            return Ok(Range::MySql(source.to_lowercase(), first?, last?));
        }
        if let Ok(number) = text.parse::<Number>() {
            return Ok(Range::One(number));
        }
        let middle = text.match_indices('-').nth(2).map(|(at, _)| at).ok_or_else(error)?;
        let (first, last) = (&text[..middle], &text[middle + 1..]);
        let [first, last] = [first, last].map(|number| number.parse::<Number>().map_err(|_| error()));
        let (first, last) = (first?, last?);
        if first.domain != last.domain {
            return Err(format!("{first} and {last} are of two domains, which have no common order"));
        }
        Ok(Range::Domain(first.domain, first.sequence, last.sequence))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::One(number) => number.fmt(f),
            Range::Domain(domain, first, last) => write!(f, "{first} to {last} of domain {domain}"),
            Range::MySql(source, first, last) if first == last => write!(f, "{source}:{first}"),
            Range::MySql(source, first, last) => write!(f, "{source}:{first}-{last}"),
        }
    }
}

impl Range {
    /// Whether a transaction is one of these.
    pub fn has(&self, name: GroupId) -> bool {
        match (self, name) {
            (Range::One(wanted), GroupId::MariaDb(number)) => *wanted == number,
            (Range::Domain(domain, first, last), GroupId::MariaDb(number)) => {
                number.domain == *domain && (*first..=*last).contains(&number.sequence)
            }
            (Range::MySql(source, first, last), GroupId::MySql(own, number)) => {
                *source == own.to_string() && (*first..=*last).contains(&number)
            }
            _ => false,
        }
    }
}

/// A value that a row must have.
#[derive(Clone, Debug)]
pub struct Condition {
    column: Column,
    value: String,
    /// The same time in UTC, if the value is a time with its zone.
    utc: Option<String>,
}

/// A column, as somebody names it.
#[derive(Clone, Debug)]
enum Column {
    /// By its number, from 0 on.
    At(usize),
    /// By its name, in lower case.
    GroupId(String),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let error =
            || format!("{text} is no condition; write COLUMN=VALUE, or @2=VALUE for the second column");
        let (column, value) =
            text.split_once('=').filter(|(column, _)| !column.is_empty()).ok_or_else(error)?;
        let number = column.strip_prefix('@').and_then(|number| number.parse::<usize>().ok());
        let column = match number {
            Some(number) => Column::At(number.checked_sub(1).ok_or_else(error)?),
            None => Column::GroupId(column.trim_matches('`').to_lowercase()),
        };
        let utc = value.parse::<jiff::Timestamp>().ok();
        let utc = utc.map(|time| time.strftime("%Y-%m-%d %H:%M:%S%.f").to_string());
        Ok(Condition { column, value: value.to_owned(), utc })
    }
}

impl Condition {
    /// The value, as the log has it of this column: a TIMESTAMP in UTC.
    fn value_for(&self, column: &table::Column) -> &str {
        match &self.utc {
            Some(utc) if is_timestamp(column) => utc,
            _ => &self.value,
        }
    }

    /// The column that is meant.
    fn column(&self, table: &Table) -> Option<usize> {
        match &self.column {
            Column::At(at) => Some(*at).filter(|at| *at < table.columns.len()),
            Column::GroupId(wanted) => {
                let is_meant = |name: &String| name.to_lowercase() == *wanted;
                table.columns.iter().position(|column| column.name.as_ref().is_some_and(is_meant))
            }
        }
    }
}

fn is_timestamp(column: &table::Column) -> bool {
    matches!(column.kind, Type::Timestamp(_) | Type::OldTimestamp)
}

/// Which transactions and rows are shown.
pub struct Filter {
    /// Transactions that ended then or later, in seconds since 1970.
    pub since: Option<i64>,
    /// Transactions that ended before that.
    pub until: Option<i64>,
    /// Those of any of these; none for all.
    pub gtid: Vec<Range>,
    /// The tables; none for all.
    pub tables: Selection,
    /// What a row must have before or after the change.
    pub conditions: Vec<Condition>,
    /// What a statement must have.
    pub statement: Option<Wording>,
}

/// What a filter says of a table.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// Its rows are not shown.
    Not,
    /// It may be shown, but has no column with the name that a condition gives.
    Nameless,
    /// It may be shown, but the log says too little of a column for a condition. Why.
    Incomparable(Rc<str>),
    /// It is shown. The columns that the conditions are about, in their order.
    Columns(Rc<[usize]>),
}

impl Filter {
    /// Whether rows or tables are chosen, so that a statement without rows can't be.
    pub fn wants_rows(&self) -> bool {
        !self.tables.include.is_empty() || self.looks_at_values()
    }

    /// Whether the values of rows decide.
    pub fn looks_at_values(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Whether a transaction that is named so may be shown.
    pub fn has_name(&self, name: GroupId) -> bool {
        self.gtid.is_empty() || self.gtid.iter().any(|range| range.has(name))
    }

    /// Whether a transaction that ended then is shown. It is, if it may have ended in time.
    pub fn has_time(&self, ended: EndTime) -> bool {
        self.since.is_none_or(|since| ended.latest() >= since)
            && self.until.is_none_or(|until| ended.earliest() < until)
    }

    /// Whether a statement has the text. `schema` is its database, if that is known.
    pub fn has_statement(&self, schema: Option<&str>, sql: &[u8]) -> bool {
        self.statement.as_ref().is_none_or(|wanted| wanted.is_in(schema, sql))
    }

    /// What is shown of a table. Ask [`Choices`] for a table of which there are many events.
    fn choice(&self, table: &Table) -> Choice {
        if !self.tables.table(&table.schema, &table.name) {
            return Choice::Not;
        }
        let columns = self.conditions.iter().map(|condition| condition.column(table));
        let Some(columns) = columns.collect::<Option<Rc<[usize]>>>() else { return Choice::Nameless };
        let incomparable = self.conditions.iter().zip(&*columns).find_map(|(condition, at)| {
            let why = table.columns.get(*at)?.incomparable(&condition.value)?;
            Some(format!("{} can't be compared with {}: {why}", table.column_name(*at), condition.value))
        });
        incomparable.map_or(Choice::Columns(columns), |why| Choice::Incomparable(why.into()))
    }

    /// The TIMESTAMP among these columns that is compared with a time without a zone. `columns` are those of
    /// `Choice::Columns`.
    pub fn without_zone(&self, table: &Table, columns: &[usize]) -> Option<usize> {
        let mut compared = self.conditions.iter().zip(columns.iter().copied());
        let found = compared.find(|(condition, at)| {
            let is_null = condition.value.eq_ignore_ascii_case("NULL");
            condition.utc.is_none() && !is_null && table.columns.get(*at).is_some_and(is_timestamp)
        });
        found.map(|(_, at)| at)
    }

    /// Whether a row was so before, or is so after. `columns` are those of `Choice::Columns`.
    pub fn has_row(&self, row: &Row<'_>, columns: &[usize]) -> Result<bool, binlog::Corrupt> {
        if !self.looks_at_values() {
            return Ok(true);
        }
        for image in [row.before, row.after].into_iter().flatten() {
            if self.has_image(&image, columns)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_image(&self, image: &Image<'_>, columns: &[usize]) -> Result<bool, binlog::Corrupt> {
        for (condition, at) in self.conditions.iter().zip(columns) {
            let Some(cell) = image.cell(*at) else { return Ok(false) };
            if !cell.matches(condition.value_for(cell.column))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a filter says of tables, found once for each.
pub(crate) struct Choices<'a> {
    filter: &'a Filter,
    /// By number. A table that is described again is another object.
    known: BTreeMap<u64, (Rc<Table>, Choice)>,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Choices<'a> {
        Choices { filter, known: BTreeMap::new() }
    }

    /// What is shown of a table.
    pub(crate) fn of(&mut self, table: &Rc<Table>) -> Choice {
        if let Some((known, choice)) = self.known.get(&table.id)
            && Rc::ptr_eq(known, table)
        {
            return choice.clone();
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let choice = self.filter.choice(table);
        self.known.insert(table.id, (Rc::clone(table), choice.clone()));
        choice
    }
}

#[cfg(test)]
mod tests {
    use binlog::event::mysql_gtid::{Tsid, Uuid};

    use super::*;

    #[test]
    fn gtids_are_one_or_a_range() {
        let is = |text: &str, name| text.parse::<Range>().unwrap().has(name);
        let number = |sequence| GroupId::MariaDb(Number { domain: 2, server_id: 1, sequence });
        assert!(is("2-1-42", number(42)) && !is("2-7-42", number(42)) && !is("2-1-42", GroupId::None));
        assert!(is("2-1-40-2-3-42", number(42)) && !is("2-1-40-2-3-41", number(42)));
        assert!("1-1-1-2-1-1".parse::<Range>().unwrap_err().contains("two domains"));
        let shown = |text: &str| text.parse::<Range>().unwrap().to_string();
        assert_eq!([shown("2-1-42"), shown("2-1-40-2-3-42")], ["2-1-42", "40 to 42 of domain 2"]);
        assert!("1-1".parse::<Range>().is_err() && "x:1".parse::<Range>().is_ok());
    }

    #[test]
    fn gtids_of_mysql_are_of_a_server() {
        let server = "3E11FA47-71CA-11E1-9E33-C80AA9429562";
        let own = server.replace('-', "");
        let byte = |at: usize| u8::from_str_radix(&own[2 * at..2 * at + 2], 16).unwrap();
        let source = |tag: &str| Tsid {
            server: Uuid(std::array::from_fn(byte)),
            tag: Tag::new(tag.as_bytes()).unwrap(),
        };
        let name = |number| GroupId::MySql(source(""), number);
        let range: Range = format!("{server}:3-5").parse().unwrap();
        assert!(range.has(name(3)) && range.has(name(5)) && !range.has(name(2)) && !range.has(name(6)));
        assert!(!range.has(GroupId::None));
        assert_eq!(range.to_string(), format!("{}:3-5", server.to_lowercase()));
        assert_eq!("A:7".parse::<Range>().unwrap().to_string(), "a:7");
        let other: Range = format!("4{}:3-5", &server[1..]).parse().unwrap();
        assert!(!other.has(name(3)));
        let tagged: Range = format!("{server}:Night_1:3-5").parse().unwrap();
        assert!(tagged.has(GroupId::MySql(source("night_1"), 4)) && !tagged.has(name(4)));
        assert!(!range.has(GroupId::MySql(source("night_1"), 4)));
        assert!(format!("{server}:1-3:5-7").parse::<Range>().is_err());
    }

    fn filter(conditions: &[&str]) -> Filter {
        Filter {
            since: Some(10),
            until: Some(20),
            gtid: Vec::new(),
            tables: Selection { include: vec!["app.*".parse().unwrap()], ..Selection::default() },
            conditions: conditions.iter().map(|text| text.parse().unwrap()).collect(),
            statement: None,
        }
    }

    #[test]
    fn the_first_second_is_in_and_the_last_is_not() {
        let filter = filter(&[]);
        let has = |second| filter.has_time(EndTime::Then(second));
        assert_eq!([9, 10, 19, 20].map(has), [false, true, true, false]);
        let may_be = [(0, 9), (0, 10), (12, 15), (19, 30), (20, 30)];
        let may_be = may_be.map(|(after, until)| filter.has_time(EndTime::Between(after, until)));
        assert_eq!(may_be, [false, true, true, true, false]);
    }

    fn table(schema: &str, names: &[Option<&str>]) -> Rc<Table> {
        let column = |name: &Option<&str>| table::Column {
            kind: Type::Int(4),
            nullable: true,
            name: name.map(ToOwned::to_owned),
            is_unsigned: None,
            collation: None,
            members: None,
        };
        let columns = names.iter().map(column).collect();
        Rc::new(Table { id: 7, schema: schema.to_owned(), name: "t".to_owned(), columns, primary_key: None })
    }

    /// After a server was started again a number may be another table's.
    #[test]
    fn a_table_that_is_described_again_is_checked_again() {
        let filter = filter(&["`b`=1", "@1=2"]);
        let mut choices = Choices::new(&filter);
        let named = table("app", &[Some("a"), Some("B")]);
        for _ in 0..2 {
            assert!(matches!(choices.of(&named), Choice::Columns(columns) if *columns == [1, 0]));
        }
        assert!(matches!(choices.of(&table("other", &[Some("a"), Some("B")])), Choice::Not));
        assert!(matches!(choices.of(&table("app", &[None, None])), Choice::Nameless));
        assert!(matches!(choices.of(&named), Choice::Columns(_)));
    }

    /// In UTC, as the log has a TIMESTAMP; of other types it has what was written.
    #[test]
    fn a_time_with_its_zone_is_one_in_utc_for_a_timestamp() {
        let mut column = table("app", &[Some("a")]).columns[0].clone();
        let condition: Condition = "a=2001-01-01 00:00:00+01:00".parse().unwrap();
        for (kind, value) in [
            (Type::Timestamp(0), "2000-12-31 23:00:00"),
            (Type::OldTimestamp, "2000-12-31 23:00:00"),
            (Type::Datetime(0), "2001-01-01 00:00:00+01:00"),
        ] {
            column.kind = kind;
            assert_eq!(condition.value_for(&column), value, "{kind:?}");
        }
    }

    #[test]
    fn choices_of_many_tables_are_kept_but_not_of_all() {
        let (filter, table) = (filter(&[]), table("app", &[None]));
        let mut choices = Choices::new(&filter);
        let mut ask = |ids: std::ops::Range<u64>| {
            ids.for_each(|id| drop(choices.of(&Rc::new(Table { id, ..(*table).clone() }))));
            choices.known.len()
        };
        assert_eq!([ask(0..4096), ask(4096..4098)], [4096, 2]);
    }

    #[test]
    fn conditions_name_a_column() {
        assert!("=1".parse::<Condition>().is_err() && "@0=1".parse::<Condition>().is_err());
        assert!("a".parse::<Condition>().unwrap_err().contains("@2=VALUE"));
        assert!(matches!(filter(&["@3=1"]).choice(&table("app", &[None; 3])), Choice::Columns(_)));
        assert!(matches!(filter(&["@3=1"]).choice(&table("app", &[None; 2])), Choice::Nameless));
    }
}
