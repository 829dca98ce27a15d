//! The type of each status variable. A server does not tell which of its numbers only grow; this list does.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How a status variable behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the server restarts or resets it: its change per second has a meaning.
    Counter,
    /// It goes up and down: only its value has a meaning.
    Gauge,
    /// ON or OFF.
    Switch,
    /// Words, names, times.
    Text,
    /// Not in the list, because the server is newer. Its value is shown, without a rate.
    Untyped,
}

impl Kind {
    /// Its name in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Switch => "switch",
            Kind::Text => "text",
            Kind::Untyped => "untyped",
        }
    }
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Pages of InnoDB.
    Pages,
    /// Time; this many units make a second.
    Time(u32),
}

/// What is known about a status variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// How it behaves.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Whether the server also has it per session, which shows the effect of remora's own statements.
    pub per_session: bool,
}

const UNTYPED: Type = Type { kind: Kind::Untyped, unit: Unit::Count, per_session: false };

/// The list, sorted by name without regard to case; a `*` stands for any characters.
const KNOWN: &str = include_str!("known.txt");

struct List {
    /// By the name in lower case: its spelling, and its type.
    names: BTreeMap<String, (&'static str, Type)>,
    /// The parts before and after the star, and the type.
    families: Vec<(String, String, Type)>,
}

static LIST: LazyLock<List> = LazyLock::new(|| {
    let mut list = List { names: BTreeMap::new(), families: Vec::new() };
    for (written, found) in KNOWN.lines().filter_map(line) {
        let name = written.to_ascii_lowercase();
        match name.split_once('*') {
            Some((front, back)) => list.families.push((front.to_owned(), back.to_owned(), found)),
            None => drop(list.names.insert(name, (written, found))),
        }
    }
    list
});

/// A line of the list; `None` for a comment, and for an invalid line, which a test looks for.
fn line(line: &str) -> Option<(&str, Type)> {
    let mut words = line.split(' ');
    let name = words.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    let kind = match words.next()? {
        "counter" => Kind::Counter,
        "gauge" => Kind::Gauge,
        "switch" => Kind::Switch,
        "text" => Kind::Text,
        _ => return None,
    };
    let unit = match words.next()? {
        "-" => Unit::Count,
        "bytes" => Unit::Bytes,
        "pages" => Unit::Pages,
        "s" => Unit::Time(1),
        "ms" => Unit::Time(1_000),
        "us" => Unit::Time(1_000_000),
        "ns" => Unit::Time(1_000_000_000),
        _ => return None,
    };
    let per_session = match words.next() {
        None => false,
        Some("session") => true,
        Some(_) => return None,
    };
    Some((name, Type { kind, unit, per_session }))
}

/// The type of a status variable; case does not matter.
#[must_use]
pub fn of(name: &str) -> Type {
    let name = name.to_ascii_lowercase();
    if let Some((_, found)) = LIST.names.get(&name) {
        return *found;
    }
    let family = LIST.families.iter().find(|(front, back, _)| {
        name.strip_prefix(front.as_str()).is_some_and(|rest| rest.len() > back.len() && rest.ends_with(back))
    });
    family.map_or(UNTYPED, |(_, _, found)| *found)
}

/// A name as in SHOW STATUS; information_schema has it in upper case.
#[must_use]
pub fn written(name: &str) -> String {
    let small = name.to_ascii_lowercase();
    if let Some((written, _)) = LIST.names.get(&small) {
        return (*written).to_owned();
    }
    if small.starts_with("wsrep") {
        return small;
    }
    let mut letters = small.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_read() {
        let lines: Vec<&str> = KNOWN.lines().filter(|line| !line.starts_with('#')).collect();
        for text in &lines {
            assert!(line(text).is_some(), "{text}");
        }
        let lower: Vec<String> = lines.iter().map(|line| line.to_ascii_lowercase()).collect();
        assert!(lower.windows(2).all(|pair| pair[0].split(' ').next() < pair[1].split(' ').next()));
    }

    #[test]
    fn a_line_has_a_kind_a_unit_and_perhaps_a_session() {
        let read = |text| line(text).map(|(name, ty)| (name, ty.kind, ty.unit, ty.per_session));
        assert_eq!(read("A gauge - session"), Some(("A", Kind::Gauge, Unit::Count, true)));
        let units = ["bytes", "pages", "s", "ms", "us", "ns"].map(|unit| {
            let text = format!("A counter {unit}");
            line(&text).unwrap().1.unit
        });
        let [s, ms, us, ns] = [1, 1_000, 1_000_000, 1_000_000_000].map(Unit::Time);
        assert_eq!(units, [Unit::Bytes, Unit::Pages, s, ms, us, ns]);
        for text in [
            "",
            "# A gauge -",
            "A",
            "A gauge",
            "A colour -",
            "A gauge kg",
            "A gauge - always",
            "#A gauge -",
            " gauge -",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn counters_and_gauges_are_distinguished() {
        let kind = |name| of(name).kind;
        assert_eq!([kind("QUESTIONS"), kind("Com_no_such_yet")], [Kind::Counter; 2]);
        assert_eq!([kind("Threads_running"), kind("Acl_users"), kind("Uptime")], [Kind::Gauge; 3]);
        assert_eq!([kind("wsrep_ready"), kind("Compression")], [Kind::Switch; 2]);
        assert_eq!(kind("Performance_schema_digest_lost"), Kind::Counter);
        // A type is never guessed.
        assert_eq!([kind("Rocksdb_number_db_seek"), kind("Com_"), kind("")], [Kind::Untyped; 3]);
        assert_eq!(of("Innodb_row_lock_time").unit, Unit::Time(1000));
        assert_eq!(written("INNODB_BUFFER_POOL_PAGES_LRU_FREED"), "Innodb_buffer_pool_pages_LRU_freed");
        assert_eq!([written("COM_SELECT"), written("WSREP_NEW")], ["Com_select", "wsrep_new"]);
        assert!(of("com_select").per_session && !of("Innodb_data_reads").per_session);
        assert_eq!([written(""), written("new_one")], ["", "New_one"]);
        let words = [Kind::Counter, Kind::Gauge, Kind::Switch, Kind::Text, Kind::Untyped].map(Kind::name);
        assert_eq!(words, ["counter", "gauge", "switch", "text", "untyped"]);
    }
}
