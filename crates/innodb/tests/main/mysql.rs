//! Files that MySQL 9.7 wrote, with their definitions: read, and damaged.

use innodb::index_page::IndexPage;
use innodb::page::{PAGE_BYTES, Pages};
use innodb::space::Space;
use innodb::table::dictionary::Definition;
use innodb::table::{Generated, Table};
use innodb::{Error, sdi};
use proptest::prelude::*;

use crate::file::{Memory, rows};

/// Columns added in front, in the middle and behind, and one dropped, with rows of each version.
pub(crate) const VERSIONS: &[u8] = include_bytes!("../pages/mysql_versions.ibd.gz");
/// A JSON value on several pages, of which some were changed in place.
pub(crate) const PARTS: &[u8] = include_bytes!("../pages/mysql_parts.ibd.gz");
/// 81 columns with comments: the definition is longer than a page.
const WIDE: &[u8] = include_bytes!("../pages/mysql_wide.ibd.gz");

fn definition(pages: &mut Memory) -> Result<Definition, Error> {
    let space = Space::parse(pages.page(0)?)?;
    let mut texts = sdi::tables(&space, pages)?.unwrap();
    assert_eq!(texts.len(), 1);
    Definition::parse(&texts.remove(0))
}

fn read(pages: &mut Memory) -> Result<(Table, Vec<String>), Error> {
    let table = definition(pages)?.table()?;
    let rows = rows(&table, pages)?;
    Ok((table, rows))
}

#[test]
fn rows_of_every_version_of_a_table() {
    let mut pages = Memory::new(VERSIONS);
    let definition = definition(&mut pages).unwrap();
    assert_eq!((definition.schema(), definition.name()), ("pages", "versions"));
    let (table, found) = read(&mut pages).unwrap();
    let wanted = [
        "7|0|x|ee|y|NULL|",
        "7|1|x|ee|NULL|{\"a\": 1}|",
        "3|2|x|ee|y|NULL|",
        "4|3|z|ee|y|NULL|",
        "5|4|z|NULL|y|[4]|",
    ];
    assert_eq!(found, wanted);
    let names: Vec<&str> =
        table.columns().iter().filter(|column| !column.hidden).map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["d", "id", "b", "e", "c", "f"]);
    assert!(table.columns().iter().all(|column| column.generated == Generated::No));
    assert_eq!((table.clustered().key_fields, table.spaces().len()), (1, 1));
    let error = table.root(99).unwrap_err().to_string();
    assert!(error.contains("does not know the tablespace 99"), "{error}");
}

#[test]
fn a_definition_is_the_text_of_its_table() {
    let text = definition(&mut Memory::new(VERSIONS)).unwrap().create_table().unwrap();
    let wanted = "CREATE TABLE `versions` (\n  `d` int NOT NULL DEFAULT '7',\n  `id` varchar(20) NOT NULL,\n  \
                  `b` varchar(10) NOT NULL DEFAULT 'b',\n  `e` varchar(30) DEFAULT 'ee',\n  \
                  `c` char(3) DEFAULT NULL,\n  `f` json DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB \
                  DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci";
    assert_eq!(text, wanted);
}

#[test]
fn a_value_that_was_changed_in_parts() {
    let (_, found) = read(&mut Memory::new(PARTS)).unwrap();
    let (a, c) = ("z".repeat(30_000), "c".repeat(20_000));
    assert_eq!(found, [format!("1|{{\"a\": \"{a}\", \"b\": 2, \"c\": \"{c}\"}}|")]);
}

/// A row that a transaction of the past sees refers to the version of its time.
#[test]
fn older_versions_of_a_value_are_found() {
    let mut pages = Memory::new(PARTS);
    let mut origins = Vec::new();
    IndexPage::parse(pages.page(4).unwrap(), 4).unwrap().chain(&mut origins).unwrap();
    // Behind the key, DB_TRX_ID, DB_ROLL_PTR, and the tablespace and page of the value.
    let version = 4 * PAGE_BYTES + usize::from(origins[0]) + 4 + 6 + 7 + 8;
    assert_eq!(pages.bytes[version..version + 4], [0, 0, 0, 2]);
    pages.proven = false;
    pages.bytes[version + 3] = 1;
    let (_, found) = read(&mut pages).unwrap();
    let (a, c) = ("a".repeat(40_000), "c".repeat(20_000));
    assert_eq!(found, [format!("1|{{\"a\": \"{a}\", \"b\": 2, \"c\": \"{c}\"}}|")]);
    pages.bytes[version + 3] = 0;
    assert!(read(&mut pages).unwrap_err().to_string().contains("list of a value's parts ends"));
}

