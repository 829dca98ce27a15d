//! What is read equals what the servers say.

use binlog::column::Type;
use binlog::event::{Body, Kind};
use binlog::reader::Reader;

use binlog::tables::Tables;

use crate::support::{CASES, Case, framed, walk};

#[test]
fn every_event_is_where_the_server_says() {
    for Case { name, log, events } in CASES {
        let found = walk(log);
        assert_eq!(found.error, None, "{name}");
        assert!(events.lines().count() > 4, "{name}");
        assert_eq!(found.events.len(), events.lines().count(), "{name}");
        for (event, said) in found.events.iter().zip(events.lines()) {
            // MariaDB 11.8 does not say where an event within a transaction ends.
            let said_start = said.strip_suffix("\t0").map(|start| format!("{start}\t"));
            let is_said = said_start.map_or_else(|| event == said, |start| event.starts_with(&start));
            assert!(is_said, "{name}: {event} and not {said}");
        }
    }
}

/// Every number of a transaction is a group, which ends where the next one begins.
#[test]
fn groups_are_what_lies_between_gtids() {
    for Case { name, log, events } in CASES.into_iter().filter(|case| case.name != "mysql-5.6") {
        let of = |kind: &str| {
            // MySQL's with a tag are of another kind.
            let is_it =
                |line: &Vec<&str>| line[1].strip_suffix("_tagged_log_event").unwrap_or(line[1]) == kind;
            let lines = events.lines().map(|line| line.split('\t').collect::<Vec<_>>());
            lines.filter(is_it).map(|line| line[0].parse().unwrap()).collect::<Vec<u64>>()
        };
        let groups = walk(log).groups;
        let begins: Vec<u64> = groups.iter().map(|(begin, _)| *begin).collect();
        assert_eq!(begins, of("Gtid"), "{name}");
        let outside = [of("Binlog_checkpoint"), of("Rotate"), of("Stop"), vec![log.len() as u64]].concat();
        for (at, (_, end)) in groups.iter().enumerate() {
            assert!(begins.get(at + 1) == Some(end) || outside.contains(end), "{name}: {end}");
        }
    }
}

/// BEGIN to COMMIT or XID, and statements alone.
#[test]
fn groups_of_mysql_have_no_numbers() {
    let case = CASES.into_iter().find(|case| case.name == "mysql-5.6").unwrap();
    let groups = walk(case.log).groups;
    let begins: Vec<u64> = groups.iter().map(|(begin, _)| *begin).collect();
    assert_eq!(begins, [120, 211, 379, 587, 897, 1105, 1214]);
    for pair in groups.windows(2) {
        assert_eq!(pair[0].1, pair[1].0);
    }
}

/// The values of a table with a column of each type, as they were inserted.
#[test]
fn values_are_those_that_were_inserted() {
    let rows = walk(CASES[0].log).rows;
    for value in [
        "t=-128 tu=255 y=2026 s=-32768 m=-8388608 mu=16777215 iu=4294967295 b=-9223372036854775808 \
         bu=18446744073709551615 f=0.1 d=-1.5e300 de=-123456789012345.67890 \
         de2=12345678901234567890123456789012345.123456789012345678901234567891 bi=b'10101010101' e='it\\'s' \
         st='x,z' c='abc' ",
        "v='h\u{e4}ll\\'o' vl='long' l='gr\u{fc}n' bn=0x0100FF00 vb=0x00FF tt='tt' tx='tx' mt='mt' lb=0x00010203 \
         j='{\"a\": 1}' da='2026-11-23' ti='-838:59:59' ti3='-00:00:00.001' ti6='12:34:56.789012' \
         dt='2026-11-23 10:00:01' dt1='1000-01-01 00:00:00.5' dt6='9999-12-31 23:59:59.999999' \
         ts='2026-11-23 10:00:01' ts4='2026-11-23 10:00:01.1234' \
         g=0x000000000101000000000000000000F03F0000000000000040 u=0x123E4567E89B12D3A456426655440000 \
         i6=0x00000000000000000000000000000001 ",
        "gen=2 gs=2 ",
        &format!("vc='{}' bc='{}' ", "comp".repeat(50), "tc".repeat(500)),
    ] {
        assert!(rows[0].contains(value), "{value}\n{}", rows[0]);
    }
    assert!(rows[1].contains("y=0000 ") && rows[1].contains("f=1e30 ") && rows[1].contains("bn=0x00000000 "));
    assert!(rows[3].starts_with("id=1 t=NULL ") && rows[3].contains(" v='x' "), "{}", rows[3]);
    // Of a MINIMAL image only the key before, and what changed after.
    assert_eq!(walk(CASES[1].log).rows, ["id=2 ", "v='min2' gs=4 "]);
}

