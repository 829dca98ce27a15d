//! Interprets a table's definition as `SHOW CREATE TABLE` prints it.

use std::ops::Range;

/// An index that can be built after the rows are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainIndex<'a> {
    /// Its name, quoted.
    pub name: &'a str,
    /// The clause that creates it: ``KEY `name` (`a`,`b`(10)) COMMENT 'c'``.
    pub clause: &'a str,
}

/// The indexes of a definition that nothing depends on. Left out are unique, FULLTEXT and SPATIAL indexes,
/// any index that begins with the AUTO_INCREMENT column, which must always be the first column of some index,
/// and all indexes of a table with foreign keys.
#[must_use]
pub fn plain_indexes(definition: &str) -> Vec<PlainIndex<'_>> {
    let lines = || definition.lines().filter_map(|line| line.strip_prefix("  "));
    if lines().any(|line| line.starts_with("CONSTRAINT ") && line.contains(" FOREIGN KEY ")) {
        return Vec::new();
    }
    let counter: Vec<_> =
        lines().filter(|line| line.contains(" AUTO_INCREMENT")).filter_map(quoted).collect();
    let plain = lines().filter_map(|line| {
        let clause = line.strip_suffix(',').unwrap_or(line);
        let name = quoted(clause.strip_prefix("KEY ")?)?;
        let first = quoted(clause.strip_prefix("KEY ")?.strip_prefix(name)?.strip_prefix(" (")?)?;
        (!counter.contains(&first)).then_some(PlainIndex { name, clause })
    });
    plain.collect()
}

/// The name in backquotes at the beginning of a text, with its quotes.
#[must_use]
pub fn quoted(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('`')?;
    let mut from = 0;
    loop {
        let end = from + inner.get(from..)?.find('`')?;
        if !inner.get(end + 1..)?.starts_with('`') {
            return text.get(..end + 2);
        }
        from = end + 2;
    }
}

/// The columns of a primary key, if it has only whole columns in ascending order.
#[must_use]
pub(crate) fn primary_key(definition: &str) -> Option<Vec<String>> {
    let line = definition.lines().find_map(|line| line.strip_prefix("  PRIMARY KEY ("))?;
    let mut rest = line.strip_suffix(',').unwrap_or(line).strip_suffix(')')?;
    let mut columns = Vec::new();
    loop {
        let name = quoted(rest)?;
        columns.push(name[1..name.len() - 1].replace("``", "`"));
        match &rest[name.len()..] {
            "" => return Some(columns),
            more => rest = more.strip_prefix(',')?,
        }
    }
}

/// A column default that SHOW CREATE TABLE may not show faithfully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AmbiguousDefault {
    /// The column's name, in backquotes.
    pub(crate) column: Range<usize>,
    /// The default, with its quotes.
    pub(crate) value: Range<usize>,
}

/// The defaults of columns that are text with a question mark, in order; not those of ENUM and SET, whose
/// members are shown in the same way.
pub(crate) fn ambiguous_defaults(definition: &str) -> Vec<AmbiguousDefault> {
    const WORD: &str = " DEFAULT '";
    let mut found = Vec::new();
    let mut start = 0;
    for line in definition.split_inclusive('\n') {
        let (from, name) = (start + 2, line.strip_prefix("  ").and_then(quoted));
        start += line.len();
        let Some(name) = name else { continue };
        let rest = &line[2 + name.len()..];
        if [" enum(", " set("].iter().any(|kind| rest.starts_with(kind)) {
            continue;
        }
        // Only in expressions and comments can there be quotes before it, and behind those there is no
        // default.
        let Some(at) = rest.find(WORD).filter(|at| !rest[..*at].contains('\'')) else { continue };
        let value = &rest[at + WORD.len() - 1..];
        let value = &value[..closing(value, '\'')];
        if value.contains('?') {
            let begin = from + name.len() + at + WORD.len() - 1;
            found.push(AmbiguousDefault {
                column: from..from + name.len(),
                value: begin..begin + value.len(),
            });
        }
    }
    found
}

/// A default as the server writes it.
pub(crate) fn default_literal(value: &str) -> String {
    let mut literal = String::from("'");
    for letter in value.chars() {
        match letter {
            '\'' => literal.push_str("''"),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\0' => literal.push_str("\\0"),
            other => literal.push(other),
        }
    }
    literal + "'"
}

