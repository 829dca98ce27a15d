//! The settings of servers: those of a series, those of a running server, and those in an option file.
//!
//! All of them become a [`Snapshot`]. Two snapshots can be [compared](compare), and an option file can be
//! [checked](check) against one. The snapshots of the series that we can start are [shipped].
//!
//! This module starts no server and opens no file: it gets a program's output, or a session.

pub mod advise;
pub mod check;
pub mod compare;
mod help;
mod name;
mod option;
mod option_file;
mod option_probe;
pub mod plugin;
mod running_server;
pub mod shipped;
mod snapshot_text;
mod value_equality;

use std::collections::BTreeMap;

pub use self::running_server::{deprecations, read_server};
pub use help::Help;
pub use name::{is_administrative, is_list};
pub use option::{Meaning, Prefix, resolve};
pub use option_file::read_file;
pub use option_probe::{candidates, judge_probe};
pub use value_equality::{Number, are_equal, number};

/// A text that is not a snapshot, or not the output of a server.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Malformed {
    /// What is wrong, and where.
    pub what: String,
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// It takes none.
    None,
    /// The value may be left out.
    Optional,
    /// Without a value the server does not start.
    Required,
}

/// One variable or option.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variable {
    /// Its default value.
    pub default: Option<String>,
    /// What the program prints with `--help`, if that is not the default.
    pub printed: Option<String>,
    /// The value in a running server or an option file.
    pub value: Option<String>,
    /// Where the value comes from, as the server says: `COMPILE-TIME`, `CONFIG`, `SQL`, ...
    pub origin: Option<String>,
    /// The option file with the value.
    pub file: Option<String>,
    /// The type as in `information_schema.SYSTEM_VARIABLES`, such as `BIGINT UNSIGNED`.
    pub kind: Option<String>,
    /// Smallest number.
    pub min: Option<String>,
    /// Largest number.
    pub max: Option<String>,
    /// Numbers are rounded down to multiples of this.
    pub block: Option<String>,
    /// The possible words, or the words of a set.
    pub words: Vec<String>,
    /// `SELECT @@name` works.
    pub is_variable: bool,
    /// Only a restart can change it.
    pub is_fixed: bool,
    /// Its form in an option file; `None` if it can't be set there.
    pub option: Option<Argument>,
    /// The server's message when it is still used.
    pub deprecated: Option<String>,
    /// The server's message about an option that it accepts but that has no effect.
    pub ignored: Option<String>,
    /// The default depends on the machine: processors, memory, limit of open files.
    pub is_by_machine: bool,
}

/// The settings of a series, a server or an option file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// A title for people: `MariaDB 10.11.19`.
    pub title: String,
    /// Family and version in one word, such as `mariadb-10.11.19`; empty for an option file.
    pub version: String,
    /// The groups of option files that it reads.
    pub groups: Vec<String>,
    /// Whether all options are listed, including those that are not variables.
    pub has_options: bool,
    /// Whether all variables are listed, including those that are not options.
    pub has_variables: bool,
    /// By name, in lower case with underscores.
    pub variables: BTreeMap<String, Variable>,
}