#[test]
fn a_statement_has_its_session() {
    let mut reader = Reader::open(CASES[0].log).unwrap();
    let mut statements = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        match event.parse().unwrap() {
            Body::Query(query) if event.header.kind == Kind::QUERY => {
                assert!(query.session.sql_mode.is_some() && query.session.charsets.is_some());
                assert!(query.thread_id > 0 && query.error == 0);
                statements.push((query.schema.to_vec(), query.sql.to_vec()));
            }
            Body::UserVariable(variable) => {
                assert_eq!((variable.name, variable.value.unwrap().bytes), (&b"a"[..], &b"q"[..]));
            }
            Body::Intvar(kind, value) => assert_eq!((kind, value), (2, 1)),
            Body::XaPrepare(xa) => assert_eq!((xa.one_phase, xa.xid.global), (false, &b"x1"[..])),
            _ => {}
        }
    }
    assert!(statements.contains(&(b"app".to_vec(), b"TRUNCATE my".to_vec())), "{statements:?}");
    assert!(!reader.is_relay());
}

/// ALTER TABLE of the log is compressed.
#[test]
fn a_compressed_statement_is_read() {
    let mut reader = Reader::open(CASES[0].log).unwrap();
    let mut found = 0;
    while let Some(event) = reader.next().unwrap() {
        if let (Kind::QUERY_COMPRESSED, Body::Query(query)) = (event.header.kind, event.parse().unwrap()) {
            assert_eq!(*query.sql, *b"ALTER TABLE st ADD COLUMN looooooooooooooooooong INT");
            found += 1;
        }
    }
    assert_eq!(found, 1);
}

/// What a server of another kind or configuration writes: numbers of MySQL before BEGIN, and an XA COMMIT
/// that is announced as a transaction.
#[test]
fn a_number_does_not_say_whether_a_begin_follows() {
    let query = |sql: &str| [&[0; 14][..], sql.as_bytes()].concat();
    let (begin, insert, create) = (query("BEGIN"), query("INSERT"), query("CREATE TABLE"));
    let (xa, gtid) = (query("XA COMMIT 'x'"), [0; 19]);
    let log = framed(&[
        (34, &[]),
        (2, &begin),
        (2, &insert),
        (2, &insert),
        (16, &[0; 8]),
        (34, &[]),
        (2, &create),
        (162, &gtid),
        (2, &xa),
    ]);
    let found = walk(&log);
    assert_eq!(found.error, None);
    let at = |event: usize| found.events[event].split('\t').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(found.groups, [(at(1), at(6)), (at(6), at(8)), (at(8), log.len() as u64)]);
}

/// A transaction of MySQL with a number, and a statement alone with the next one.
#[test]
fn a_number_of_mysql_begins_a_group() {
    let query = |sql: &str| [&[0; 14][..], sql.as_bytes()].concat();
    let number = |last: u8| [&[0; 17][..], &[last, 0, 0, 0, 0, 0, 0, 0]].concat();
    let (begin, insert, create) = (query("BEGIN"), query("INSERT"), query("CREATE TABLE"));
    let log =
        framed(&[(33, &number(1)), (2, &begin), (2, &insert), (16, &[0; 8]), (33, &number(2)), (2, &create)]);
    let found = walk(&log);
    let at = |event: usize| found.events[event].split('\t').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(found.error, None);
    assert_eq!(found.groups, [(at(1), at(5)), (at(5), log.len() as u64)]);
}

/// The number of a table is given to another after that was forgotten.
#[test]
fn a_number_of_a_table_may_be_given_anew() {
    let map = |kind: u8| [&[9, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b't', 0, 1, kind, 0, 0][..]].concat();
    let log = framed(&[(19, &map(3)), (19, &map(3)), (19, &map(8))]);
    let (mut reader, mut tables, mut found) =
        (Reader::open(&log[..]).unwrap(), Tables::default(), Vec::new());
    while let Some(event) = reader.next().unwrap() {
        found.extend(tables.take(&event, |_| {}).unwrap().map(|table| table.columns[0].kind));
    }
    assert_eq!(found, [Type::Int(4), Type::Int(4), Type::Int(8)]);
}
