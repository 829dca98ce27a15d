//! How far an archive is, as it is told.

use binlog::archive::Tail;

/// How far the archive is: where the server is in what it sends, or, if that does not say it, its tail. A
/// connection that was just made has not said which file it sends.
pub(crate) fn reached<'t>(sent: (&'t str, u64), tail: Option<&'t Tail>) -> Option<(&'t str, u64)> {
    let sent = Some(sent).filter(|(file, _)| !file.is_empty());
    tail.map(|tail| (&*tail.file, tail.end)).or(sent)
}

#[cfg(test)]
mod tests {
    use super::{Tail, reached};

    #[test]
    fn a_connection_that_has_said_nothing_yet_does_not_hide_how_far_the_archive_is() {
        let tail = Tail {
            file: "binlog.000007".to_owned(),
            end: 818,
            last: 700,
            state: None,
            next: None,
            damage: None,
        };
        assert_eq!(reached(("", 4), Some(&tail)), Some(("binlog.000007", 818)));
        assert_eq!(reached(("binlog.000007", 700), Some(&tail)), Some(("binlog.000007", 818)));
        assert_eq!(reached(("binlog.000008", 256), None), Some(("binlog.000008", 256)));
        assert_eq!(reached(("", 4), None), None);
    }
}