impl Snapshot {
    /// Whether these are only some settings of a server.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.has_options && !self.has_variables
    }

    /// Family and series: `mariadb-10.11`.
    #[must_use]
    pub fn series(&self) -> &str {
        self.version.rfind('.').map_or(&self.version, |end| &self.version[..end])
    }

    /// Whether it is known which values the options take. MySQL does not tell.
    #[must_use]
    pub fn knows_values(&self) -> bool {
        self.variables.values().any(|variable| variable.kind.is_some() && !variable.is_switch())
    }

    /// Whether the server takes the beginning of an option's name for the option. MySQL has not since 8.0.
    pub(crate) fn takes_abbreviations(&self) -> bool {
        let number = self.version.strip_prefix("mysql-").and_then(|version| version.split('.').next());
        number.and_then(|number| number.parse::<u32>().ok()).is_none_or(|number| number < 8)
    }

    /// Adds the groups that every server of this family reads, if they are unknown.
    pub fn assume_groups(&mut self) {
        let Some((family, series)) = self.series().split_once('-') else { return };
        if !self.groups.is_empty() {
            return;
        }
        let (own, shared): (&[&str], &[&str]) = match family {
            "mariadb" => (&["mysqld", "mariadb", "mariadbd"], &["server", "client-server", "galera"]),
            _ => (&["mysqld"], &["server"]),
        };
        let own = own.iter().flat_map(|group| [(*group).to_owned(), format!("{group}-{series}")]);
        self.groups = own.chain(shared.iter().map(|group| (*group).to_owned())).collect();
    }

    /// Adds the groups that a server reads with `--defaults-group-suffix`.
    pub fn add_groups(&mut self, suffix: &str) {
        let more: Vec<String> = self.groups.iter().map(|group| format!("{group}{suffix}")).collect();
        self.groups.extend(more);
    }

    /// Corrects a program's own output by what is known about its series, `other`.
    pub fn correct(&mut self, other: &Snapshot) {
        for (name, known) in &other.variables {
            let Some(own) = self.variables.get_mut(name) else { continue };
            if let (Some(printed), Some(said)) = (&known.printed, &own.default)
                && are_equal(known, printed, said)
            {
                own.default.clone_from(&known.default);
            }
        }
        self.learn(other);
    }

    /// Adds what is unknown here from `other`, which is of the same series: defaults, bounds, options.
    pub fn learn(&mut self, other: &Snapshot) {
        for (name, known) in &other.variables {
            match self.variables.get_mut(name) {
                Some(own) => own.learn(known),
                None if !known.is_variable => {
                    self.variables.insert(name.clone(), known.clone());
                }
                None => {}
            }
        }
        if self.groups.is_empty() {
            self.groups.clone_from(&other.groups);
        }
        self.has_options |= other.has_options;
    }
}

impl Variable {
    fn learn(&mut self, other: &Variable) {
        let fill = |own: &mut Option<String>, other: &Option<String>| {
            if own.is_none() {
                own.clone_from(other);
            }
        };
        fill(&mut self.default, &other.default);
        fill(&mut self.kind, &other.kind);
        fill(&mut self.min, &other.min);
        fill(&mut self.max, &other.max);
        fill(&mut self.block, &other.block);
        fill(&mut self.deprecated, &other.deprecated);
        fill(&mut self.ignored, &other.ignored);
        if self.words.is_empty() {
            self.words.clone_from(&other.words);
        }
        self.option = self.option.or(other.option);
        self.is_by_machine |= other.is_by_machine;
    }

