//! An option file as a snapshot: only the settings in it.

use std::collections::BTreeMap;

use ::server::OptionLine;

use super::option::Meaning;
use super::{Snapshot, Variable, check, name, resolve};

/// The settings in lines of option files, from groups that `like` reads and with its names. A name that it
/// does not know stays as it is.
#[must_use]
pub fn read_file(title: &str, lines: &[OptionLine], like: &Snapshot) -> Snapshot {
    let checked = check::check(like, lines);
    let mut variables = BTreeMap::new();
    let asked = |line: &OptionLine, name: &str, value: Option<String>| Variable {
        value: Some(name::shown(name, value.unwrap_or_default())),
        origin: Some("CONFIG".to_owned()),
        file: Some(format!("{}:{}", line.file.display(), line.line)),
        ..Variable::default()
    };
    for line in lines.iter().filter(|line| check::is_read(like, line)) {
        let is_known = matches!(resolve(like, &line.name), Meaning::Option { variable, .. } if variable.ignored.is_none());
        if !is_known {
            let name = name::plain(&line.name);
            let variable = asked(line, &name, line.value.clone());
            variables.insert(name, variable);
        }
    }
    for setting in checked.settings {
        let variable = asked(setting.line, &setting.name, setting.value);
        variables.insert(setting.name, variable);
    }
    Snapshot {
        title: title.to_owned(),
        version: String::new(),
        groups: Vec::new(),
        has_options: false,
        has_variables: false,
        variables,
    }
}
