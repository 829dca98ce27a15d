//! Whether a server starts with an option file, and what its lines mean to that server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ::server::OptionLine;

use super::name::{is_administrative, is_list, is_named_switch, is_path};
pub use super::option::is_read;
use super::option::{Meaning, Prefix, cache, resolve};
use super::plugin::{Load, loads};
use super::value_equality::{number, switch, unit};
use super::{Argument, Number, Snapshot, Variable, name};

/// What happens to a line, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The server does not start.
    Aborts,
    /// The server starts, with another value than in the line.
    Differs,
    /// The line has no effect.
    Ignored,
    /// A plugin that the file loads decides, and the plugin is not known; or the server's options are not.
    Depends,
    /// It still works.
    Deprecated,
    /// A later line sets another value.
    Overridden,
}

/// A remark about a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The line as it reads, without secrets.
    pub text: String,
    /// What happens to it.
    pub verdict: Verdict,
    /// Why, for people.
    pub why: String,
}

/// A line that takes effect, if the server starts with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The line.
    pub line: &'a OptionLine,
    /// The option's full name, behind that of a key cache and a point if it is about one.
    pub name: String,
    /// Its value, with prefixes applied; `None` without a value, or if it sets a bound.
    pub value: Option<String>,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked<'a> {
    /// In the order of the lines.
    pub findings: Vec<Finding>,
    /// In the order of the lines.
    pub settings: Vec<Setting<'a>>,
}

impl Finding {
    /// A remark about a line.
    #[must_use]
    pub fn new(line: &OptionLine, verdict: Verdict, why: String) -> Finding {
        let text = match &line.value {
            Some(value) => format!("{} = {}", line.name, name::shown(&line.name, value.clone())),
            None => line.name.clone(),
        };
        Finding { file: line.file.clone(), line: line.line, text, verdict, why }
    }

    /// Whether it is about this line.
    #[must_use]
    pub fn is_about(&self, line: &OptionLine) -> bool {
        self.line == line.line && self.file == line.file
    }
}

/// Checks all lines of option files, in all groups, for a server. Nothing is known about the plugins that the
/// lines load.
#[must_use]
pub fn check<'a>(snapshot: &Snapshot, lines: &'a [OptionLine]) -> Checked<'a> {
    check_with(snapshot, lines, &loads(snapshot, lines))
}

/// The same, when the options of all loaded plugins are in the snapshot, except those of `unknown`.
#[must_use]
pub fn check_with<'a>(snapshot: &Snapshot, lines: &'a [OptionLine], unknown: &[Load]) -> Checked<'a> {
    let mut checked = Checked::default();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        if !is_read(snapshot, line) {
            if is_for_servers(&line.group) {
                let why = format!("{} does not read group [{}]", snapshot.title, line.group);
                checked.findings.push(Finding::new(line, Verdict::Ignored, why));
            }
            continue;
        }
        let (setting, found) = judge(snapshot, line, unknown);
        checked.findings.extend(found.map(|(verdict, why)| Finding::new(line, verdict, why)));
        let Some(setting) = setting else { continue };
        if let Some(before) = last.insert(setting.name.clone(), checked.settings.len()) {
            let before: &Setting<'_> = &checked.settings[before];
            let is_other = before.value != setting.value
                || is_named_switch(&setting.name) && before.line.value != setting.line.value;
            if is_other && !is_list(&setting.name) {
                let place = if before.line.file == line.file {
                    format!("line {}", line.line)
                } else {
                    format!("{}:{}", line.file.display(), line.line)
                };
                let why = format!("{place} sets it again, and the last line counts");
                checked.findings.push(Finding::new(before.line, Verdict::Overridden, why));
            }
        }
        checked.settings.push(setting);
    }
    checked.settings = in_force(checked.settings);
    checked.findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    checked
}

