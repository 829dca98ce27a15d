//! What the program shows of itself as a whole: a few tasks, and all commands in groups.

use clap::Command;

/// What `remora` alone prints: the first command of each task.
pub(crate) const TASKS: &str = "\
remora moves data into and out of MariaDB and MySQL, keeps it safe, and shows what a server does.

  remora import hits.csv.gz --into web.hits --create        load a file into a table
  remora dump -o monday                                     dump a server, in parallel
  remora backup mysql: --to /backup                         back up a running server
  remora restore /backup/db1 --to /srv/mysql --until -10m   recover it to a point in time
  remora top                                                watch a server: who waits for whom
  remora sandbox start                                      start a private server to try things on

remora --help lists all commands, remora COMMAND --help explains one; remora help topics: tasks
";

/// The lines of the tasks.
pub(crate) fn examples() -> String {
    TASKS.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

/// The commands in groups, each in the order in which people meet them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Move data", &["import", "dump", "load", "copy", "diff", "extract", "pack", "unpack"]),
    (
        "Keep it safe",
        &[
            "setup", "backup", "list", "restore", "mount", "verify", "prune", "mirror", "key", "rekey",
            "doctor", "lock", "cron",
        ],
    ),
    ("Binary log", &["binlog", "log", "reverse"]),
    (
        "Watch and change servers",
        &["stat", "top", "web", "blockers", "kill", "routines", "vars", "poke", "undo", "uncache"],
    ),
    ("Queues, URLs, sandboxes", &["queue", "url", "sandbox", "demo", "help"]),
];

/// The width of the help, as clap's.
const WIDTH: usize = 100;

/// The name's column.
const NAME: usize = 10;

/// Lists the commands in the help of all in groups.
pub(crate) fn with_groups(command: Command) -> Command {
    let list: String = GROUPS.iter().map(|(title, names)| group(&command, title, names)).collect();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
}

fn group(command: &Command, title: &str, names: &[&str]) -> String {
    let line = |name: &&str| {
        let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
        // clap adds this one when it prints.
        let about = about.unwrap_or_else(|| {
            "Print this message, the help of a command, or a page; remora help topics lists the pages"
                .to_owned()
        });
        let words = wrapped(&about, WIDTH - NAME - 2);
        format!("  {name:<NAME$}{}\n", words.join(&format!("\n{:1$}", "", NAME + 2)))
    };
    format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
}

/// The lines of a text, none longer than a width unless a word is.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| !line.is_empty() && line.len() + 1 + word.len() > width) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn each_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = Cli::command();
        let known: BTreeSet<&str> = command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(Command::get_name)
            .chain(["help"])
            .collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(grouped.len(), known.len());
        let help = with_groups(command).render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} is not in {help}"));
        assert!(at("Move data:") < at("  import ") && at("  import ") < at("Keep it safe:"));
        assert!(at("  help ") < at("--version"));
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
    }

    #[test]
    fn the_tasks_are_command_lines() {
        let examples: Vec<&str> = TASKS.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        assert_eq!(examples.len(), 6);
        for example in examples {
            let line = example.split("  ").next().unwrap_or_default();
            let parsed = Cli::command().try_get_matches_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
        assert!(TASKS.lines().all(|line| line.len() <= WIDTH), "{TASKS}");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("onetwothree four", 5), ["onetwothree", "four"]);
    }
}
