//! Masks: what is read instead of the values of some columns. The source server replaces them, so that what
//! is masked leaves it neither in a row nor in the limits of a chunk.
//!
//! `hash` and the invented values are made of SHA2(key, SHA2(value)): one value becomes the same text in
//! every table and in every run with the same key, and nobody without the key can test a guess. Both inputs
//! of the outer function have a fixed length, so that nothing can be appended to them.

mod check;
mod value;

use std::collections::BTreeMap;
use std::fmt;

use innodb::table::collation::Collation;
use serde::{Deserialize, Serialize};
use server::catalogue::{Column, Origin, Table};
use server::{Session, quote_name};

pub(crate) use check::check;
pub use value::ValueMask;

use crate::Error;
use crate::selection::Pattern;

/// The variable of a session that has the key.
const KEY: &str = "@remora_mask_key";
/// Hexadecimal digits of a hash in a text.
const DIGITS: u64 = 32;
/// Bytes of a hash in a column of bytes without a fixed length.
const BYTES: u64 = 16;
/// Bytes that SHA-256 has.
const BYTES_MAX: u64 = 32;
/// Bits of an integer of eight bytes that are taken from a hash: 15 hexadecimal digits.
const INTEGER_BITS: u32 = 60;
/// What an invented address ends with: no such domain is ever registered (RFC 2606).
const DOMAIN: &str = "@example.com";
/// Hexadecimal digits in an invented address.
const EMAIL_DIGITS: std::ops::RangeInclusive<u64> = 8..=16;
/// The longest invented name.
const NAME_CHARS: u64 = 20;
/// Invented telephone numbers begin like this, which no country does, and have ten more digits.
const PHONE: &str = "+999";
const GIVEN_NAMES: &str = "'Ada','Alan','Anita','Barbara','Carol','David','Dennis','Donald','Edgar','Edsger','Frances','Grace',\
'Hedy','Jean','John','Joan','Ken','Leslie','Lynn','Margaret','Marvin','Mary','Niklaus','Peter','Radia','Robin','Ruth','Sophie',\
'Stephen','Tim','Tony','Vint'";
const FAMILY_NAMES: &str = "'Abel','Archer','Baker','Barnes','Brook','Carter','Clark','Cole','Dale','Dyer','Field','Fisher',\
'Ford','Gardner','Glover','Hill','Hunter','Lake','Mason','Miller','Moore','Potter','Reed','Rivers','Shepherd','Smith','Stone',\
'Tailor','Turner','Walker','Weaver','Wood'";

/// How the values of a column are masked. NULL stays NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mask {
    /// NULL instead of every value.
    #[serde(rename = "null")]
    Null,
    /// A keyed hash of the value, as long as the column allows.
    #[serde(rename = "hash")]
    Hash,
    /// An invented address of e-mail.
    #[serde(rename = "fake:email")]
    Email,
    /// An invented name of a person, of which there are 1,024.
    #[serde(rename = "fake:name")]
    Name,
    /// An invented telephone number.
    #[serde(rename = "fake:phone")]
    Phone,
}

impl Mask {
    /// All of them, with the words for them.
    const ALL: [(Mask, &'static str); 5] = [
        (Mask::Null, "null"),
        (Mask::Hash, "hash"),
        (Mask::Email, "fake:email"),
        (Mask::Name, "fake:name"),
        (Mask::Phone, "fake:phone"),
    ];
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Mask::ALL.iter().filter(|(mask, _)| mask == self).try_for_each(|(_, word)| f.write_str(word))
    }
}

/// The secret of hashes and invented values.
#[derive(Clone)]
pub struct MaskKey([u8; 32]);

impl MaskKey {
    /// A key from secret bytes of any number. The bytes themselves never appear in a statement.
    #[must_use]
    pub fn new(secret: &[u8]) -> MaskKey {
        MaskKey(blake3::derive_key("remora 2026-11-29 masks of columns", secret))
    }

