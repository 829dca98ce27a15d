//! Collations of MariaDB 10.11 to 11.8, by number and by name, with their character sets.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Number and name of each; a star marks the compiled-in default of its character set.
const COLLATIONS: &str = include_str!("collations.txt");

/// The first number of the collations from the UCA 14.0.0 tables. The number of a collation adds the
/// character set's index in [`UCA_CHARSETS`] << 8, the language's in [`UCA_LANGUAGES`] << 3, and a bit for
/// each of nopad (4), as (2) and cs (1).
const UCA_FIRST: u16 = 2048;
const UCA_CHARSETS: [&str; 5] = ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"];
const UCA_LANGUAGES: [&str; 25] = [
    "",
    "icelandic_",
    "latvian_",
    "romanian_",
    "slovenian_",
    "polish_",
    "estonian_",
    "spanish_",
    "swedish_",
    "turkish_",
    "czech_",
    "danish_",
    "lithuanian_",
    "slovak_",
    "spanish2_",
    "roman_",
    "persian_",
    "esperanto_",
    "hungarian_",
    "sinhala_",
    "german2_",
    "\0",
    "\0",
    "vietnamese_",
    "croatian_",
];

/// A character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    /// Its name; `binary` for bytes.
    pub name: &'static str,
    /// Bytes of its shortest character.
    pub min: u8,
    /// Bytes of its longest character.
    pub max: u8,
}

impl Charset {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Charset> {
        let defaults = lines().filter(|line| line.2);
        defaults.filter_map(|line| Some(Collation::of_number(line.0)?.charset()))
    }

    /// Whether an ASCII text has the same bytes in this character set, whose shortest characters have one
    /// byte. The server has other letters in place of some ASCII characters in two of them.
    #[must_use]
    pub fn is_ascii(&self, text: &[u8]) -> bool {
        match self.name {
            "swe7" => !text.iter().any(|byte| matches!(byte, b'@' | b'['..=b'^' | b'`' | b'{'..=0x7f)),
            // A backslash becomes 81 5f.
            "sjis" => !text.contains(&b'\\'),
            _ => true,
        }
    }
}

/// Character sets with characters of more than one byte.
const WIDE: [Charset; 14] = [
    Charset { name: "big5", min: 1, max: 2 },
    Charset { name: "cp932", min: 1, max: 2 },
    Charset { name: "eucjpms", min: 1, max: 3 },
    Charset { name: "euckr", min: 1, max: 2 },
    Charset { name: "gb2312", min: 1, max: 2 },
    Charset { name: "gbk", min: 1, max: 2 },
    Charset { name: "sjis", min: 1, max: 2 },
    Charset { name: "ucs2", min: 2, max: 2 },
    Charset { name: "ujis", min: 1, max: 3 },
    Charset { name: "utf16", min: 2, max: 4 },
    Charset { name: "utf16le", min: 2, max: 4 },
    Charset { name: "utf32", min: 4, max: 4 },
    Charset { name: "utf8mb3", min: 1, max: 3 },
    Charset { name: "utf8mb4", min: 1, max: 4 },
];

/// A collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collation {
    number: u16,
    charset: Charset,
}

impl Collation {
    /// The collation of bytes.
    pub const BINARY: Collation =
        Collation { number: 63, charset: Charset { name: "binary", min: 1, max: 1 } };

    /// The collation with this number, if there is one.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Collation> {
        let name = match number.checked_sub(UCA_FIRST) {
            Some(place) => uca(number).and_then(|_| UCA_CHARSETS.get(usize::from(place >> 8)).copied()),
            None => listed(number).map(charset_name),
        }?;
        let wide = WIDE.into_iter().find(|wide| wide.name == name);
        Some(Collation { number, charset: wide.unwrap_or(Charset { name, min: 1, max: 1 }) })
    }

    /// The collation with this name, in any case; `utf8_...` means `utf8mb3_...`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Collation> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("utf8_").map_or(name.clone(), |rest| format!("utf8mb3_{rest}"));
        let number = if name.contains("_uca1400_") {
            let last = UCA_FIRST + (5 << 8);
            (UCA_FIRST..last).find(|number| uca(*number).as_ref() == Some(&name))
        } else {
            lines().find(|line| line.1 == name).map(|line| line.0)
        };
        number.and_then(Collation::of_number)
    }

    /// The compiled-in default collation of a character set; `utf8` means `utf8mb3`.
    #[must_use]
    pub fn of_charset(name: &str) -> Option<Collation> {
        let name = name.to_ascii_lowercase();
        let name = if name == "utf8" { "utf8mb3" } else { &name };
        let line = lines().find(|line| line.2 && charset_name(line.1) == name);
        line.and_then(|line| Collation::of_number(line.0))
    }

    /// Its number in the server.
    #[must_use]
    pub fn number(self) -> u16 {
        self.number
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        uca(self.number).or_else(|| listed(self.number).map(str::to_owned)).unwrap_or_default()
    }

    /// Its character set.
    #[must_use]
    pub fn charset(self) -> Charset {
        self.charset
    }
}

fn lines() -> impl Iterator<Item = (u16, &'static str, bool)> {
    COLLATIONS.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?, words.next().is_some()))
    })
}

fn listed(number: u16) -> Option<&'static str> {
    static NAMES: OnceLock<BTreeMap<u16, &str>> = OnceLock::new();
    NAMES.get_or_init(|| lines().map(|line| (line.0, line.1)).collect()).get(&number).copied()
}

fn charset_name(collation: &str) -> &str {
    collation.split('_').next().unwrap_or(collation)
}

fn uca(number: u16) -> Option<String> {
    let place = number.checked_sub(UCA_FIRST)?;
    let charset = UCA_CHARSETS.get(usize::from(place >> 8))?;
    let language = UCA_LANGUAGES.get(usize::from(place >> 3 & 31)).filter(|name| **name != "\0")?;
    let pad = if place & 4 > 0 { "nopad_" } else { "" };
    let accent = if place & 2 > 0 { "as" } else { "ai" };
    let case = if place & 1 > 0 { "cs" } else { "ci" };
    Some(format!("{charset}_uca1400_{language}{pad}{accent}_{case}"))
}