#[test]
fn a_definition_that_is_longer_than_a_page() {
    let (table, found) = read(&mut Memory::new(WIDE)).unwrap();
    assert_eq!(table.columns().iter().filter(|column| !column.hidden).count(), 81);
    assert_eq!(found, [format!("1|{}80|", "NULL|".repeat(79))]);
}

#[test]
fn other_files_have_no_definition() {
    let mut pages = Memory::new(include_bytes!("../pages/away.ibd.gz"));
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    assert_eq!(sdi::tables(&space, &mut pages), Ok(None));
}

#[test]
fn damage_of_a_definition_is_named_by_its_page() {
    for (file, page, at) in [(VERSIONS, 3, 500), (VERSIONS, 3, 60), (WIDE, 5, 1000), (PARTS, 4, 130)] {
        let mut pages = Memory::new(file);
        pages.bytes[page * PAGE_BYTES + at] ^= 1;
        let error = read(&mut pages).unwrap_err().to_string();
        assert!(error.contains("wrong checksum") && error.contains(&format!("page {page},")), "{error}");
    }
}

#[test]
fn damage_that_no_checksum_shows_is_an_error() {
    let mut pages = Memory::new(VERSIONS);
    let mut origins = Vec::new();
    IndexPage::parse(pages.page(3).unwrap(), 3).unwrap().chain(&mut origins).unwrap();
    let table = usize::from(origins[0]);
    // The length of the text, and the stream; the latter elsewhere, and how long its part is. Then where the
    // list of a value's parts begins, and a part's length.
    let list = 336;
    for (file, page, at) in [
        (VERSIONS, 3, table + 27),
        (VERSIONS, 3, table + 100),
        (WIDE, 5, 1000),
        (WIDE, 5, 40),
        (PARTS, 5, 71),
        (PARTS, 5, list + 53),
    ] {
        let mut pages = Memory::new(file);
        pages.proven = false;
        pages.bytes[page * PAGE_BYTES + at] ^= 0x41;
        let error = match read(&mut pages) {
            Err(error) => error,
            Ok((_, rows)) => panic!("page {page}, byte {at}: {rows:?}"),
        };
        assert!(matches!(error, Error::Corrupt { .. } | Error::Unsupported(_)), "{error}");
    }
}

/// Changes of the JSON itself, behind all checks of pages.
#[test]
fn definitions_that_contradict_themselves_are_errors() {
    let mut pages = Memory::new(VERSIONS);
    let space = Space::parse(pages.page(0).unwrap()).unwrap();
    let text = String::from_utf8(sdi::tables(&space, &mut pages).unwrap().unwrap().remove(0)).unwrap();
    for (from, to, what) in [
        ("physical_pos=3", "physical_pos=4", "contradict"),
        ("physical_pos=3", "physical_pos=99", "contradict"),
        ("\"column_opx\":1", "\"column_opx\":77", "a column that there is not"),
        ("root=4", "rood=4", "where its first index is"),
        ("\"engine\":\"InnoDB\",\"last", "\"engine\":\"MyISAM\",\"last", "engine is MyISAM"),
        ("\"row_format\":2", "\"row_format\":4", "REDUNDANT"),
        ("\"row_format\":2", "\"row_format\":9", "row format 9"),
        ("default=80000007", "default=8000000", "its default"),
        ("\"collation_id\":255", "\"collation_id\":999", "collation 999"),
        ("\"type\":16", "\"type\":77", "type 77"),
        ("\"columns\"", "\"rows\"", "no definition"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error =
            Definition::parse(changed.as_bytes()).and_then(|own| own.table()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(what), "{to}: {error}");
    }
    // The key of a table that never was.
    assert!(!text.contains("instant_col"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn flipped_bits_never_panic(
        file in 0..3_usize,
        changes in prop::collection::vec((0..6_usize, 0..PAGE_BYTES, 0..8), 1..4),
    ) {
        thread_local! {
            static FILES: [Memory; 3] = [VERSIONS, PARTS, WIDE].map(Memory::new);
        }
        let mut pages = FILES.with(|files| files[file].clone());
        pages.proven = false;
        for (page, at, bit) in changes {
            pages.bytes[page * PAGE_BYTES + at] ^= 1_u8 << bit;
        }
        let Ok(space) = Space::parse(pages.page(0).unwrap()) else { return Ok(()) };
        let Ok(Some(texts)) = sdi::tables(&space, &mut pages) else { return Ok(()) };
        for text in texts {
            let Ok(own) = Definition::parse(&text) else { continue };
            own.create_table().ok();
            if let Ok(table) = own.table() {
                rows(&table, &mut pages).ok();
            }
        }
    }
}
