//! The text that a stored value has in a line: such a one that no two values of a column share it, and that
//! gives the value back. Equality is proven by these texts, so what they don't tell nobody is told of.
//! docs/formats/dump.md has the table of all types.

use server::catalogue::Column;
use server::quote_name;

use crate::format::Literal;

/// The version of a dump in which some values shared a text, and nothing proved the manifest.
pub(crate) const PLAIN_VERSION: u32 = 1;

/// How a column's values are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// The server's own text says it all.
    Plain,
    /// A FLOAT: printed with six digits, or with as many as its type has, it loses bits.
    Float,
    /// A FLOAT as in version 1: without digits of its own all bits are told, but for the sign of zero.
    FloatSum,
    /// A DOUBLE: some servers print a negative zero as if it were none.
    Double,
    /// A DOUBLE with digits, which may hold more of them than it prints.
    DoubleDigits,
    /// A year of two digits: 1955 and 2055 are both printed as 55.
    ShortYear,
    /// An ENUM or SET whose members' names tell them apart, and the number of the last one. What is beyond,
    /// as a data file from another table may have it, has no name.
    Named(u64),
    /// An ENUM or SET in which a name does not stand for one member.
    Numbered,
}

/// The expression whose text stands for a column's values in a dump of this version.
pub(crate) fn expression(column: &Column, version: u32) -> String {
    let name = quote_name(&column.name);
    match form(column, version) {
        Form::Plain => name,
        Form::FloatSum => format!("{name}+0e0"),
        // Any server's FLOAT makes a negative zero of it.
        Form::Float => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-1e-60',{name}*1e0)"),
        Form::Double => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-0',{name})"),
        Form::DoubleDigits => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-0',{name}*1e0)"),
        Form::ShortYear => format!("YEAR({name})"),
        Form::Named(last) => {
            let number = format!("CAST({name} AS UNSIGNED)");
            format!("IF({number}>{last},CONCAT('#',{number}),{name})")
        }
        Form::Numbered => format!("CAST({name} AS UNSIGNED)"),
    }
}

/// Whether two versions of the format tell a column's values in other texts, so that their sums are no use to
/// each other.
pub(crate) fn differs(column: &Column, one: u32, other: u32) -> bool {
    form(column, one) != form(column, other)
}

/// Whether a column's values are numbers of members.
pub(crate) fn is_numbered(column: &Column, version: u32) -> bool {
    form(column, version) == Form::Numbered
}

/// How a column's values are written in SQL.
pub(crate) fn literal(column: &Column, version: u32) -> Literal {
    match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => Literal::Number,
        // As a number -0 is an integer, which has no sign.
        "float" | "double" => Literal::Digits,
        "enum" | "set" if is_numbered(column, version) => Literal::Number,
        "uuid" | "inet4" | "inet6" => Literal::Text,
        _ => Literal::Bytes,
    }
}

fn form(column: &Column, version: u32) -> Form {
    let digits = column.column_type.contains('(');
    let exact = version > PLAIN_VERSION;
    match column.data_type.as_str() {
        "float" if exact => Form::Float,
        "float" if !digits => Form::FloatSum,
        "double" if exact && digits => Form::DoubleDigits,
        "double" if exact => Form::Double,
        "year" if exact && column.column_type.starts_with("year(2)") => Form::ShortYear,
        "enum" if exact => named(&column.column_type, |count| count as u64),
        "set" if exact => named(&column.column_type, |count| u64::MAX >> (64 - count.clamp(1, 64))),
        _ => Form::Plain,
    }
}

/// Members by name where that is enough; `last` makes the largest value of their count.
fn named(column_type: &str, last: impl Fn(usize) -> u64) -> Form {
    let mut names = members(column_type);
    let count = names.len();
    names.sort();
    let mut pairs = names.iter().zip(names.iter().skip(1));
    // In order, two names that may be equal have none between them from which both surely differ.
    let apart = pairs.all(|(one, other)| surely_differ(one, other));
    let odd = names.iter().any(|name| name.is_empty() || name.starts_with(b"#"));
    if apart && !odd { Form::Named(last(count)) } else { Form::Numbered }
}

/// The names in `enum('a','b''c')`, in lower case.
fn members(column_type: &str) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut bytes = column_type.bytes().peekable();
    let mut name: Option<Vec<u8>> = None;
    while let Some(byte) = bytes.next() {
        match (&mut name, byte) {
            (None, b'\'') => name = Some(Vec::new()),
            (None, _) => {}
            (Some(text), b'\'') if bytes.peek() == Some(&b'\'') => {
                bytes.next();
                text.push(b'\'');
            }
            (Some(_), b'\'') => names.extend(name.take()),
            (Some(text), other) => text.push(other.to_ascii_lowercase()),
        }
    }
    names
}

/// Whether no collation takes two names for the same: they differ first in letters or digits of ASCII, behind
/// nothing but ASCII. Accents, signs of control, spaces at the end and the like may count for nothing.
fn surely_differ(one: &[u8], other: &[u8]) -> bool {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let plain = one[..same].iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
    let counts = |name: &[u8]| name.get(same).is_none_or(u8::is_ascii_alphanumeric);
    plain && one.len().max(other.len()) > same && counts(one) && counts(other)
}

#[cfg(test)]
mod tests {
    use server::catalogue::Origin;

    use super::*;
    use crate::manifest::VERSION;

    fn column(column_type: &str) -> Column {
        Column {
            name: "c".to_owned(),
            data_type: column_type.split('(').next().unwrap().split(' ').next().unwrap().to_owned(),
            column_type: column_type.to_owned(),
            character_set: None,
            origin: Origin::Stored,
        }
    }

    #[test]
    fn members_that_can_be_told_apart_keep_their_names() {
        let form = |text: &str| form(&column(text), VERSION);
        for (text, last) in [
            ("enum('a','b','c')", 3),
            ("enum('in progress','in review','in''review')", 0),
            ("enum('in progress','in review','done')", 3),
            ("enum('1','2','0')", 3),
            ("enum('m\u{e4}nnlich','weiblich')", 2),
            ("set('a','b','ab')", 7),
            ("set('')", 0),
            ("enum('','a')", 0),
            ("enum('a','A')", 0),
            ("enum('a','b','a')", 0),
            ("enum('gr\u{fc}n','grau')", 0),
            ("enum('a','a ','b')", 0),
            ("enum('a\\\\','a\\0','b')", 0),
            ("enum('#1','b')", 0),
        ] {
            let expected = if last == 0 { Form::Numbered } else { Form::Named(last) };
            assert_eq!(form(text), expected, "{text}");
        }
        let all: Vec<_> = (10..74).map(|at| format!("'m{at}'")).collect();
        assert_eq!(form(&format!("set({})", all.join(","))), Form::Named(u64::MAX));
    }

    #[test]
    fn the_first_version_is_read_as_it_was_written() {
        for text in ["enum('','a')", "set('','a')", "double", "double(12,3)", "float(10,2)", "year(2)", "int"]
        {
            assert_eq!(expression(&column(text), PLAIN_VERSION), "`c`", "{text}");
        }
        assert_eq!(expression(&column("float unsigned"), PLAIN_VERSION), "`c`+0e0");
        assert!(differs(&column("float"), PLAIN_VERSION, VERSION));
        assert!(!differs(&column("varchar(10)"), PLAIN_VERSION, VERSION));
    }
}
