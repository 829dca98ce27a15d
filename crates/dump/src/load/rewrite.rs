//! Rewrites what another server calls by other names: character sets and collations.

use std::collections::{BTreeMap, BTreeSet};

use server::Session;
use server::catalogue::Object;
use server::definition::closing;

use crate::Error;
use crate::manifest::Manifest;

/// The server knows no such value of a variable.
const WRONG_VALUE: u16 = 1231;

/// Rewrites the names that the target does not know. Returns a line for each object and name.
pub(super) fn apply(session: &mut Session, manifest: &mut Manifest) -> Result<Vec<String>, Error> {
    if session.about.release() == manifest.source.release() {
        return Ok(Vec::new());
    }
    let known = known(session)?;
    let mut lines = Vec::new();
    let mut missing = BTreeMap::new();
    let mut rewrite = |title: String, text: &mut String| {
        let mut names = BTreeSet::new();
        *text = replace(text, &mut |name| {
            let other = substitute(name, &known)?;
            names.insert(match &other {
                Some(other) => format!("{name} becomes {other}"),
                None => {
                    missing.insert(name.to_owned(), title.clone());
                    return None;
                }
            });
            other
        });
        lines.extend(names.into_iter().map(|name| format!("{title}: {name}")));
    };
    for entry in &mut manifest.tables {
        rewrite(format!("table {}", entry.table.name), &mut entry.table.definition);
    }
    let lacks = lacking_modes(session, manifest)?;
    for object in &mut manifest.objects {
        let title = object.title();
        object.statements.iter_mut().for_each(|statement| rewrite(title.clone(), statement));
        let settings = &mut object.settings;
        let names = [&mut settings.character_set, &mut settings.collation, &mut settings.database_collation];
        for name in names.into_iter().flatten() {
            let mut text = format!("COLLATE {name}");
            rewrite(title.clone(), &mut text);
            *name = text["COLLATE ".len()..].to_owned();
        }
    }
    lines.extend(manifest.objects.iter_mut().flat_map(|object| without_modes(object, &lacks)));
    if missing.is_empty() {
        lines.sort();
        lines.dedup();
        return Ok(lines);
    }
    let list: Vec<_> = missing.iter().map(|(name, title)| format!("{name} ({title})")).collect();
    Err(Error::Mismatch(format!(
        "{} knows neither these collations or character sets nor any like them: {}; leave the objects out with --exclude",
        session.about.version_text,
        list.join(", ")
    )))
}

/// Words of `sql_mode` that mean nothing to a stored program: how SHOW CREATE prints, and whether GRANT makes
/// accounts. MariaDB's default has one of them, and MySQL 8 and later have none.
const IDLE_MODES: [&str; 10] = [
    "NO_AUTO_CREATE_USER",
    "NO_FIELD_OPTIONS",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
    "MYSQL323",
    "MYSQL40",
    "POSTGRESQL",
    "MSSQL",
    "DB2",
    "MAXDB",
];

/// Those of these words that the dump has and the server does not know.
fn lacking_modes(session: &mut Session, manifest: &Manifest) -> Result<BTreeSet<String>, Error> {
    let modes = manifest.objects.iter().filter_map(|object| object.settings.sql_mode.as_deref());
    let used: BTreeSet<&str> = modes.flat_map(|mode| mode.split(',')).collect();
    let mut lacks = BTreeSet::new();
    let before = session.value("SELECT @@sql_mode")?.unwrap_or_default();
    for word in used.into_iter().filter(|word| IDLE_MODES.contains(word)) {
        match session.execute(&format!("SET SESSION sql_mode = '{word}'")) {
            Err(error) if error.code() == Some(WRONG_VALUE) => {
                lacks.insert(word.to_owned());
            }
            set => drop(set?),
        }
    }
    session.execute(&format!("SET SESSION sql_mode = '{before}'"))?;
    Ok(lacks)
}

/// Removes words from an object's `sql_mode`. Returns a line for each.
fn without_modes(object: &mut Object, lacks: &BTreeSet<String>) -> Vec<String> {
    let title = object.title();
    let Some(mode) = &mut object.settings.sql_mode else { return Vec::new() };
    let (gone, kept): (Vec<&str>, Vec<&str>) = mode.split(',').partition(|word| lacks.contains(*word));
    let lines = gone.iter().map(|word| format!("{title}: sql_mode without {word}")).collect();
    *mode = kept.join(",");
    lines
}

