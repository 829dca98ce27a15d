//! What to measure: our codecs at the levels worth trying, and the installed tools.

use std::process::{Command, Stdio};

/// A codec at a level, or a tool with its options.
pub struct Contender {
    /// Its name and level.
    pub name: String,
    /// Whether it is one of ours.
    pub ours: bool,
    program: String,
    pack: Vec<&'static str>,
    unpack: &'static [&'static str],
    /// The option for the number of threads, appended to the command; empty if there is none.
    threads: &'static str,
}

impl Contender {
    /// Whether it uses several cores if it is told to.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        !self.threads.is_empty()
    }

    /// The command that compresses, on so many cores.
    #[must_use]
    pub fn pack(&self, threads: usize) -> Vec<String> {
        self.command(&self.pack, threads)
    }

    /// The command that decompresses.
    #[must_use]
    pub fn unpack(&self, threads: usize) -> Vec<String> {
        self.command(self.unpack, threads)
    }

    fn command(&self, arguments: &[&str], threads: usize) -> Vec<String> {
        let mut command = vec![self.program.clone()];
        command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        if self.is_parallel() {
            command.push(format!("{}{threads}", self.threads));
        }
        if self.ours {
            command.push("-".to_owned());
        }
        command
    }
}

/// Our own methods, and whether each is slow.
const OURS: [(&str, bool); 23] = [
    ("zstd:1", false),
    ("zstd:3", false),
    ("zstd:6", false),
    ("zstd:9", false),
    ("zstd:9 --long", false),
    ("zstd:12", false),
    ("zstd:15", true),
    ("zstd:19", true),
    ("zstd:19 --long", true),
    ("column:1", false),
    ("column:3", false),
    ("column:9", false),
    ("column:12", false),
    ("column:19", true),
    ("gzip:1", false),
    ("gzip:6", false),
    ("gzip:9", false),
    ("lz4", false),
    ("bzip2:1", false),
    ("bzip2:9", false),
    ("xz:0", false),
    ("xz:6", true),
    ("xz:9", true),
];

struct Tool {
    name: &'static str,
    levels: &'static [(&'static str, bool)],
    more: &'static [&'static str],
    unpack: &'static [&'static str],
    threads: &'static str,
}

const fn tool(name: &'static str, levels: &'static [(&'static str, bool)], threads: &'static str) -> Tool {
    Tool { name, levels, more: &["-c"], unpack: &["-d", "-c"], threads }
}

/// Other tools, with their levels.
const TOOLS: [Tool; 13] = [
    tool("gzip", &[("-6", false)], ""),
    tool("pigz", &[("-6", false), ("-9", false)], "-p"),
    tool("bzip2", &[("-9", false)], ""),
    tool("pbzip2", &[("-9", false)], "-p"),
    tool("lbzip2", &[("-9", false)], "-n"),
    tool("lzip", &[("-0", false), ("-6", true)], ""),
    tool("plzip", &[("-0", false), ("-6", true)], "-n"),
    tool("xz", &[("-6", true)], "-T"),
    tool("lzop", &[("-3", false), ("-9", false)], ""),
    tool("lz4", &[("-1", false), ("-9", false)], ""),
    tool("zstd", &[("--fast=3", false), ("-3", false), ("-19", true)], "-T"),
    tool("brotli", &[("-1", false), ("-5", false), ("-9", true), ("-Z", true)], ""),
    Tool {
        name: "7z",
        levels: &[("-mx5", true)],
        more: &["a", "-an", "-txz", "-si", "-so"],
        unpack: &["x", "-an", "-txz", "-si", "-so"],
        threads: "-mmt",
    },
];

/// Whether a name begins with this. A level must be equal: `zstd:1` is not `zstd:19`.
fn begins(name: &str, with: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    name.strip_prefix(with).is_some_and(|rest| !(with.ends_with(is_digit) && rest.starts_with(is_digit)))
}

/// The contenders whose names begin with one of these, or all.
pub fn contenders(only: &[String], quick: bool) -> Vec<Contender> {
    let wanted = |name: &str, slow: bool| {
        (only.is_empty() || only.iter().any(|one| begins(name, one))) && !(slow && quick)
    };
    let program = std::env::current_exe().map_or("remora".to_owned(), |exe| exe.display().to_string());
    let mut all = Vec::new();
    for (name, slow) in OURS {
        if !wanted(name, slow) {
            continue;
        }
        let mut pack = vec!["pack", "--to"];
        pack.extend(name.split(' '));
        let (name, program) = (name.to_owned(), program.clone());
        all.push(Contender { name, ours: true, program, pack, unpack: &["unpack"], threads: "-T" });
    }
    for tool in &TOOLS {
        for (level, slow) in tool.levels {
            let name = format!("{} {level}", tool.name);
            if !wanted(&name, *slow) || !is_installed(tool.name) {
                continue;
            }
            let mut pack = tool.more.to_vec();
            pack.push(level);
            let (program, unpack) = (tool.name.to_owned(), tool.unpack);
            all.push(Contender { name, ours: false, program, pack, unpack, threads: tool.threads });
        }
    }
    all
}

fn is_installed(tool: &str) -> bool {
    let mut asked = Command::new(tool);
    asked.arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    asked.status().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose() {
        let names = |only: &[&str], quick| {
            let only: Vec<String> = only.iter().map(|one| (*one).to_owned()).collect();
            contenders(&only, quick).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["zstd:1", "column:3"], true), ["zstd:1", "column:3"]);
        assert_eq!(names(&["zstd:9"], true), ["zstd:9", "zstd:9 --long"]);
        assert_eq!(names(&["xz:"], false), ["xz:0", "xz:6", "xz:9"]);
        assert!(names(&["nothing"], false).is_empty());
        let all = contenders(&["zstd:19 --long".to_owned()], false);
        assert_eq!(all[0].pack(3)[1..], ["pack", "--to", "zstd:19", "--long", "-T3", "-"]);
    }
}