/// The names of a table's foreign keys, in backquotes.
#[must_use]
pub fn foreign_keys(definition: &str) -> Vec<&str> {
    let lines = definition.lines().filter_map(|line| line.strip_prefix("  CONSTRAINT "));
    lines.filter(|line| line.contains(" FOREIGN KEY ")).filter_map(quoted).collect()
}

/// A definition without some of the columns and keys, each of which has a line of its own that is given
/// without what indents it.
#[must_use]
pub fn without_lines(definition: &str, is_left_out: impl Fn(&str) -> bool) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for line in definition.split('\n') {
        if line.strip_prefix("  ").is_some_and(&is_left_out) {
            continue;
        }
        // Nothing follows the last of them.
        if let Some(last) = kept.last_mut().filter(|_| line.starts_with(')')) {
            *last = last.strip_suffix(',').unwrap_or(last);
        }
        kept.push(line);
    }
    kept.join("\n")
}

/// The lines of a definition without the counter, sorted, because the order of indexes does not matter. Left
/// out is also what says that a column of times is stored as by MariaDB 5.3: a server makes no such column
/// any more.
#[must_use]
pub fn sorted(definition: &str) -> Vec<String> {
    let definition = without_counter(definition);
    let definition = outside_of_quotes(&definition, |plain| plain.replace(" /* mariadb-5.3 */", ""));
    let mut lines: Vec<_> = definition.lines().map(|line| line.trim_end_matches(',').to_owned()).collect();
    lines.sort();
    lines
}

/// A text in which names in backquotes are in lower case, as a server has them that does not keep their case.
#[must_use]
pub fn folded(text: &str) -> String {
    in_parts(
        text,
        |plain| plain.to_owned(),
        |quoted| match quoted.starts_with('`') {
            true => quoted.to_lowercase(),
            false => quoted.to_owned(),
        },
    )
}

/// A text with everything that is not quoted, by any quotes, put through a function.
fn outside_of_quotes(text: &str, change: impl Fn(&str) -> String) -> String {
    in_parts(text, change, str::to_owned)
}

/// A text with its parts put through functions: those without quotes, and those with them.
fn in_parts(text: &str, plain: impl Fn(&str) -> String, quoted: impl Fn(&str) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['`', '\'', '"']) {
        let (before, from) = rest.split_at(start);
        out.push_str(&plain(before));
        let end = closing(from, from.chars().next().unwrap_or('`'));
        out.push_str(&quoted(&from[..end]));
        rest = &from[end..];
    }
    out + &plain(rest)
}

/// The position after a quoted text and its closing quote.
#[must_use]
pub fn closing(text: &str, quote: char) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && quote != '`' {
            at += 2;
            continue;
        }
        if char::from(bytes[at]) == quote {
            if bytes.get(at + 1) != Some(&bytes[at]) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    text.len()
}

/// A definition with another AUTO_INCREMENT counter.
#[must_use]
pub fn with_counter(definition: &str, value: u64) -> String {
    let bare = without_counter(definition);
    let engine = bare.rfind("\n)").and_then(|at| Some(at + bare[at..].find(" ENGINE=")? + 1));
    let Some(from) = engine else { return bare };
    let to = bare[from..].find([' ', '\n']).map_or(bare.len(), |end| from + end);
    format!("{}{COUNTER}{value}{}", &bare[..to], &bare[to..])
}

/// The AUTO_INCREMENT column, in backquotes.
#[must_use]
pub fn counted(definition: &str) -> Option<&str> {
    let lines = definition.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter(|line| line.contains(" AUTO_INCREMENT")).find_map(quoted)
}

/// The default character set and collation of a database, as far as `SHOW CREATE DATABASE` tells: older
/// servers leave a character set's default collation out. `utf8` is returned as `utf8mb3`.
#[must_use]
pub fn database_defaults(statement: &str) -> (Option<String>, Option<String>) {
    // After the name, which may contain any words, and before the comment.
    let from = statement.find('`').map_or(0, |at| at + quoted(&statement[at..]).map_or(0, str::len));
    let options = &statement[from..];
    let options = options.split_once(" COMMENT '").map_or(options, |(before, _)| before);
    let after = |word: &str| {
        let name = options.split_once(word)?.1.split([' ', '*']).next()?;
        let full = name.strip_prefix("utf8").filter(|rest| rest.is_empty() || rest.starts_with('_'));
        Some(full.map_or_else(|| name.to_owned(), |rest| format!("utf8mb3{rest}")))
    };
    (after("CHARACTER SET "), after("COLLATE "))
}

