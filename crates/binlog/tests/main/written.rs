//! Events and values written by hand: what the servers of the cases did not write.

use binlog::event::gtid::{Gtid, GtidList, Number, Xid};
use binlog::event::mysql_gtid::{Tag, Tsid, Uuid};
use binlog::event::query::Session;
use binlog::event::small::{Checkpoint, Encryption, LoadBlock, Rotate, UserValue, UserVariable, XaPrepare};
use binlog::event::{Body, Change, Kind};
use binlog::reader::Reader;

use crate::support::framed;
use crate::written_value::value;

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
    let source = Tsid { server: Uuid(server), tag: Tag::default() };
    let body = [&[0][..], &server, &[7, 0, 0, 0, 0, 0, 0, 0]].concat();
    let is =
        with_body(33, &body, |body| matches!(body, Body::MySqlGtid(Some((found, 7))) if found == source));
    assert_eq!(is, Some(true));
    is_told_when_cut(33, &body, 25);
    assert_eq!(source.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    let eight = |number: u8| [number, 0, 0, 0, 0, 0, 0, 0];
    let body = [&eight(1)[..], &server, &eight(2), &eight(1), &eight(5), &eight(7), &eight(9)].concat();
    let wanted = vec![(source, vec![(1, 5), (7, 9)])];
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