/// Older dumps have programs in utf8mb4. For plain ASCII that equals any client's character set; everything
/// else is created as by a utf8mb4 client, with the same meaning.
pub(super) fn clients(manifest: &mut Manifest) -> Vec<String> {
    let mut lines = Vec::new();
    if manifest.exact_programs {
        return lines;
    }
    for object in &mut manifest.objects {
        let title = object.title();
        let ascii = object.statements.iter().all(|text| text.is_ascii());
        let Some(set) = object.settings.character_set.as_mut() else { continue };
        if !ascii && !set.starts_with("utf8") {
            lines.push(format!("{title}: character_set_client changed from {set} to utf8mb4"));
            *set = "utf8mb4".to_owned();
        }
    }
    lines
}

/// The names of character sets and collations that a server knows.
///
/// # Errors
/// Errors of the server.
pub(crate) fn known(session: &mut Session) -> Result<BTreeSet<String>, Error> {
    let mut known = BTreeSet::new();
    for sql in [
        "SELECT COLLATION_NAME FROM information_schema.COLLATIONS",
        "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS",
    ] {
        known.extend(session.strings(sql)?.into_iter().flatten().flatten());
    }
    if session.about.flavour == server::Flavour::MariaDb {
        // Collations that fit any character set are listed without one.
        let bare: Vec<String> = known.iter().filter(|name| name.starts_with("uca1400_")).cloned().collect();
        for set in ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"] {
            known.extend(bare.iter().map(|name| format!("{set}_{name}")));
        }
        known.extend(["utf8".to_owned(), "utf8mb3".to_owned()]);
        let old: Vec<String> = known
            .iter()
            .filter_map(|name| name.strip_prefix("utf8mb3_"))
            .map(|rest| format!("utf8_{rest}"))
            .collect();
        known.extend(old);
    }
    Ok(known)
}

/// A statement as a load writes it: names that the server does not know are replaced by names that it knows.
pub(crate) fn as_known(statement: &str, known: &BTreeSet<String>) -> String {
    replace(statement, &mut |name| substitute(name, known).flatten())
}

/// `None`: the name is known. Otherwise a similar name, if there is one.
fn substitute(name: &str, known: &BTreeSet<String>) -> Option<Option<String>> {
    let lower = name.to_ascii_lowercase();
    if known.contains(&lower) || lower == "binary" || lower == "default" {
        return None;
    }
    let swapped = match (lower.strip_prefix("utf8mb3"), lower.strip_prefix("utf8_")) {
        (Some(rest), _) => format!("utf8{rest}"),
        (_, Some(rest)) => format!("utf8mb3_{rest}"),
        _ if lower == "utf8" => "utf8mb3".to_owned(),
        _ => lower.clone(),
    };
    let (set, rest) = swapped.split_once('_').unwrap_or((&swapped, ""));
    // Sensitivity to accents, case and spaces at the end is kept; the version of the rules is not.
    let counts_spaces = rest.contains("nopad") || rest.contains("0900");
    let likes: &[&str] = match counts_spaces {
        true if rest.ends_with("bin") => &["nopad_bin", "0900_bin", "bin"],
        false if rest.ends_with("bin") => &["bin"],
        true if rest.contains("as_cs") => {
            &["uca1400_nopad_as_cs", "0900_as_cs", "nopad_bin", "uca1400_as_cs", "bin"]
        }
        false if rest.contains("as_cs") => &["uca1400_as_cs", "0900_as_cs", "bin"],
        true if rest.contains("as_ci") => {
            &["uca1400_nopad_as_ci", "0900_as_ci", "uca1400_as_ci", "unicode_520_nopad_ci", "unicode_520_ci"]
        }
        false if rest.contains("as_ci") => &["uca1400_as_ci", "0900_as_ci", "unicode_520_ci"],
        _ if rest.contains("0900_ai_ci") || rest.contains("uca1400") && rest.ends_with("ai_ci") => {
            &["uca1400_nopad_ai_ci", "0900_ai_ci", "uca1400_ai_ci", "unicode_520_ci", "unicode_ci"]
        }
        true => &["0900_ai_ci", "unicode_520_nopad_ci", "unicode_nopad_ci", "unicode_520_ci", "general_ci"],
        false => &["unicode_520_ci", "unicode_ci", "general_ci"],
    };
    // Servers call the same character set by one of two names.
    let sets = if matches!(set, "utf8" | "utf8mb3") { &["utf8mb3", "utf8"][..] } else { &[set] };
    let likes = likes.iter().flat_map(|rest| sets.iter().map(move |set| format!("{set}_{rest}")));
    let like = likes.into_iter().find(|name| known.contains(name));
    Some(if known.contains(&swapped) { Some(swapped.clone()) } else { like.filter(|_| !rest.is_empty()) })
}

