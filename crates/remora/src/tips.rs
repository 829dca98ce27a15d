//! Tips for words and options of other tools: what stands for them here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words that people try, and our command that does it. Clap would suggest the command with the most similar
/// spelling.
const COMMANDS: [(&[&str], &str); 20] = [
    (&["dashboard", "ui", "gui", "browser", "serve"], "pages for a browser: remora web"),
    (
        &["slow", "queries", "digest", "digests", "statements"],
        "statements that take long: remora stat --digests 10; more: remora help slow-server",
    ),
    (
        &["monitor", "watch", "status", "processlist", "ps", "live", "innotop"],
        "what a server does: remora stat, and as a screen remora top",
    ),
    (
        &["locks", "blocked", "waits", "blocking", "deadlock", "deadlocks", "pt-kill"],
        "who waits for whom: remora blockers, and to end it remora kill; lock waits and deadlocks per second: \
         remora stat --view lock",
    ),
    (
        &["full", "connections", "too-many-connections"],
        "a server that lets nobody in: remora poke max-connections 500; more: remora help server-is-full",
    ),
    (&["variables", "settings", "config"], "settings: remora vars"),
    (
        &["upgrade", "update", "checker"],
        "what changes with a new series: remora vars 10.11 11.8, and remora vars check FILE --for 11.8; more: \
         remora help upgrade-settings",
    ),
    (&["snapshots", "generations", "backups"], "what there is of backups: remora list REPO"),
    (
        &["init", "repository"],
        "a repository is made by the first backup into it: remora backup SOURCE --to REPO",
    ),
    (
        &["check", "prove"],
        "whether backups are as they were written: remora verify REPO, and with --boot on a server",
    ),
    (&["shell", "start", "stop"], "a private server: remora sandbox start NAME, remora sandbox shell NAME"),
    (&["replication", "replica", "slave", "lag"], "how late a replica is: remora stat --view replication"),
    (
        &["export", "mysqldump", "mariadb-dump", "mydumper"],
        "a server as files: remora dump; the rows of a table: remora extract",
    ),
    (&["myloader", "source"], "what remora dump has written: remora load"),
    (
        &["csv", "tsv", "json", "load-data", "mysqlimport"],
        "rows of a file: remora import FILE --into db.table --create",
    ),
    (
        &["move", "clone", "migrate", "transfer"],
        "a server to another one: remora copy; more: remora help move-to-a-new-server",
    ),
    (
        &["xtrabackup", "mariabackup", "mariadb-backup", "snapshot"],
        "a running server: remora backup mysql: --to REPO; more: remora help nightly-backups",
    ),
    (
        &["pitr", "point-in-time", "recover", "recovery"],
        "a point in time: remora restore REPO/NAME --to PATH --until TIME; more: remora help point-in-time",
    ),
    (
        &["mysqlbinlog", "mariadb-binlog"],
        "what was changed, and when: remora log; the log archived: remora binlog",
    ),
    (
        &["flashback", "rollback"],
        "changes taken back: remora reverse, see remora help undo-a-delete; an import taken back: remora undo",
    ),
];

/// Options of other tools: the commands in which people look for them, and what stands for them there.
const OPTIONS: [(&[&str], &[&str], &str); 11] = [
    (&["dump"], &["--all-databases", "-A"], "everything is the default; names and --exclude choose"),
    (&["dump", "copy"], &["--databases", "-B"], "databases are named without an option: shop web"),
    (&["dump", "copy"], &["--tables"], "tables are named as db.table, without an option: shop.orders"),
    (
        &["dump", "copy"],
        &["--single-transaction", "--lock-tables", "--lock-all-tables", "--quick"],
        "not needed: all rows are of one snapshot",
    ),
    (
        &["dump", "copy"],
        &["--routines", "--triggers", "--events", "-R", "-E"],
        "not needed: a database comes with all that is in it",
    ),
    (
        &["dump", "copy", "load"],
        &["--ignore-table", "--exclude-tables"],
        "what is left out: --exclude db.table",
    ),
    (&["dump"], &["--result-file", "--outputdir", "--file"], "where to: -o, --output"),
    (&["import"], &["--table", "--into-table"], "the table: --into db.table"),
    (&["import"], &["--truncate", "--delete"], "what happens to rows that are there: --replace, or --append"),
    (
        &["import"],
        &["--fields-terminated-by", "--fields-enclosed-by", "--lines-terminated-by", "--separator"],
        "how fields are written is recognised; --delimiter and --quote say it",
    ),
    (&["dump", "copy", "load"], &["--parallel", "--threads", "--jobs"], "how much at the same time: -j"),
];