/// The last line for each name, but all lines of options that accumulate.
fn in_force(settings: Vec<Setting<'_>>) -> Vec<Setting<'_>> {
    let mut last = BTreeMap::new();
    for (at, setting) in settings.iter().enumerate() {
        last.insert(setting.name.clone(), at);
    }
    let is_last = |at: usize, setting: &Setting<'_>| is_list(&setting.name) || last[&setting.name] == at;
    settings.into_iter().enumerate().filter(|(at, setting)| is_last(*at, setting)).map(|(_, s)| s).collect()
}

/// Groups that only servers read, at least some series of them.
fn is_for_servers(group: &str) -> bool {
    let group = group.to_ascii_lowercase();
    let versioned = ["mysqld-", "mariadb-", "mariadbd-", "server-"];
    versioned.iter().any(|front| {
        group.strip_prefix(front).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }) || matches!(group.as_str(), "mysqld" | "server" | "mariadb" | "mariadbd" | "client-server" | "galera")
}

/// Groups that this server reads only if it is started with their suffix, each with the suffix. They are not
/// checked.
#[must_use]
pub fn suffixed<'a>(snapshot: &Snapshot, lines: &'a [OptionLine]) -> BTreeMap<&'a str, &'a str> {
    let groups = lines.iter().filter(|line| !is_read(snapshot, line)).map(|line| line.group.as_str());
    groups.filter_map(|group| Some((group, suffix(group)?))).collect()
}

/// The suffix of a group that a server reads if it is started with it: `mysqld_multi` starts `[mysqld1]`, a
/// service of systemd `[mysqld.a]`.
fn suffix(group: &str) -> Option<&str> {
    const PROGRAMS: [&str; 3] = ["_safe", "_safe_helper", "_multi"];
    let is_front = |front: &&str| group.get(..front.len()).is_some_and(|it| it.eq_ignore_ascii_case(front));
    let front = ["mysqld", "mariadbd", "mariadb", "server"].into_iter().find(is_front)?;
    let rest = &group[front.len()..];
    let begins = |c: char| c.is_ascii_digit() || c == '.' || c == '_' && front.ends_with('d');
    (rest.starts_with(begins) && !PROGRAMS.contains(&rest)).then_some(rest)
}

type Judgement = Option<(Verdict, String)>;

fn judge<'a>(
    snapshot: &Snapshot,
    line: &'a OptionLine,
    unknown: &[Load],
) -> (Option<Setting<'a>>, Judgement) {
    match resolve(snapshot, &line.name) {
        Meaning::Unknown { is_loose } if unknown.iter().any(|load| load.may_have(&line.name)) => {
            (None, Some((Verdict::Depends, depends(snapshot, line, unknown, is_loose))))
        }
        Meaning::Unknown { .. } if !snapshot.has_options => {
            let title = &snapshot.title;
            let why = format!(
                "{title} has no variable of this name, and its options that are no variables are not known here"
            );
            (None, Some((Verdict::Depends, why)))
        }
        Meaning::Unknown { is_loose: true } => {
            let why = format!("{} has no such option; loose lets it start anyway", snapshot.title);
            (None, Some((Verdict::Ignored, why)))
        }
        Meaning::Unknown { is_loose: false } => (
            None,
            Some((
                Verdict::Aborts,
                format!("{} has no such option{}", snapshot.title, near(snapshot, &line.name)),
            )),
        ),
        Meaning::Ambiguous { names } => {
            let why = format!("it may mean {}; write the whole name", names.join(" or "));
            (None, Some((Verdict::Aborts, why)))
        }
        Meaning::Option { name, variable, prefixes, is_abbreviated } => {
            let value = effective(name, variable, line.value.as_deref(), &prefixes);
            let found = judge_name(name, variable, line.value.as_deref(), &prefixes);
            // A bound is written like a value.
            let is_bound = prefixes.contains(&Prefix::Maximum);
            let judged = if is_bound { line.value.as_deref() } else { value.as_deref() };
            let found = found
                .or_else(|| {
                    judge_value(snapshot, typed(snapshot, name, variable), line.value.as_deref(), judged)
                })
                .or_else(|| judge_page_size(name, judged?));
            let found = found.or_else(|| {
                let why = || format!("it is taken for {name}; write the whole name");
                is_abbreviated.then(|| (Verdict::Deprecated, why()))
            });
            let cache = cache(&line.name, name).map(|cache| format!("{cache}."));
            let setting = Setting { line, name: cache.unwrap_or_default() + name, value };
            (variable.ignored.is_none().then_some(setting), found)
        }
    }
}