/// Calls a function with every name of a character set or collation outside of quotes, and puts in the name
/// that it returns.
fn replace(sql: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    let mut expected = false;
    let mut before = String::new();
    while let Some(first) = rest.chars().next() {
        if matches!(first, '\'' | '"' | '`') {
            let end = closing(rest, first);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            expected = false;
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let word = &rest[..end];
            match with_if(expected, word, with) {
                Some(other) => out.push_str(&other),
                None => out.push_str(word),
            }
            let upper = word.to_ascii_uppercase();
            expected =
                matches!(upper.as_str(), "COLLATE" | "CHARSET") || (upper == "SET" && before == "CHARACTER");
            before = upper;
            rest = &rest[end..];
        } else {
            out.push(first);
            expected &= first == '=' || first.is_whitespace();
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

fn with_if(expected: bool, word: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> Option<String> {
    if expected { with(word) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_outside_of_quotes_only() {
        let sql = "CREATE TABLE `COLLATE x` (\n  `a` varchar(3) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin DEFAULT 'COLLATE x\\'' \
                   COMMENT 'CHARSET=x'\n) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_ai_ci";
        let mut seen = Vec::new();
        let out = replace(sql, &mut |name| {
            seen.push(name.to_owned());
            (name == "utf8mb3").then(|| "utf8".to_owned())
        });
        assert_eq!(seen, ["utf8mb3", "utf8mb3_bin", "utf8mb4", "utf8mb4_uca1400_ai_ci"]);
        assert_eq!(out, sql.replacen("SET utf8mb3", "SET utf8", 1));
    }

    #[test]
    fn the_nearest_collation_is_taken() {
        let known: BTreeSet<String> = [
            "utf8",
            "utf8_general_ci",
            "utf8_unicode_ci",
            "utf8_bin",
            "utf8mb4",
            "utf8mb4_unicode_520_ci",
            "utf8mb4_bin",
        ]
        .map(str::to_owned)
        .into();
        let of = |name: &str| substitute(name, &known);
        assert_eq!(of("utf8_bin"), None);
        assert_eq!(of("utf8mb3_general_ci"), Some(Some("utf8_general_ci".to_owned())));
        assert_eq!(of("utf8mb3"), Some(Some("utf8".to_owned())));
        assert_eq!(of("utf8mb4_uca1400_ai_ci"), Some(Some("utf8mb4_unicode_520_ci".to_owned())));
        assert_eq!(of("klingon_ci"), Some(None));
        assert_eq!(of("utf8mb3_uca1400_ai_ci"), Some(Some("utf8_unicode_ci".to_owned())));
        let newer: BTreeSet<String> = ["utf8mb3", "utf8mb3_unicode_520_ci"].map(str::to_owned).into();
        let of = substitute("utf8mb3_uca1400_ai_ci", &newer);
        assert_eq!(of, Some(Some("utf8mb3_unicode_520_ci".to_owned())));
    }

    /// Or two keys that differ in a space at the end would be one.
    #[test]
    fn spaces_at_the_end_count_as_before() {
        let mariadb = [
            "nopad_bin",
            "bin",
            "uca1400_as_cs",
            "uca1400_nopad_as_cs",
            "uca1400_as_ci",
            "uca1400_nopad_as_ci",
        ];
        let mysql = ["0900_bin", "bin", "0900_as_cs", "0900_as_ci", "0900_ai_ci", "unicode_520_ci"];
        let names = |rests: [&str; 6]| rests.map(|rest| format!("utf8mb4_{rest}")).into();
        let (mariadb, mysql): (BTreeSet<String>, BTreeSet<String>) = (names(mariadb), names(mysql));
        for (known, from, to) in [
            (&mariadb, "0900_bin", "nopad_bin"),
            (&mariadb, "0900_as_cs", "uca1400_nopad_as_cs"),
            (&mariadb, "0900_as_ci", "uca1400_nopad_as_ci"),
            (&mysql, "nopad_bin", "0900_bin"),
            (&mysql, "uca1400_nopad_as_cs", "0900_as_cs"),
            (&mysql, "general_nopad_ci", "0900_ai_ci"),
            (&mysql, "general_ci", "unicode_520_ci"),
        ] {
            let found = substitute(&format!("utf8mb4_{from}"), known);
            assert_eq!(found, Some(Some(format!("utf8mb4_{to}"))), "{from}");
        }
    }
}
