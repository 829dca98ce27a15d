//! Which model has which number for a server's values: the registry file in the server's model folder.
//!
//! A number alone is not enough, because a file can be replaced by another one with the same number. So the
//! registry pins each number to the checksum of its file. A number stays taken when its model is gone,
//! because values may still name it.

use std::fmt;
use std::str::FromStr;

use crc_fast::CrcAlgorithm;

use crate::error::Error;
use crate::file::NUMBER_MAX;

/// Which functions a value belongs to. This matters only for number 0, which is another model for each
/// family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `url_pack` and its companions.
    Url,
    /// `text_pack` and its companions.
    Text,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Url, Self::Text];

    /// The model that is number 0 unless another one was put in its place. It has 2.6 MB for URLs of the
    /// World Wide Web. For short strings of other kinds, such as words, names, titles, file paths, e-mails
    /// and small JSON, it has 1.0 MB. `model/NOTICE` names their training data. A model that was trained on
    /// your own strings packs them better.
    pub fn built_in(self) -> Vec<u8> {
        let packed: &[u8] = match self {
            Self::Url => include_bytes!(concat!(env!("OUT_DIR"), "/small.zst")),
            Self::Text => include_bytes!(concat!(env!("OUT_DIR"), "/text.zst")),
        };
        // What the build has packed can be unpacked; nothing is no model.
        zstd::decode_all(packed).unwrap_or_default()
    }

    /// Name of the built-in model.
    pub fn built_in_name(self) -> &'static str {
        match self {
            Self::Url => "small",
            Self::Text => "text",
        }
    }

    /// The prefix of its functions' names.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Text => "text",
        }
    }
}

/// The model that a packed value names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Number 0 in the values of this family.
    Zero(Family),
    /// 1 to 15, the same in the values of every family.
    Own(u8),
}

impl Key {
    /// What `number` means in a value of `family`.
    pub fn new(family: Family, number: u8) -> Self {
        if number == 0 { Self::Zero(family) } else { Self::Own(number) }
    }

    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Self::Zero(_) => 0,
            Self::Own(number) => number,
        }
    }
}

/// For people: `number 3`, `number 0 of url_pack`.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero(family) => write!(out, "number 0 of {}_pack", family.prefix()),
            Self::Own(number) => write!(out, "number {number}"),
        }
    }
}

/// The model of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The number, as values name it.
    pub key: Key,
    /// Bytes of the model's file.
    pub size: u64,
    /// The file's checksum, as in [`Info`](crate::Info).
    pub checksum: u64,
    /// The model's name, which its file also has.
    pub name: String,
    /// The model was removed. No other model may get the number, because values may still name it.
    pub retired: bool,
}

impl Pin {
    /// Name of the model's file in the folder.
    pub fn file(&self) -> String {
        format!("{}.{}", self.name, Registry::ENDING)
    }
}

/// All pins of a folder, in the order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registry {
    pins: Vec<Pin>,
}

const FIRST: &str = "urlpack models 1";
const WORDS: &str = "# Which model packed values name by number. Only `remora url model` changes this file: what is edited or cut is refused.";
/// Longest name of a model.
const NAME_MAX: usize = 64;