/// The variable that tells which values an option takes: SQL knows some by another name than option files.
fn typed<'a>(snapshot: &'a Snapshot, name: &str, variable: &'a Variable) -> &'a Variable {
    let of_sql = name.strip_prefix("transaction_").filter(|_| variable.kind.is_none());
    of_sql.and_then(|rest| snapshot.variables.get(&format!("tx_{rest}"))).unwrap_or(variable)
}

/// The verdict on an option that only a plugin can define.
fn depends(snapshot: &Snapshot, line: &OptionLine, unknown: &[Load], is_loose: bool) -> String {
    let loads = unknown.iter().filter(|load| load.may_have(&line.name));
    let loads = loads.map(|load| load.text.as_str()).collect::<Vec<_>>().join(" or ");
    let title = &snapshot.title;
    if is_loose {
        return format!("{title} itself has no such option; it has an effect if {loads} is there and has it");
    }
    let near = near(snapshot, &line.name);
    format!("{title} itself has no such option{near}; it starts only if {loads} is there and has it")
}

/// Whether prefixes make a switch of an option, whatever it takes without them.
fn is_switched(prefixes: &[Prefix]) -> bool {
    prefixes.iter().any(|prefix| matches!(prefix, Prefix::Off | Prefix::On))
}

/// The value with prefixes applied.
fn effective(name: &str, variable: &Variable, value: Option<&str>, prefixes: &[Prefix]) -> Option<String> {
    if is_named_switch(name) && !is_switched(prefixes) {
        // Any name switches it on.
        return Some("1".to_owned());
    }
    let zero = value == Some("0");
    let mut value = value.map(str::to_owned);
    for prefix in prefixes {
        match prefix {
            // A double negation cancels out.
            Prefix::Off => value = Some(if zero { "1" } else { "0" }.to_owned()),
            Prefix::On => value = Some(if zero { "0" } else { "1" }.to_owned()),
            // It limits what sessions may set.
            Prefix::Maximum | Prefix::Auto => value = None,
            Prefix::Loose => {}
        }
    }
    if value.is_none() && variable.is_switch() && !prefixes.contains(&Prefix::Auto) {
        value = Some("1".to_owned());
    }
    value
}

/// A word for a switch where the server takes a name.
fn judge_name(name: &str, variable: &Variable, written: Option<&str>, prefixes: &[Prefix]) -> Judgement {
    let takes_text = matches!(variable.kind.as_deref(), None | Some("VARCHAR"));
    let takes_name = is_named_switch(name)
        || is_path(name)
            && takes_text
            && matches!(variable.option, Some(Argument::Optional | Argument::Required));
    // Before an option that needs a value, a prefix only says which word is its value.
    let value = match is_switched(prefixes) {
        true if variable.option == Some(Argument::Required) => effective("", variable, written, prefixes)?,
        true => return None,
        false => written?.to_owned(),
    };
    if !takes_name || variable.ignored.is_some() || switch(&value).is_none() {
        return None;
    }
    let option = name.replace('_', "-");
    let why = if is_named_switch(name) {
        format!(
            "it takes a name and is no switch: there will be a log that is called {value}; write skip-{option} for \
             none, {option} = mysql-bin for one"
        )
    } else {
        format!("it takes a name and is no switch: {value} will be the name of a file or folder")
    };
    Some((Verdict::Differs, why))
}