    /// Tells keys apart, and says nothing else about them.
    pub(crate) fn fingerprint(&self) -> String {
        blake3::hash(&self.0).to_hex()[..16].to_owned()
    }

    /// Gives it to a session, so that no query has it in its text, which errors and logs of slow queries
    /// show.
    fn give(&self, session: &mut Session) -> Result<(), Error> {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        session.execute(&format!("SET {KEY} = X'{digits}'"))?;
        Ok(())
    }
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

/// Masks of columns, as they were asked for; none by default.
#[derive(Clone, Debug)]
pub struct Masks {
    rules: Vec<Rule>,
    key: MaskKey,
}

impl Default for Masks {
    fn default() -> Masks {
        Masks { rules: Vec::new(), key: MaskKey([0; 32]) }
    }
}

/// One of them.
#[derive(Clone, Debug)]
struct Rule {
    tables: Pattern,
    column: String,
    mask: Mask,
    /// As it was written.
    text: String,
}

/// A column that is masked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct MaskedColumn {
    pub(crate) mask: Mask,
    /// What is selected on the source instead of the column.
    #[serde(skip)]
    pub(crate) expression: String,
}

/// The masked columns of a table.
pub(crate) type Masked = BTreeMap<String, MaskedColumn>;

impl Masks {
    /// Masks as they are written on the command line: `db.table.column=null`, `=hash` or `=fake:email`, with
    /// `*` and `?` in the names of database and table. The first one counts for a column.
    ///
    /// # Errors
    /// What is wrong with a text.
    pub fn new(texts: &[String], key: MaskKey) -> Result<Masks, String> {
        let rules = texts.iter().map(|text| Rule::new(text)).collect::<Result<_, String>>()?;
        Ok(Masks { rules, key })
    }

    /// The fingerprint of the key, if it has any part in what is read.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        self.has_key().then(|| self.key.fingerprint())
    }

    /// Prepares a session that will read masked columns.
    ///
    /// # Errors
    /// Those of the server.
    pub fn prepare(&self, session: &mut Session) -> Result<(), Error> {
        if self.has_key() { self.key.give(session) } else { Ok(()) }
    }

    /// Whether the key has any part in what is read.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.rules.iter().any(|rule| rule.mask != Mask::Null)
    }

    /// Whether nothing is masked.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The same for masks that give every value the same mask.
    pub(crate) fn identity(&self) -> String {
        let texts: Vec<_> = self.rules.iter().map(|rule| rule.text.as_str()).collect();
        format!("{texts:?} {:?}", self.fingerprint())
    }

    /// What is masked of a table.
    ///
    /// # Errors
    /// [`Error::Mismatch`] for a column whose type the mask does not fit.
    pub(crate) fn of(&self, table: &Table) -> Result<Masked, Error> {
        let mut masked = Masked::new();
        for column in &table.columns {
            let is_of = |rule: &&Rule| rule.covers(table) && rule.names(column);
            let Some(Rule { mask, text, .. }) = self.rules.iter().find(is_of) else { continue };
            let expression = expression(column, *mask).map_err(|why| {
                Error::Mismatch(format!("--mask {text}: column {} of {}: {why}", column.name, table.name))
            })?;
            masked.insert(column.name.clone(), MaskedColumn { mask: *mask, expression });
        }
        Ok(masked)
    }
}

impl Rule {
    fn new(text: &str) -> Result<Rule, String> {
        let bad = || format!("{text:?} is not db.table.column=MASK");
        let (place, how) = text.rsplit_once('=').ok_or_else(bad)?;
        let words = Mask::ALL.map(|(_, word)| word).join(", ");
        let known = Mask::ALL.iter().find(|(_, word)| *word == how);
        let (mask, _) = known.ok_or_else(|| format!("{how:?} is no mask; there are {words}"))?;
        let at = last_dot(place).ok_or_else(bad)?;
        let tables: Pattern = place[..at].parse()?;
        if tables.is_database() {
            return Err(bad());
        }
        let column = place[at + 1..].trim_matches('`').replace("``", "`");
        Ok(Rule { tables, column, mask: *mask, text: text.to_owned() })
    }