impl Registry {
    /// The file's name in the folder of models.
    pub const FILE: &str = "models";
    /// The extension of model files; the name stands before it.
    pub const ENDING: &str = "urlmodel";

    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::Registry`] if it is not what [`to_bytes`](Self::to_bytes) wrote.
    pub fn parse(file: &[u8]) -> Result<Self, Error> {
        let wrong = |what, line| Error::Registry { what, line };
        let text = std::str::from_utf8(file).map_err(|_| wrong("bytes that are not text", 1))?;
        let mut registry = Self::default();
        let mut sum = None;
        for (index, line) in text.lines().enumerate() {
            let at = index + 1;
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                _ if sum.is_some() => return Err(wrong("data after the checksum", at)),
                _ if at == 1 && line == FIRST => {}
                _ if at == 1 => return Err(wrong("not a registry of models of this version", at)),
                _ if line.starts_with('#') => {}
                ["sum", digits] => sum = Some((at, *digits)),
                fields => {
                    let pin = pin(fields).ok_or(wrong("not a model's line", at))?;
                    let twice =
                        |other: &Pin| other.key == pin.key || (other.name == pin.name && live(other, &pin));
                    if registry.pins.iter().any(twice) {
                        return Err(wrong("a number or name that occurs twice", at));
                    }
                    registry.pins.push(pin);
                }
            }
        }
        let Some((at, _)) = sum.filter(|_| text.ends_with('\n')) else {
            return Err(wrong("the end is missing", text.lines().count()));
        };
        if registry.to_bytes() != file {
            return Err(wrong("the checksum does not match the lines above", at));
        }
        Ok(registry)
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{FIRST}\n{WORDS}\n");
        for Pin { key, size, checksum, name, retired } in &self.pins {
            let key = match key {
                Key::Zero(family) => family.prefix().to_owned(),
                Key::Own(number) => number.to_string(),
            };
            let state = if *retired { " retired" } else { "" };
            text += &format!("{key} {size} {checksum:016x} {name}{state}\n");
        }
        let sum = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, text.as_bytes());
        text += &format!("sum {sum:016x}\n");
        text.into_bytes()
    }

    /// All pins, in the order of their keys.
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// The pin of a key.
    pub fn pin(&self, key: Key) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.key == key)
    }

    /// The model with this name, unless it was removed.
    pub fn named(&self, name: &str) -> Option<&Pin> {
        self.pins.iter().find(|pin| pin.name == name && !pin.retired)
    }

    /// Sets what the key of `pin` means.
    pub fn set(&mut self, pin: Pin) {
        self.pins.retain(|other| other.key != pin.key);
        self.pins.push(pin);
        self.pins.sort_by_key(|pin| pin.key);
    }

    /// The least number from 1 on that no model has or ever had.
    pub fn free(&self) -> Option<u8> {
        (1..=NUMBER_MAX).find(|number| self.pin(Key::Own(*number)).is_none())
    }

    /// Whether a model can have this name, which must be a file name and a word in the registry.
    pub fn is_name(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
    }
}

fn live(one: &Pin, other: &Pin) -> bool {
    !one.retired && !other.retired
}

fn pin(fields: &[&str]) -> Option<Pin> {
    let (fields, retired) = match fields {
        [fields @ .., "retired"] if fields.len() == 4 => (fields, true),
        _ => (fields, false),
    };
    let [key, size, checksum, name] = fields else { return None };
    let family = Family::ALL.into_iter().find(|family| family.prefix() == *key);
    let key = match family {
        Some(family) => Key::Zero(family),
        None => Key::Own(u8::from_str(key).ok().filter(|number| (1..=NUMBER_MAX).contains(number))?),
    };
    let (size, checksum) = (size.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?);
    let name = Registry::is_name(name).then(|| (*name).to_owned())?;
    Some(Pin { key, size, checksum, name, retired })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(key: Key, name: &str, retired: bool) -> Pin {
        Pin { key, size: 1_000, checksum: 0xabc, name: name.to_owned(), retired }
    }

    fn some() -> Registry {
        let mut registry = Registry::default();
        registry.set(pin(Key::Own(2), "site", false));
        registry.set(pin(Key::Own(1), "old", true));
        registry.set(pin(Key::Zero(Family::Text), "words", false));
        registry
    }

    #[test]
    fn a_registry_is_read_back_and_finds_free_numbers() {
        let registry = some();
        let file = registry.to_bytes();
        assert_eq!(Registry::parse(&file), Ok(registry.clone()));
        assert_eq!(registry.free(), Some(3), "a number that was given up is not free");
        assert_eq!(registry.named("old"), None);
        assert_eq!(registry.pin(Key::new(Family::Text, 0)).unwrap().name, "words");
        assert_eq!(registry.pin(Key::new(Family::Url, 0)), None);
        assert_eq!(Registry::parse(&Registry::default().to_bytes()), Ok(Registry::default()));
    }

    #[test]
    fn a_cut_or_edited_registry_is_refused() {
        let file = some().to_bytes();
        for len in 0..file.len() {
            assert!(Registry::parse(&file[..len]).is_err(), "{len}");
        }
        for at in 0..file.len() {
            let mut edited = file.clone();
            edited[at] = edited[at].wrapping_add(1);
            assert!(Registry::parse(&edited).is_err(), "{at}");
        }
        let text = String::from_utf8(file).unwrap();
        let without: String =
            text.lines().filter(|line| !line.starts_with("2 ")).map(|line| format!("{line}\n")).collect();
        assert!(
            matches!(Registry::parse(without.as_bytes()), Err(Error::Registry { what, .. }) if what.contains("sum"))
        );
    }

    /// What a registry of these lines says, with the checksum that belongs to them; else what is wrong.
    fn sealed(lines: &str) -> Result<Vec<Pin>, (&'static str, usize)> {
        let text = format!("{FIRST}\n{WORDS}\n{lines}");
        let sum = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, text.as_bytes());
        match Registry::parse(format!("{text}sum {sum:016x}\n").as_bytes()) {
            Ok(registry) => Ok(registry.pins().to_vec()),
            Err(Error::Registry { what, line }) => Err((what, line)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_line_is_a_model_with_a_number_and_a_name_of_its_own() {
        let [first, last] = [Key::Own(1), Key::Own(15)].map(|key| pin(key, "site", false));
        assert_eq!(sealed("1 1000 0000000000000abc site\n"), Ok(vec![first.clone()]));
        assert_eq!(sealed("15 1000 0000000000000abc site\n"), Ok(vec![last]));
        let two = "1 1000 0000000000000abc site retired\n2 1000 0000000000000abc site\n";
        assert_eq!(sealed(two), Ok(vec![Pin { retired: true, ..first }, pin(Key::Own(2), "site", false)]));
        for line in [
            "0 1000 0000000000000abc site",
            "16 1000 0000000000000abc site",
            "site 1000 0000000000000abc site",
            "1 x 0000000000000abc site",
            "1 1000 g site",
            "1 1000 0000000000000abc .site",
            "1 1000 0000000000000abc",
            "1 1000 0000000000000abc retired retired retired",
            "1 1000 0000000000000abc site gone",
            "",
        ] {
            assert_eq!(sealed(&format!("{line}\n")), Err(("not a model's line", 3)), "{line}");
        }
        for second in ["1 1000 0000000000000abc b", "2 1000 0000000000000abc a"] {
            let lines = format!("1 1000 0000000000000abc a\n{second}\n");
            assert_eq!(sealed(&lines), Err(("a number or name that occurs twice", 4)), "{second}");
        }
        assert_eq!(sealed("sum 0\n"), Err(("data after the checksum", 4)));
        // What reads as the same but is written otherwise.
        let other = Err(("the checksum does not match the lines above", 5));
        assert_eq!(sealed("1 1000 0000000000000abc site\n# a comment\n"), other);
        assert_eq!(sealed("01 1000 0000000000000abc site\n# a comment\n"), other);
    }

    #[test]
    fn what_is_no_registry_is_told() {
        let said = |file: &[u8]| Registry::parse(file).unwrap_err().to_string();
        let whole = some().to_bytes();
        for (file, what) in [
            (&b"\xff"[..], "bytes that are not text"),
            (b"urlpack models 2\n", "not a registry of models of this version"),
            (b"urlpack models 1\n", "the end is missing"),
            (&whole[..whole.len() - 1], "the end is missing"),
        ] {
            assert!(said(file).contains(what), "{}", said(file));
        }
    }

    #[test]
    fn keys_and_families_have_names() {
        let shown = |family, number| Key::new(family, number).to_string();
        assert_eq!(shown(Family::Url, 0), "number 0 of url_pack");
        assert_eq!(shown(Family::Text, 0), "number 0 of text_pack");
        assert_eq!([shown(Family::Url, 3), shown(Family::Text, 3)], ["number 3"; 2]);
        assert_eq!([Key::Zero(Family::Url), Key::Own(7)].map(Key::number), [0, 7]);
        assert_eq!(Family::ALL.map(Family::built_in_name), ["small", "text"]);
        assert_eq!(pin(Key::Own(1), "site", false).file(), "site.urlmodel");
    }

    #[test]
    fn a_number_is_set_again_and_all_may_be_taken() {
        let mut registry = some();
        registry.set(pin(Key::Own(2), "other", false));
        assert_eq!((registry.pins().len(), registry.named("site")), (3, None));
        assert_eq!(registry.named("other").unwrap().key, Key::Own(2));
        let order: Vec<Key> = registry.pins().iter().map(|pin| pin.key).collect();
        assert_eq!(order, [Key::Zero(Family::Text), Key::Own(1), Key::Own(2)]);
        (3..=15).for_each(|number| registry.set(pin(Key::Own(number), &format!("m{number}"), false)));
        assert_eq!(registry.free(), None);
    }

    #[test]
    fn names_are_plain_words() {
        for good in ["site", "a.b-c_9", "-", &"a".repeat(64)] {
            assert!(Registry::is_name(good), "{good}");
        }
        for bad in ["", ".hidden", "a b", "a/b", "\u{e9}", &"a".repeat(65)] {
            assert!(!Registry::is_name(bad), "{bad}");
        }
    }
}