fn judge_value(
    snapshot: &Snapshot,
    variable: &Variable,
    written: Option<&str>,
    value: Option<&str>,
) -> Judgement {
    if let Some(said) = &variable.ignored {
        return Some((Verdict::Ignored, format!("{}: it {said}", snapshot.title)));
    }
    if variable.option == Some(Argument::Required) && value.is_none() {
        return Some((Verdict::Aborts, "it needs a value: name = value".to_owned()));
    }
    if variable.option == Some(Argument::None)
        && !variable.is_switch()
        && written.is_some()
        && variable.kind.is_none()
    {
        return Some((Verdict::Aborts, "it takes no value".to_owned()));
    }
    let found = value.and_then(|value| match variable.kind.as_deref().unwrap_or_default() {
        "BOOLEAN" => judge_switch(value),
        "ENUM" => judge_word(variable, value),
        "SET" => judge_set(variable, value),
        "FLAGSET" => judge_flags(variable, value),
        kind if kind.contains("INT") => judge_whole(snapshot, variable, kind, value),
        "DOUBLE" => judge_real(variable, value),
        _ => None,
    });
    found.or_else(|| Some((Verdict::Deprecated, variable.deprecated.clone()?)))
}

fn judge_switch(value: &str) -> Judgement {
    // A server takes everything else for OFF, even YES.
    let is_on = ["on", "true", "1"].iter().any(|word| value.eq_ignore_ascii_case(word));
    (!is_on && switch(value) != Some(false)).then(|| {
        (Verdict::Differs, format!("{value:?} is no word for a switch: it means OFF there; write ON or OFF"))
    })
}

fn judge_word(variable: &Variable, value: &str) -> Judgement {
    if variable.words.is_empty() {
        return None;
    }
    let lower = value.to_ascii_lowercase();
    let known: Vec<String> = variable.words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let begin = known.iter().filter(|word| word.starts_with(&lower)).count();
    let is_number = value.parse::<usize>().is_ok_and(|at| at < known.len());
    (!known.contains(&lower) && begin != 1 && !is_number)
        .then(|| (Verdict::Aborts, format!("{value:?} is none of {}", variable.words.join(", "))))
}

/// A server takes no empty word and no space before one, and the beginning of a word only for the last one.
fn judge_set(variable: &Variable, value: &str) -> Judgement {
    let known = &variable.words;
    // A number has a bit for each word.
    let number = value.trim_start().parse::<u64>().map(u128::from);
    let is_number = number.is_ok_and(|bits| known.len() < 64 && bits < 1 << known.len());
    if known.is_empty() || value.is_empty() || is_number || value.eq_ignore_ascii_case("all") {
        return None;
    }
    let is_whole =
        |word: &str| known.iter().any(|known| known.eq_ignore_ascii_case(word.trim_end_matches(' ')));
    let is_front = |word: &str| known.iter().filter(|known| begins(known, word)).count() == 1;
    let (front, last) = value.rsplit_once(',').map_or((None, value), |(front, last)| (Some(front), last));
    let wrong = front.into_iter().flat_map(|front| front.split(',')).filter(|word| !is_whole(word));
    refuse(wrong.chain(Some(last).filter(|word| !is_whole(word) && !is_front(word))), known)
}

