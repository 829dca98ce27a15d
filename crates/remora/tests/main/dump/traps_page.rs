//! The page of traps names tests that exist.

use std::path::Path;

/// Every file with tests that the page may name.
const TESTS: [&str; 21] = [
    include_str!("account.rs"),
    include_str!("ddl.rs"),
    include_str!("damage.rs"),
    include_str!("definition.rs"),
    include_str!("every_type.rs"),
    include_str!("follow.rs"),
    include_str!("format.rs"),
    include_str!("hostile.rs"),
    include_str!("interrupt.rs"),
    include_str!("replica.rs"),
    include_str!("resume.rs"),
    include_str!("round_trip.rs"),
    include_str!("selection.rs"),
    include_str!("global_variables.rs"),
    include_str!("large_rows.rs"),
    include_str!("snapshot.rs"),
    include_str!("unreadable.rs"),
    include_str!("../../../../dump/src/hash.rs"),
    include_str!("../../../../dump/src/canonical.rs"),
    include_str!("../../../../dump/src/folder_name.rs"),
    include_str!("../../../../dump/src/load/rewrite.rs"),
];

#[test]
fn every_test_that_the_page_of_traps_names_exists() {
    let page = include_str!("../../dump/traps.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #"));
    for (at, row) in rows.enumerate() {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, held] = cells[..] else { panic!("{row}") };
        assert_eq!(number, (at + 1).to_string());
        let mut parts = held.split('`');
        let mut names = 0;
        while let (Some(before), Some(name)) = (parts.next(), parts.next()) {
            let exists = if before.ends_with("case ") {
                folder.join(name).join("schema.sql").exists()
            } else {
                TESTS.iter().any(|text| {
                    text.contains(&format!("#[test]\nfn {name}()"))
                        || text.contains(&format!("#[test]\n    fn {name}()"))
                })
            };
            assert!(exists, "{number}: {name}");
            names += 1;
        }
        assert!(names > 0 || held.starts_with("not "), "{row}");
    }
    for case in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()) {
        let name = case.file_name().into_string().unwrap();
        assert!(!case.path().is_dir() || page.contains(&format!("case `{name}`")), "{name} is in no row");
    }
}