    fn covers(&self, table: &Table) -> bool {
        self.tables.covers(&table.name.schema, &table.name.table)
    }

    /// Whether it is about a column. Their names have no case on any server.
    fn names(&self, column: &Column) -> bool {
        self.column.to_lowercase() == column.name.to_lowercase()
    }
}

/// Where the last dot is that is not within backquotes.
fn last_dot(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut last = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'`' => quoted = !quoted,
            b'.' if !quoted => last = Some(at),
            _ => {}
        }
    }
    last.filter(|at| at + 1 < text.len())
}

/// What a column can hold, as far as masks tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// So many characters.
    Text(u64),
    /// Exactly so many bytes.
    FixedBytes(u64),
    /// At most so many bytes.
    Bytes(u64),
    /// Integers of so many bits.
    Integer(u32),
    Other,
}

fn holds(column: &Column) -> Holds {
    let number = column.column_type.split_once('(').and_then(|(_, rest)| rest.split([')', ',']).next());
    let width = number.and_then(|digits| digits.parse().ok()).unwrap_or(1);
    let bits = |bits: u32| {
        let is_signed = !column.column_type.contains("unsigned");
        Holds::Integer((bits - u32::from(is_signed)).min(INTEGER_BITS))
    };
    match column.data_type.as_str() {
        "char" | "varchar" => Holds::Text(width),
        // 255 bytes, of at most four for each character.
        "tinytext" => Holds::Text(63),
        "text" | "mediumtext" | "longtext" => Holds::Text(u64::MAX),
        "binary" => Holds::FixedBytes(width),
        "varbinary" => Holds::Bytes(width),
        "tinyblob" | "blob" | "mediumblob" | "longblob" => Holds::Bytes(u64::MAX),
        _ if column.column_type.contains("zerofill") => Holds::Other,
        "tinyint" => bits(8),
        "smallint" => bits(16),
        "mediumint" => bits(24),
        "int" => bits(32),
        "bigint" => bits(64),
        _ => Holds::Other,
    }
}

/// How many hexadecimal digits an invented address has in a text of so many characters.
fn email_digits(chars: u64) -> u64 {
    chars.saturating_sub(1 + DOMAIN.len() as u64).min(*EMAIL_DIGITS.end())
}

/// Bits by which two masked values differ at least; 0 where nothing is said about that. Of a text or bytes
/// only the first `prefix` are looked at. Fewer than 64 will collide in a large table.
fn bits(column: &Column, mask: Mask, prefix: u64) -> u64 {
    match (mask, holds(column)) {
        (Mask::Hash, Holds::Text(chars)) => 4 * DIGITS.min(chars).min(prefix),
        (Mask::Hash, Holds::FixedBytes(bytes)) => 8 * BYTES_MAX.min(bytes).min(prefix),
        (Mask::Hash, Holds::Bytes(bytes)) => 8 * BYTES.min(bytes).min(prefix),
        (Mask::Hash, Holds::Integer(bits)) => bits.into(),
        (Mask::Email, Holds::Text(chars)) => 4 * email_digits(chars).min(prefix.saturating_sub(1)),
        _ => 0,
    }
}

