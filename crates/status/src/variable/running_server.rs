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
    let variables = if is_mariadb {
        described(session.strings(STATEMENT)?)
    } else {
        shown(crate::pairs(session, "SHOW GLOBAL VARIABLES")?)
    };
    Ok(Snapshot { title, version, groups: Vec::new(), has_options: false, has_variables: true, variables })
}

/// The rows of [`STATEMENT`].
fn described(rows: Vec<Vec<Option<String>>>) -> BTreeMap<String, Variable> {
    let mut variables = BTreeMap::new();
    for row in rows {
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
    variables
}

fn argument_of(word: &str) -> Option<Argument> {
    match word {
        "NONE" => Some(Argument::None),
        "OPTIONAL" => Some(Argument::Optional),
        "REQUIRED" => Some(Argument::Required),
        _ => None,
    }
}

/// Names and values alone.
fn shown(pairs: Vec<(String, String)>) -> BTreeMap<String, Variable> {
    let pairs = pairs.into_iter().map(|(name, value)| {
        let name = name::plain(&name);
        let is_by_machine = name::is_by_machine(&name);
        let value = Some(name::shown(&name, value));
        (name, Variable { value, is_by_machine, is_variable: true, ..Variable::default() })
    });
    pairs.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of [`STATEMENT`] as text of a snapshot; `-` is NULL.
    fn read(row: &[&str]) -> String {
        let cell = |text: &&str| Some((*text).to_owned()).filter(|text| text != "-");
        let variables = described(vec![row.iter().map(cell).collect()]);
        lines(variables)
    }

    fn lines(variables: BTreeMap<String, Variable>) -> String {
        let mut snapshot = Snapshot::read("remora variables 1\ntitle\tx\nversion\tx\n").unwrap();
        snapshot.variables = variables;
        snapshot.write().split_once("\n\n").unwrap().1.to_owned()
    }

    #[test]
    fn mariadb_describes_its_variables() {
        let row = [
            "MAX_CONNECTIONS",
            "151",
            "150",
            "CONFIG",
            "BIGINT UNSIGNED",
            "10",
            "100000",
            "1",
            "-",
            "NO",
            "REQUIRED",
            "/etc/my.cnf",
            "Deprecated, use another",
            "GLOBAL",
        ];
        let expected = "max_connections\tdefault=150\tvalue=151\torigin=CONFIG\tfile=/etc/my.cnf\ttype=BIGINT UNSIGNED\t\
                        min=10\tmax=100000\toption=required\tdeprecated=Deprecated, use another\tvariable\n";
        assert_eq!(read(&row), expected);
        // NULL is nothing, passwords are not kept, and what is empty is not written.
        let row = [
            "Wsrep-Sst_Auth",
            "x",
            "-",
            "AUTO",
            "",
            "-",
            "-",
            "1024",
            "A,B",
            "YES",
            "OPTIONAL",
            "",
            "",
            "GLOBAL",
        ];
        let expected = "wsrep_sst_auth\tvalue=***\torigin=AUTO\tblock=1024\twords=A,B\toption=optional\tvariable\tfixed\tmachine\n";
        assert_eq!(read(&row), expected);
        let row = [
            "back_log", "-", "-", "SQL", "BOOLEAN", "-", "-", "0", "OFF,ON", "NO", "NONE", "-", "-", "GLOBAL",
        ];
        assert_eq!(
            read(&row),
            "back_log\tvalue=\torigin=SQL\ttype=BOOLEAN\toption=none\tvariable\tmachine\n"
        );
        // What only sessions have is no setting of the server.
        let row =
            ["timestamp", "5", "0", "SQL", "DOUBLE", "-", "-", "-", "-", "NO", "-", "-", "-", "SESSION ONLY"];
        assert_eq!(read(&row), "timestamp\tdefault=0\ttype=DOUBLE\tvariable\n");
        assert_eq!(read(&row[..13]), "");
        let pairs = [("Max-Connections", "151"), ("report_password", "x"), ("back_log", "80")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let expected = "back_log\tvalue=80\tvariable\tmachine\nmax_connections\tvalue=151\tvariable\n\
                        report_password\tvalue=***\tvariable\n";
        assert_eq!(lines(shown(pairs)), expected);
    }

    #[test]
    fn an_argument_has_a_word() {
        let known = ["NONE", "OPTIONAL", "REQUIRED"].map(argument_of);
        assert_eq!(known, [Argument::None, Argument::Optional, Argument::Required].map(Some));
        assert_eq!(argument_of(""), None);
    }
}
