//! Pages of the manual in the program: `remora help TOPIC`. The help of a command has its own.

use clap::Command;

macro_rules! pages {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../../docs/", $path, ".md")))),*]
    };
}
/// Their paths in `docs`, and their texts.
const PAGES: &[(&str, &str)] = &pages![
    "guide/start",
    "guide/import-a-file",
    "guide/nightly-backups",
    "guide/one-table-back",
    "guide/point-in-time",
    "guide/undo-a-delete",
    "guide/move-to-a-new-server",
    "guide/move-while-it-runs",
    "guide/upgrade-settings",
    "guide/slow-server",
    "guide/server-is-full",
    "guide/when-one-server-is-not-enough",
    "guide/job-queue",
    "guide/smaller-urls",
    "guide/concepts",
    "guide/troubleshooting",
    "guide/compare",
    "manual/connection",
    "manual/store",
    "manual/migrate",
    "manual/iceberg",
    "manual/queue-transactions",
    "manual/queue-leases",
    "manual/queue-schedules",
    "manual/queue-patterns",
    "manual/queue-operation",
    "manual/queue-clients",
    "manual/scripting",
    "manual/exit-codes",
    "glossary",
];

/// The word for the list of all topics.
pub(crate) const ALL: &str = "topics";

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The page that is asked for by a word that is no command: its name, or a part of no other name.
pub(crate) fn asked(word: &str, commands: &Command) -> Option<String> {
    if commands.find_subcommand(word).is_some() {
        return None;
    }
    if word == ALL {
        return Some(list());
    }
    let exact = PAGES.iter().find(|(path, _)| name(path) == word);
    let mut parts = PAGES.iter().filter(|(path, _)| name(path).contains(word));
    let only = parts.next().filter(|_| parts.next().is_none());
    exact.or(only).map(|(_, text)| plain(text))
}

fn list() -> String {
    let line = |(path, text): &(&str, &str)| {
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        format!("  remora help {:<20} {title}\n", name(path))
    };
    format!("Topics:\n{}", PAGES.iter().map(line).collect::<String>())
}

/// A page without the targets of its links, but for those that are topics, and without pictures. Blocks are
/// indented.
fn plain(page: &str) -> String {
    let mut text = String::new();
    let mut is_fenced = false;
    for line in page.lines().filter(|line| !line.starts_with("![") && !line.starts_with("<!--")) {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if is_fenced {
            text.push_str(&format!("    {line}\n"));
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            let (before, words) = before.rsplit_once('[').unwrap_or((before, ""));
            text.push_str(before);
            text.push_str(words);
            let page = name(target.split('#').next().unwrap_or(target));
            let topic =
                page.strip_suffix(".md").filter(|topic| PAGES.iter().any(|(path, _)| name(path) == *topic));
            if let Some(topic) = topic {
                text.push_str(&format!(" (remora help {topic})"));
            }
            rest = after;
        }
        text.push_str(rest);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn each_page_that_is_about_no_command_is_a_topic() {
        let commands = Cli::command();
        let mut wanted = BTreeSet::from(["glossary".to_owned()]);
        for folder in ["guide", "manual"] {
            let path = format!("{}/../../docs/{folder}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(path).unwrap() {
                let file = entry.unwrap().file_name().into_string().unwrap();
                let page = file.strip_suffix(".md").filter(|page| commands.find_subcommand(page).is_none());
                wanted.extend(page.map(|page| format!("{folder}/{page}")));
            }
        }
        let known: BTreeSet<String> = PAGES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(known, wanted);
    }

    #[test]
    fn a_topic_is_found_by_its_name_or_by_a_part_of_it() {
        let commands = Cli::command();
        let asked = |word: &str| asked(word, &commands);
        assert!(asked("connection").unwrap().starts_with("# Connections"));
        assert!(asked("nightly").unwrap().starts_with("# Nightly backups"));
        assert!(asked("topics").unwrap().contains("remora help slow-server"));
        assert!(asked("import").is_none(), "a command has its own help");
        assert!(asked("queue-").is_none() && asked("nothing").is_none());
    }

    #[test]
    fn links_lead_to_topics() {
        let page = "# A\n```console\n$ a [b](c)\n```\n![picture](a.svg)\nsee [slow](slow-server.md#x), [it](../manual/import.md). `a[0]`\n";
        assert_eq!(plain(page), "# A\n    $ a [b](c)\nsee slow (remora help slow-server), it. `a[0]`\n");
    }
}
