//! Definitions of tables, by statements and by others who know them.

use std::cell::RefCell;
use std::rc::Rc;

use transactions::{Definitions, Known, LogFile, Place, read_definitions};

use crate::support::{all, recorded, walk_with, write};

const OF_T: &str = "USE app; CREATE TABLE t (id INT NOT NULL, v VARCHAR(10), d DATETIME(3), e ENUM('a','b'), \
                    PRIMARY KEY (id)) DEFAULT CHARSET=latin1;";

/// Others who know a table, and what they are told.
struct Others {
    known: Known,
    places: RefCell<Vec<Place>>,
    statements: RefCell<Vec<(u64, String, String)>>,
}

impl Definitions for Others {
    fn at(&self, place: Place) {
        self.places.borrow_mut().push(place);
    }

    fn passes(&self, place: Place, schema: &str, sql: &str) {
        self.statements.borrow_mut().push((place.at, schema.to_owned(), sql.to_owned()));
    }

    fn table(&self, schema: &str, name: &str) -> Option<Result<Rc<innodb::table::Table>, String>> {
        self.known.by_name(schema, name)
    }
}

#[test]
fn who_knows_more_tables_is_told_each_place_and_statement() {
    let known = Known::of(OF_T.to_owned());
    let others = Rc::new(Others { known, places: RefCell::default(), statements: RefCell::default() });
    let known = Known::default().and(Rc::clone(&others) as Rc<dyn Definitions>);
    let filter = transactions::Filter { conditions: vec!["e=b".parse().unwrap()], ..all() };
    let said = walk_with(&[LogFile::new(recorded("mysql-5.6"))], &filter, &known).unwrap();
    assert_eq!(said.shown.len(), 2, "{:?}", said.reported);
    let places = others.places.borrow();
    assert!(places.len() > 20 && places.is_sorted() && places[0].at == 4, "{places:?}");
    let statements = others.statements.borrow();
    let created = statements.iter().find(|(_, _, sql)| sql.starts_with("CREATE TABLE t"));
    assert!(created.is_some_and(|(at, schema, _)| *at > 4 && schema == "app"), "{statements:?}");
}

#[test]
fn a_file_of_statements_defines_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schema.sql");
    write(&path, OF_T.as_bytes());
    let known = read_definitions(Some(&path)).unwrap();
    assert!(known.by_name("app", "t").unwrap().is_ok() && known.by_name("app", "u").is_none());
    assert!(read_definitions(None).unwrap().by_name("app", "t").is_none());
    let error = read_definitions(Some(&folder.path().join("absent"))).err().unwrap();
    assert!(error.to_string().contains("--schema ") && error.to_string().ends_with("absent"), "{error}");
}
