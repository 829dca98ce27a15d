//! Names of files are read as the server writes them.

use crate::support::{connect, of_today, start};

/// Every character of the plane that names can be of.
#[test]
fn every_character_is_read_as_the_server_writes_it() {
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        let rows = session
            .strings(
                "SELECT seq, CAST(CONVERT(CONVERT(CHAR(seq USING ucs2) USING utf8mb3) USING filename) AS BINARY) \
                 FROM seq_1_to_65535 WHERE seq NOT BETWEEN 0xd800 AND 0xdfff",
            )
            .unwrap();
        assert_eq!(rows.len(), 63_487);
        for row in rows {
            let [Some(number), Some(file)] = &row[..] else { panic!("{row:?}") };
            let letter = char::from_u32(number.parse().unwrap()).unwrap();
            assert_eq!(physical::table_name(file), letter.to_string(), "{product}: {number}, {file}");
        }
    }
}

/// The server puts something behind names that a device has elsewhere.
#[test]
fn tables_are_found_by_their_names() {
    let names = ["con", "NUL", "lpt1", "com9", "\u{fc}bung", "gr\u{f6}\u{df}e", "a@b", "aux@"];
    for product in of_today() {
        let server = start(product, &[]);
        let mut session = connect(&server);
        for name in names {
            session.execute(&format!("CREATE TABLE `{name}` (id INT)")).unwrap();
        }
        let path = server.data().join("a@002db");
        let source = physical::Source::find(&disk::RealDisk, &path).unwrap();
        let mut found: Vec<&str> = source.tables.iter().map(|table| table.name.as_str()).collect();
        found.sort_unstable();
        let mut names = names;
        names.sort_unstable();
        assert_eq!(found, names, "{product}");
    }
}
