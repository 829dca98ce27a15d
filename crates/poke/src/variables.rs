//! The variables that may be stored into, and what is known about them.

use std::ops::RangeInclusive;

use anyhow::Result;
use failure::usage;

/// The series of MariaDB on which all of these were tried.
pub const SERIES: [&str; 3] = ["10.11", "11.4", "11.8"];

/// How a variable is stored in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// `bool` or `my_bool`: a byte that is 0 or 1.
    Flag,
    /// `uint`.
    Four,
    /// `ulong` or `ulonglong`.
    Eight,
}

impl Width {
    /// How many bytes it has.
    pub fn bytes(self) -> usize {
        match self {
            Width::Flag => 1,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// What must be true before a value is stored. SQL tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// No replica thread runs: these threads read the variable while they run.
    ReplicaStopped,
    /// The server has a binary log.
    BinaryLog,
    /// The server is not a node of a Galera cluster, whose threads read the variable at any time.
    NoCluster,
}

/// A variable that may be stored into.
#[derive(Debug)]
pub struct Variable {
    /// Its name in SQL.
    pub name: &'static str,
    /// Its name in the program.
    pub symbol: &'static str,
    /// How it is stored.
    pub width: Width,
    /// The values that the server takes.
    pub range: RangeInclusive<u64>,
    /// What must be true before it is changed.
    pub needs: &'static [Requirement],
    /// When the new value takes effect.
    pub takes_effect: &'static str,
    /// What was observed on each of [`SERIES`].
    pub tried: &'static str,
}

/// All known variables. Left out are variables that need more than a store, and those that the server reads
/// only when it starts.
pub static VARIABLES: [Variable; 5] = [
    Variable {
        name: "log_slave_updates",
        symbol: "opt_log_slave_updates",
        width: Width::Flag,
        range: 0..=1,
        needs: &[Requirement::ReplicaStopped, Requirement::BinaryLog, Requirement::NoCluster],
        takes_effect: "at the next START SLAVE",
        tried: "a replica wrote what it applied to its binary log, and stopped doing so when it was off again",
    },
    Variable {
        name: "max_connections",
        symbol: "max_connections",
        width: Width::Eight,
        range: 10..=100_000,
        needs: &[],
        takes_effect: "at once",
        tried: "a full server let clients in at once; then SQL set the same value again",
    },
    Variable {
        name: "replicate_annotate_row_events",
        symbol: "opt_replicate_annotate_row_events",
        width: Width::Flag,
        range: 0..=1,
        needs: &[Requirement::ReplicaStopped, Requirement::BinaryLog],
        takes_effect: "at the next START SLAVE",
        tried: "a replica with log_slave_updates did or did not write the source's statements to its binary log",
    },
    Variable {
        name: "report_port",
        symbol: "report_port",
        width: Width::Four,
        range: 0..=65_535,
        needs: &[Requirement::ReplicaStopped],
        takes_effect: "at the next START SLAVE",
        tried: "SHOW SLAVE HOSTS of the source told the new port",
    },
    Variable {
        name: "skip_name_resolve",
        symbol: "opt_skip_name_resolve",
        width: Width::Flag,
        range: 0..=1,
        needs: &[],
        takes_effect: "for new connections; back at 0, FLUSH PRIVILEGES brings back the accounts with host names",
        tried: "new connections over TCP came from 127.0.0.1 instead of localhost, and back again",
    },
];

/// The variable with that name.
pub fn find(name: &str) -> Result<&'static Variable> {
    let wanted = name.trim_start_matches("@@").trim_start_matches("global.").replace('-', "_").to_lowercase();
    let known = VARIABLES.iter().find(|known| known.name == wanted);
    known.ok_or_else(|| {
        let names: Vec<&str> = VARIABLES.iter().map(|known| known.name).collect();
        usage(format!(
            "{name} is not one of the variables that can be stored safely: {}. Others need SET GLOBAL or a restart",
            names.join(", ")
        ))
    })
}

impl Variable {
    /// The number in a text, if it is in range.
    pub fn parse(&self, text: &str) -> Result<u64> {
        let word = text.to_lowercase();
        let number = match (&*word, self.width) {
            ("on" | "true" | "yes", Width::Flag) => Some(1),
            ("off" | "false" | "no", Width::Flag) => Some(0),
            _ => word.parse().ok(),
        };
        number.filter(|number| self.range.contains(number)).ok_or_else(|| {
            let (least, most) = (self.range.start(), self.range.end());
            let wanted = match self.width {
                Width::Flag => "ON or OFF".to_owned(),
                _ => format!("a number from {least} to {most}"),
            };
            usage(format!("{} takes {wanted}, not '{text}'", self.name))
        })
    }
}

/// The series of a version such as `10.11.19-MariaDB-0+deb12u1`, if it was tried.
pub fn series(version: &str) -> Option<&'static str> {
    let is = |series: &&str| version.strip_prefix(series).is_some_and(|rest| rest.starts_with('.'));
    SERIES.into_iter().find(|series| is(series) && version.contains("MariaDB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_known_or_refused() {
        assert_eq!(find("@@global.skip-name-resolve").unwrap().symbol, "opt_skip_name_resolve");
        assert!(find("innodb_buffer_pool_chunk_size").unwrap_err().to_string().contains("report_port"));
        let flag = find("log_slave_updates").unwrap();
        assert_eq!([flag.parse("ON").unwrap(), flag.parse("0").unwrap()], [1, 0]);
        let bad = |known: &Variable, text: &str| known.parse(text).unwrap_err().to_string();
        assert!(bad(flag, "2").contains("takes ON or OFF, not '2'"));
        let most = find("max_connections").unwrap();
        assert!(bad(most, "9").contains("10 to 100000") && bad(most, "on").contains("'on'"));
        assert!(bad(most, "-1").contains("'-1'") && bad(most, "18446744073709551626").contains("takes"));
    }

    #[test]
    fn a_series_is_the_whole_number() {
        assert_eq!(series("10.11.19-MariaDB-0+deb12u1-log"), Some("10.11"));
        for version in ["10.1.48-MariaDB", "11.80.1-MariaDB", "11.8.3", "8.0.36", "10.11"] {
            assert_eq!(series(version), None, "{version}");
        }
    }
}