/// Words and what becomes of each: `mrr=on`. A server takes whole words only, and each once.
fn judge_flags(variable: &Variable, value: &str) -> Judgement {
    let known = &variable.words;
    if known.is_empty() || value.is_empty() {
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut is_flag = |item: &&str| {
        let (word, state) = item.split_once('=').map_or((*item, None), |(word, state)| (word, Some(state)));
        let word = word.trim_end_matches(' ').to_ascii_lowercase();
        let is_state = |state: &str| {
            let state = state.trim_end_matches(' ');
            ["on", "off", "default"].iter().any(|known| known.eq_ignore_ascii_case(state))
        };
        let is_known = known.iter().any(|known| known.eq_ignore_ascii_case(&word));
        // Alone it stands for all.
        is_known
            && state.map_or(word == "default", |state| word != "default" && is_state(state))
            && seen.insert(word)
    };
    refuse(value.split(',').filter(|item| !is_flag(item)), known)
}

fn begins(word: &str, with: &str) -> bool {
    !with.is_empty() && word.get(..with.len()).is_some_and(|front| front.eq_ignore_ascii_case(with))
}

/// The verdict on words that a server refuses.
fn refuse<'a>(wrong: impl Iterator<Item = &'a str>, known: &[String]) -> Judgement {
    let wrong: Vec<String> = wrong.map(|word| format!("{word:?}")).collect();
    (!wrong.is_empty())
        .then(|| (Verdict::Aborts, format!("{} is none of {}", wrong.join(", "), known.join(", "))))
}

/// Between its bounds the size of a page is a power of two.
fn judge_page_size(name: &str, value: &str) -> Judgement {
    let Some(Number::Whole(size)) = number(value).filter(|_| name == "innodb_page_size") else { return None };
    let is_power = u32::try_from(size).is_ok_and(u32::is_power_of_two);
    (!is_power)
        .then(|| (Verdict::Aborts, format!("{value:?} is no power of two: 4096, 8192, 16384 and so on")))
}

/// A server reads digits and one letter after them, and ignores the rest.
fn judge_whole(snapshot: &Snapshot, variable: &Variable, kind: &str, value: &str) -> Judgement {
    if variable.words.iter().any(|word| word.eq_ignore_ascii_case(value)) {
        return None;
    }
    let is_mariadb = snapshot.version.starts_with("mariadb");
    let letters = if is_mariadb { "KMGTPE" } else { "KMG" };
    let text = value.trim();
    let is_digit = |c: char| c.is_ascii_digit();
    let behind = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches(is_digit);
    let (digits, rest) = text.split_at(text.len() - behind.len());
    let letter = rest.chars().next();
    let unit = unit(letter).filter(|_| letter.is_none_or(|it| letters.contains(it.to_ascii_uppercase())));
    // Without digits the value is 0.
    let whole = digits.parse::<i128>().ok().or(digits.is_empty().then_some(0));
    let Some(asked) = whole.zip(unit).and_then(|(whole, unit)| whole.checked_mul(unit)) else {
        return Some((
            Verdict::Aborts,
            format!("{value:?} is no whole number, alone or with one of the letters {letters} behind it"),
        ));
    };
    let is_unsigned = kind.contains("UNSIGNED");
    if is_unsigned && asked < 0 && is_mariadb {
        return Some((Verdict::Aborts, format!("{value:?} is below 0")));
    }
    let bound = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i128>().ok());
    let mut used = if is_unsigned { asked.max(0) } else { asked };
    used = bound(&variable.max).map_or(used, |max| used.min(max));
    if let Some(block) = bound(&variable.block).filter(|block| *block > 0) {
        used -= used.rem_euclid(block);
    }
    used = bound(&variable.min).map_or(used, |min| used.max(min));
    let is_whole = !digits.is_empty() && rest.chars().count() <= 1;
    if used == asked && is_whole {
        return None;
    }
    let range = match (&variable.min, &variable.max) {
        _ if used == asked => String::new(),
        (Some(min), Some(max)) => format!(" ({min} to {max}{})", steps(variable)),
        _ => format!(" (it is rounded{})", steps(variable)),
    };
    let read = match letter.filter(|_| !is_whole) {
        Some(letter) => format!("; it reads {digits}{letter} and no more"),
        None => String::new(),
    };
    Some((Verdict::Differs, format!("the server takes {used} instead{range}{read}")))
}

fn steps(variable: &Variable) -> String {
    variable.block.as_ref().map(|block| format!(" in steps of {block}")).unwrap_or_default()
}

