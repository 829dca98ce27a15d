//! Snapshots as text: a header, then a line for each variable, with fields separated by tabs.
//!
//! People read it in a `diff` as well, so defaults come first and unknown fields are left out.
//! `docs/formats/variables.md` describes it.

use std::fmt::Write as _;

use super::{Argument, Malformed, Snapshot, Variable};

const MAGIC: &str = "remora variables 1";

impl Snapshot {
    /// Whether a text begins like a snapshot.
    #[must_use]
    pub fn is_snapshot(text: &str) -> bool {
        text.starts_with("remora variables ")
    }

    /// The snapshot as text.
    #[must_use]
    pub fn write(&self) -> String {
        let mut out = format!("{MAGIC}\ntitle\t{}\nversion\t{}\n", escape(&self.title), self.version);
        let mut head = |name: &str, value: &str| {
            if !value.is_empty() {
                // Writing to a String can't fail.
                writeln!(out, "{name}\t{value}").ok();
            }
        };
        head("groups", &self.groups.join(" "));
        let has = [(self.has_options, "options"), (self.has_variables, "variables")];
        head("has", &has.iter().filter(|(has, _)| *has).map(|(_, what)| *what).collect::<Vec<_>>().join(" "));
        head("count", &self.variables.len().to_string());
        out.push('\n');
        for (name, variable) in &self.variables {
            out.push_str(name);
            variable.write(&mut out);
            out.push('\n');
        }
        out
    }

    /// Reads what [`Snapshot::write`] wrote.
    ///
    /// # Errors
    ///
    /// [`Malformed`] with the line, when it has another format or is damaged.
    pub fn read(text: &str) -> Result<Snapshot, Malformed> {
        let mut lines = (1..).zip(text.lines());
        let wrong = |line: u32, why: &str| Malformed { what: format!("line {line}: {why}") };
        match lines.next() {
            Some((_, MAGIC)) => {}
            _ => return Err(wrong(1, &format!("a snapshot of variables begins with {MAGIC:?}"))),
        }
        let mut snapshot = Snapshot {
            title: String::new(),
            version: String::new(),
            groups: Vec::new(),
            has_options: false,
            has_variables: false,
            variables: std::collections::BTreeMap::new(),
        };
        // A copy that was cut off would look like a server without the rest.
        let mut count = None;
        if !text.ends_with('\n') {
            let last = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
            return Err(wrong(last, "its end is missing; the file was cut off"));
        }
        for (at, line) in lines.by_ref().take_while(|(_, line)| !line.is_empty()) {
            let (name, value) = line.split_once('\t').ok_or_else(|| wrong(at, "a tab is missing"))?;
            match name {
                "title" => snapshot.title = unescape(value),
                "version" => value.clone_into(&mut snapshot.version),
                "groups" => snapshot.groups = value.split(' ').map(str::to_owned).collect(),
                "has" => {
                    snapshot.has_options = value.split(' ').any(|what| what == "options");
                    snapshot.has_variables = value.split(' ').any(|what| what == "variables");
                }
                "count" => count = Some(value.parse::<usize>().map_err(|_| wrong(at, "that is no count"))?),
                _ => return Err(wrong(at, &format!("{name:?} is not known; a newer remora wrote this"))),
            }
        }
        for (at, line) in lines {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap_or_default();
            let mut variable = Variable::default();
            for field in fields {
                variable.read(field).map_err(|why| wrong(at, &why))?;
            }
            if name.is_empty() || snapshot.variables.insert(name.to_owned(), variable).is_some() {
                return Err(wrong(at, &format!("{name:?} is there twice, or has no name")));
            }
        }
        let found = snapshot.variables.len();
        match count.filter(|count| *count != found) {
            Some(count) => Err(Malformed {
                what: format!(
                    "{found} variables follow, and the head says {count}: the file was cut off, or edited"
                ),
            }),
            None => Ok(snapshot),
        }
    }
}

