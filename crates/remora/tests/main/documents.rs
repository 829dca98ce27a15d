//! The commands of README.md and of the pages for users, run as they are written, on a machine made for each
//! page.
//!
//! A fenced block `console` is a session: lines with `$ ` are run by bash, one after another in the page's
//! order, and what is shown below them is compared with what they print. Numbers, dates and sizes may differ;
//! `...` stands for any lines, and `[..]` for any text within a line. A command that shows nothing may print
//! anything. Each has to end with 0, the last one of a block `console,exit=N` with N. A block
//! `console,needs=WHAT` is not run; [`NEEDS`] has the reasons.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{PATIENCE, part_of_today, places, skipped};

/// What the machine of a page does not have.
const NEEDS: [&str; 12] = [
    "broker", "devices", "disk", "duckdb", "galera", "iceberg", "minutes", "network", "overload", "replica",
    "service", "terminal",
];

/// The variable that chooses pages: those whose paths have its text in them.
const PAGES: &str = "REMORA_TEST_PAGES";

/// Each day another one of so many parts of the pages is run.
const PARTS: usize = 5;

/// How many pages run at the same time. They wait more than they work.
const AT_ONCE: usize = 4;

/// What comes before the number of a command where it starts, and before its exit code where it ends.
const STARTS: char = '\u{1e}';
const ENDS: char = '\u{1d}';

/// A command of a page, and what the page says about it.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    shown: Vec<String>,
    exit: i32,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages, from the root of the project.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("README.md")];
    for folder in ["docs/guide", "docs/manual"] {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
        found.extend(files.map(|name| Path::new(folder).join(name)));
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "md"));
    found.sort();
    found
}

/// The commands of a page, or what is wrong with its blocks.
fn steps(page: &Path, text: &str) -> Result<Vec<Step>, String> {
    let mut found: Vec<Step> = Vec::new();
    let (mut block, mut is_run) = (None, false);
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let place = format!("{}:{}", page.display(), at + 1);
        if let Some(info) = line.trim_start().strip_prefix("```") {
            if block.take().is_none() {
                let words: Vec<&str> = info.split(',').collect();
                let exit = words.iter().find_map(|word| word.strip_prefix("exit="));
                let exit = exit.map_or(Ok(0), |code| code.parse().map_err(|_| place.clone()))?;
                let needs = words.iter().find_map(|word| word.strip_prefix("needs="));
                if needs.is_some_and(|what| !NEEDS.contains(&what)) {
                    return Err(format!("{place}: {info}: what is needed there?"));
                }
                is_run = words.first() == Some(&"console") && needs.is_none();
                block = Some((words.first() == Some(&"console"), exit, found.len()));
            }
        } else if let Some((true, exit, begin)) = block {
            if !is_run {
                continue;
            }
            if let Some(command) = line.strip_prefix("$ ") {
                let mut command = command.to_owned();
                while command.ends_with(['\\', '|']) {
                    let (_, more) = lines.next().ok_or_else(|| place.clone())?;
                    command.push('\n');
                    command.push_str(more);
                }
                // Only the last one of a block ends as the block says.
                found.iter_mut().skip(begin).for_each(|step| step.exit = 0);
                found.push(Step { line: at + 1, command, shown: Vec::new(), exit });
            } else {
                let step = found.get_mut(begin..).and_then(<[Step]>::last_mut);
                step.ok_or_else(|| format!("{place}: no command is above it"))?.shown.push(line.to_owned());
            }
        } else if block.is_none() && (line.starts_with("    $ ") || line.starts_with("    # ")) {
            return Err(format!("{place}: a session is a fenced block `console`"));
        }
    }
    Ok(found)
}

/// A script that runs the steps and marks where each starts and how it ends.
fn script(steps: &[Step]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let run = |(at, step): (usize, &Step)| {
        format!(
            "printf '{STARTS}{at}\\n'\n(exit \"$status\")\neval {}\nstatus=$?\nprintf '\\n{ENDS}%d\\n' \
             \"$status\"\n",
            quoted(&step.command)
        )
    };
    format!("exec 2>&1 < /dev/null\nstatus=0\n{}", steps.iter().enumerate().map(run).collect::<String>())
}

/// How each step ended: what it printed, and its exit code.
fn results(output: &str) -> Vec<(String, i32)> {
    let parts = output.split(STARTS).skip(1).filter_map(|part| part.split_once('\n'));
    parts
        .filter_map(|(_, part)| {
            let (text, code) = part.rsplit_once(&format!("\n{ENDS}"))?;
            Some((text.trim_end().to_owned(), code.lines().next()?.parse().ok()?))
        })
        .collect()
}

/// A line without what differs from run to run: numbers with their units, dates, and widths of columns.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let is_word = plain.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if letter.is_ascii_digit() && !is_word {
            let inner = |c: char| c.is_ascii_digit() || ".:-+,".contains(c);
            let number = &rest[..rest.find(|c| !inner(c)).unwrap_or(rest.len())];
            let number = number.trim_end_matches(|c: char| !c.is_ascii_digit());
            rest = &rest[number.len()..];
            let units = [" GB", " MB", " kB", " B", " M", " k", "k", "M", "G"];
            let unit = units.iter().find(|unit| {
                let after = rest.strip_prefix(**unit);
                after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
            });
            rest = &rest[unit.map_or(0, |unit| unit.len())..];
            plain.push('0');
        } else {
            plain.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a line is as a page shows it.
fn is_line(shown: &str, line: &str) -> bool {
    let shown = shown.replace("[..]", "\u{0}").replace("...", "\u{0}");
    let (shown, line) = (plain(&shown), plain(line));
    let mut parts = shown.split('\u{0}');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    false
}

/// Whether lines are as a page shows them.
fn is_like(shown: &[&str], lines: &[&str]) -> bool {
    match shown {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| is_like(rest, &lines[skipped..])),
        [first, rest @ ..] => {
            lines.split_first().is_some_and(|(line, lines)| is_line(first, line) && is_like(rest, lines))
        }
    }
}

