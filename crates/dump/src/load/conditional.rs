//! What MySQL writes into definitions for its newer versions only, such as `/*!80023 INVISIBLE */`. MariaDB
//! takes it for a comment, so it would be lost and nobody told. And general tablespaces, which are not
//! dumped.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use server::catalogue::Kind;
use server::definition::{closing, quoted, without_lines};
use server::{Flavour, Session};

use super::LoadSummary;
use crate::manifest::Manifest;

/// The versions whose text MariaDB skips: they are newer than its last common ancestor with MySQL.
const SKIPPED: RangeInclusive<u32> = 50_700..=99_999;

/// Every server reads this one.
const TABLESPACE: &str = " /*!50100 TABLESPACE ";

/// Before the number of a column's spatial reference system.
const SRID: &str = "SRID ";

/// Rewrites definitions for the target, and adds what was changed and left out to the summary.
pub(super) fn apply(session: &mut Session, manifest: &mut Manifest, summary: &mut LoadSummary) {
    let spaces = tablespaces(session, manifest);
    let is_mariadb = session.about.flavour == Flavour::MariaDb;
    let has_invisible = !is_mariadb && session.about.version.major >= 8;
    for entry in &mut manifest.tables {
        let (name, definition) = (&entry.table.name, &mut entry.table.definition);
        if let Some((range, space)) = tablespace(definition)
            && spaces.as_ref().is_some_and(|spaces| !spaces.contains(&space))
        {
            definition.replace_range(range, "");
            summary.omitted.push(format!("table {name}: the tablespace {space}; it gets a file of its own"));
        }
        if has_invisible {
            let changed = for_mysql(definition);
            summary.rewrites.extend(changed.iter().map(|what| format!("table {name}: {what}")));
        }
        if is_mariadb {
            let for_mariadb = for_mariadb(definition);
            *definition = for_mariadb.text;
            summary.rewrites.extend(for_mariadb.changed.iter().map(|what| format!("table {name}: {what}")));
            summary.omitted.extend(for_mariadb.lost.iter().map(|what| format!("table {name}: {what}")));
        }
    }
    for object in manifest.objects.iter_mut().filter(|object| is_mariadb && object.kind == Kind::Database) {
        let title = object.title();
        for statement in &mut object.statements {
            let for_mariadb = for_mariadb(statement);
            *statement = for_mariadb.text;
            summary.omitted.extend(for_mariadb.lost.iter().map(|what| format!("{title}: {what}")));
        }
    }
}

/// The tablespaces of the target, if tables of the dump need any; `None` if that can't be known.
fn tablespaces(session: &mut Session, manifest: &Manifest) -> Option<BTreeSet<String>> {
    let is_needed = manifest.tables.iter().any(|entry| tablespace(&entry.table.definition).is_some());
    if !is_needed || session.about.flavour == Flavour::MariaDb {
        return Some(BTreeSet::new());
    }
    let names = session.strings("SELECT NAME FROM information_schema.INNODB_TABLESPACES").ok()?;
    Some(names.into_iter().flatten().flatten().collect())
}

/// The numbers of the spatial reference systems of a table's columns.
pub(super) fn reference_systems(definition: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for mut rest in definition.lines() {
        while let Some((range, what)) = conditional(rest) {
            numbers.extend(what.strip_prefix(SRID).and_then(|number| number.parse::<u32>().ok()));
            rest = &rest[range.end..];
        }
    }
    numbers
}

/// Where a table's options name its tablespace, and which it is: it is the first of them.
fn tablespace(definition: &str) -> Option<(Range<usize>, String)> {
    let from = definition.rfind("\n)")? + "\n)".len();
    let rest = definition[from..].strip_prefix(TABLESPACE)?;
    let name = quoted(rest)?;
    let end = definition.len() - rest.len() + rest.find("*/")? + 2;
    Some((from..end, name.trim_matches('`').to_owned()))
}

/// A definition as MariaDB understands it.
#[derive(Default, Debug, PartialEq, Eq)]
struct ForMariaDb {
    text: String,
    /// What MariaDB writes differently.
    changed: Vec<String>,
    /// What it does not have.
    lost: Vec<String>,
}

fn for_mariadb(definition: &str) -> ForMariaDb {
    let mut made = ForMariaDb::default();
    let mut lines: Vec<String> = Vec::new();
    for line in definition.lines() {
        let mut line = line.to_owned();
        while let Some((range, what)) = conditional(&line) {
            let what = what.to_owned();
            let of = named(&line).unwrap_or_default().to_owned();
            let other = match what.as_str() {
                "INVISIBLE" if line.trim_start().starts_with('`') => "INVISIBLE",
                "INVISIBLE" => "IGNORED",
                _ => "",
            };
            let from = if other.is_empty() { line[..range.start].trim_end().len() } else { range.start };
            line.replace_range(from..range.end, other);
            match (what.as_str(), other) {
                ("NOT ENFORCED", _) => {
                    made.lost.push(format!("the check {of}, which is not enforced"));
                    "  ".clone_into(&mut line);
                }
                // Said by a server that encrypts nothing.
                ("DEFAULT ENCRYPTION='N'", _) => {}
                (_, "") => made.lost.push(format!("{what} of {of}")),
                _ => made.changed.push(format!("{of} is {other}")),
            }
        }
        lines.push(line);
    }
    // A line that is gone may have been the last one before the bracket.
    made.text = without_lines(&lines.join("\n"), str::is_empty);
    made
}

