//! Lines of an option file that a server, or its program, is tried with.

use std::collections::BTreeMap;

use server::OptionLine;
use status::variable::check::{Checked, Finding, Verdict, is_read, may_stop};
use status::variable::{Meaning, Number, Snapshot, is_administrative, number, resolve, shipped};

/// Larger buffers and logs are not tried, because this machine may not have the memory.
const TRIED_MAX_BYTES: i128 = 256 << 20;

/// The lines, and their results so far.
pub struct Trial<'a> {
    /// Lines that were not refused.
    pub tried: Vec<&'a OptionLine>,
    /// Options that are not tried, because they concern the machine that the file is for.
    pub left_out: Vec<String>,
    /// Those of them that may stop the server.
    pub may_stop: Vec<String>,
    /// Refused lines, and what was said of them.
    blamed: Vec<(&'a OptionLine, String)>,
}

impl<'a> Trial<'a> {
    /// Takes the lines that the server reads and that can be tried here.
    pub fn of(snapshot: &Snapshot, lines: &'a [OptionLine], checked: &Checked<'_>) -> Trial<'a> {
        let read = lines.iter().filter(|line| is_read(snapshot, line));
        let own = shipped::find(snapshot.series()).unwrap_or_else(|| snapshot.clone());
        let (tried, left_out): (Vec<&OptionLine>, Vec<&OptionLine>) =
            read.partition(|line| is_tried(snapshot, &own, line) && !depends(checked, line));
        let may_stop: Vec<&OptionLine> =
            left_out.iter().copied().filter(|line| is_open(snapshot, &own, line)).collect();
        let (left_out, may_stop) = (names(snapshot, &left_out), names(snapshot, &may_stop));
        Trial { tried, left_out, may_stop, blamed: Vec::new() }
    }

    /// Tries the lines, and removes those that are refused until none is. `refusal` gets options, and returns
    /// what was said if they were refused. Returns that if no line can be blamed for it.
    pub fn run(
        &mut self,
        checked: &Checked<'_>,
        mut refusal: impl FnMut(Vec<String>) -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<Option<String>> {
        while let Some(log) = refusal(self.tried.iter().map(|line| option(line)).collect())? {
            let Some((at, said)) = culprit(&self.tried, checked, &log) else { return Ok(Some(log)) };
            self.blamed.push((self.tried.remove(at), said));
        }
        Ok(None)
    }

    /// Adds the refused lines to the findings.
    pub fn blame(&self, title: &str, checked: &mut Checked<'_>) {
        for (line, said) in &self.blamed {
            checked.findings.retain(|finding| !finding.is_about(line) || finding.verdict == Verdict::Aborts);
            if !checked.findings.iter().any(|finding| finding.is_about(line)) {
                let why = format!("{title} says: {said}");
                checked.findings.push(Finding::new(line, Verdict::Aborts, why));
            }
        }
    }
}

fn option(line: &OptionLine) -> String {
    // MySQL takes the variables of a key cache only with underscores.
    let name = match line.name.split_once('.') {
        Some((cache, variable)) => format!("{cache}.{}", variable.replace('-', "_")),
        None => line.name.clone(),
    };
    match &line.value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    }
}

/// The line that the server's log names, or else one that is known to be wrong.
fn culprit(tried: &[&OptionLine], checked: &Checked<'_>, log: &str) -> Option<(usize, String)> {
    let errors = log.lines().filter(|line| line.contains("[ERROR]") || !line.contains(" ["));
    for said in errors {
        let plain = said.replace('_', "-").to_ascii_lowercase();
        let names = |line: &&OptionLine| {
            let name = line.name.replace('_', "-").to_ascii_lowercase();
            [
                format!("'{name}'"),
                format!("'{name}="),
                format!("'--{name}'"),
                format!("--{name} "),
                format!("--{name}="),
            ]
            .iter()
            .any(|written| plain.contains(written.as_str()))
        };
        if let Some(at) = tried.iter().rposition(names).or_else(|| by_value(tried, &plain)) {
            let said = said.split_once("[ERROR]").map_or(said, |(_, said)| said);
            return Some((at, said.trim().to_owned()));
        }
    }
    let wrong = |line: &OptionLine| {
        checked.findings.iter().find(|finding| finding.verdict == Verdict::Aborts && finding.is_about(line))
    };
    tried.iter().enumerate().find_map(|(at, line)| Some((at, wrong(line)?.why.clone())))
}

