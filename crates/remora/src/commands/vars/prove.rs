//! A proof by starting a private server with the lines of an option file.

use std::collections::BTreeMap;

use sandbox::{Installation, Places, Sandbox, Settings};
use server::{Environment, OptionLine, Overrides, Session, Target};
use status::variable::check::{Checked, Finding, Setting, Verdict, is_as_asked, is_read};
use status::variable::{
    Meaning, Number, Snapshot, is_administrative, is_list, number, read_server, resolve, shipped,
};

/// Larger buffers and logs are not tried, because this machine may not have the memory.
const TRIED_MAX_BYTES: i128 = 256 << 20;

/// The result of the trial.
pub(super) struct Proof {
    /// The server's error, if it did not start and no line could be blamed.
    pub(super) refused: Option<String>,
    /// Options that were not tried, because they concern the machine that the file is for.
    pub(super) left_out: Vec<String>,
}

/// A session with a sandbox.
pub(super) fn session(sandbox: &Sandbox) -> Result<Session, server::Error> {
    let overrides = Overrides {
        socket: Some(sandbox.socket().to_owned()),
        user: Some("root".to_owned()),
        no_defaults: true,
        ..Overrides::default()
    };
    Target::resolve(&overrides, &Environment::default())?.connect()
}

/// Starts a server with the lines that it reads, removes lines until it starts, and checks what the other
/// lines did. The findings become what the server says.
pub(super) fn prove(
    installation: &Installation,
    places: &Places,
    snapshot: &Snapshot,
    lines: &[OptionLine],
    checked: &mut Checked<'_>,
) -> anyhow::Result<Proof> {
    let read = lines.iter().filter(|line| is_read(snapshot, line));
    let own = shipped::find(snapshot.series()).unwrap_or_else(|| snapshot.clone());
    let (mut tried, left_out): (Vec<&OptionLine>, Vec<&OptionLine>) =
        read.partition(|line| is_tried(snapshot, &own, line) && !depends(checked, line));
    let mut proof = Proof { refused: None, left_out: names(snapshot, &left_out) };
    let mut blamed: Vec<(&OptionLine, String)> = Vec::new();
    let server = loop {
        let options = tried.iter().map(|line| option(line)).collect();
        let log = match Sandbox::start(installation, places, &Settings { options, ..Settings::default() }) {
            Ok(server) => break server,
            Err(sandbox::Error::Start { log, .. }) => log,
            Err(error) => return Err(error.into()),
        };
        let Some((at, said)) = culprit(&tried, checked, &log) else {
            proof.refused = Some(log);
            return Ok(proof);
        };
        blamed.push((tried.remove(at), said));
    };
    // Settings that were expected to stop the server, and did not: by their values, which are compared below,
    // or by their names.
    let settings = &checked.settings;
    let is_setting = |finding: &Finding| settings.iter().any(|setting| finding.is_about(setting.line));
    let was_tried = |finding: &Finding| tried.iter().any(|line| finding.is_about(line));
    checked.findings.retain_mut(|finding| {
        if finding.verdict != Verdict::Aborts || !was_tried(finding) {
            return true;
        }
        finding.verdict = Verdict::Differs;
        finding.why = "the server starts with it; which option it takes it for is not known".to_owned();
        !is_setting(finding)
    });
    for (line, said) in &blamed {
        checked.findings.retain(|finding| !finding.is_about(line) || finding.verdict == Verdict::Aborts);
        if !checked.findings.iter().any(|finding| finding.is_about(line)) {
            let why = format!("{} says: {said}", snapshot.title);
            checked.findings.push(Finding::new(line, Verdict::Aborts, why));
        }
    }
    checked.settings.retain(|setting| tried.iter().any(|line| std::ptr::eq(*line, setting.line)));
    let runs = read_server(&mut session(&server)?)?;
    let changed: Vec<Finding> =
        checked.settings.iter().filter_map(|setting| differs(setting, &runs)).collect();
    for finding in changed {
        let said = checked.findings.iter().any(|known| {
            (known.line, &known.file) == (finding.line, &finding.file) && known.verdict <= Verdict::Ignored
        });
        if !said {
            checked.findings.push(finding);
        }
    }
    checked.findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(proof)
}

fn option(line: &OptionLine) -> String {
    match &line.value {
        Some(value) => format!("--{}={value}", line.name),
        None => format!("--{}", line.name),
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
        if let Some(at) = tried.iter().rposition(names) {
            let said = said.split_once("[ERROR]").map_or(said, |(_, said)| said);
            return Some((at, said.trim().to_owned()));
        }
    }
    let wrong = |line: &OptionLine| {
        checked.findings.iter().find(|finding| finding.verdict == Verdict::Aborts && finding.is_about(line))
    };
    tried.iter().enumerate().find_map(|(at, line)| Some((at, wrong(line)?.why.clone())))
}

/// A finding if the server runs with another value than the setting.
fn differs(setting: &Setting<'_>, runs: &Snapshot) -> Option<Finding> {
    let asked = setting.value.as_deref()?;
    let variable = runs.variables.get(&setting.name)?;
    let value = variable.value.as_deref()?;
    let is_of_words = matches!(variable.kind.as_deref(), Some("SET" | "FLAGSET"))
        || variable.kind.is_none() && value.contains(',');
    // log_bin = /var/log/bin shows as ON.
    let is_path =
        asked.contains('/') || variable.is_switch() && asked.parse::<u8>().is_err() && value == "ON";
    // The server shows more words than were set: ANSI becomes five.
    let has_all = is_of_words
        && asked
            .split(',')
            .all(|word| value.to_ascii_lowercase().contains(&word.trim().to_ascii_lowercase()));
    let is_in_list = is_list(&setting.name) && value.split(',').any(|item| item.trim() == asked);
    if is_as_asked(variable, asked, value) || has_all || is_in_list || asked.is_empty() || is_path {
        return None;
    }
    Some(Finding::new(setting.line, Verdict::Differs, format!("the server runs with {value}")))
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
        "log_bin",
        "log_bin_index",
        "open_files_limit",
    ];
    let is_path = value.contains('/') && !name.starts_with("wsrep_provider_options");
    !(is_administrative(name)
        || is_large
        || is_path
        || of_data.contains(&name) && !(name == "log_bin" && line.value.is_none())
        || ["wsrep_", "ssl_", "tls_", "init_", "file_key_management"]
            .iter()
            .any(|front| name.starts_with(front)))
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
