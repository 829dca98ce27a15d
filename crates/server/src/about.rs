//! What the server is and what it can do, as the server itself says.

use std::collections::BTreeMap;
use std::fmt;

/// Which of the two families a server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// MariaDB.
    MariaDb,
    /// MySQL, Percona Server and everything else that behaves like MySQL.
    MySql,
}

/// A server version: `10.11.19`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number.
    pub patch: u16,
}

impl Version {
    /// Reads the numbers at the beginning of a version text. MariaDB announces itself to old clients as
    /// `5.5.5-10.11.19-MariaDB`; the `5.5.5-` is skipped. Missing numbers are 0.
    pub fn parse(text: &str) -> Version {
        let text = match text.strip_prefix("5.5.5-") {
            Some(rest) if rest.contains("MariaDB") => rest,
            _ => text,
        };
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Version { major: next(), minor: next(), patch: next() }
    }
}

/// A release series of one family of servers: `10.11` of MariaDB. Servers of one release print definitions in
/// the same words. The rest of a version's text, such as `-log`, says how a server is run or packaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Family.
    pub flavour: Flavour,
    /// First number of the version.
    pub major: u16,
    /// Second number of the version.
    pub minor: u16,
}

impl Release {
    /// The release that a version of a family belongs to.
    #[must_use]
    pub fn of(flavour: Flavour, version: Version) -> Release {
        Release { flavour, major: version.major, minor: version.minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What a server said about itself when the session began. Variables that a server lacks are empty, 0 or
/// `false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Family.
    pub flavour: Flavour,
    /// Version as numbers.
    pub version: Version,
    /// Version as the server prints it, for example `10.11.19-MariaDB-0+deb12u1`.
    pub version_text: String,
    /// Largest statement that the server accepts, in bytes.
    pub max_allowed_packet: u64,
    /// Whether `LOAD DATA LOCAL` is allowed.
    pub local_infile: bool,
    /// The session's `sql_mode` at its beginning.
    pub sql_mode: String,
    /// Whether a binary log is written.
    pub log_bin: bool,
    /// 0: table names keep their case and are case-sensitive; 1: stored in lower case; 2: compared in lower
    /// case.
    pub lower_case_table_names: u8,
    /// Whether the server is read-only for ordinary accounts.
    pub read_only: bool,
    /// Whether the server is a member of a Galera cluster (`wsrep_on`).
    pub galera: bool,
    /// The server's data folder, as the server sees it.
    pub datadir: String,
    /// `server_id` as used in replication.
    pub server_id: u64,
    /// The server's host name.
    pub hostname: String,
    /// TCP port; 0 when the server does not listen on TCP.
    pub port: u16,
    /// Path of the server's socket, as the server sees it.
    pub socket: String,
    /// InnoDB page size in bytes; 0 without InnoDB.
    pub innodb_page_size: u64,
}

impl About {
    /// The release it belongs to.
    #[must_use]
    pub fn release(&self) -> Release {
        Release::of(self.flavour, self.version)
    }

    /// The statement whose rows [`About::from_rows`] reads. Unknown names are not an error, so one statement
    /// serves every server.
    pub(crate) const STATEMENT: &'static str = "SHOW VARIABLES WHERE Variable_name IN ('version', \
        'version_comment', 'max_allowed_packet', 'local_infile', 'sql_mode', 'log_bin', \
        'lower_case_table_names', 'read_only', 'wsrep_on', 'datadir', 'server_id', 'hostname', 'port', \
        'socket', 'skip_networking', 'innodb_page_size')";

    pub(crate) fn from_rows(rows: &[Vec<Option<String>>]) -> About {
        let mut variables = BTreeMap::new();
        for row in rows {
            if let [Some(name), Some(value)] = row.as_slice() {
                variables.insert(name.to_ascii_lowercase(), value.clone());
            }
        }
        let text = |name: &str| variables.get(name).cloned().unwrap_or_default();
        let number =
            |name: &str| variables.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
        let on = |name: &str| variables.get(name).is_some_and(|value| is_on(value));
        let version_text = text("version");
        let is_mariadb = version_text.contains("MariaDB") || text("version_comment").contains("MariaDB");
        About {
            flavour: if is_mariadb { Flavour::MariaDb } else { Flavour::MySql },
            version: Version::parse(&version_text),
            version_text,
            max_allowed_packet: number("max_allowed_packet"),
            local_infile: on("local_infile"),
            sql_mode: text("sql_mode"),
            log_bin: on("log_bin"),
            lower_case_table_names: u8::try_from(number("lower_case_table_names")).unwrap_or(0),
            read_only: on("read_only"),
            galera: on("wsrep_on"),
            datadir: text("datadir"),
            server_id: number("server_id"),
            hostname: text("hostname"),
            port: if on("skip_networking") { 0 } else { u16::try_from(number("port")).unwrap_or(0) },
            socket: text("socket"),
            innodb_page_size: number("innodb_page_size"),
        }
    }
}

/// `read_only` has become a choice of words on newer servers; everything except off and zero means on.
fn is_on(value: &str) -> bool {
    !matches!(value.to_ascii_uppercase().as_str(), "" | "OFF" | "0" | "FALSE" | "NO")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: u16, minor: u16, patch: u16) -> Version {
        Version { major, minor, patch }
    }

    #[test]
    fn versions_are_read_whatever_surrounds_them() {
        assert_eq!(Version::parse("5.5.5-10.11.19-MariaDB-0+deb12u1"), version(10, 11, 19));
        assert_eq!(Version::parse("10.11.19-MariaDB-0+deb12u1"), version(10, 11, 19));
        assert_eq!(Version::parse("11.4.5-MariaDB-log"), version(11, 4, 5));
        assert_eq!(Version::parse("5.5.5-m3"), version(5, 5, 5));
        assert_eq!(Version::parse("8.0.36-28"), version(8, 0, 36));
        assert_eq!(Version::parse("5.6.51"), version(5, 6, 51));
        assert_eq!(Version::parse("9.1"), version(9, 1, 0));
        assert_eq!(Version::parse("99999.x"), version(0, 0, 0));
        assert!(version(10, 11, 2) > version(10, 6, 30));
        assert_eq!(version(10, 11, 2).to_string(), "10.11.2");
    }

    #[test]
    fn a_release_is_the_same_however_it_is_run() {
        let release = |text: &str| {
            let rows = [vec![Some("version".to_owned()), Some(text.to_owned())]];
            About::from_rows(&rows).release()
        };
        assert_eq!(release("10.11.19-MariaDB-0+deb12u1"), release("10.11.6-MariaDB-0+deb12u1-log"));
        assert_ne!(release("10.11.19-MariaDB"), release("10.6.19-MariaDB"));
        assert_ne!(release("8.0.36"), release("8.4.0"));
        assert_ne!(release("11.4.2"), release("11.4.2-MariaDB"));
    }

    #[test]
    fn a_capability_that_a_server_does_not_report_is_off() {
        let about = About::from_rows(&[
            vec![Some("version".into()), Some("5.6.51".into())],
            vec![Some("read_only".into()), Some("NO_LOCK".into())],
            vec![Some("log_bin".into()), Some("OFF".into())],
        ]);
        assert_eq!(about.flavour, Flavour::MySql);
        assert!(about.read_only);
        assert!(!about.log_bin && !about.galera && !about.local_infile);
        assert_eq!(about.innodb_page_size, 0);
    }
}