/// Replaces MariaDB's word for an index that is not used by MySQL's. Returns what was changed.
fn for_mysql(definition: &mut String) -> Vec<String> {
    let mut changed = Vec::new();
    let lines = definition.lines().map(|line| {
        let (front, comma) = line.strip_suffix(',').map_or((line, ""), |front| (front, ","));
        // A comment would end with a quote.
        let Some(front) = front.strip_suffix(" IGNORED") else { return line.to_owned() };
        changed.push(format!("{} is INVISIBLE", named(line).unwrap_or_default()));
        format!("{front} INVISIBLE{comma}")
    });
    *definition = lines.collect::<Vec<_>>().join("\n");
    changed
}

/// What a line of a definition is about.
fn named(line: &str) -> Option<&str> {
    quoted(&line[line.find('`')?..])
}

/// The first text of a line, outside of quotes, that MariaDB skips because of its version.
fn conditional(line: &str) -> Option<(Range<usize>, &str)> {
    let mut at = 0;
    while let Some(found) = line[at..].find(['`', '\'', '"', '/']) {
        at += found;
        let rest = &line[at..];
        let Some(inner) = rest.strip_prefix("/*!") else {
            at += if rest.starts_with('/') { 1 } else { closing(rest, rest.chars().next()?) };
            continue;
        };
        let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        let end = inner.find("*/")?;
        if inner[..digits].parse().is_ok_and(|version| SKIPPED.contains(&version)) {
            return Some((at..at + "/*!".len() + end + "*/".len(), inner[digits..end].trim()));
        }
        at += "/*!".len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{for_mariadb, for_mysql, reference_systems, tablespace};

    #[test]
    fn what_mariadb_would_skip_is_rewritten_or_named() {
        let definition = "CREATE TABLE `t` (\n  `id` int NOT NULL COMMENT '/*!80023 INVISIBLE */',\n  `h` int DEFAULT '1' /*!80023 INVISIBLE */,\n  \
                          `g` point NOT NULL /*!80003 SRID 4326 */,\n  KEY `k` (`id`) /*!80000 INVISIBLE */,\n  \
                          CONSTRAINT `c0` CHECK ((`id` > 0)),\n  \
                          CONSTRAINT `c1` CHECK ((`h` > 0)) /*!80016 NOT ENFORCED */\n) ENGINE=InnoDB /*!80016 DEFAULT ENCRYPTION='N' */";
        let made = for_mariadb(definition);
        let wanted = "CREATE TABLE `t` (\n  `id` int NOT NULL COMMENT '/*!80023 INVISIBLE */',\n  `h` int DEFAULT '1' INVISIBLE,\n  \
                      `g` point NOT NULL,\n  KEY `k` (`id`) IGNORED,\n  \
                      CONSTRAINT `c0` CHECK ((`id` > 0))\n) ENGINE=InnoDB";
        assert_eq!(made.text, wanted);
        assert_eq!(made.changed, ["`h` is INVISIBLE", "`k` is IGNORED"]);
        assert_eq!(made.lost, ["SRID 4326 of `g`", "the check `c1`, which is not enforced"]);
        // All servers read these.
        let old = "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */";
        assert_eq!(for_mariadb(old).text, old);
    }

    #[test]
    fn an_index_that_mariadb_ignores_is_invisible() {
        let mut definition =
            "CREATE TABLE `t` (\n  `a` int COMMENT ' IGNORED',\n  KEY `k` (`a`) IGNORED,\n  \
                              KEY `l` (`a`) IGNORED\n) ENGINE=InnoDB"
                .to_owned();
        let wanted = definition.replace(") IGNORED", ") INVISIBLE");
        assert_eq!(for_mysql(&mut definition), ["`k` is INVISIBLE", "`l` is INVISIBLE"]);
        assert_eq!(definition, wanted);
    }

    #[test]
    fn a_tablespace_is_found_among_the_options() {
        let table =
            "CREATE TABLE `t` (\n  `a` int DEFAULT NULL\n) /*!50100 TABLESPACE `ts1` */ ENGINE=InnoDB";
        let (range, name) = tablespace(table).unwrap();
        assert_eq!((&table[range], name.as_str()), (" /*!50100 TABLESPACE `ts1` */", "ts1"));
        assert_eq!(tablespace("CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB"), None);
        let comment =
            "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB COMMENT=' /*!50100 TABLESPACE `ts1` */'";
        assert_eq!(tablespace(comment), None);
    }

    #[test]
    fn reference_systems_are_not_looked_for_in_comments() {
        let table = "CREATE TABLE `t` (\n  `a` point /*!80003 SRID 4326 */ COMMENT '/*!80003 SRID 7 */',\n  \
                     `b` point /*!80003 SRID 0 */ /*!80023 INVISIBLE */\n) ENGINE=InnoDB";
        assert_eq!(reference_systems(table), [4326, 0]);
    }
}
