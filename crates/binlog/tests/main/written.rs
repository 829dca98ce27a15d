//! Events and values written by hand: what the servers of the cases did not write.

use std::borrow::Cow;

use binlog::event::gtid::{Gtid, GtidList, Number, Uuid, Xid};
use binlog::event::query::Session;
use binlog::event::small::{Checkpoint, Encryption, LoadBlock, Rotate, UserValue, UserVariable, XaPrepare};
use binlog::event::{Body, Change, Kind};
use binlog::reader::Reader;
use binlog::row::{Value, number};

use crate::support::{framed, walk};

/// What an event of this kind with this body says, behind those of a real log.
fn with_body<T>(kind: u8, body: &[u8], look: impl FnOnce(Body<'_>) -> T) -> Option<T> {
    let log = framed(&[(kind, body)]);
    let mut reader = Reader::open(&log[..]).unwrap();
    let mut events = 0;
    loop {
        let event = reader.next().unwrap().unwrap();
        events += 1;
        if events > 1 && event.at == log.len() as u64 - body.len() as u64 - 19 {
            return event.parse().ok().map(look);
        }
    }
}

/// Every shorter body is told, except those of at least so many bytes.
fn is_told_when_cut(kind: u8, body: &[u8], enough: usize) {
    for len in 0..body.len() {
        assert_eq!(with_body(kind, &body[..len], |_| ()).is_some(), len >= enough, "{kind}: {len} bytes");
    }
}

#[test]
fn small_events_have_their_fields() {
    let user = |kind, bytes, is_unsigned| UserVariable {
        name: b"ab",
        value: Some(UserValue { kind, collation: 33, bytes, is_unsigned }),
    };
    for (body, wanted) in [
        (&[2, 0, 0, 0, b'a', b'b', 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, b'x'][..], user(0, b"x", false)),
        (&[2, 0, 0, 0, b'a', b'b', 0, 2, 33, 0, 0, 0, 1, 0, 0, 0, 9, 1], user(2, &[9], true)),
        (&[2, 0, 0, 0, b'a', b'b', 0, 2, 33, 0, 0, 0, 1, 0, 0, 0, 9, 2], user(2, &[9], false)),
        (&[2, 0, 0, 0, b'a', b'b', 1], UserVariable { name: b"ab", value: None }),
    ] {
        let is = with_body(14, body, |body| matches!(body, Body::UserVariable(found) if found == wanted));
        assert_eq!(is, Some(true), "{body:?}");
        is_told_when_cut(14, body, body.len().min(17));
    }
    let said = |kind, body: &[u8], wanted: &dyn Fn(&Body<'_>) -> bool| {
        assert_eq!(with_body(kind, body, |body| wanted(&body)), Some(true), "{kind}");
    };
    let rotate = Rotate { position: 258, file: b"log.2" };
    said(4, b"\x02\x01\0\0\0\0\0\0log.2", &|body| matches!(body, Body::Rotate(found) if *found == rotate));
    said(5, &[2, 7, 0, 0, 0, 0, 0, 0, 0], &|body| matches!(body, Body::Intvar(2, 7)));
    said(16, &[7, 0, 0, 0, 0, 0, 0, 1], &|body| matches!(body, Body::Xid(0x0100_0000_0000_0007)));
    said(160, b"DELETE", &|body| matches!(body, Body::Annotate(b"DELETE")));
    said(34, b"", &|body| matches!(body, Body::MySqlGtid(None)));
    said(13, &[[1; 8], [2; 8]].concat(), &|body| {
        matches!(body, Body::Rand(0x0101_0101_0101_0101, 0x0202_0202_0202_0202))
    });
    let checkpoint = Checkpoint { file: b"log" };
    said(161, b"\x03\0\0\0log", &|body| matches!(body, Body::Checkpoint(found) if *found == checkpoint));
    is_told_when_cut(161, b"\x03\0\0\0log", 7);
    let block = LoadBlock { file_id: 513, bytes: b"1\t2\n" };
    for kind in [9, 17] {
        said(
            kind,
            b"\x01\x02\0\x001\t2\n",
            &|body| matches!(body, Body::LoadBlock(found) if *found == block),
        );
    }
    said(11, &[1, 2, 0, 0], &|body| matches!(body, Body::DeleteFile(513)));
    said(26, b"\x01\0\x04lost", &|body| matches!(body, Body::Incident(1, b"lost")));
    said(27, b"log.3", &|body| matches!(body, Body::Heartbeat(b"log.3")));
    said(3, b"", &|body| matches!(body, Body::Stop));
    said(200, b"?", &|body| matches!(body, Body::Unknown));
    let encryption = Encryption { scheme: 1, key_version: 7 };
    let body = [&[1, 7, 0, 0, 0][..], &[9; 12]].concat();
    said(164, &body, &|body| matches!(body, Body::Encryption(found) if *found == encryption));
    is_told_when_cut(164, &body, 17);
}

#[test]
fn numbers_of_transactions_have_their_parts() {
    let number = Number { domain: 3, server_id: 1, sequence: 258 };
    let plain = Gtid {
        number,
        flags: 0,
        commit_id: None,
        xid: None,
        flags_extra: 0,
        alter_began: None,
        thread_id: None,
    };
    let xid = Some(Xid { format: 1, global: b"gg", branch: b"b" });
    let head = |flags: u8, rest: &[u8]| [&[2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, flags][..], rest].concat();
    let five = [5, 0, 0, 0, 0, 0, 0, 0];
    let named = [1, 0, 0, 0, 2, 1, b'g', b'g', b'b'];
    for (body, wanted) in [
        (head(0, &[0; 6]), plain.clone()),
        (head(2, &five), Gtid { flags: 2, commit_id: Some(5), ..plain.clone() }),
        (head(0x40, &named), Gtid { flags: 0x40, xid, ..plain.clone() }),
        (head(0x80, &named), Gtid { flags: 0x80, xid, ..plain.clone() }),
        (
            head(0, &[&[1 | 4, 9][..], &five].concat()),
            Gtid { flags_extra: 5, alter_began: Some(5), ..plain.clone() },
        ),
        (
            head(0, &[&[8][..], &five].concat()),
            Gtid { flags_extra: 8, alter_began: Some(5), ..plain.clone() },
        ),
        (
            head(1, &[16, 7, 0, 0, 0, 0]),
            Gtid { flags: 1, flags_extra: 16, thread_id: Some(7), ..plain.clone() },
        ),
    ] {
        let is = with_body(162, &body, |body| match body {
            Body::Gtid(found) => {
                assert_eq!(found.is_standalone(), found.flags & 1 == 1);
                assert_eq!(found, wanted);
            }
            other => panic!("{other:?}"),
        });
        assert!(is.is_some(), "{body:?}");
    }
    is_told_when_cut(162, &head(0, &[0; 6]), 19);
    let two = GtidList { flags: 5, numbers: vec![number, Number { domain: 0, server_id: 9, sequence: 1 }] };
    let body = [
        &[2, 0, 0, 0x50, 3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0][..],
        &[0, 0, 0, 0, 9, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(
        with_body(163, &body, |body| matches!(body, Body::GtidList(found) if found == two)),
        Some(true)
    );
    is_told_when_cut(163, &body, 36);
    for (text, number) in
        [("3-1-258", Some(number)), ("3-1", None), ("3-1-258-0", None), ("", None), ("a-1-2", None)]
    {
        assert_eq!(text.parse().ok(), number, "{text}");
    }
    assert_eq!(number.to_string(), "3-1-258");
}

#[test]
fn numbers_of_mysql_have_their_servers() {
    let server: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let body = [&[0][..], &server, &[7, 0, 0, 0, 0, 0, 0, 0]].concat();
    let is = with_body(
        33,
        &body,
        |body| matches!(body, Body::MySqlGtid(Some((found, 7))) if found == Uuid(server)),
    );
    assert_eq!(is, Some(true));
    is_told_when_cut(33, &body, 25);
    assert_eq!(Uuid(server).to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    let eight = |number: u8| [number, 0, 0, 0, 0, 0, 0, 0];
    let body = [&eight(1)[..], &server, &eight(2), &eight(1), &eight(5), &eight(7), &eight(9)].concat();
    let wanted = vec![(Uuid(server), vec![(1, 5), (7, 9)])];
    assert_eq!(
        with_body(35, &body, |body| matches!(body, Body::PreviousGtids(found) if found == wanted)),
        Some(true)
    );
    is_told_when_cut(35, &body, body.len());
}

#[test]
fn a_distributed_transaction_is_named_in_64_bytes() {
    let body = |global: u8, branch: u8| {
        let names = vec![b'x'; usize::from(global) + usize::from(branch)];
        [&[1, 4, 0, 0, 0, global, 0, 0, 0, branch, 0, 0, 0][..], &names].concat()
    };
    let longest = vec![b'x'; 64];
    let wanted = XaPrepare { one_phase: true, xid: Xid { format: 4, global: &longest, branch: &longest } };
    let is = with_body(38, &body(64, 64), |body| matches!(body, Body::XaPrepare(found) if found == wanted));
    assert_eq!(is, Some(true));
    for (global, branch) in [(65, 0), (0, 65)] {
        assert!(with_body(38, &body(global, branch), |_| ()).is_none());
    }
    is_told_when_cut(38, &body(3, 2), 18);
}

#[test]
fn a_statement_has_the_settings_that_are_known() {
    let settings = [
        &[0, 1, 0, 0, 0][..],
        &[1, 2, 0, 0, 0, 0, 0, 0, 0],
        &[2, 3, b's', b't', b'd', 0],
        &[3, 5, 0, 6, 0],
        &[4, 33, 0, 45, 0, 8, 0],
        &[5, 3, b'U', b'T', b'C'],
        &[6, 3, b's', b't', b'd'],
        &[7, 9, 0],
        &[8, 10, 0],
        &[9, 1, 1, 1, 1, 1, 1, 1, 1],
        &[10, 1, 1, 1, 1],
        &[11, 2, b'm', b'e', 1, b'%'],
        &[12, 2, b'a', 0, b'b', b'b', 0],
        &[128, 64, 66, 15],
        &[129, 12, 0, 0, 0, 0, 0, 0, 0],
        &[130, 4, 1, 1, 1, 1, 1, 1, 1, 1],
        &[130, 8, 1, 1, 1, 1, 1, 1, 1, 1],
        &[130, 1],
        &[131, 2, 1, 1, 1, 1, 1, 1, 1, 1],
        &[12, 254],
    ];
    let whole = Session {
        options: Some(1),
        sql_mode: Some(2),
        charsets: Some([33, 45, 8]),
        auto_increment: Some((5, 6)),
        time_zone: Some(b"UTC"),
        locale: Some(9),
        schema_collation: Some(10),
        invoker: Some((b"me", b"%")),
        microseconds: Some(1_000_000),
        xid: Some(12),
    };
    let body = |settings: &[u8]| {
        let len = u8::try_from(settings.len()).unwrap();
        [&[3, 0, 0, 0, 4, 0, 0, 0, 2, 5, 0, len, 0][..], settings, b"db\0SELECT 1"].concat()
    };
    let read = |settings: &[u8], wanted: Session<'_>| {
        with_body(2, &body(settings), |body| match body {
            Body::Query(query) => {
                assert_eq!((query.thread_id, query.seconds, query.error), (3, 4, 5));
                assert_eq!(
                    (query.schema, &*query.sql, query.session),
                    (&b"db"[..], &b"SELECT 1"[..], wanted)
                );
            }
            other => panic!("{other:?}"),
        })
    };
    assert!(read(&settings.concat(), whole).is_some());
    // Each is as long as it says: a known one behind it is read, and a cut one is told.
    for setting in settings {
        let and = |more: &[u8]| [setting, more].concat();
        let length = with_body(2, &body(&and(&[7, 9, 0])), |body| match body {
            Body::Query(query) => query.session.locale,
            _ => None,
        });
        assert_eq!(length, Some(Some(9)), "{setting:?}");
        let cut = with_body(2, &body(&setting[..setting.len() - 1]), |_| ());
        assert!(cut.is_none(), "{setting:?}");
    }
    let known = Session { locale: Some(9), ..Session::default() };
    assert!(read(&[7, 9, 0, 99, 0, 1, 0, 0, 0], known).is_some());
    let mut no_zero = body(&[]);
    no_zero[15] = b'x';
    assert!(with_body(2, &no_zero, |_| ()).is_none());
}

#[test]
fn load_data_has_its_file() {
    let more = [9, 0, 0, 0, 5, 0, 0, 0, 12, 0, 0, 0, 2];
    let body = [&[3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0][..], &more, b"db\0LOAD DATA"].concat();
    let is = with_body(18, &body, |body| match body {
        Body::ExecuteLoad(load) => {
            assert_eq!((load.file_id, load.name, load.duplicates), (9, (5, 12), 2));
            assert_eq!((load.query.schema, &*load.query.sql), (&b"db"[..], &b"LOAD DATA"[..]));
        }
        other => panic!("{other:?}"),
    });
    assert!(is.is_some());
}

#[test]
fn events_with_rows_say_what_happened() {
    // The images as they are, and packed: a zlib stream of one stored block.
    let stored =
        [&[0x81, 4, 0x78, 0x01, 1, 4, 0, 0xFB, 0xFF][..], b"rows", &[0x04, 0x7A, 0x01, 0xCC]].concat();
    for (kind, change, extra) in [
        (23, Change::Insert, false),
        (24, Change::Update, false),
        (25, Change::Delete, false),
        (30, Change::Insert, true),
        (31, Change::Update, true),
        (32, Change::Delete, true),
        (166, Change::Insert, false),
        (167, Change::Update, false),
        (168, Change::Delete, false),
        (169, Change::Insert, true),
        (170, Change::Update, true),
        (171, Change::Delete, true),
    ] {
        let images = if kind > 100 { &stored[..] } else { b"rows" };
        let head: &[u8] = &[9, 0, 0, 0, 0, 1, 1, 0];
        let bitmaps: &[u8] = if change == Change::Update { &[9, 0xFF, 1, 0xAA, 0] } else { &[9, 0xFF, 1] };
        let data: &[u8] = if extra { &[3, 0, 77] } else { &[] };
        let body = [head, data, bitmaps, images].concat();
        let is = with_body(kind, &body, |body| match body {
            Body::Rows(rows) => {
                let both = change == Change::Update;
                let first = Some(&[0xFF, 1][..]);
                let before = first.filter(|_| change != Change::Insert);
                let after =
                    if both { Some(&[0xAA, 0][..]) } else { first.filter(|_| change == Change::Insert) };
                assert_eq!(
                    (rows.change, rows.table_id, rows.flags, rows.columns),
                    (change, 0x0100_0000_0009, 1, 9)
                );
                assert_eq!((rows.before, rows.after, &*rows.data), (before, after, &b"rows"[..]));
                assert!(rows.ends_statement());
            }
            other => panic!("{other:?}"),
        });
        assert!(is.is_some(), "{kind}");
        if kind < 100 {
            is_told_when_cut(kind, &body, body.len() - 4);
        }
        let mut goes_on = body;
        goes_on[6] = 2;
        let ends =
            with_body(kind, &goes_on, |body| matches!(body, Body::Rows(rows) if rows.ends_statement()));
        assert_eq!(ends, Some(false));
    }
    // The length of further data counts itself.
    let body = [9, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0xFF];
    assert!(with_body(30, &body, |_| ()).is_none());
    for number in 0..=255 {
        assert_eq!(Kind(number).is_known(), !Kind(number).name().starts_with("Unknown"), "{number}");
    }
}

/// The value of a column: a type and its properties, what is said of it besides, and its bytes.
fn value(kind: u8, details: &[u8], metadata: &[u8], bytes: &[u8]) -> Result<String, String> {
    let len = u8::try_from(details.len()).unwrap();
    let map = [&[9, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b't', 0, 1, kind, len][..], details, &[1], metadata]
        .concat();
    let rows = [&[9, 0, 0, 0, 0, 0, 1, 0, 1, 0xFF, 0][..], bytes].concat();
    let found = walk(&framed(&[(19, &map), (23, &rows)]));
    match found.error {
        Some(error) => Err(error),
        None => Ok(found.rows.concat().trim_start_matches("@1=").trim_end().to_owned()),
    }
}

/// A type and its properties, what is said of it besides, its bytes, and the value that they are.
type Shown<'a> = (u8, &'a [u8], &'a [u8], &'a [u8], &'a str);

fn are_shown(values: &[Shown<'_>]) {
    for (kind, details, metadata, bytes, wanted) in values {
        assert_eq!(value(*kind, details, metadata, bytes).as_deref(), Ok(*wanted), "{kind} {details:?}");
        // A byte less is told.
        if let [front @ .., _] = bytes {
            assert!(value(*kind, details, metadata, front).is_err(), "{kind} {details:?}: cut");
        }
    }
}

#[test]
fn numbers_and_times_have_their_bytes() {
    const UNSIGNED: &[u8] = &[1, 1, 0x80];
    const SIGNED: &[u8] = &[1, 1, 0x7F];
    are_shown(&[
        (1, &[][..], &[][..], &[0xFF][..], "-1 (255)"),
        (1, &[], &[], &[0x7F], "127"),
        (1, &[], UNSIGNED, &[0xFF], "255"),
        (1, &[], SIGNED, &[0x80], "-128"),
        (2, &[], SIGNED, &[0, 0x80], "-32768"),
        (9, &[], SIGNED, &[0xFE, 0xFF, 0xFF], "-2"),
        (9, &[], SIGNED, &[0, 0, 0x40], "4194304"),
        (9, &[], UNSIGNED, &[0xFE, 0xFF, 0xFF], "16777214"),
        (3, &[], &[], &[0, 0, 0, 0x80], "-2147483648 (2147483648)"),
        (8, &[], SIGNED, &[0xFF; 8], "-1"),
        (8, &[], UNSIGNED, &[0xFF; 8], "18446744073709551615"),
        (4, &[4], &[], &[0, 0, 0x20, 0x41], "10"),
        (4, &[8], &[], &[0, 0, 0, 0, 0, 0, 0xF8, 0x3F], "1.5"),
        (5, &[8], &[], &[0, 0, 0, 0, 0, 0, 0xF8, 0xBF], "-1.5"),
        (6, &[], &[], &[], "NULL"),
        (7, &[], &[], &[1, 1, 0, 0], "'1970-01-01 00:04:17'"),
        (10, &[], &[], &[0x77, 0xD5, 0x0F], "'2026-11-23'"),
        (14, &[], &[], &[0xFF, 0xFF, 0xFF], "'32767-15-31'"),
        (11, &[], &[], &[0x40, 0xE2, 0x01], "'12:34:56'"),
        (11, &[], &[], &[0xFF, 0xFF, 0xFF], "'-00:00:01'"),
        (11, &[], &[], &[0, 0, 0x80], "'-838:86:08'"),
        (12, &[], &[], &20_261_123_235_958_u64.to_le_bytes(), "'2026-11-23 23:59:58'"),
        (13, &[], &[], &[0], "0000"),
        (13, &[], &[], &[126], "2026"),
        (16, &[3, 1], &[], &[0x05, 0x01], "b'10100000001'"),
        (16, &[0, 8], &[], &[0; 8], &format!("b'{}'", "0".repeat(64))),
        (16, &[7, 0], &[], &[3], "b'0000011'"),
        (17, &[0], &[], &[0, 0, 1, 1], "'1970-01-01 00:04:17'"),
        (246, &[4, 2], &[], &[0x80 + 12, 34], "12.34"),
        (246, &[65, 38], &[], &[&[0x80][..], &[0; 28]].concat(), &format!("0.{}", "0".repeat(38))),
        (17, &[6], &[], &[0, 0, 0, 1, 0, 0, 2], "'1970-01-01 00:00:01.000002'"),
        (18, &[6], &[], &[0x80, 0, 0, 0, 0, 0, 0, 0], "'0000-00-00 00:00:00.000000'"),
        (19, &[6], &[], &[0x80, 0, 0, 0, 0, 2], "'00:00:00.000002'"),
    ]);
}

#[test]
fn texts_and_members_have_their_bytes() {
    let members = |kind: u8, names: &[u8]| {
        let names: Vec<u8> = names.iter().flat_map(|name| [1, *name]).collect();
        let count = u8::try_from(names.len() / 2).unwrap();
        [&[kind, count * 2 + 1, count][..], &names].concat()
    };
    let long = [&[44, 1][..], &[b'x'; 300]].concat();
    let shown = format!("'{}'", "x".repeat(300));
    are_shown(&[
        (254, &[247, 1], &[], &[2], "2"),
        (254, &[247, 2], &[], &[2, 1], "258"),
        (254, &[247, 1], &members(6, b"xy"), &[2], "'y'"),
        (254, &[247, 1], &members(6, b"xy"), &[3], "3"),
        (254, &[247, 1], &members(6, b"xy"), &[0], "''"),
        (247, &[247, 1], &members(6, b"xy"), &[1], "'x'"),
        (254, &[248, 1], &[], &[5], "5"),
        (254, &[248, 1], &members(5, b"xyz"), &[5], "'x,z'"),
        (254, &[248, 1], &members(5, b"xy"), &[5], "5"),
        (254, &[248, 8], &members(5, b"x"), &[1, 0, 0, 0, 0, 0, 0, 0], "'x'"),
        (254, &[254, 3], &[], b"\x02ab", "'ab'"),
        (254, &[0xEE, 44], &[], &long, &shown),
        (254, &[254, 4], &[2, 1, 63], &[2, 1, 2], "0x01020000"),
        (254, &[254, 4], &[3, 1, 63], &[4, 1, 2, 3, 4], "0x01020304"),
        (254, &[254, 4], &[2, 1, 8], &[2, 0xE4, b'b'], "'\u{e4}b'"),
        (254, &[254, 4], &[2, 1, 33], &[2, 0xE4, b'b'], "0xE462"),
        (15, &[255, 0], &[], b"\x02ab", "'ab'"),
        (253, &[0, 1], &[], b"\x02\0ab", "'ab'"),
        (252, &[1], &[], b"\x02ab", "'ab'"),
        (252, &[4], &[], b"\x02\0\0\0ab", "'ab'"),
        (249, &[3], &[], b"\x02\0\0ab", "'ab'"),
        (255, &[4], &[2, 1, 63], &[2, 0, 0, 0, 1, 2], "0x0102"),
        (245, &[4], &[], &[2, 0, 0, 0, 1, 0xAB], "0x01AB"),
    ]);
}

#[test]
fn a_primary_key_has_columns_and_prefixes() {
    let key = |metadata: &[u8]| {
        let map = [&[9, 0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 1, b't', 0, 2, 3, 3, 0, 0][..], metadata].concat();
        with_body(19, &map, |body| match body {
            Body::Table(table) => table.primary_key.clone(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(key(&[]), Some(None));
    assert_eq!(key(&[8, 2, 1, 0]), Some(Some(vec![(1, 0), (0, 0)])));
    assert_eq!(key(&[9, 4, 1, 5, 0, 0]), Some(Some(vec![(1, 5), (0, 0)])));
    // There is no third column.
    assert_eq!((key(&[8, 1, 2]), key(&[9, 2, 2, 0])), (None, None));
}

#[test]
fn properties_that_no_server_writes_are_told() {
    for (kind, details) in [
        (0, &[][..]),
        (20, &[]),
        (4, &[5]),
        (4, &[]),
        (16, &[8, 1]),
        (16, &[0, 9]),
        (17, &[7]),
        (18, &[7]),
        (19, &[7]),
        (140, &[0]),
        (252, &[0]),
        (252, &[5]),
        (245, &[5]),
        (255, &[5]),
        (246, &[0, 0]),
        (246, &[66, 2]),
        (246, &[5, 6]),
        (246, &[65, 39]),
        (254, &[247, 0]),
        (254, &[247, 3]),
        (254, &[248, 0]),
        (254, &[248, 9]),
        (254, &[1, 1]),
        // More than the type has.
        (1, &[0]),
        (15, &[1, 0, 0]),
    ] {
        let told = value(kind, details, &[], &[0; 80]).unwrap_err();
        assert!(told.contains("Table_map"), "{kind} {details:?}: {told}");
    }
}

fn bytes(text: &[u8], collation: u64) -> Value<'_> {
    Value::Bytes(Cow::Borrowed(text), Some(collation))
}

#[test]
fn a_value_is_what_somebody_types() {
    for (value, yes, no) in [
        (Value::Null, &["NULL", "null"][..], &["", "0"][..]),
        (Value::Int(-5), &["-5"], &["5", "-5.0", ""]),
        (Value::Unsigned(5), &["5"], &["-5"]),
        (Value::Either(-1, 255), &["-1", "255"], &["1", "-1 (255)"]),
        (Value::Float(0.1), &["0.1", "0.10", "1e-1"], &["0.11", "", "x"]),
        (Value::Double(1.5), &["1.5", "15e-1"], &["1.25", "x"]),
        (
            Value::Decimal("-1.50".into()),
            &["-1.50", "-1.5", "-01.500"],
            &["1.5", "-1.05", "-15", "-10.5", ""],
        ),
        (Value::Decimal("0.00".into()), &["0", ".0", "0.000"], &["", ".", "-", "0.01"]),
        (Value::Decimal("10".into()), &["10", "10.0", "010"], &["1", "100", ".10"]),
        (Value::Bit(5, 3), &["5", "b'101'"], &["101", "4"]),
        (Value::Time("2026-11-23".into()), &["2026-11-23"], &["'2026-11-23'", "2026"]),
        (Value::Year(0), &["0000"], &["0", "1900"]),
        (Value::Year(2026), &["2026"], &["126"]),
        (Value::Enum(2, Some(b"two")), &["two", "2"], &["one", "'two'"]),
        (Value::Enum(2, None), &["2"], &["two"]),
        (Value::Set(5, Some(vec![b"a", b"c"])), &["a,c", "5"], &["a", "4"]),
        (Value::Set(5, None), &["5"], &["a,c"]),
        (bytes(b"abc", 33), &["abc", "0x616263", "0x616263"], &["ABC", "0x6162", "616263"]),
        (bytes(b"\xAB\0", 63), &["0xAB00", "0xab00"], &["0xAB", "AB00"]),
        (bytes(b"\xE4", 8), &["\u{e4}", "0xe4"], &["a"]),
        (Value::Json(&[1, 0xAB]), &["0x01ab"], &["01ab"]),
    ] {
        yes.iter().for_each(|text| assert!(value.matches(text), "{value:?}: {text}"));
        no.iter().for_each(|text| assert!(!value.matches(text), "{value:?}: {text}"));
    }
}

#[test]
fn a_value_is_shown_as_it_is_typed() {
    for (value, shown) in [
        (bytes(b"it's \\ \n\r\t\0\x01", 33), "'it\\'s \\\\ \\n\\r\\t\\0\\u{1}'"),
        (bytes(b"a\nb", 63), "0x610A62"),
        (bytes(b"ab", 63), "'ab'"),
        (bytes(b"\x80", 8), "0x80"),
        (bytes(b"\x9F", 8), "0x9F"),
        (bytes(b"\xA0", 8), "'\u{a0}'"),
        (bytes(b"\xE4", 9), "0xE4"),
        (Value::Set(0, Some(vec![])), "''"),
        (Value::Enum(3, Some(b"\xFF")), "3"),
        (Value::Set(3, Some(vec![b"\xFF"])), "3"),
        (Value::Year(7), "0007"),
        (Value::Double(1e300), "1e300"),
    ] {
        assert_eq!(value.to_string(), shown, "{value:?}");
    }
    for (value, text) in [
        (Value::Int(1), None),
        (bytes(b"ab", 33), Some("ab")),
        (Value::Time("1".into()), Some("1")),
        (Value::Enum(1, Some(b"x")), Some("x")),
        (Value::Enum(1, None), None),
    ] {
        assert_eq!(value.as_text().as_deref(), text, "{value:?}");
    }
    assert_eq!(
        (number(2.0), number(-0.5), number(1e21)),
        ("2".to_owned(), "-0.5".to_owned(), "1e21".to_owned())
    );
}
