//! To which moment a server's data are brought.

use std::str::FromStr;
use std::{error, fmt};

use humanize::point_in_time;
use transactions::{Range, Wording};

/// The goal is not behind the generation.
#[derive(Debug)]
pub(crate) struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Unreachable {}

/// The moment, as the command line names it.
#[derive(Clone, Debug)]
pub enum RecoveryTarget {
    /// After everything that is archived.
    End,
    /// After the last transaction that ended then or earlier, in seconds since 1970.
    Time(i64),
    /// After these transactions.
    After(Vec<Range>),
    /// A position in the server's binary log.
    Position(String, u64),
    /// Before this transaction.
    Before(Range),
    /// Before the newest transaction with this text in a statement.
    BeforeStatement(Wording),
}

impl FromStr for RecoveryTarget {
    type Err = String;

    /// A value of `--until`.
    fn from_str(text: &str) -> Result<RecoveryTarget, String> {
        if text == "end" {
            return Ok(RecoveryTarget::End);
        }
        match point_in_time::parse(text) {
            Ok(time) => return Ok(RecoveryTarget::Time(time)),
            Err(error) if point_in_time::is_like_time(text) => return Err(error.to_string()),
            Err(_) => {}
        }
        match text.split(',').map(|name| single(name.trim())).collect() {
            Ok(names) => return Ok(RecoveryTarget::After(names)),
            Err(error) if text.split(',').any(|name| several(name.trim()).is_some()) => return Err(error),
            Err(_) => {}
        }
        let position = text.rsplit_once(':').and_then(|(file, at)| Some((file, at.parse().ok()?)));
        let (file, at) = position.filter(|(file, _)| !file.is_empty()).ok_or_else(|| {
            format!(
                "{text} is neither 'end' nor a time such as 2026-11-22T19:05, a GTID such as 0-1-42 or UUID:42 of MySQL, \
                 or FILE:POSITION"
            )
        })?;
        Ok(RecoveryTarget::Position(file.to_owned(), at))
    }
}

/// The GTID of one transaction.
pub fn single(text: &str) -> Result<Range, String> {
    if point_in_time::is_like_time(text) {
        return Err(format!(
            "{text} is like a time, and this takes a GTID such as 0-1-42; --until takes a time"
        ));
    }
    if let Some(last) = several(text) {
        return Err(format!("{text} is several transactions; name the last one alone, {last}"));
    }
    match text.parse()? {
        range @ Range::One(_) => Ok(range),
        Range::MySql(source, first, last) if first == last && is_source(&source) => {
            Ok(Range::MySql(source, first, last))
        }
        _ => Err(format!(
            "{text} is not the GTID of one transaction, such as 0-1-42 of MariaDB or UUID:42 of MySQL"
        )),
    }
}

/// The last transaction of a range of MySQL, as `gtid_executed` shows it.
fn several(text: &str) -> Option<String> {
    match text.parse() {
        Ok(Range::MySql(source, first, last)) if first != last && is_source(&source) => {
            Some(format!("{source}:{last}"))
        }
        _ => None,
    }
}

/// Whether a text is a server's UUID, perhaps with a tag, and not the name of a file.
fn is_source(text: &str) -> bool {
    let uuid = text.split(':').next().unwrap_or_default();
    let is_dash = |at| matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    uuid.len() == 36 && uuid.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_gtid_or_a_position() {
        let parse = |text: &str| text.parse::<RecoveryTarget>();
        assert!(matches!(parse("end"), Ok(RecoveryTarget::End)));
        assert!(matches!(parse("2026-11-22 19:05:17"), Ok(RecoveryTarget::Time(_))));
        assert!(matches!(parse("-10m"), Ok(RecoveryTarget::Time(_))));
        assert!(matches!(parse("0-1-42,1-1-7"), Ok(RecoveryTarget::After(names)) if names.len() == 2));
        assert!(
            matches!(parse("bin.000002:1100"), Ok(RecoveryTarget::Position(file, 1100)) if file == "bin.000002")
        );
        let uuid = "4d60b47b-eb63-11f1-a33d-02fc00000001";
        for names in [format!("{uuid}:42"), format!("{uuid}:nightly:7,\n{uuid}:42")] {
            assert!(matches!(parse(&names), Ok(RecoveryTarget::After(_))), "{names}");
        }
        assert!(single(&format!("{}:5", uuid.to_uppercase())).is_ok());
        for set in [format!("{uuid}:1-42"), format!("{uuid}:7,{uuid}:nightly:1-42")] {
            let error = parse(&set).unwrap_err();
            assert!(error.contains("name the last one alone, ") && error.ends_with(":42"), "{error}");
        }
        assert!(single(&format!("{uuid}:1-42")).is_err());
        assert!(single("2026-11-22").is_err());
        for wrong in [
            "2026-02-30",
            "2026-11-22 24:61",
            "25:00:00",
            "0-1-42-0-1-50",
            "yesterday",
            ":5",
            "bin.000001:",
            "ac3d:5-9",
            "",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