impl Variable {
    fn write(&self, out: &mut String) {
        let words = (!self.words.is_empty()).then(|| self.words.join(","));
        let argument = self.option.map(|argument| {
            match argument {
                Argument::None => "none",
                Argument::Optional => "optional",
                Argument::Required => "required",
            }
            .to_owned()
        });
        let fields: [(&str, &Option<String>); 13] = [
            ("default", &self.default),
            ("printed", &self.printed),
            ("value", &self.value),
            ("origin", &self.origin),
            ("file", &self.file),
            ("type", &self.kind),
            ("min", &self.min),
            ("max", &self.max),
            ("block", &self.block),
            ("words", &words),
            ("option", &argument),
            ("deprecated", &self.deprecated),
            ("ignored", &self.ignored),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                write!(out, "\t{name}={}", escape(value)).ok();
            }
        }
        for (mark, name) in
            [(self.is_variable, "variable"), (self.is_fixed, "fixed"), (self.is_by_machine, "machine")]
        {
            if mark {
                out.push('\t');
                out.push_str(name);
            }
        }
    }

    fn read(&mut self, field: &str) -> Result<(), String> {
        match field {
            "variable" => self.is_variable = true,
            "fixed" => self.is_fixed = true,
            "machine" => self.is_by_machine = true,
            _ => {
                let (name, value) = field.split_once('=').ok_or_else(|| format!("{field:?} is not known"))?;
                let value = unescape(value);
                match name {
                    "default" => self.default = Some(value),
                    "printed" => self.printed = Some(value),
                    "value" => self.value = Some(value),
                    "origin" => self.origin = Some(value),
                    "file" => self.file = Some(value),
                    "type" => self.kind = Some(value),
                    "min" => self.min = Some(value),
                    "max" => self.max = Some(value),
                    "block" => self.block = Some(value),
                    "words" => self.words = value.split(',').map(str::to_owned).collect(),
                    "option" => {
                        self.option = Some(match value.as_str() {
                            "none" => Argument::None,
                            "optional" => Argument::Optional,
                            "required" => Argument::Required,
                            _ => return Err(format!("{value:?} is no kind of argument")),
                        });
                    }
                    "deprecated" => self.deprecated = Some(value),
                    "ignored" => self.ignored = Some(value),
                    _ => return Err(format!("{name:?} is not known; a newer remora wrote this")),
                }
            }
        }
        Ok(())
    }
}

fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\t', "\\t");
    text.replace('\n', "\\n").replace('\r', "\\r")
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            (c, false) => c,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_snapshot_is_read_back() {
        let full = Variable {
            default: Some(String::new()),
            printed: Some("x".into()),
            value: Some("a\tb\nc\\n".into()),
            origin: Some("CONFIG".into()),
            file: Some("/etc/my.cnf".into()),
            kind: Some("BIGINT UNSIGNED".into()),
            min: Some("0".into()),
            max: Some("18446744073709551615".into()),
            block: Some("1024".into()),
            words: vec!["OFF".into(), "ON".into()],
            is_variable: true,
            is_fixed: true,
            option: Some(Argument::Optional),
            deprecated: Some("Use x = y instead".into()),
            ignored: Some("was removed".into()),
            is_by_machine: true,
        };
        let variables = [("a_b".to_owned(), full), ("c".to_owned(), Variable::default())];
        let snapshot = Snapshot {
            title: "MariaDB 10.11.19".into(),
            version: "mariadb-10.11.19".into(),
            groups: vec!["mysqld".into(), "server".into()],
            has_options: true,
            has_variables: false,
            variables: variables.into(),
        };
        let text = snapshot.write();
        assert!(Snapshot::is_snapshot(&text));
        assert_eq!(Snapshot::read(&text).unwrap(), snapshot);
        // Each mark and each kind of argument comes back alone, and a text as it was.
        for option in [Argument::None, Argument::Optional, Argument::Required] {
            for [is_variable, is_fixed, is_by_machine] in
                [[true, false, false], [false, true, false], [false, false, true]]
            {
                let default = Some("\\ \\t \t\r\n \\".to_owned());
                let one = Variable {
                    option: Some(option),
                    is_variable,
                    is_fixed,
                    is_by_machine,
                    default,
                    ..Variable::default()
                };
                let variables = [("a".to_owned(), one)].into();
                let snapshot =
                    Snapshot { has_options: false, has_variables: is_fixed, variables, ..snapshot.clone() };
                assert_eq!(Snapshot::read(&snapshot.write()).unwrap(), snapshot);
            }
        }
        assert_eq!(unescape("a\\"), "a\\");
        assert_eq!(snapshot.series(), "mariadb-10.11");
    }

    #[test]
    fn a_damaged_snapshot_is_refused_with_its_line() {
        let wrong = |text: &str| Snapshot::read(text).unwrap_err().to_string();
        assert!(wrong("[mysqld]\n").contains("line 1"));
        assert!(wrong("remora variables 2\n").contains("remora variables 1"));
        let head = "remora variables 1\ntitle\tx\nversion\tx-1.2.3\n\n";
        assert!(wrong(&format!("{head}a\tdefault=1\na\tdefault=2\n")).contains("line 6"));
        assert!(wrong(&format!("{head}a\tcolour=red\n")).contains("colour"));
        assert!(wrong(&format!("{head}a\toption=maybe\n")).contains("maybe"));
        assert!(wrong("remora variables 1\nhas\n").contains("line 2"));
        assert!(wrong("remora variables 1\ncolour\tred\n").contains("newer"));
        assert!(wrong(&format!("{head}\tdefault=1\n")).contains("no name"));
        assert!(wrong(&format!("{head}a\tred\n")).contains("red"));
        assert!(wrong(&format!("{head}a\tdefault=1")).contains("line 5: its end is missing"));
        let counted = |count| format!("remora variables 1\ncount\t{count}\n\na\tdefault=1\n");
        assert!(Snapshot::read(&counted("1")).is_ok());
        assert!(wrong(&counted("2")).contains("cut off"));
        assert!(wrong(&counted("x")).contains("line 2"));
        assert!(!Snapshot::is_snapshot("[mysqld]") && Snapshot::is_snapshot("remora variables 2\n"));
    }
}
