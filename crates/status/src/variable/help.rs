//! Reads the output of `mariadbd --no-defaults --verbose --help`: every option with its argument, and the
//! compiled-in values.

use super::{Argument, Malformed, Snapshot, Variable};

/// The beginning of the second part.
const VALUES: &str = "Variables (--variable-name=value)";
const GROUPS: &str = "The following groups are read: ";
/// Some versions print this for an empty value, others print nothing.
const NOTHING: &str = "(No default value)";

/// A reader for the output of a server's program.
#[derive(Debug)]
pub struct Help;

impl Help {
    /// Reads the text.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when it is not the help of a server.
    pub fn read(text: &str) -> Result<Snapshot, Malformed> {
        let missing = |what: &str| Malformed {
            what: format!("this is not what a server prints for --verbose --help: {what} is missing"),
        };
        let (options, values) = text.split_once(VALUES).ok_or_else(|| missing("the table of values"))?;
        let (title, version) = version(options).ok_or_else(|| missing("the version"))?;
        let groups = options.lines().find_map(|line| line.strip_prefix(GROUPS));
        let groups = groups.ok_or_else(|| missing("the list of groups"))?;
        let mut snapshot = Snapshot {
            title,
            version,
            groups: groups.split_whitespace().map(str::to_owned).collect(),
            has_options: true,
            has_variables: false,
            variables: std::collections::BTreeMap::new(),
        };
        for (name, option) in read_options(options) {
            snapshot.variables.insert(name, option);
        }
        for (name, default) in read_values(values) {
            // The others are constants, such as version_compile_os, which can't be set.
            if let Some(variable) = snapshot.variables.get_mut(&name) {
                if matches!(default.as_str(), "TRUE" | "FALSE") {
                    variable.kind = Some("BOOLEAN".to_owned());
                }
                variable.default = Some(default);
            }
        }
        Ok(snapshot)
    }
}

/// `mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`
fn version(text: &str) -> Option<(String, String)> {
    let line = text.lines().find(|line| line.contains(" Ver "))?;
    let version = line.split_once(" Ver ")?.1.split_whitespace().next()?;
    Some(super::name::version(version, line.contains("MariaDB")))
}

/// The options, with their descriptions.
fn read_options(text: &str) -> Vec<(String, Variable)> {
    let mut found: Vec<(String, Variable, String)> = Vec::new();
    for line in text.lines() {
        if let Some((name, option, comment)) = head(line) {
            found.push((name, option, comment.to_owned()));
        } else if let (Some((_, _, comment)), true) = (found.last_mut(), line.starts_with("          ")) {
            comment.push(' ');
            comment.push_str(line.trim());
        }
    }
    found
        .into_iter()
        .map(|(name, mut option, comment)| {
            option.deprecated = super::name::deprecation(&comment);
            (name, option)
        })
        .collect()
}

/// `  -a, --ansi          Use ANSI SQL ...`: the name, and the text after it on this line.
fn head(line: &str) -> Option<(String, Variable, &str)> {
    let rest = line.strip_prefix("  ")?;
    let rest = match rest.strip_prefix('-').and_then(|rest| rest.split_once(", --")) {
        Some((short, rest)) if short.chars().count() == 1 => rest,
        _ => rest.strip_prefix("--")?,
    };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    if name.is_empty() {
        return None;
    }
    let (spec, comment) = rest.split_once(' ').unwrap_or((rest, ""));
    let argument = match spec.as_bytes().first() {
        Some(b'[') => Argument::Optional,
        Some(b'=') => Argument::Required,
        // A switch accepts a value too.
        _ => Argument::None,
    };
    let option = Variable { option: Some(argument), ..Variable::default() };
    Some((super::name::plain(name), option, comment.trim()))
}

/// The pairs of the table, whose first column has a fixed width.
fn read_values(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines();
    let Some(rule) = lines.find(|line| line.starts_with("----")) else { return Vec::new() };
    let width = rule.find(' ').unwrap_or(rule.len());
    let table = lines.take_while(|line| !line.is_empty());
    table
        .map(|line| {
            let end = line.find(' ').unwrap_or(line.len()).max(width);
            let (name, value) = line.split_at_checked(end).unwrap_or((line, ""));
            let value = Some(value.trim()).filter(|value| *value != NOTHING).unwrap_or_default();
            (super::name::plain(name.trim()), value.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "mariadbd  Ver 11.8.6-MariaDB-0+deb13u1 for debian-linux-gnu on x86_64 (Debian)
The following groups are read: mysqld server mysqld-11.8 mariadb
The following options may be given as the first argument:
--no-defaults             Don't read default options from any option file.

  -a, --ansi          Use ANSI SQL syntax instead of MySQL syntax.
  --alter-algorithm[=name] 
                      Specify the algorithm. One of:
                      DEFAULT, COPY
  --old-mode=name     Set this, --sql-mode, or nothing.
  --table-cache=#     Deprecated; use --table-open-cache instead.
  --symbolic-links    Enable symbolic link support.
                      (Defaults to on; use --skip-symbolic-links to disable.)

Variables (--variable-name=value)
and boolean options {FALSE|TRUE}                  Value (after reading options)
------------------------------------------------- -----------------------------
alter-algorithm                                   DEFAULT
init-file                                         (No default value)
symbolic-links                                    TRUE
table-cache                                       2000
version-compile-os                                linux

To see what variables a running server is using, type
";

    #[test]
    fn options_and_values_are_read() {
        let snapshot = Help::read(TEXT).unwrap();
        assert_eq!(snapshot.version, "mariadb-11.8.6");
        assert_eq!(snapshot.groups, ["mysqld", "server", "mysqld-11.8", "mariadb"]);
        let names: Vec<_> = snapshot.variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["alter_algorithm", "ansi", "old_mode", "symbolic_links", "table_cache"]);
        let get = |name: &str| snapshot.variables[name].clone();
        assert_eq!(get("ansi").option, Some(Argument::None));
        assert_eq!(get("alter_algorithm").option, Some(Argument::Optional));
        assert_eq!(get("alter_algorithm").default.as_deref(), Some("DEFAULT"));
        assert_eq!(get("alter_algorithm").deprecated, None);
        assert!(get("symbolic_links").is_switch() && !get("table_cache").is_switch());
        assert_eq!(get("table_cache").option, Some(Argument::Required));
        assert!(get("table_cache").deprecated.unwrap().contains("--table-open-cache"));
    }

    #[test]
    fn another_program_is_refused() {
        let said = Help::read("mysqldump  Ver 10.19 Distrib 10.11\n").unwrap_err().to_string();
        assert!(said.contains("--verbose --help"), "{said}");
    }
}