/// What is selected instead of a column: text that the column can store, and that reads the same from there.
fn expression(column: &Column, mask: Mask) -> Result<String, String> {
    if column.origin != Origin::Stored {
        return Err("the server computes it; mask what it is computed from".to_owned());
    }
    if mask == Mask::Null {
        return Ok("NULL".to_owned());
    }
    let name = quote_name(&column.name);
    let holds = holds(column);
    let value = match holds {
        // Equal characters are equal in every character set.
        Holds::Text(_) => format!("CONVERT({name} USING utf8mb4)"),
        _ => name,
    };
    let digits = format!("SHA2(CONCAT({KEY},SHA2({value},256)),256)");
    let number =
        |from: u64, count: u64| format!("CAST(CONV(SUBSTRING({digits},{from},{count}),16,10) AS UNSIGNED)");
    let short = |least: u64| {
        format!("{} is too short for {mask}, which needs {least} characters", column.column_type)
    };
    let text = |text: String| match column.character_set.as_deref() {
        Some(set) => format!("CONVERT({text} USING {set})"),
        None => text,
    };
    match (mask, holds) {
        (Mask::Hash, Holds::Text(chars)) => Ok(text(format!("LEFT({digits},{})", DIGITS.min(chars)))),
        (Mask::Hash, Holds::FixedBytes(bytes)) => {
            Ok(format!("RPAD(LEFT(UNHEX({digits}),{}),{bytes},X'00')", BYTES_MAX.min(bytes)))
        }
        (Mask::Hash, Holds::Bytes(bytes)) => Ok(format!("LEFT(UNHEX({digits}),{})", BYTES.min(bytes))),
        (Mask::Hash, Holds::Integer(bits)) => Ok(format!("{}%{}", number(1, 15), 1_u64 << bits)),
        (Mask::Hash, Holds::Other) => {
            Err(format!("hash is for texts, bytes and integers, and this is {}", column.column_type))
        }
        (Mask::Email, Holds::Text(chars)) => {
            let count = email_digits(chars);
            if !EMAIL_DIGITS.contains(&count) {
                return Err(short(EMAIL_DIGITS.start() + 1 + DOMAIN.len() as u64));
            }
            if !column.character_set.as_deref().is_none_or(has_email) {
                return Err("its character set has no @, or two dots".to_owned());
            }
            Ok(text(format!("CONCAT('u',LEFT({digits},{count}),'{DOMAIN}')")))
        }
        (Mask::Name, Holds::Text(chars)) => {
            if chars < NAME_CHARS {
                return Err(short(NAME_CHARS));
            }
            let one = |from, names| format!("ELT(1+{}%32,{names})", number(from, 8));
            Ok(text(format!("CONCAT({},' ',{})", one(1, GIVEN_NAMES), one(9, FAMILY_NAMES))))
        }
        (Mask::Phone, Holds::Text(chars)) => {
            let least = PHONE.len() as u64 + 10;
            if chars < least {
                return Err(short(least));
            }
            Ok(text(format!("CONCAT('{PHONE}',LPAD({}%10000000000,10,'0'))", number(1, 15))))
        }
        (mask, _) => Err(format!("{mask} is for texts, and this is {}", column.column_type)),
    }
}

