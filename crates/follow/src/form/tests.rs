use std::collections::BTreeSet;

use binlog::event::Change;
use binlog::event::rows::Rows;
use binlog::event::table;
use binlog::row::rows;
use server::TableName;
use server::catalogue::Table;

use super::*;

/// A table with these columns: name, type in the log, type in the definition. Names of the key are in
/// capitals.
fn tables(columns: &[(&str, Type, &str)]) -> (LogTable, Followed) {
    let logged = |(name, kind, _): &(&str, Type, &str)| table::Column {
        kind: *kind,
        nullable: true,
        name: Some((*name).to_owned()),
        is_unsigned: Some(false),
        collation: Some(45),
        members: None,
    };
    let defined = |(name, _, kind): &(&str, Type, &str)| Defined {
        name: (*name).to_owned(),
        data_type: String::new(),
        column_type: (*kind).to_owned(),
        character_set: kind.starts_with("varchar").then(|| "utf8mb4".to_owned()),
        origin: Origin::Stored,
    };
    let is_key = |name: &&str| name.chars().all(char::is_uppercase);
    let name = TableName { schema: "d".to_owned(), table: "t".to_owned() };
    let table = Table {
        name: name.clone(),
        engine: "InnoDB".to_owned(),
        definition: String::new(),
        created: String::new(),
        rows: 0,
        bytes: 0,
        columns: columns.iter().map(defined).collect(),
        key: columns.iter().map(|(name, ..)| *name).filter(is_key).map(str::to_owned).collect(),
        key_name: "PRIMARY".to_owned(),
        partitions: Vec::new(),
        versioned: false,
    };
    let columns = columns.iter().map(logged).collect();
    let log =
        LogTable { id: 7, schema: name.schema.clone(), name: name.table.clone(), columns, primary_key: None };
    (log, Followed { table, target: name, cascades: BTreeSet::new() })
}

/// A form of a table with one key.
pub(crate) fn form() -> Form {
    let (log, followed) = tables(&[("A", Type::Int(1), "tinyint")]);
    Form::new(&log, &followed, TableRules::default(), Flavour::MariaDb).unwrap()
}

