//! The shipped snapshots: every series that `remora sandbox` can start, made by `remora vars snapshot
//! sandbox:SERIES`.

use super::Snapshot;

/// Their names and texts, oldest first within a family.
static TEXTS: [(&str, &str); 5] = [
    ("mariadb-10.11", include_str!("../../snapshots/mariadb-10.11.txt")),
    ("mariadb-11.4", include_str!("../../snapshots/mariadb-11.4.txt")),
    ("mariadb-11.8", include_str!("../../snapshots/mariadb-11.8.txt")),
    ("mysql-5.6", include_str!("../../snapshots/mysql-5.6.txt")),
    ("mysql-9.7", include_str!("../../snapshots/mysql-9.7.txt")),
];

/// The names of all series.
#[must_use]
pub fn names() -> Vec<&'static str> {
    TEXTS.iter().map(|(name, _)| *name).collect()
}

/// The snapshot of a series: `mariadb-10.11`, or its number alone.
#[must_use]
pub fn find(name: &str) -> Option<Snapshot> {
    let is_it =
        |known: &str| known == name || known.rsplit_once('-').is_some_and(|(_, series)| series == name);
    let (_, text) = TEXTS.iter().find(|(known, _)| is_it(known))?;
    // A test reads all of them.
    Snapshot::read(text).ok()
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Snapshot> {
    TEXTS.iter().filter_map(|(_, text)| Snapshot::read(text).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_snapshot_is_whole_and_found_by_name_and_number() {
        for (name, text) in TEXTS {
            let snapshot = Snapshot::read(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(snapshot.series(), name);
            assert!(snapshot.has_options && snapshot.has_variables);
            assert!(snapshot.variables.len() > 450, "{name}: {}", snapshot.variables.len());
            assert!(snapshot.groups.contains(&"mysqld".to_owned()));
            // Nothing specific to the machine that made it.
            for word in ["/root/", "/tmp/", "/work"] {
                let found = text.lines().find(|line| line.contains(word));
                assert!(found.is_none_or(|line| line.contains("default=/tmp")), "{name}: {found:?}");
            }
            assert_eq!(find(name).unwrap().title, snapshot.title);
            assert_eq!(find(name.rsplit_once('-').unwrap().1).unwrap().title, snapshot.title);
        }
        assert!(find("9.9").is_none());
        assert_eq!((names().len(), all().len()), (TEXTS.len(), TEXTS.len()));
        assert_eq!(names()[0], "mariadb-10.11");
    }
}
