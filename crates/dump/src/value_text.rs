//! The text of a stored value in a line. No two values of a column share a text, and the text restores the
//! value. Equality is verified by these texts, so a difference that they do not show would go unnoticed.
//! docs/formats/dump.md has the table of all types.

use server::catalogue::Column;
use server::quote_name;

use crate::format::Literal;

/// The version of a dump in which some values shared a text, and in which nothing proved the manifest.
pub(crate) const PLAIN_VERSION: u32 = 1;

/// How a column's values are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// The server's own text is exact.
    Plain,
    /// A FLOAT: printed with six digits, or with the digits of its type, it loses bits.
    Float,
    /// A FLOAT as in version 1: without digits in its type all bits are shown, except the sign of zero.
    FloatSum,
    /// A DOUBLE: some servers print a negative zero without its sign.
    Double,
    /// A DOUBLE with digits in its type, which may hold more of them than it prints.
    DoubleDigits,
    /// A year of two digits: both 1955 and 2055 are printed as 55.
    ShortYear,
    /// An ENUM or SET whose members have distinguishable names, and the number of the last one. Greater
    /// numbers, which a data file from another table may have, have no name.
    ManifestFilter(u64),
    /// An ENUM or SET in which a name can stand for several members.
    Numbered,
}

/// The expression whose text represents a column's values in a dump of this version.
pub(crate) fn expression(column: &Column, version: u32) -> String {
    let name = quote_name(&column.name);
    match form(column, version) {
        Form::Plain => name,
        Form::FloatSum => format!("{name}+0e0"),
        // On any server a FLOAT turns this into a negative zero.
        Form::Float => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-1e-60',{name}*1e0)"),
        Form::Double => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-0',{name})"),
        Form::DoubleDigits => format!("IF({name}=0 AND ATAN2({name},-1)<0,'-0',{name}*1e0)"),
        Form::ShortYear => format!("YEAR({name})"),
        Form::ManifestFilter(last) => {
            let number = format!("CAST({name} AS UNSIGNED)");
            // Text of swe7, in which not even # is what it is elsewhere, does not mix with other text.
            let text = match column.character_set.as_deref() {
                Some("swe7") => format!("CAST({name} AS BINARY)"),
                _ => name,
            };
            format!("IF({number}>{last},CONCAT('#',{number}),{text})")
        }
        Form::Numbered => format!("CAST({name} AS UNSIGNED)"),
    }
}

/// Whether two versions of the format give a column's values different texts, so that their sums can't be
/// compared.
pub(crate) fn differs(column: &Column, one: u32, other: u32) -> bool {
    form(column, one) != form(column, other)
}

/// Whether a column's values are selected as numbers of members.
pub(crate) fn is_numbered(column: &Column, version: u32) -> bool {
    form(column, version) == Form::Numbered
}

/// How a column's values are written in SQL.
pub(crate) fn literal(column: &Column, version: u32) -> Literal {
    match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => Literal::Number,
        // As a number, -0 is an integer and has no sign.
        "float" | "double" => Literal::Digits,
        "enum" | "set" if is_numbered(column, version) => Literal::Number,
        // MySQL makes no JSON of bytes.
        "uuid" | "inet4" | "inet6" | "json" => Literal::Text,
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

/// Members by name if their names suffice; `last` computes the largest value from their count.
fn named(column_type: &str, last: impl Fn(usize) -> u64) -> Form {
    let mut names = members(column_type);
    let count = names.len();
    names.sort();
    let mut pairs = names.iter().zip(names.iter().skip(1));
    // If two neighbours in sorted order surely differ, then so do all names.
    let apart = pairs.all(|(one, other)| surely_differ(one, other));
    let odd = names.iter().any(|name| name.is_empty() || name.starts_with(b"#"));
    if apart && !odd { Form::ManifestFilter(last(count)) } else { Form::Numbered }
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

/// Whether every collation distinguishes two names: their first difference is in ASCII letters or digits,
/// after nothing but ASCII. A collation may ignore accents, control characters, trailing spaces and the like.
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
            let expected = if last == 0 { Form::Numbered } else { Form::ManifestFilter(last) };
            assert_eq!(form(text), expected, "{text}");
        }
        let all: Vec<_> = (10..74).map(|at| format!("'m{at}'")).collect();
        assert_eq!(form(&format!("set({})", all.join(","))), Form::ManifestFilter(u64::MAX));
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
