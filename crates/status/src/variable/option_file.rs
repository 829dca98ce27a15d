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
        let mut variable = asked(setting.line, &setting.name, setting.value);
        // All values count, and the last line tells the place.
        if let Some(earlier) = variables.get(&setting.name).filter(|_| name::is_list(&setting.name)) {
            let values: [&Option<String>; 2] = [&earlier.value, &variable.value];
            variable.value = Some(values.map(|value| value.clone().unwrap_or_default()).join(","));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_in_groups_that_the_server_reads_count() {
        let like = "remora variables 1\ntitle\tx\nversion\tmariadb-1.2.3\ngroups\tmysqld\nhas\toptions\n\n\
                    autocommit\ttype=BOOLEAN\toption=optional\ninnodb_file_format\toption=optional\tignored=was removed\n\
                    max_connections\toption=required\nreplicate_do_db\toption=required\n";
        let like = Snapshot::read(like).unwrap();
        let line = |line, group: &str, name: &str, value: Option<&str>| OptionLine {
            file: "/my.cnf".into(),
            line,
            group: group.to_owned(),
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        let lines = [
            line(1, "mysqld", "max-connections", Some("5")),
            line(2, "mysqld", "max_connection", Some("6")),
            line(3, "mysqld", "skip-autocommit", None),
            line(4, "mysqld", "Some-Plugin", Some("7")),
            line(5, "mysqld", "innodb-file-format", Some("Antelope")),
            line(6, "mysqldump", "quick", None),
            line(7, "mysqld", "some-password", Some("8")),
            line(8, "mysqld", "replicate-do-db", Some("x")),
            line(9, "mysqld", "replicate-do-db", Some("y")),
        ];
        let read = read_file("my.cnf", &lines, &like);
        let asked: Vec<_> = read
            .variables
            .iter()
            .map(|(name, asked)| {
                (name.as_str(), asked.value.as_deref().unwrap(), asked.file.as_deref().unwrap())
            })
            .collect();
        let expected = [
            ("autocommit", "0", "/my.cnf:3"),
            ("innodb_file_format", "Antelope", "/my.cnf:5"),
            ("max_connections", "6", "/my.cnf:2"),
            ("replicate_do_db", "x,y", "/my.cnf:9"),
            ("some_password", "***", "/my.cnf:7"),
            ("some_plugin", "7", "/my.cnf:4"),
        ];
        assert_eq!(asked, expected);
        assert!(
            read.is_partial()
                && read.variables.values().all(|asked| asked.origin.as_deref() == Some("CONFIG"))
        );
    }
}