/// What a form says of a row with these bytes, of which the columns with these bits are there.
fn of<R>(log: &LogTable, present: u8, data: &[u8], say: impl FnOnce(&Image<'_>) -> R) -> R {
    let (present, data) = ([present], data.into());
    let (before, after) = (None, Some(&present[..]));
    let columns = log.columns.len();
    let change = Change::Insert;
    let own = Rows { change, table_id: 7, flags: 0, columns, before, after, is_partial: false, data };
    let row = rows(&own, log, "here").unwrap().next().unwrap().unwrap();
    say(&row.after.unwrap())
}

#[test]
fn a_row_is_a_key_and_values() {
    let (log, followed) = tables(&[("A", Type::Int(1), "tinyint"), ("b", Type::Varchar(9), "varchar(9)")]);
    let form = Form::new(&log, &followed, TableRules::default(), Flavour::MariaDb).unwrap();
    assert_eq!((form.source.as_str(), form.target.as_str()), ("`d`.`t`", "`d`.`t`"));
    assert_eq!((form.names.as_str(), form.condition(&["5", "6"]).as_str()), ("(`A`, `b`)", "`A` IN (5, 6)"));
    of(&log, 0b11, &[0, 5, 2, b'x', b'y'], |image| {
        let key = form.key(image).unwrap();
        assert_eq!((key.bytes, key.text.as_str()), (vec![1, 0, 0, 0, 0, 0, 0, 0, 5], "5"));
        let strict = |text: &str| Values { text: text.to_owned(), is_lax: false };
        assert_eq!(form.values(image).unwrap(), strict("(5, 'xy')"));
        assert_eq!(form.assignments(image).unwrap(), strict("`A` = 5, `b` = 'xy'"));
    });
    of(&log, 0b11, &[0b01, 2, b'x', b'y'], |image| {
        assert!(
            form.key(image)
                .unwrap_err()
                .contains("a value of `A` in `d`.`t` can't be applied: it is NULL in a key")
        );
    });
    of(&log, 0b01, &[0, 5], |image| {
        assert!(
            form.values(image)
                .unwrap_err()
                .contains("a value of `b` in `d`.`t` can't be applied: the row was not logged whole")
        );
        assert_eq!(form.key(image).unwrap().text, "5", "the key is there");
    });
    of(&log, 0b10, &[0, 0], |image| assert!(form.key(image).unwrap_err().contains("not logged whole")));
}

#[test]
fn a_key_of_several_columns_is_a_condition() {
    let (log, followed) = tables(&[
        ("A", Type::Varchar(9), "varchar(9)"),
        ("b", Type::Int(1), "tinyint"),
        ("C", Type::Varchar(9), "varbinary(9)"),
    ]);
    let form = Form::new(&log, &followed, TableRules::default(), Flavour::MySql).unwrap();
    let key = |data: &[u8]| of(&log, 0b111, data, |image| form.key(image).unwrap());
    // A text that can't be quoted has its character set, so that the server finds it by the key.
    let one = key(&[0, 1, b'\n', 5, 2, b'x', b'\n']);
    assert_eq!(one.text, "(`A` = _utf8mb4 x'0A' AND `C` = x'780A')");
    assert_eq!(form.condition(&[&one.text, "x"]), format!("{} OR x", one.text));
    assert_eq!(key(&[0, 1, b'x', 5, 1, b'y']).text, "(`A` = 'x' AND `C` = 'y')");
    // Where one value ends and the next begins makes a difference.
    assert_ne!(key(&[0, 1, b'x', 5, 1, b'y']).bytes, key(&[0, 2, b'x', b'y', 5, 0]).bytes);
}

#[test]
fn what_no_strict_server_takes_is_lax() {
    let columns = [
        ("A", Type::Int(1), "tinyint"),
        ("y", Type::Year, "year(2)"),
        ("e", Type::Enum(1), "enum('a')"),
        ("z", Type::Year, "year(4)"),
        ("f", Type::Float, "float"),
        ("i", Type::Int(1), "tinyint(4)"),
    ];
    let (log, followed) = tables(&columns);
    let form = Form::new(&log, &followed, TableRules::default(), Flavour::MariaDb).unwrap();
    let values = |data: &[u8]| of(&log, 0b11_1111, data, |image| form.values(image).unwrap());
    let all = |year: u8, member: u8| [&[0, 5, year, member, 0][..], &1.5f32.to_le_bytes(), &[9]].concat();
    for (year, member, text, is_lax) in [
        (126, 1, "(5, 2026, 1, 0, 1.5e0, 9)", false),
        (0, 1, "(5, '1900', 1, 0, 1.5e0, 9)", true),
        (126, 0, "(5, 2026, 0, 0, 1.5e0, 9)", true),
    ] {
        assert_eq!(values(&all(year, member)), Values { text: text.to_owned(), is_lax });
    }
    let (log, followed) = tables(&[columns[0], ("f", Type::Float, "float(5,2)")]);
    let form = Form::new(&log, &followed, TableRules::default(), Flavour::MariaDb).unwrap();
    let data = [&[0, 5][..], &1.5f32.to_le_bytes()].concat();
    assert!(of(&log, 0b11, &data, |image| form.values(image).unwrap().is_lax));
}

/// Its text does not say that the number is a DECIMAL, but MariaDB has nothing but the text.
#[test]
fn a_document_that_its_text_does_not_say_is_only_for_mariadb() {
    let (log, followed) = tables(&[("A", Type::Int(1), "tinyint"), ("j", Type::Json(1), "json")]);
    // An opaque value of type DECIMAL (246): precision 2, scale 1, 1.5.
    let document = [0x0f, 246, 4, 2, 1, 0x81, 5];
    let data = [&[0, 5, 7][..], &document].concat();
    let stored = |flavour| {
        let form = Form::new(&log, &followed, TableRules::default(), flavour).unwrap();
        of(&log, 0b11, &data, |image| form.values(image).map(|values| values.text))
    };
    assert_eq!(stored(Flavour::MariaDb), Ok("(5, '1.5')".to_owned()));
    assert!(stored(Flavour::MySql).unwrap_err().contains("a value of `j` in `d`.`t` can't be applied"));
}

#[test]
fn a_table_that_is_not_as_it_was_copied_is_refused() {
    let all = [("A", Type::Int(1), "tinyint"), ("b", Type::Varchar(9), "varchar(9)")];
    let said = |change: fn(&mut LogTable, &mut Followed)| {
        let (mut log, mut followed) = tables(&all);
        change(&mut log, &mut followed);
        Form::new(&log, &followed, TableRules::default(), Flavour::MariaDb).map(|form| form.names)
    };
    assert_eq!(said(|_, _| ()).unwrap(), "(`A`, `b`)");
    let error = said(|log, _| log.columns[1].name = None).unwrap_err();
    assert_eq!(error, "the log does not name column 2 of table `d`.`t`");
    let error = said(|log, _| log.columns[1].name = Some("c".to_owned())).unwrap_err();
    assert_eq!(error, "table `d`.`t` had no column `c` when it was copied");
    let error = said(|log, _| log.columns[0].is_unsigned = None).unwrap_err();
    assert_eq!(error, "the log does not say whether column `A` of table `d`.`t` is signed");
    assert!(said(|log, _| log.columns[1].is_unsigned = None).is_ok(), "a text has no sign");
    let error = said(|log, _| drop(log.columns.remove(0))).unwrap_err();
    assert_eq!(error, "the log has not all columns of the key of table `d`.`t`");
    assert!(said(|_, followed| followed.table.key.clear()).is_err());
    // What the server computes itself is not written.
    let computed = |_: &mut LogTable, followed: &mut Followed| {
        followed.table.columns[1].origin = Origin::Generated;
    };
    assert_eq!(said(computed).unwrap(), "(`A`)");
    let hash = |log: &mut LogTable, _: &mut Followed| {
        log.columns[1].name = Some(format!("{HASH_COLUMN}1"));
    };
    assert_eq!(said(hash).unwrap(), "(`A`)");
}

#[test]
fn other_rows_change_along_with_what_they_refer_to() {
    let (log, mut followed) = tables(&[("A", Type::Int(1), "tinyint"), ("b", Type::Int(1), "tinyint")]);
    let cascades = |followed: &Followed, change, data: &[u8]| {
        let form = Form::new(&log, followed, TableRules::default(), Flavour::MariaDb).unwrap();
        let present = Some(&[0b11][..]);
        let (before, after) = match change {
            Change::Insert => (None, present),
            Change::Update => (present, present),
            Change::Delete => (present, None),
        };
        let data = data.into();
        let own = Rows { change, table_id: 7, flags: 0, columns: 2, before, after, is_partial: false, data };
        form.cascades(&rows(&own, &log, "here").unwrap().next().unwrap().unwrap())
    };
    let [other, own, same] = [[0, 1, 2, 0, 1, 3], [0, 1, 2, 0, 4, 2], [0, 1, 2, 0, 1, 2]];
    assert!(!cascades(&followed, Change::Update, &own) && !cascades(&followed, Change::Delete, &own[..3]));
    followed.cascades.insert("A".to_owned());
    let updates = [other, own, same].map(|data| cascades(&followed, Change::Update, &data));
    assert_eq!(updates, [false, true, false]);
    assert!(cascades(&followed, Change::Delete, &own[..3]));
}
