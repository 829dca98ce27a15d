//! What only MySQL 8 and later write: compressed transactions, GTIDs with tags, VECTOR, and the rows that
//! foreign keys changed.

use binlog::archive::PositionTracker;
use binlog::event::{Body, Kind};
use binlog::group::{EventRole, GroupId, Grouping};
use binlog::reader::{End, Reader};

use crate::support::{case, framed, walk};

/// A zstd frame of these bytes as they are.
fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap();
    // The magic bytes, a descriptor with a length of 4 bytes, and one raw block that is the last.
    let head = [&[0x28, 0xB5, 0x2F, 0xFD, 0xA0][..], &len.to_le_bytes()];
    [&head.concat(), &(len << 3 | 1).to_le_bytes()[..3], bytes].concat()
}

/// A TRANSACTION_PAYLOAD of these bytes.
fn payload(method: u8, len: u8, stored: &[u8]) -> Vec<u8> {
    let method: &[u8] = if method == 255 { &[2, 3, 0xFC, 255, 0] } else { &[2, 1, method] };
    [method, &[3, 1, len, 1, 1, u8::try_from(stored.len()).unwrap(), 0], stored].concat()
}

/// An event without a checksum.
fn event(kind: u8, body: &[u8]) -> Vec<u8> {
    framed(&[(kind, body)])[256..].to_vec()
}

/// What a reader gives of a log with this payload: kinds and places, or an error.
fn unpacked(body: &[u8]) -> Result<Vec<(Kind, u64, u64)>, String> {
    let log = framed(&[(40, body), (16, &[7; 8])]);
    let mut reader = Reader::open(&log[..]).unwrap().unpacking();
    let mut found = Vec::new();
    while let Some(event) = reader.next().map_err(|error| error.to_string())? {
        event.parse().map_err(|error| error.to_string())?;
        found.push((event.header.kind, event.at, event.end()));
    }
    Ok(found[1..].to_vec())
}

#[test]
fn a_payload_has_whole_events_which_have_its_place() {
    let events = [event(16, &[1; 8]), event(29, b"\x05stmt")].concat();
    let len = u8::try_from(events.len()).unwrap();
    let stored = zstd_frame(&events);
    for body in [payload(0, len, &stored), payload(255, len, &events)] {
        let end = 256 + 19 + body.len() as u64;
        let inside = [(Kind::XID, 256, end), (Kind::ROWS_QUERY, 256, end)];
        let all = [&inside[..], &[(Kind::XID, end, end + 27)]].concat();
        assert_eq!(unpacked(&body), Ok(all));
    }
}

#[test]
fn a_damaged_payload_is_told() {
    let events = event(16, &[1; 8]);
    let len = u8::try_from(events.len()).unwrap();
    let stored = zstd_frame(&events);
    let mut too_long = events.clone();
    too_long[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut too_short = events.clone();
    too_short[9..13].copy_from_slice(&18_u32.to_le_bytes());
    let nested = event(40, &payload(255, len, &events));
    let nested_len = u8::try_from(nested.len()).unwrap();
    for (body, what) in [
        (payload(7, len, &stored), "unknown compression"),
        (payload(0, len - 1, &stored), "wrong"),
        (payload(0, len + 1, &stored), "wrong"),
        (payload(0, len, &events), "can't be decompressed"),
        (payload(255, len, &too_long), "length of an event in it is wrong"),
        (payload(255, len, &too_short), "length of an event in it is wrong"),
        (payload(255, len - 3, &events[..events.len() - 3]), "within an event"),
        (payload(255, 0, &[]), "no events"),
        (payload(255, nested_len, &nested), "never compressed"),
        (vec![2, 1, 0, 1, 1, 200, 0, 1], "too early"),
        (vec![2, 1, 0, 0], "how long"),
        (Vec::new(), "too early"),
    ] {
        let error = unpacked(&body).unwrap_err();
        assert!(error.contains(what) && error.contains("Transaction_payload at 256"), "{what}: {error}");
    }
}

/// Of a compressed transaction the group is the same, whether it is looked into or not.
#[test]
fn a_compressed_transaction_is_a_group() {
    let log = case("mysql-9.7-compressed").log;
    let (mut reader, mut grouping, mut groups) =
        (Reader::open(log).unwrap(), Grouping::default(), Vec::new());
    let (mut tracker, mut begin) = (PositionTracker::default(), 0);
    while let Some(event) = reader.next().unwrap() {
        let (part, is_cut) = grouping.take(&event, &event.parse().unwrap());
        tracker.take(&event).unwrap();
        assert!(!is_cut, "{}", event.place());
        match part {
            EventRole::First => begin = event.at,
            EventRole::Last => groups.push((begin, event.end())),
            EventRole::Whole => panic!("{}", event.place()),
            _ => {}
        }
        if event.header.kind == Kind::TRANSACTION_PAYLOAD {
            assert_eq!((part, tracker.end()), (EventRole::Last, Some(event.end())));
        }
    }
    assert_eq!(groups, walk(log).groups);
    assert_eq!(groups.len(), 14);
}

#[test]
fn gtids_have_their_tags() {
    let log = case("mysql-9.7-compressed").log;
    let (mut reader, mut names) = (Reader::open(log).unwrap(), Vec::new());
    while let Some(event) = reader.next().unwrap() {
        if let Body::MySqlGtid(Some((source, number))) = event.parse().unwrap() {
            names.push(format!("{source}:{number}"));
        }
    }
    let server = "1fd4a02f-eb29-11f1-bb7b-02fc00000001";
    let own = |numbers: std::ops::RangeInclusive<u64>| numbers.map(|number| format!("{server}:{number}"));
    let tagged = own(1..=2).map(|name| name.replace(server, &format!("{server}:nightly")));
    assert_eq!(names, own(1..=5).chain(tagged).chain(own(6..=12)).collect::<Vec<_>>());
    let mut reader = Reader::open(case("mysql-9.7-tagged").log).unwrap();
    reader.next().unwrap();
    let Body::PreviousGtids(sets) = reader.next().unwrap().unwrap().parse().unwrap() else { panic!() };
    let shown: Vec<_> = sets.iter().map(|(source, ranges)| (source.to_string(), ranges.clone())).collect();
    assert_eq!(shown, [(server.to_owned(), vec![(1, 13)]), (format!("{server}:nightly"), vec![(1, 3)])]);
}

#[test]
fn a_damaged_gtid_is_told() {
    let parsed = |kind: u8, body: &[u8]| {
        let log = framed(&[(kind, body)]);
        let mut reader = Reader::open(&log[..]).unwrap();
        reader.next().unwrap();
        let event = reader.next().unwrap().unwrap();
        event.parse().map(|_| ()).map_err(|error| error.to_string())
    };
    let message = |fields: &[u8]| [&[2, 0x78, 0][..], fields].concat();
    let uuid = [&[2][..], &[2; 16]].concat();
    assert_eq!(parsed(42, &message(&[&uuid[..], &[4, 4, 6, 2, b'a', 8]].concat())), Ok(()));
    for (fields, what) in [
        (&[4, 4][..], "no UUID"),
        (&uuid, "no number"),
        (&[2, 0x01, 0xFF], "too large a byte"),
        (&[&uuid[..], &[4, 4, 6, 2, b'A']].concat(), "a tag that no server gives"),
        (&[&uuid[..], &[4, 4, 6, 200, b'a']].concat(), "too early"),
    ] {
        assert!(parsed(42, &message(fields)).unwrap_err().contains(what), "{what}");
    }
    // A count that no event has room for, and a form of a later version.
    assert!(parsed(35, &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0]).unwrap_err().contains("too early"));
    assert!(parsed(35, &[2, 1, 0, 0, 0, 0, 0, 2]).unwrap_err().contains("form"));
}

