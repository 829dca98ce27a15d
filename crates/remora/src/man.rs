//! Pages for man(1): one for each command, made from its help.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use disk::{Output, RealDisk};

use crate::exit::Exit;
use crate::overview;
use crate::report::Report;

/// What applies to the codes of every command.
const CODES: &str = include_str!("../../../docs/manual/exit-codes.md");

/// Write a page for man(1) about each command
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder that gets the pages; it must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of a command and those below it; the examples and exit codes are at the ends of their
/// helps.
pub(crate) fn run(arguments: &Arguments, command: Command, report: &Report) -> Result<Exit> {
    for (name, page) in pages(command)? {
        let path = arguments.folder.join(name);
        write(&path, &page).with_context(|| format!("cannot write {}", path.display()))?;
        report.data(&path.display().to_string())?;
    }
    Ok(Exit::Done)
}

fn write(path: &Path, page: &[u8]) -> std::io::Result<()> {
    let mut output = Output::create(&RealDisk, path)?;
    output.write_all(page)?;
    output.finish()
}

/// The pages by the names of their files, such as `remora-queue-peek.1`.
fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut command = command.disable_help_subcommand(true);
    let examples = format!("EXAMPLES\n{}", overview::examples());
    let status = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    command = command.after_help(format!("{examples}\n\n{status}\n{}", all_codes()));
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let man = Man::new(command.clone()).manual("remora");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let subcommands = || command.get_subcommands().filter(|sub| !sub.is_hide_set());
    if subcommands().next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    sections(&after).to_writer(&mut page)?;
    pages.push((man.get_filename(), page));
    subcommands().try_for_each(|sub| add(sub, pages))
}

/// The sections of a text: each begins with a line in capitals. Lines stay as they are, because columns are
/// aligned in them.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines() {
        let is_heading = line.starts_with(|c: char| c.is_ascii_uppercase())
            && line.chars().all(|c| c.is_ascii_uppercase() || c == ' ');
        if is_heading {
            roff.control("SH", [line]);
            roff.control("nf", []);
        } else if line.is_empty() {
            roff.control("sp", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    roff
}

/// What the page about exit codes says below its table.
fn all_codes() -> String {
    let lines = CODES.lines().skip_while(|line| !line.starts_with('|')).filter(|line| !line.starts_with('|'));
    lines.collect::<Vec<_>>().join("\n").replace('`', "")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory;

    use super::*;
    use crate::command_line::{Cli, with_exit_status};

    #[test]
    fn each_command_has_a_page_with_its_examples_and_codes() {
        let pages: BTreeMap<String, String> = pages(with_exit_status(Cli::command()))
            .unwrap()
            .into_iter()
            .map(|(name, page)| (name, String::from_utf8(page).unwrap()))
            .collect();
        for name in ["remora", "remora-import", "remora-queue-peek", "remora-url-model-add"] {
            assert!(pages.contains_key(&format!("{name}.1")), "{name}: {:?}", pages.keys());
        }
        assert!(!pages.contains_key("remora-man.1"));
        for (name, page) in &pages {
            let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
            assert!(headings.contains(&"EXAMPLES"), "{name}: {headings:?}");
            assert_eq!(headings.last(), Some(&"\"EXIT STATUS\""), "{name}: {headings:?}");
            assert!(!page.contains(".SH EXTRA"), "{name}");
            let (_, codes) = page.split_once("\"EXIT STATUS\"").unwrap();
            assert!(codes.contains("    2  wrong command line or option file"), "{name}: {codes}");
        }
        assert!(pages["remora.1"].contains("After 129, 130 and 143"));
        assert!(pages["remora-import.1"].contains("remora import hits.csv.zst"));
    }

    #[test]
    fn what_troff_would_take_as_a_command_is_text() {
        let text = sections("EXAMPLES\n.hidden \\n -x").to_roff();
        assert!(text.contains("\\&.hidden \\\\n \\-x"), "{text}");
    }
}