fn judge_real(variable: &Variable, value: &str) -> Judgement {
    let real = |text: &str| text.parse::<f64>().ok();
    let Some(asked) = real(value) else {
        return Some((Verdict::Aborts, format!("{value:?} is no number")));
    };
    let bound = |text: &Option<String>| text.as_deref().and_then(real);
    let (min, max) = (bound(&variable.min).unwrap_or(f64::MIN), bound(&variable.max).unwrap_or(f64::MAX));
    let used = asked.max(min).min(max);
    (asked < min || asked > max)
        .then(|| (Verdict::Differs, format!("the server takes {used} instead ({min} to {max})")))
}

/// A hint for an unknown name: a similar name, or a series that had it.
fn near(snapshot: &Snapshot, written: &str) -> String {
    let name = name::plain(written);
    let name = name.strip_prefix("skip_").unwrap_or(&name);
    // SQL knows these variables by another name than option files.
    let option = name.strip_prefix("tx_").map(|rest| format!("transaction_{rest}"));
    if let Some(option) = option.filter(|option| snapshot.variables.contains_key(option)) {
        return format!("; in an option file it is {option}");
    }
    let had: Vec<Snapshot> = super::shipped::all();
    let had = had.iter().filter_map(|other| {
        let variable = other.variables.get(name).filter(|variable| variable.option.is_some())?;
        Some((other.series().to_owned(), variable.deprecated.clone()))
    });
    let had: Vec<_> = had.collect();
    if let Some((series, said)) = had.iter().rev().find_map(|(series, said)| Some((series, said.as_ref()?))) {
        return format!("; {series} said: {said}");
    }
    if !had.is_empty() {
        let series: Vec<_> = had.iter().map(|(series, _)| series.as_str()).collect();
        let know = if series.len() == 1 { "knows" } else { "know" };
        return format!("; {} {know} it", series.join(", "));
    }
    let close = snapshot.variables.iter().filter(|(_, variable)| variable.option.is_some());
    let close = close.map(|(known, _)| (distance(known, name), known)).min();
    close.filter(|(far, _)| *far <= 2).map(|(_, known)| format!("; is {known} meant?")).unwrap_or_default()
}

/// The number of letters that must be changed, inserted or removed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, left) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, right) in b.iter().enumerate() {
            let cost = corner + usize::from(left != *right);
            corner = row[column + 1];
            row[column + 1] = cost.min(corner + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// Whether an option that can't be tried may stop a server by its value. The others that are not tried say
/// where things are, name the server, or size its memory: a private server has its own, and whether theirs
/// are there is seen only on the machine that they are for.
#[must_use]
pub fn may_stop(name: &str, variable: &Variable, value: &str) -> bool {
    const NAMES: [&str; 10] = [
        "bootstrap",
        "chroot",
        // Its names are in tables, which a private server does not have.
        "default_time_zone",
        "help",
        "innodb_data_file_path",
        "innodb_force_recovery",
        "innodb_page_size",
        "innodb_temp_data_file_path",
        "innodb_undo_tablespaces",
        "lower_case_table_names",
    ];
    let is_default = variable.default.as_deref().is_some_and(|own| super::are_equal(variable, own, value));
    // Words that are known were judged.
    let is_tls = name == "tls_version" && variable.words.is_empty();
    let is_cluster = name.starts_with("wsrep_") && !is_administrative(name);
    !is_default && (NAMES.contains(&name) || is_tls || is_cluster)
}

/// Whether the value of a running server is the requested one.
#[must_use]
pub fn is_as_asked(variable: &Variable, asked: &str, runs: &str) -> bool {
    super::are_equal(variable, asked, runs)
        // A word may be asked for by its beginning or its number.
        || variable.words.iter().position(|word| word.eq_ignore_ascii_case(runs)).is_some_and(|at| {
            asked.parse() == Ok(at) || runs.to_ascii_lowercase().starts_with(&asked.to_ascii_lowercase())
        })
}

#[cfg(test)]
#[path = "check/tests.rs"]
mod tests;