    /// Whether it is a switch.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.kind.as_deref() == Some("BOOLEAN")
    }

    /// Whether somebody set it, as far as is known.
    #[must_use]
    pub fn is_set(&self) -> bool {
        match (self.origin.as_deref(), &self.value, &self.default) {
            (Some("COMPILE-TIME" | "AUTO"), _, _) | (_, None, _) => false,
            (Some(_), _, _) => true,
            (None, Some(value), Some(default)) => !are_equal(self, value, default),
            (None, Some(_), None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(head: &str, lines: &str) -> Snapshot {
        let text = format!("remora variables 1\ntitle\tx\nversion\tmariadb-10.11.6\n{head}\n{lines}");
        Snapshot::read(&text).unwrap()
    }

    #[test]
    fn unknown_properties_are_taken_from_the_series() {
        let series = snapshot(
            "groups\tmysqld server\nhas\toptions variables\n",
            "a\tdefault=1\ttype=INT\tmin=0\tmax=9\tblock=2\twords=A,B\toption=required\tdeprecated=soon\tignored=gone\tmachine\n\
             of_others\tdefault=1\tvariable\noption_only\tdefault=1\toption=none\n",
        );
        let mut server = snapshot("has\tvariables\n", "a\tvalue=5\tvariable\n");
        assert_eq!((server.is_partial(), snapshot("", "").is_partial()), (false, true));
        assert!(!snapshot("has\toptions\n", "").is_partial());
        server.learn(&series);
        let expected = snapshot(
            "groups\tmysqld server\nhas\toptions variables\n",
            "a\tdefault=1\tvalue=5\ttype=INT\tmin=0\tmax=9\tblock=2\twords=A,B\toption=required\tdeprecated=soon\tignored=gone\tvariable\tmachine\n\
             option_only\tdefault=1\toption=none\n",
        );
        assert_eq!(server, expected);
        // What is known stays.
        let mut other = snapshot(
            "groups\tmariadb\nhas\toptions variables\n",
            "a\tdefault=2\ttype=DOUBLE\tmin=1\tmax=8\tblock=4\twords=C\toption=none\tdeprecated=no\tignored=no\tmachine\n",
        );
        let before = other.clone();
        other.learn(&series);
        other.variables.retain(|name, _| name == "a");
        assert_eq!(other, before);
        let mut neither = snapshot("", "a\n");
        neither.learn(&snapshot("", "a\n"));
        assert!(!neither.has_options && !neither.variables["a"].is_by_machine);
    }

    #[test]
    fn odd_output_of_a_program_is_corrected() {
        let series =
            snapshot("", "a\tdefault=7\tprinted=1K\nb\tdefault=7\tprinted=2\nc\tdefault=7\nd\tprinted=1\n");
        let mut own = snapshot("", "a\tdefault=1024\nb\tdefault=1\nc\tdefault=1\n");
        own.correct(&series);
        let defaults = ["a", "b", "c"].map(|name| own.variables[name].default.clone().unwrap());
        assert_eq!(defaults, ["7", "1", "1"]);
        // The rest is learnt.
        assert!(own.variables.contains_key("d"));
    }

    #[test]
    fn a_value_is_set_when_somebody_set_it() {
        let is_set = |fields: &str| snapshot("", &format!("a\t{fields}\n")).variables["a"].is_set();
        for fields in
            ["value=1\torigin=CONFIG", "value=1\tdefault=1\torigin=SQL", "value=2\tdefault=1", "value=1"]
        {
            assert!(is_set(fields), "{fields}");
        }
        for fields in [
            "value=1\torigin=AUTO",
            "value=1\torigin=COMPILE-TIME",
            "origin=CONFIG",
            "value=1K\tdefault=1024",
            "default=1",
        ] {
            assert!(!is_set(fields), "{fields}");
        }
        let is_switch = |kind: &str| snapshot("", &format!("a\ttype={kind}\n")).variables["a"].is_switch();
        assert!(is_switch("BOOLEAN") && !is_switch("ENUM"));
    }

    #[test]
    fn properties_that_a_server_does_not_report_follow_from_its_family() {
        let of = |version: &str, head: &str, lines: &str| {
            let text = format!("remora variables 1\ntitle\tx\nversion\t{version}\n{head}\n{lines}");
            let mut snapshot = Snapshot::read(&text).unwrap();
            snapshot.assume_groups();
            snapshot
        };
        assert_eq!(of("mysql-9.7.4", "", "").groups, ["mysqld", "mysqld-9.7", "server"]);
        let mariadb = of("mariadb-10.6.1", "", "").groups.join(" ");
        assert_eq!(
            mariadb,
            "mysqld mysqld-10.6 mariadb mariadb-10.6 mariadbd mariadbd-10.6 server client-server galera"
        );
        assert_eq!(of("mysql-9.7.4", "groups\tmysqld\n", "").groups, ["mysqld"]);
        let knows = |lines: &str| of("mysql-9.7.4", "", lines).knows_values();
        assert!(knows("a\ttype=INT\n") && !knows("a\ttype=BOOLEAN\nb\n"));
        let versions = ["mysql-5.6.51", "mariadb-10.11.6", "mariadb-8.0.1", "mysql-8.0.30", "mysql-26.7.0"];
        let abbreviate = versions.map(|version| of(version, "", "").takes_abbreviations());
        assert_eq!(abbreviate, [true, true, true, false, false]);
    }

    #[test]
    fn a_series_is_the_version_without_its_last_number() {
        let mut snapshot = snapshot("", "");
        assert_eq!(snapshot.series(), "mariadb-10.11");
        snapshot.version.clear();
        assert_eq!(snapshot.series(), "");
    }
}
