//! The settings of a running server.

use std::collections::BTreeMap;

use ::server::{Error, Flavour, Session};

use super::{Argument, Snapshot, Variable, name};

/// MariaDB's own description of its variables; it has the path since 10.5.
const STATEMENT: &str = "SELECT variable_name, global_value, default_value, global_value_origin, variable_type, \
    numeric_min_value, numeric_max_value, numeric_block_size, enum_value_list, read_only, \
    command_line_argument, global_value_path, variable_comment, variable_scope \
    FROM information_schema.system_variables";

/// Reads the settings of a running server. MySQL shows only names and values.
///
/// # Errors
///
/// Errors of the session.
pub fn read_server(session: &mut Session) -> Result<Snapshot, Error> {
    let is_mariadb = session.about.flavour == Flavour::MariaDb;
    let (title, version) = name::version(&session.about.version_text, is_mariadb);
    let variables = if is_mariadb { described(session)? } else { shown(session)? };
    Ok(Snapshot { title, version, groups: Vec::new(), has_options: false, has_variables: true, variables })
}

fn described(session: &mut Session) -> Result<BTreeMap<String, Variable>, Error> {
    let mut variables = BTreeMap::new();
    for row in session.strings(STATEMENT)? {
        let Ok(
            [
                Some(name),
                value,
                default,
                origin,
                kind,
                min,
                max,
                block,
                words,
                fixed,
                argument,
                file,
                comment,
                scope,
            ],
        ) = <[Option<String>; 14]>::try_from(row)
        else {
            continue;
        };
        let kind = kind.filter(|kind| !kind.is_empty());
        let words = words.map(|words| words.split(',').map(str::to_owned).collect()).unwrap_or_default();
        let is_session_only = scope.as_deref() == Some("SESSION ONLY");
        let variable = Variable {
            // NULL means empty, and not unknown.
            value: Some(name::shown(&name::plain(&name), value.unwrap_or_default()))
                .filter(|_| !is_session_only),
            is_by_machine: origin.as_deref() == Some("AUTO") || name::is_by_machine(&name::plain(&name)),
            origin: origin.filter(|_| !is_session_only),
            default,
            printed: None,
            file: file.filter(|file| !file.is_empty()),
            // The words of a switch are not informative.
            words: if kind.as_deref() == Some("BOOLEAN") { Vec::new() } else { words },
            kind,
            min,
            max,
            block: block.filter(|block| !matches!(block.as_str(), "0" | "1")),
            is_variable: true,
            is_fixed: fixed.as_deref() == Some("YES"),
            option: argument.as_deref().and_then(argument_of),
            deprecated: comment.as_deref().and_then(name::deprecation),
            ignored: None,
        };
        variables.insert(name::plain(&name), variable);
    }
    Ok(variables)
}

fn argument_of(word: &str) -> Option<Argument> {
    match word {
        "NONE" => Some(Argument::None),
        "OPTIONAL" => Some(Argument::Optional),
        "REQUIRED" => Some(Argument::Required),
        _ => None,
    }
}

fn shown(session: &mut Session) -> Result<BTreeMap<String, Variable>, Error> {
    let mut variables = BTreeMap::new();
    for (name, value) in crate::pairs(session, "SHOW GLOBAL VARIABLES")? {
        let name = name::plain(&name);
        let is_by_machine = name::is_by_machine(&name);
        let value = Some(name::shown(&name, value));
        variables.insert(name, Variable { value, is_by_machine, is_variable: true, ..Variable::default() });
    }
    Ok(variables)
}

/// Sets each variable of a disposable server to its current value. Returns the server's messages about
/// deprecated ones.
///
/// # Errors
///
/// Errors of the session, except for variables that can't be set.
pub fn deprecations(session: &mut Session, snapshot: &Snapshot) -> Result<BTreeMap<String, String>, Error> {
    let mut found = BTreeMap::new();
    for (name, variable) in &snapshot.variables {
        if !variable.is_variable || variable.is_fixed {
            continue;
        }
        match session.execute(&format!("SET GLOBAL {name} = @@GLOBAL.{name}")) {
            Ok(done) if done.warnings > 0 => {
                // "'@@x' is deprecated and will be removed in a future release. Please use '@@y' instead"
                let told = session.warnings()?.into_iter().find(|warning| warning.code == 1287);
                if let Some(told) = told {
                    let text = told.message.trim_start_matches(&format!("'@@{name}' ")).to_owned();
                    found.insert(name.clone(), text);
                }
            }
            Ok(_) | Err(Error::Sql { .. } | Error::Privilege { .. } | Error::ReadOnly { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