/// The only line whose value an error names, which is all that it says of a character set, a time zone or an
/// engine that the server does not know. `said` is in small letters, with hyphens.
fn by_value(tried: &[&OptionLine], said: &str) -> Option<usize> {
    let names = |line: &OptionLine| {
        let value = line.value.as_deref().unwrap_or_default().replace('_', "-").to_ascii_lowercase();
        let is_word = value.len() > 2 && value.bytes().any(|byte| byte.is_ascii_alphabetic());
        is_word
            && (said.contains(&format!("'{value}'"))
                || said.trim_end_matches('.').ends_with(&format!(": {value}")))
    };
    let mut found = tried.iter().enumerate().filter(|(_, line)| names(line));
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at)
}

/// Whether only a plugin that is not here can know the line.
fn depends(checked: &Checked<'_>, line: &OptionLine) -> bool {
    checked.findings.iter().any(|finding| finding.verdict == Verdict::Depends && finding.is_about(line))
}

/// Whether a line can be tried, or concerns a machine and data that are not here. `own` has the options of
/// such a server without plugins.
fn is_tried(snapshot: &Snapshot, own: &Snapshot, line: &OptionLine) -> bool {
    let Meaning::Option { name, variable, .. } = resolve(snapshot, &line.name) else { return true };
    if matches!(resolve(own, name), Meaning::Unknown { .. }) {
        // It is the option of a plugin, and plugins are not loaded here.
        return false;
    }
    if variable.ignored.is_some() {
        return true;
    }
    let value = line.value.as_deref().unwrap_or_default();
    let is_large = matches!(number(value), Some(Number::Whole(bytes)) if bytes > TRIED_MAX_BYTES)
        && ["buffer", "cache_size", "innodb_log_file_size", "pool"].iter().any(|word| name.contains(word))
        && variable
            .max
            .as_deref()
            .and_then(|max| max.parse::<i128>().ok())
            .is_none_or(|max| max > TRIED_MAX_BYTES);
    let of_data = [
        "innodb_data_file_path",
        "innodb_temp_data_file_path",
        "innodb_page_size",
        "innodb_undo_tablespaces",
        "innodb_force_recovery",
        "lower_case_table_names",
        "plugin_load",
        "plugin_load_add",
        "bootstrap",
        "chroot",
        "daemonize",
        "console",
        "help",
        "verbose",
        "gdb",
        "memlock",
        "large_pages",
        "skip_networking",
        "skip_grant_tables",
        "log_bin_index",
        "open_files_limit",
    ];
    let is_path = value.contains('/') && !name.starts_with("wsrep_provider_options");
    !(is_administrative(name)
        || is_large
        || is_path
        || of_data.contains(&name)
        || ["wsrep_", "ssl_", "tls_", "init_", "file_key_management"]
            .iter()
            .any(|front| name.starts_with(front)))
}

/// Whether a line that is not tried leaves open whether the server starts. Ports, sockets, folders and logs
/// do not: the private server has its own instead. A plugin may refuse the values of its options.
fn is_open(snapshot: &Snapshot, own: &Snapshot, line: &OptionLine) -> bool {
    let Meaning::Option { name, variable, .. } = resolve(snapshot, &line.name) else { return false };
    let value = line.value.as_deref().unwrap_or_default();
    let is_of_plugin = matches!(resolve(own, name), Meaning::Unknown { .. }) && !value.contains('/');
    is_of_plugin || may_stop(name, variable, value)
}

fn names(snapshot: &Snapshot, lines: &[&OptionLine]) -> Vec<String> {
    let mut names = BTreeMap::new();
    for line in lines {
        if let Meaning::Option { name, .. } = resolve(snapshot, &line.name) {
            names.insert(name.to_owned(), ());
        }
    }
    names.into_keys().collect()
}
