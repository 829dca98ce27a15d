//! Finds the option that a name in an option file means, like `my_getopt` of the servers, with prefixes and
//! abbreviations.

use ::server::OptionLine;

use super::{Snapshot, Variable};

/// A prefix of an option's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// `loose-`: no error if the option does not exist.
    Loose,
    /// `skip-` and `disable-`: off.
    Off,
    /// `enable-`: on.
    On,
    /// `maximum-`: an upper limit for sessions.
    Maximum,
    /// `autosize-` of MariaDB: the server chooses.
    Auto,
}

const PREFIXES: [(&str, Prefix); 6] = [
    ("skip_", Prefix::Off),
    ("disable_", Prefix::Off),
    ("enable_", Prefix::On),
    ("maximum_", Prefix::Maximum),
    ("loose_", Prefix::Loose),
    ("autoset_", Prefix::Auto),
];

/// The meaning of a name.
#[derive(Debug, PartialEq)]
pub enum Meaning<'a> {
    /// This option.
    Option {
        /// Its full name.
        name: &'a str,
        /// What is known about it.
        variable: &'a Variable,
        /// Its prefixes.
        prefixes: Vec<Prefix>,
        /// Whether the name is abbreviated.
        is_abbreviated: bool,
    },
    /// Several options begin like this.
    Ambiguous {
        /// Their names.
        names: Vec<&'a str>,
    },
    /// There is no such option.
    Unknown {
        /// Whether the server continues.
        is_loose: bool,
    },
}

/// Whether a server reads the group of a line.
#[must_use]
pub fn is_read(snapshot: &Snapshot, line: &OptionLine) -> bool {
    snapshot.groups.iter().any(|group| group.eq_ignore_ascii_case(&line.group))
}

/// Finds the option that a name in an option file means.
#[must_use]
pub fn resolve<'a>(snapshot: &'a Snapshot, written: &str) -> Meaning<'a> {
    let written = super::name::plain(written);
    let (_, mut rest) = structured(&written);
    let mut prefixes = Vec::new();
    loop {
        match find(snapshot, rest).as_slice() {
            [] => {}
            [(name, variable)] => {
                let is_abbreviated = *name != rest;
                return Meaning::Option { name, variable, prefixes, is_abbreviated };
            }
            several => {
                let names = several.iter().map(|(name, _)| *name).collect();
                return Meaning::Ambiguous { names };
            }
        }
        let next = PREFIXES.iter().find_map(|(word, prefix)| Some((rest.strip_prefix(word)?, *prefix)));
        let Some((after, prefix)) = next else {
            return Meaning::Unknown { is_loose: prefixes.contains(&Prefix::Loose) };
        };
        prefixes.push(prefix);
        rest = after;
    }
}

/// What is before the point of a name, and what is behind it: `hot.key_buffer_size` is that variable of the
/// key cache `hot`. Before the names of other options a server ignores it.
fn structured(written: &str) -> (Option<&str>, &str) {
    match written.split_once('.') {
        Some((cache, name)) if !cache.is_empty() && !name.is_empty() => (Some(cache), name),
        _ => (None, written),
    }
}

/// The key cache that a line for this option is about, if it is not the usual one, which the variables show.
pub(super) fn cache<'a>(written: &'a str, option: &str) -> Option<&'a str> {
    let is_structured = option == "key_buffer_size" || option.starts_with("key_cache_");
    structured(written).0.filter(|cache| is_structured && !cache.eq_ignore_ascii_case("default"))
}

/// A name as it is written, and without its first prefix, its first two and so on.
pub(super) fn without_prefixes(written: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(written), |name| PREFIXES.iter().find_map(|(word, _)| name.strip_prefix(word)))
}

/// The option with this name, or else all options that begin with it, if the server takes abbreviations.
fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Vec<(&'a str, &'a Variable)> {
    let is_option = |variable: &Variable| variable.option.is_some() || !snapshot.has_options;
    if let Some((whole, variable)) = snapshot.variables.get_key_value(name)
        && is_option(variable)
    {
        return vec![(whole, variable)];
    }
    if name.is_empty() || !snapshot.takes_abbreviations() {
        return Vec::new();
    }
    let from = snapshot.variables.range(name.to_owned()..);
    let begin = from.take_while(|(whole, _)| whole.starts_with(name));
    begin
        .filter(|(_, variable)| is_option(variable))
        .map(|(whole, variable)| (whole.as_str(), variable))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Argument;
    use super::*;

    fn snapshot() -> Snapshot {
        let mut snapshot =
            Snapshot::read("remora variables 1\ntitle\tx\nversion\tmariadb-1.2.3\nhas\toptions\n").unwrap();
        for name in ["max_connections", "max_connect_errors", "autocommit", "skip_networking", "version_only"]
        {
            let option = (name != "version_only").then_some(Argument::Required);
            snapshot.variables.insert(name.to_owned(), Variable { option, ..Variable::default() });
        }
        snapshot
    }

    #[test]
    fn names_mean_what_the_server_takes_them_for() {
        let snapshot = snapshot();
        let meaning = |written| match resolve(&snapshot, written) {
            Meaning::Option { name, prefixes, is_abbreviated, .. } => {
                format!("{name} {prefixes:?}{}", if is_abbreviated { " short" } else { "" })
            }
            Meaning::Ambiguous { names } => format!("{} names", names.len()),
            Meaning::Unknown { is_loose } => if is_loose { "loose" } else { "unknown" }.to_owned(),
        };
        for (written, expected) in [
            ("max-connections", "max_connections []"),
            ("Max_Connections", "max_connections []"),
            ("max-connection", "max_connections [] short"),
            ("max-connect", "2 names"),
            ("skip-autocommit", "autocommit [Off]"),
            ("loose-skip_autocommit", "autocommit [Loose, Off]"),
            ("enable-autocommit", "autocommit [On]"),
            ("skip-networking", "skip_networking []"),
            ("maximum-max-connections", "max_connections [Maximum]"),
            ("loose-foo", "loose"),
            ("foo", "unknown"),
            ("skip-foo", "unknown"),
            ("version_only", "unknown"),
            ("loose-", "loose"),
            ("hot.max-connections", "max_connections []"),
            ("hot.loose-max-connections", "max_connections [Loose]"),
            ("loose-hot.foo", "unknown"),
            ("hot.foo", "unknown"),
            (".autocommit", "unknown"),
            ("autocommit.", "unknown"),
            ("a.b.autocommit", "unknown"),
        ] {
            assert_eq!(meaning(written), expected, "{written}");
        }
    }
}