/// The parts of a definition that servers of all releases print in the same words: the names of its columns,
/// and its indexes with their columns. Both with the attributes that change what they are for, by MySQL's
/// names, and the checks that are not enforced.
#[must_use]
pub fn outline(definition: &str) -> Vec<String> {
    const KEYS: [&str; 5] = ["PRIMARY KEY ", "UNIQUE KEY ", "KEY ", "FULLTEXT KEY ", "SPATIAL KEY "];
    let line = |line: &str| -> Option<String> {
        let attributes = attributes(line);
        if let Some(name) = quoted(line) {
            return Some(format!("column {name}{attributes}"));
        }
        if let Some(check) = line.strip_prefix("CONSTRAINT ") {
            let name = quoted(check).filter(|_| attributes.contains("NOT ENFORCED"))?;
            return Some(format!("check {name}{attributes}"));
        }
        if !KEYS.iter().any(|word| line.starts_with(word)) {
            return None;
        }
        let (mut depth, mut at) = (0, line.find('(')?);
        while let Some(byte) = line.as_bytes().get(at) {
            match byte {
                b'`' => at += quoted(&line[at..])?.len() - 1,
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        Some(line[..at].replace(" DESC", "").replace(" ASC", "") + &attributes)
    };
    let mut lines: Vec<String> =
        definition.lines().filter_map(|text| line(text.strip_prefix("  ")?)).collect();
    lines.sort();
    lines
}

/// The attributes of a line of a definition that not all servers have, each with a space in front.
fn attributes(line: &str) -> String {
    let (mut words, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['`', '\'']) {
        words += &rest[..at];
        rest = &rest[at + closing(&rest[at..], if rest[at..].starts_with('`') { '`' } else { '\'' })..];
    }
    words += rest;
    let mut found = String::new();
    // MariaDB's word for an index is IGNORED.
    if ["INVISIBLE", "IGNORED"].iter().any(|word| words.contains(word)) {
        found += " INVISIBLE";
    }
    if words.contains("NOT ENFORCED") {
        found += " NOT ENFORCED";
    }
    let number = ["SRID ", "REF_SYSTEM_ID="].iter().find_map(|word| Some(words.split_once(word)?.1));
    if let Some(number) = number {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        found += &format!(" SRID {}", &number[..digits]);
    }
    found
}

/// A definition without the counter, which changes with the rows.
#[must_use]
pub fn without_counter(definition: &str) -> String {
    let Some(found) = find_counter(definition) else { return definition.to_owned() };
    format!("{}{}", &definition[..found.start], &definition[found.end..])
}

/// The value of the AUTO_INCREMENT counter, if the definition has it.
#[must_use]
pub fn counter(definition: &str) -> Option<u64> {
    definition[find_counter(definition)?].strip_prefix(COUNTER)?.parse().ok()
}

/// The text before the counter's value among a table's options.
const COUNTER: &str = " AUTO_INCREMENT=";

/// Finds the option. It comes before the comment, which may contain the same words.
fn find_counter(definition: &str) -> Option<Range<usize>> {
    let at = definition.rfind("\n)")?;
    let options = &definition[at..];
    let options = options.split_once(" COMMENT='").map_or(options, |(before, _)| before);
    let from = options.find(COUNTER)?;
    let digits = options[from + COUNTER.len()..].bytes().take_while(u8::is_ascii_digit).count();
    Some(at + from..at + from + COUNTER.len() + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_indexes_that_nothing_leans_on_wait() {
        let text = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a``b` int,\n  `KEY ` int,\n  \
                    PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`a``b`),\n  KEY `id` (`id`),\n  KEY `f` ((lower(`x`))),\n  \
                    KEY `k``1` (`a``b`(10),`id`) COMMENT 'c',\n  FULLTEXT KEY `ft` (`c`)\n) ENGINE=InnoDB";
        let clause = "KEY `k``1` (`a``b`(10),`id`) COMMENT 'c'";
        assert_eq!(plain_indexes(text), [PlainIndex { name: "`k``1`", clause }]);
        let text =
            text.replace("FULLTEXT KEY `ft` (`c`)", "CONSTRAINT `x` FOREIGN KEY (`a`) REFERENCES `y` (`z`)");
        assert!(plain_indexes(&text).is_empty());
    }

    #[test]
    fn the_counter_is_no_part_of_a_definition() {
        let with = "CREATE TABLE `t` (\n  `a` int COMMENT ' AUTO_INCREMENT=7'\n) ENGINE=InnoDB AUTO_INCREMENT=12 \
                    DEFAULT CHARSET=utf8mb4 COMMENT='x'";
        let bare = with.replace(" AUTO_INCREMENT=12", "");
        assert_eq!((without_counter(with), counter(with)), (bare.clone(), Some(12)));
        assert_eq!((without_counter(&bare), counter(&bare)), (bare.clone(), None));
        let said = bare.replace("COMMENT='x'", "COMMENT='x AUTO_INCREMENT=9'");
        assert_eq!((without_counter(&said), counter(&said)), (said.clone(), None));
    }

    #[test]
    fn a_counter_is_put_where_the_server_puts_it() {
        let bare = "CREATE TABLE `t` (\n  `i``d` int NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`i``d`)\n) ENGINE=InnoDB DEFAULT \
                    CHARSET=utf8mb4 COMMENT=' ENGINE=x'";
        let with = with_counter(bare, 12);
        assert_eq!(with, bare.replace("InnoDB DEFAULT", "InnoDB AUTO_INCREMENT=12 DEFAULT"));
        assert_eq!(with_counter(&with, 7), bare.replace("InnoDB DEFAULT", "InnoDB AUTO_INCREMENT=7 DEFAULT"));
        assert_eq!(
            with_counter("CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB", 3).rsplit_once(' ').unwrap().1,
            "AUTO_INCREMENT=3"
        );
        assert_eq!(counted(bare), Some("`i``d`"));
    }

    #[test]
    fn the_defaults_of_a_database_are_found() {
        let of = |text: &str| database_defaults(text);
        let some = |text: &str| Some(text.to_owned());
        let sql = "CREATE DATABASE `COLLATE x` /*!40100 DEFAULT CHARACTER SET utf8 COLLATE utf8_bin */ COMMENT 'COLLATE y'";
        assert_eq!(of(sql), (some("utf8mb3"), some("utf8mb3_bin")));
        assert_eq!(
            of("CREATE DATABASE `a` /*!40100 DEFAULT CHARACTER SET latin1 */"),
            (some("latin1"), None)
        );
        assert_eq!(of("CREATE DATABASE `a`"), (None, None));
    }

    #[test]
    fn an_outline_is_what_all_servers_print() {
        let text = "CREATE TABLE `t` (\n  `a` int(11) NOT NULL,\n  `b)` text COLLATE utf8mb4_bin,\n  PRIMARY KEY (`a`) USING BTREE,\n  \
                    KEY `k` (`a`,`b)`(10) DESC) COMMENT '(',\n  CONSTRAINT `c` CHECK (`a` > 0)\n) ENGINE=InnoDB";
        assert_eq!(
            outline(text),
            ["KEY `k` (`a`,`b)`(10))", "PRIMARY KEY (`a`)", "column `a`", "column `b)`"]
        );
        // What MySQL and MariaDB say in other words, and what only one of them has.
        let mysql = "CREATE TABLE `t` (\n  `NOT ENFORCED` int COMMENT 'SRID 1 INVISIBLE' /*!80023 INVISIBLE */,\n  \
                     `p` point NOT NULL /*!80003 SRID 4326 */,\n  KEY `k` (`p`) /*!80000 INVISIBLE */,\n  \
                     CONSTRAINT `c` CHECK ((`p` > 0)) /*!80016 NOT ENFORCED */,\n  CONSTRAINT `d` CHECK (1)\n)";
        let mariadb = "CREATE TABLE `t` (\n  `NOT ENFORCED` int INVISIBLE COMMENT 'x',\n  \
                       `p` point NOT NULL REF_SYSTEM_ID=4326,\n  KEY `k` (`p`) IGNORED\n)";
        let both = ["KEY `k` (`p`) INVISIBLE", "column `NOT ENFORCED` INVISIBLE", "column `p` SRID 4326"]
            .map(str::to_owned);
        assert_eq!(outline(mariadb), both);
        assert_eq!(outline(mysql), [&both[..1], &["check `c` NOT ENFORCED".to_owned()], &both[1..]].concat());
    }

    #[test]
    fn defaults_that_may_be_others_are_found() {
        let text = "CREATE TABLE `t` (\n  `a``?` varchar(9) DEFAULT 'x?''?',\n  `b` enum('?') DEFAULT '?',\n  `c` int DEFAULT 1 COMMENT \
                    ' DEFAULT ''?',\n  `d` text NOT NULL DEFAULT '?' COMMENT '?',\n  `e` char(1) DEFAULT 'e'\n) COMMENT=' DEFAULT ''?'";
        let found: Vec<_> = ambiguous_defaults(text)
            .into_iter()
            .map(|doubt| (&text[doubt.column], &text[doubt.value]))
            .collect();
        assert_eq!(found, [("`a``?`", "'x?''?'"), ("`d`", "'?'")]);
        assert_eq!(default_literal("a'\\\n\u{1f600}"), "'a''\\\\\\n\u{1f600}'");
    }

    #[test]
    fn foreign_keys_are_taken_out() {
        let text = "CREATE TABLE `t` (\n  `a` int,\n  KEY `k` (`a`),\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `x` (`a`),\n  \
                    CONSTRAINT `g``1` FOREIGN KEY (`a`) REFERENCES `y` (`a`)\n) ENGINE=InnoDB";
        assert_eq!(foreign_keys(text), ["`f`", "`g``1`"]);
        let bare = without_lines(text, |line| line.contains(" FOREIGN KEY "));
        assert_eq!(bare, "CREATE TABLE `t` (\n  `a` int,\n  KEY `k` (`a`)\n) ENGINE=InnoDB");
        assert_eq!(without_lines(&bare, |_| false), bare);
    }

    #[test]
    fn spellings_of_other_servers_are_normalised() {
        let old = "CREATE TABLE `T``x` (\n  `A` time(3) /* mariadb-5.3 */ DEFAULT 'x /* mariadb-5.3 */ `A`'\n) ENGINE=InnoDB";
        assert_eq!(sorted(old), sorted(&old.replacen(" /* mariadb-5.3 */", "", 1)));
        assert_ne!(sorted(old), sorted(&old.replace(" /* mariadb-5.3 */", "")));
        let folded = folded(old);
        assert!(
            folded.starts_with("CREATE TABLE `t``x`")
                && folded.contains("`a` time")
                && folded.contains(" `A`'")
        );
    }

    #[test]
    fn a_primary_key_of_whole_columns_is_read() {
        let of =
            |key: &str| primary_key(&format!("CREATE TABLE `t` (\n  `a` int(11),\n{key}\n) ENGINE=InnoDB"));
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of("  PRIMARY KEY (`a`,`b``)`),"), names(&["a", "b`)"]));
        assert_eq!(of("  PRIMARY KEY (`a`)"), names(&["a"]));
        for other in ["`a`(10)", "`a` DESC", "`a`,`p` WITHOUT OVERLAPS", ""] {
            assert_eq!(of(&format!("  PRIMARY KEY ({other}),")), None, "{other}");
        }
        assert_eq!(of("  PRIMARY KEY (`a`) USING BTREE"), None);
        // Inside a name all quotes are doubled.
        assert_eq!(of("  `x\n  PRIMARY KEY (``a``)` int(11)"), None);
        assert_eq!(of("  KEY `a` (`a`)"), None);
    }

    #[test]
    fn the_order_of_indexes_is_no_part_of_a_definition() {
        let one = "CREATE TABLE `t` (\n  `a` int,\n  KEY `x` (`a`),\n  KEY `y` (`a`)\n) ENGINE=InnoDB";
        let other = "CREATE TABLE `t` (\n  `a` int,\n  KEY `y` (`a`),\n  KEY `x` (`a`)\n) ENGINE=InnoDB AUTO_INCREMENT=3";
        assert_eq!(sorted(one), sorted(other));
        assert_ne!(sorted(one), sorted(&one.replace("`a` int", "`a` bigint")));
    }
}