/// Whether a character set has what an address needs, once: swe7 has a letter in the place of @, and armscii8
/// two dots, of which servers take different ones.
fn has_email(charset: &str) -> bool {
    let Some(charset) = Collation::of_charset(charset).map(Collation::charset) else { return true };
    let codes =
        |letter: &str| (0..=u8::MAX).filter(|byte| charset.text(&[*byte]).as_deref() == Some(letter)).count();
    charset.max > 1 || ["@", "."].iter().all(|letter| codes(letter) == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(column_type: &str) -> Column {
        Column {
            name: "c".to_owned(),
            data_type: column_type.split(['(', ' ']).next().unwrap().to_owned(),
            column_type: column_type.to_owned(),
            character_set: None,
            origin: Origin::Stored,
        }
    }

    #[test]
    fn a_mask_names_a_column_and_a_way() {
        for (good, column) in [
            ("shop.users.email=fake:email", "email"),
            ("shop_*.u?.`a.b=c`=hash", "a.b=c"),
            ("`a.b`.`c.d`.e=null", "e"),
            ("/^shop[0-9]\\./.mail=fake:name", "mail"),
        ] {
            assert_eq!(Rule::new(good).unwrap().column, column, "{good}");
        }
        for (bad, why) in [
            ("shop.users.email", "is not db.table.column="),
            ("shop.users.email=", "null, hash, fake:email"),
            ("shop.users.email=fake:mail", "null, hash, fake:email"),
            ("users.email=hash", "is not db.table.column"),
            ("email=hash", "is not db.table.column"),
            ("shop.users.=hash", "is not db.table.column"),
        ] {
            let found = Rule::new(bad).unwrap_err();
            assert!(found.contains(why), "{bad}: {found}");
        }
    }

    #[test]
    fn a_key_is_shown_nowhere() {
        let masks = Masks::new(&["a.b.c=hash".to_owned()], MaskKey::new(b"secret")).unwrap();
        let shown = format!("{masks:?}");
        let digits: String = masks.key.0[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let numbers = format!("{:?}", &masks.key.0[..4]);
        let is_shown = [digits, numbers, "secret".to_owned()].iter().any(|text| shown.contains(text));
        assert!(!is_shown, "{shown}");
    }

    #[test]
    fn bits_are_those_that_a_type_has_room_for() {
        for (column_type, mask, prefix, expected) in [
            ("varchar(100)", Mask::Hash, u64::MAX, 128),
            ("varchar(100)", Mask::Hash, 10, 40),
            ("char(8)", Mask::Hash, u64::MAX, 32),
            ("tinytext", Mask::Hash, 40, 128),
            ("binary(40)", Mask::Hash, u64::MAX, 256),
            ("blob", Mask::Hash, 4, 32),
            ("int(10) unsigned", Mask::Hash, u64::MAX, 32),
            ("tinyint(4)", Mask::Hash, u64::MAX, 7),
            ("bigint", Mask::Hash, u64::MAX, 60),
            ("varchar(100)", Mask::Email, u64::MAX, 64),
            ("varchar(100)", Mask::Email, 12, 44),
            ("varchar(25)", Mask::Email, u64::MAX, 48),
            ("varchar(100)", Mask::Name, u64::MAX, 0),
        ] {
            assert_eq!(bits(&column(column_type), mask, prefix), expected, "{column_type} {mask}");
        }
    }

    #[test]
    fn a_type_that_a_mask_does_not_fit_is_refused() {
        for (column_type, mask, why) in [
            ("date", Mask::Hash, "this is date"),
            ("enum('a','b')", Mask::Hash, "this is enum"),
            ("int(5) zerofill", Mask::Hash, "this is int(5) zerofill"),
            ("decimal(10,2)", Mask::Hash, "this is decimal"),
            ("json", Mask::Hash, "this is json"),
            ("int", Mask::Email, "is for texts"),
            ("blob", Mask::Phone, "is for texts"),
            ("varchar(20)", Mask::Email, "needs 21 characters"),
            ("varchar(19)", Mask::Name, "needs 20 characters"),
            ("char(13)", Mask::Phone, "needs 14 characters"),
        ] {
            let found = expression(&column(column_type), mask).unwrap_err();
            assert!(found.contains(why), "{column_type} {mask}: {found}");
        }
        for (charset, has) in [
            ("swe7", false),
            ("armscii8", false),
            ("latin1", true),
            ("ucs2", true),
            ("sjis", true),
            ("utf8", true),
        ] {
            let of = Column { character_set: Some(charset.to_owned()), ..column("varchar(100)") };
            assert_eq!(expression(&of, Mask::Email).is_ok(), has, "{charset}");
            assert!(expression(&of, Mask::Name).is_ok(), "{charset}");
        }
        let computed = Column { origin: Origin::Generated, ..column("varchar(100)") };
        assert!(expression(&computed, Mask::Null).unwrap_err().contains("computes"));
    }

    #[test]
    fn invented_names_have_room() {
        let longest = |names: &str| names.split(',').map(|name| name.len() - 2).max().unwrap();
        for names in [GIVEN_NAMES, FAMILY_NAMES] {
            assert_eq!(names.split(',').count(), 32);
        }
        assert!(longest(GIVEN_NAMES) + 1 + longest(FAMILY_NAMES) <= usize::try_from(NAME_CHARS).unwrap());
    }
}