/// GEOMETRY is between texts here, and MySQL does not count it among them.
#[test]
fn columns_of_mysql_have_their_collations() {
    let rows = walk(case("mysql-9.7").log).rows;
    for value in [
        "id=4000000000 s='gr\u{fc}n' g=0x000000000101000000000000000000F03F0000000000000040 t='\u{e4}' b=0x00FF ",
        "w=0x0000803F000020C0 j='{\"a\": null, \"b\": [1, 2]}' e='b' ",
        "c=0x00780079007A n=-1234.50 q=-9 h=b'100000001' ",
    ] {
        assert!(rows[0].contains(value), "{value}\n{}", rows[0]);
    }
    assert!(rows[1].starts_with("id=2 s=NULL g=NULL t=NULL b=NULL w=NULL j=NULL e=NULL "), "{}", rows[1]);
    assert!(rows[3].contains(" w=0x0000000000000000 ") && rows[3].contains(" n=1.00 "), "{}", rows[3]);
}

#[test]
fn rows_have_their_statement() {
    let (mut reader, mut found) = (Reader::open(case("mysql-9.7").log).unwrap(), Vec::new());
    let mut grouping = Grouping::default();
    while let Some(event) = reader.next().unwrap() {
        let body = event.parse().unwrap();
        let (part, _) = grouping.take(&event, &body);
        if let Body::Annotate(sql) = body {
            assert_eq!(part, EventRole::Inside);
            assert!(matches!(grouping.open(), Some(GroupId::MySql(_, 3))));
            // It has more bytes than the length in front of it can say.
            assert!(sql.len() > 255 && sql.ends_with(b"NULL)"));
            found.push(sql[..20].to_vec());
        }
    }
    assert_eq!(found, [b"INSERT INTO v VALUES"]);
}

#[test]
fn a_heartbeat_of_the_second_form_names_the_file() {
    let heartbeat = [&[1, 13][..], b"binlog.000003", &[2, 3, 0xFC, 0x99, 0x02, 0]].concat();
    let log = framed(&[(41, &heartbeat), (41, &heartbeat[..10])]);
    let mut reader = Reader::open(&log[..]).unwrap();
    reader.next().unwrap();
    let event = reader.next().unwrap().unwrap();
    assert!(matches!(event.parse().unwrap(), Body::Heartbeat(b"binlog.000003")));
    assert!(reader.next().unwrap().unwrap().parse().is_err());
}

/// Only its server can read it, so it is no damage.
#[test]
fn a_log_that_mysql_encrypted_is_named() {
    let mut reader = Reader::open(&b"\xFDbin\x01\x05\0\0\0"[..]).unwrap();
    assert!(reader.next().unwrap().is_none());
    assert_eq!(reader.end(), Some(&End::Encrypted { at: 0 }));
}
