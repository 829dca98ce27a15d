//! Options that a program accepts but does not list: servers still accept names of former options and of
//! those of another family, and log that they have no effect.

use std::collections::BTreeSet;

use super::{Argument, Snapshot, Variable};

/// Names that may be such options: texts in the program's file that look like one, and every option of
/// `others`, without those that the program lists.
#[must_use]
pub fn candidates(program: &[u8], listed: &Snapshot, others: &[&Snapshot]) -> BTreeSet<String> {
    let texts = program.split(|byte| *byte == 0).filter(|text| (5..64).contains(&text.len()));
    let is_name = |text: &&[u8]| {
        text.contains(&b'-')
            && text[0].is_ascii_lowercase()
            && text.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    // A linker stores a text that is the end of another text only as the tail of that one.
    let tails = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).replace('-', "_");
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('_').map(|(at, _)| at + 1)).collect();
        starts.into_iter().map(|at| text[at..].to_owned()).collect::<Vec<_>>()
    };
    let texts = texts.filter(is_name).flat_map(tails).filter(|name| name.contains('_'));
    let options = others.iter().flat_map(|other| other.variables.iter());
    let options = options.filter(|(_, variable)| variable.option.is_some()).map(|(name, _)| name.clone());
    texts.chain(options).filter(|name| !listed.variables.contains_key(name)).collect()
}

/// Reads the stderr of a program that was started with `--no-defaults --loose-NAME=1 --verbose --help`.
/// Returns an option without effect, if it is one.
#[must_use]
pub fn judge_probe(name: &str, said: &str) -> Option<Variable> {
    let quoted = format!("'{}' ", name.replace('_', "-"));
    let line = said.lines().find(|line| line.contains("[Warning]") && line.contains(&quoted))?;
    let text = line.split_once(&quoted)?.1;
    // Here the message is about the name itself; for an abbreviation it would contain the full name.
    (text.starts_with("was removed") || text.contains("compatible option")).then(|| Variable {
        option: Some(Argument::Optional),
        ignored: Some(text.trim().to_owned()),
        ..Variable::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_which_options_do_nothing() {
        let removed = "2026-11-22 0 [Warning] 'innodb-file-format' was removed. It does nothing now.\n";
        let variable = judge_probe("innodb_file_format", removed).unwrap();
        assert_eq!(variable.ignored.as_deref(), Some("was removed. It does nothing now."));
        let prefix =
            format!("0 [Note] Using unique option prefix 'innodb-file-forma' is error-prone.\n{removed}");
        assert_eq!(judge_probe("innodb_file_forma", &prefix), None);
        let compatible = "[Warning] 'new' is MySQL 5.6 compatible option. Not used or needed in MariaDB.";
        assert_eq!(judge_probe("new", compatible).unwrap().option, Some(Argument::Optional));
        assert_eq!(judge_probe("new", "[Note] 'new' was removed. It does nothing now."), None);
        assert_eq!(judge_probe("new", "[Warning] 'new' is deprecated."), None);
        assert_eq!(judge_probe("foo", "0 [Warning] mariadbd: unknown variable 'loose-foo=1'\n"), None);
    }

    #[test]
    fn candidates_are_in_the_file_or_in_another_series() {
        let snapshot = |names: &[&str]| {
            let option = Variable { option: Some(Argument::Optional), ..Variable::default() };
            let variables = names.iter().map(|name| ((*name).to_owned(), option.clone())).collect();
            let mut snapshot = Snapshot::read("remora variables 1\ntitle\tx\nversion\tx-1.2.3\n").unwrap();
            snapshot.variables = variables;
            snapshot
        };
        let found = candidates(
            b"\0an-old-option\0known-one\0Not-this\0x\0%s-y\0no-Capital\0nodash\0ab-12\0b-1x\0-dash\0",
            &snapshot(&["known_one"]),
            &[&snapshot(&["query_cache_size", "known_one"])],
        );
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["ab_12", "an_old_option", "old_option", "query_cache_size"]
        );
    }
}
