//! The pages of the commands name each of their options, and none that does not exist.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};

use crate::command_line::Cli;

/// What stands where an option would, and an option that a page mistypes to show the message.
const NOT_OURS: [&str; 2] = ["none", "creat"];

/// Commands whose page is another one's, and pages that belong to a command beside its own.
const PAGES: [(&str, &[&str]); 2] =
    [("unpack", &["pack"]), ("queue", &["queue", "queue-operation", "queue-leases", "queue-transactions"])];

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/manual/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The long options in a text.
fn named(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let parts = text.match_indices("--").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| !is_word(c) && !c.is_ascii_uppercase())
    });
    let words = parts.map(|(at, _)| {
        let rest = &text[at + 2..];
        &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
    });
    words.map(|word| word.trim_end_matches('-').to_owned()).filter(|word| !word.is_empty()).collect()
}

/// The long options of a command and those below it.
fn options(command: &Command, found: &mut BTreeSet<String>) {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    found.extend(shown.filter_map(|argument| argument.get_long()).map(str::to_owned));
    command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(|sub| options(sub, found));
}

#[test]
fn each_option_is_on_the_page_of_its_command() {
    let mut all = Cli::command();
    all.build();
    let mut everywhere = named(&page("connection"));
    everywhere.extend(["help", "json", "quiet", "verbose", "version"].map(str::to_owned));
    let mut lacking = Vec::new();
    for command in all.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let name = command.get_name();
        let own = [name];
        let pages = PAGES.iter().find(|(known, _)| *known == name).map_or(&own[..], |(_, pages)| pages);
        let text: String = pages.iter().map(|name| page(name)).collect();
        let mut options_of_it = BTreeSet::new();
        options(command, &mut options_of_it);
        let there = named(&text);
        let missing =
            options_of_it.iter().filter(|option| !there.contains(*option) && !everywhere.contains(*option));
        lacking.extend(missing.map(|option| format!("{}.md: --{option}", pages.join(".md, "))));
    }
    assert!(lacking.is_empty(), "{lacking:#?}");
}

/// Lines that begin with the program's name are compared with the command that they name.
#[test]
fn no_page_shows_an_option_that_does_not_exist() {
    let mut all = Cli::command();
    all.build();
    let mut known = BTreeSet::new();
    options(&all, &mut known);
    let mut unknown = Vec::new();
    for folder in ["guide", "manual"] {
        let path = format!("{}/../../docs/{folder}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|line| line.trim_start_matches([' ', '$']).starts_with("remora "))
            {
                let ours = line
                    .split(" -- ")
                    .next()
                    .unwrap_or(line)
                    .replace("--option --", "")
                    .replace("-option=--", "=");
                let words = named(&ours);
                let wrong =
                    words.iter().filter(|word| !known.contains(*word) && !NOT_OURS.contains(&word.as_str()));
                unknown.extend(wrong.map(|word| format!("{}: --{word} in {line}", path.display())));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Messages of servers on the page of messages.
const OF_SERVERS: [&str; 2] = ["Access denied for user", "Too many connections"];

/// The texts of all sources, with the lines of each string joined.
fn sources(folder: &std::path::Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_ours = path.file_name().is_none_or(|name| name != "tests" && name != "documented.rs");
        if path.is_dir() && is_ours {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && is_ours {
            found.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_message_on_the_page_of_messages_is_one_of_ours() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut text = String::new();
    sources(&std::path::Path::new(root).join("crates"), &mut text);
    let mut joined = String::new();
    for (at, part) in text.split("\\\n").enumerate() {
        joined.push_str(if at == 0 { part } else { part.trim_start() });
    }
    let page = std::fs::read_to_string(format!("{root}/docs/guide/troubleshooting.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let messages = rows.flat_map(|row| row.split(" | ").next().unwrap_or(row).split("`, `"));
    let mut count = 0;
    for message in messages {
        count += 1;
        let message = message.trim_end_matches('`');
        let is_known = joined.contains(message) || OF_SERVERS.contains(&message);
        assert!(is_known, "no source has {message:?}");
    }
    assert!(count > 20, "{count} messages");
}

/// The words of a command line up to a pipe, a redirection or another command. Quotes are those of a shell.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    let ends = |word: &String| ["|", "||", "&&", ">", "2>", "<", ";", "&"].contains(&word.as_str());
    let end = words.iter().position(ends).unwrap_or(words.len());
    words.truncate(end);
    words
}

/// The lines of EXAMPLES that begin with the program's name, of a command and those below it.
fn examples(command: &Command, found: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines =
        help.lines().skip_while(|line| *line != "EXAMPLES").skip(1).take_while(|line| !line.is_empty());
    let ours = lines.filter_map(|line| line.strip_prefix("  remora "));
    // Behind two spaces it says what the line does.
    found.extend(ours.map(|line| line.split("  ").next().unwrap_or(line).to_owned()));
    command.get_subcommands().for_each(|sub| examples(sub, found));
}

#[test]
fn each_example_of_the_help_is_a_command_line() {
    let mut found = Vec::new();
    examples(&Cli::command(), &mut found);
    assert!(found.len() > 100, "{} examples", found.len());
    let wrong = found.iter().filter_map(|line| {
        let words = ["remora".to_owned()].into_iter().chain(words(line));
        let error = Cli::command().try_get_matches_from(words).err()?;
        Some(format!("remora {line}: {}", error.to_string().lines().next().unwrap_or_default()))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