/// Adds our hint to the error about an unknown command or option, if it is a word that stands for one of
/// ours: clap would suggest what is spelled most like it. `typed` is the first word that is no option: the
/// command.
pub(crate) fn with_tip(mut usage: clap::Error, typed: Option<&str>) -> clap::Error {
    let tip = match (usage.kind(), usage.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidSubcommand, _) => {
            let is_typed = |words: &[&str]| words.iter().any(|word| Some(*word) == typed);
            COMMANDS.iter().find(|(words, _)| is_typed(words)).map(|(_, tip)| *tip)
        }
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            let option = option.split(['=', ' ']).next().unwrap_or(option);
            let is_meant = |commands: &[&str], options: &[&str]| {
                commands.iter().any(|command| Some(*command) == typed) && options.contains(&option)
            };
            OPTIONS.iter().find(|(commands, options, _)| is_meant(commands, options)).map(|(.., tip)| *tip)
        }
        _ => return usage,
    };
    if let Some(tip) = tip {
        usage.remove(ContextKind::SuggestedSubcommand);
        usage.remove(ContextKind::SuggestedArg);
        usage.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if usage.kind() == ErrorKind::UnknownArgument {
        // That a word with a dash may be a value after `--` is never what was meant.
        usage.remove(ContextKind::Suggested);
    }
    usage
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn words_that_people_try_lead_to_our_commands() {
        let hint = |typed: &str| {
            let error = Cli::command().try_get_matches_from(["remora", typed]).unwrap_err();
            with_tip(error, Some(typed)).to_string()
        };
        let commands = Cli::command();
        for (words, tip) in COMMANDS {
            let named = tip.split("remora ").nth(1).unwrap().split([' ', ',', ';']).next().unwrap();
            assert!(commands.find_subcommand(named).is_some(), "{tip}");
            let topic = tip.split("remora help ").nth(1).and_then(|rest| rest.split([' ', ';']).next());
            assert!(topic.is_none_or(|topic| crate::topic::asked(topic, &commands).is_some()), "{tip}");
            for word in words {
                let message = hint(word);
                assert!(message.contains(tip) && !message.contains("similar"), "{message}");
            }
        }
        assert!(hint("dumb").contains("'dump'"), "{}", hint("dumb"));
    }

    #[test]
    fn options_of_other_tools_lead_to_ours() {
        let hint = |command: &str, option: &str| {
            let words = ["remora", command, option];
            with_tip(Cli::command().try_get_matches_from(words).unwrap_err(), Some(command)).to_string()
        };
        let all = Cli::command();
        for (commands, options, tip) in OPTIONS {
            for command in commands {
                let known = all.find_subcommand(command).unwrap();
                let names = known.get_arguments().flat_map(|one| {
                    let long = one.get_long().map(|name| format!("--{name}"));
                    long.into_iter().chain(one.get_short().map(|name| format!("-{name}")))
                });
                let names: BTreeSet<String> = names.collect();
                // What it names exists there.
                for named in tip.split([' ', ',', ';']).filter(|word| word.starts_with('-')) {
                    assert!(names.contains(named), "{command}: {tip}");
                }
                for option in options.iter().filter(|option| !names.contains(**option)) {
                    let message = hint(command, option);
                    assert!(message.contains(tip) && !message.contains("similar"), "{option}: {message}");
                }
            }
        }
        // Elsewhere it would mislead.
        assert!(!hint("list", "--jobs").contains("tip"), "{}", hint("list", "--jobs"));
        let message = hint("import", "--no-such-option");
        assert!(!message.contains("-- --") && !message.contains("tip"), "{message}");
        assert!(hint("import", "--delimeter").contains("'--delimiter'"));
    }
}
