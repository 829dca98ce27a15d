//! A proof by starting a private server with the lines of an option file, or by its program.

use std::path::Path;

use ::server::{Environment, OptionLine, Overrides, Session, Target};
use sandbox::{Installation, Places, Sandbox, Settings};
use status::variable::check::{Checked, Finding, Setting, Verdict, is_as_asked};
use status::variable::{Meaning, Snapshot, is_list, read_server, resolve};

use crate::program;
use crate::trial::Trial;

/// The result of the trial.
pub struct Proof {
    /// The server's error, if it did not start and no line could be blamed.
    pub refused: Option<String>,
    /// Options that were not tried, because they concern the machine that the file is for.
    pub left_out: Vec<String>,
    /// Those of them that may stop the server by their values.
    pub may_stop: Vec<String>,
}

/// A session with a sandbox.
pub fn session(sandbox: &Sandbox) -> Result<Session, ::server::Error> {
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
pub fn by_server(
    installation: &Installation,
    places: &Places,
    snapshot: &Snapshot,
    lines: &[OptionLine],
    checked: &mut Checked<'_>,
) -> anyhow::Result<Proof> {
    let mut trial = Trial::of(snapshot, lines, checked);
    let mut started = None;
    let refused = trial.run(checked, |options| {
        match Sandbox::start(installation, places, &Settings { options, ..Settings::default() }) {
            Ok(server) => started = Some(server),
            Err(sandbox::Error::Start { log, .. }) => return Ok(Some(log)),
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    })?;
    let Some(server) = started else {
        return Ok(Proof { refused, left_out: trial.left_out, may_stop: trial.may_stop });
    };
    let tried = &trial.tried;
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
    trial.blame(&snapshot.title, checked);
    checked.settings.retain(|setting| tried.iter().any(|line| std::ptr::eq(*line, setting.line)));
    let runs = read_server(&mut session(&server)?)?;
    let changed = checked.settings.iter().filter_map(|setting| differs(setting, &runs)).collect();
    add(changed, checked);
    Ok(Proof { refused: None, left_out: trial.left_out, may_stop: trial.may_stop })
}

/// The same by the program alone, which reads the lines as its options and starts no server: MySQL has
/// `--validate-config` for that; other programs say with `--help` what they refuse.
pub fn by_program(
    path: &Path,
    snapshot: &Snapshot,
    lines: &[OptionLine],
    checked: &mut Checked<'_>,
) -> anyhow::Result<Proof> {
    let mut trial = Trial::of(snapshot, lines, checked);
    let can_validate = snapshot.variables.contains_key("validate_config");
    let mut last = String::new();
    let refused = trial.run(checked, |options| {
        let (is_refused, said) = program::judge(path, &options, can_validate)?;
        last.clone_from(&said);
        Ok(is_refused.then_some(said))
    })?;
    trial.blame(&snapshot.title, checked);
    let tried = trial.tried.iter();
    add(tried.filter_map(|line| adjusted(snapshot, line, &last)).collect(), checked);
    // With --help a program may complain of what has nothing to do with the lines.
    let refused = refused.filter(|_| can_validate);
    Ok(Proof { refused, left_out: trial.left_out, may_stop: trial.may_stop })
}

/// A finding if the program said that it takes another number: `option 'x': unsigned value 7 adjusted to 3`.
fn adjusted(snapshot: &Snapshot, line: &OptionLine, said: &str) -> Option<Finding> {
    let Meaning::Option { name, .. } = resolve(snapshot, &line.name) else { return None };
    let taken = said.lines().find_map(|text| {
        let (option, rest) = text.split_once("option '")?.1.split_once("': ")?;
        let is_it = option.replace('-', "_").eq_ignore_ascii_case(name);
        rest.split_once(" adjusted to ").filter(|_| is_it).map(|(_, taken)| taken.trim_end_matches('.'))
    })?;
    Some(Finding::new(line, Verdict::Differs, format!("the server takes {taken} instead")))
}

/// Adds findings about lines of which nothing as bad is known.
fn add(found: Vec<Finding>, checked: &mut Checked<'_>) {
    for finding in found {
        let said = checked.findings.iter().any(|known| {
            (known.line, &known.file) == (finding.line, &finding.file) && known.verdict <= Verdict::Ignored
        });
        if !said {
            checked.findings.push(finding);
        }
    }
    checked.findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
}

/// A finding if the server runs with another value than the setting.
fn differs(setting: &Setting<'_>, runs: &Snapshot) -> Option<Finding> {
    let asked = setting.value.as_deref()?;
    let variable = runs.variables.get(&setting.name)?;
    let value = variable.value.as_deref()?;
    let is_of_words = matches!(variable.kind.as_deref(), Some("SET" | "FLAGSET"))
        || variable.kind.is_none() && value.contains(',');
    let is_path = asked.contains('/');
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