/// What is wrong with a step.
fn wrong(page: &Path, step: &Step, result: Option<&(String, i32)>) -> Option<String> {
    let place = format!("{}:{}: {}", page.display(), step.line, step.command);
    let Some((text, code)) = result else { return Some(format!("{place}\ndid not end")) };
    if *code != step.exit {
        return Some(format!("{place}\nended with {code}:\n{text}"));
    }
    let full = |line: &&str| !line.trim().is_empty();
    let shown: Vec<&str> = step.shown.iter().map(String::as_str).filter(full).collect();
    let lines: Vec<&str> = text.lines().filter(full).collect();
    (!shown.is_empty() && !is_like(&shown, &lines)).then(|| format!("{place}\nprinted:\n{text}"))
}

/// The script that makes a machine, and runs another one there.
fn machine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/documents/machine.sh")
}

fn on_a_machine(program: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string());
    command.args(["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child", program]);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a page, and says what is wrong with it.
fn run(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let steps = match steps(page, &text) {
        Ok(steps) if steps.is_empty() => return Vec::new(),
        Ok(steps) => steps,
        Err(why) => return vec![why],
    };
    let folder = tempfile::Builder::new().prefix("remora-page-").tempdir().unwrap();
    fs::write(folder.path().join("page.sh"), script(&steps)).unwrap();
    let prepare = machine().with_file_name(page.with_extension("sh").file_name().unwrap());
    let cache = places().cache;
    if prepare.is_file() {
        let script = fs::read_to_string(&prepare).unwrap();
        if script.lines().any(|line| line == "store") && !cache.join("store/weed").is_file() {
            skipped(&page.to_string_lossy(), "no SeaweedFS: cargo xtask setup --all-servers fetches it");
            return Vec::new();
        }
        fs::write(folder.path().join("prepare.sh"), script).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_remora"));
    let machine = machine();
    let mut command =
        on_a_machine("bash", &[&machine, folder.path(), program.parent().unwrap(), &cache, root().as_path()]);
    let output = command.output().unwrap();
    let found = results(&String::from_utf8_lossy(&output.stdout));
    if found.is_empty() {
        return vec![format!("{}: no machine: {output:?}", page.display())];
    }
    steps.iter().enumerate().filter_map(|(at, step)| wrong(page, step, found.get(at))).collect()
}

/// Whether machines can be made here.
fn is_possible() -> bool {
    let made = on_a_machine("ip", &["link", "set", "lo", "up"].map(Path::new)).output();
    made.is_ok_and(|made| made.status.success())
}

#[test]
fn commands_of_the_documents_work_as_they_are_written() {
    if !is_possible() {
        return skipped("documents", "a machine of its own takes root, namespaces and ip (iproute2)");
    }
    let pages = match std::env::var(PAGES) {
        Ok(wanted) => pages().into_iter().filter(|page| page.to_string_lossy().contains(&wanted)).collect(),
        Err(_) => part_of_today(pages(), PARTS),
    };
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wrong = run(page);
                    found.lock().unwrap().extend(wrong);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} wrong:\n\n{}", found.len(), found.join("\n\n"));
}

#[test]
fn blocks_of_a_page_are_read() {
    let page = Path::new("p.md");
    let text = "```console\n$ one \\\n  two\nout\n$ three\n```\n```sql\n$ no\n```\n```console,exit=3\n$ a\n$ b\n```\n\
                ```console,needs=service\n$ no\n```\n";
    let found = steps(page, text).unwrap();
    let read: Vec<_> =
        found.iter().map(|step| (step.line, &*step.command, step.shown.len(), step.exit)).collect();
    assert_eq!(read, [(2, "one \\\n  two", 1, 0), (5, "three", 0, 0), (11, "a", 0, 0), (12, "b", 0, 3)]);
    for (bad, why) in [
        ("text\n\n    $ remora list\n", "p.md:3: a session is a fenced block"),
        ("```console\nout\n```\n", "p.md:2: no command is above it"),
        ("```console,needs=luck\n$ a\n```\n", "what is needed there?"),
    ] {
        let error = steps(page, bad).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let ended = results(&format!("{STARTS}0\na\nb\n\n{ENDS}4\n{STARTS}1\n\n{ENDS}0\n"));
    assert_eq!(ended, [("a\nb".to_owned(), 4), (String::new(), 0)]);
}

#[test]
fn what_differs_from_run_to_run_is_not_compared_and_everything_else_is() {
    let same = |shown: &str, line: &str| is_line(shown, line);
    assert!(same("db1@2: 422.8 MB, 205 blocks, 0.5 s", "db1@17: 1 kB, 3  blocks, 12.0 s"));
    assert!(same("at 2026-11-22 19:05:17+01:00  0-1-9", "at 2026-12-01 01:00:00+00:00 0-1-12345"));
    assert!(!same("db1@2: 205 blocks", "db2@2: 205 blocks") && !same("2 rows", "2 rows more"));
    assert!(same("a [..] c", "a b b c") && same("a ...", "a b") && !same("a [..] c", "a b d"));
    assert!(is_like(&["a", "...", "d"], &["a", "b", "c", "d"]) && is_like(&["...", "a"], &["a"]));
    assert!(
        !is_like(&["a"], &["a", "b"]) && !is_like(&["a", "b"], &["a"]) && !is_like(&["...", "x"], &["a"])
    );
}
