//! Statements and rows larger than the protocol's 16 MiB packets, up to the server's limit and beyond it.

use std::ops::ControlFlow;

use server::Error;

use crate::support::{Server, shared};

/// Bytes that would show a lost, doubled or misplaced piece.
fn noise(len: usize) -> String {
    let mut state = 88_172_645_463_325_252_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'a' + (state.to_le_bytes()[5] % 26))
        })
        .collect()
}

#[test]
fn large_values_go_both_ways() {
    let mut session = shared().root();
    for len in [20_000_000, 40_000_000] {
        let text = noise(len);
        let answer = session.value(&format!("SELECT '{text}'")).unwrap().unwrap();
        assert!(answer == text, "{len} bytes came back as {}", answer.len());
    }
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

/// A packet of exactly 2^24 - 1 bytes is followed by an empty one; packets of all sizes near it must pass
/// too.
#[test]
fn packets_of_every_size_around_the_boundary_go_both_ways() {
    let mut session = shared().root();
    let text = noise((1 << 24) + 16);
    let around = "SELECT ''".len() + 1;
    for total in (1 << 24) - 3..(1 << 24) + 3 {
        let value = &text[..total - around];
        assert!(
            session.value(&format!("SELECT '{value}'")).unwrap().unwrap() == value,
            "statement of {total}"
        );
        // A length of four or nine bytes precedes the value in a row of one long value.
        let value = &text[..total - 4];
        assert!(session.value(&format!("SELECT '{value}'")).unwrap().unwrap() == value, "row of {total}");
    }
}

#[test]
fn a_row_may_exceed_what_a_statement_may_not() {
    let mut session = shared().root();
    let mut lengths = Vec::new();
    session
        .for_each_row("SELECT REPEAT('a', 40000000), 'x', REPEAT('b', 40000000)", &mut |row| {
            lengths.extend(row.iter().map(|cell| cell.unwrap().len()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(lengths, [40_000_000, 1, 40_000_000]);
}

/// A statement of `size` bytes including the command byte, which the server counts too.
fn of_size(size: u64) -> String {
    format!("DO '{}'", "x".repeat(usize::try_from(size).unwrap() - 6))
}

#[test]
fn a_statement_over_the_limit_is_named_and_costs_nothing() {
    let mut session = shared().root();
    let limit = session.about.max_allowed_packet;
    session.execute(&of_size(limit - 1)).unwrap();
    let too_large = of_size(limit);
    match session.execute(&too_large) {
        Err(Error::PacketTooLarge { size_bytes, limit_bytes, hint, .. }) => {
            assert_eq!(limit_bytes, limit);
            assert_eq!(size_bytes, too_large.len() as u64 + 1);
            assert!(hint.contains("SET GLOBAL max_allowed_packet = 68157440"), "{hint}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

#[test]
fn a_value_the_server_cannot_build_is_named() {
    let server = shared();
    let mut session = server.root();
    let db = server.schema();
    session.execute(&format!("CREATE TABLE {db}.t (a LONGTEXT)")).unwrap();
    let error = session.execute(&format!("INSERT INTO {db}.t VALUES (REPEAT('x', 70000000))")).unwrap_err();
    assert!(matches!(error, Error::PacketTooLarge { limit_bytes: 67_108_864, .. }), "{error:?}");
    assert_eq!(session.value("SELECT 7").unwrap().as_deref(), Some("7"));
}

#[test]
fn the_limit_is_the_servers() {
    let server = Server::start(&["--max-allowed-packet=1M".into()]);
    let mut session = server.root();
    assert_eq!(session.about.max_allowed_packet, 1 << 20);
    let error = session.execute(&format!("DO '{}'", "x".repeat(2_000_000))).unwrap_err();
    assert!(matches!(error, Error::PacketTooLarge { limit_bytes: 1_048_576, .. }), "{error:?}");
    session.execute(&of_size((1 << 20) - 1)).unwrap();
    // Doing what the hint says must help.
    let Error::PacketTooLarge { hint, .. } = error else { unreachable!() };
    let command = hint.split(": ").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    session.execute(command).unwrap();
    server.root().execute(&format!("DO '{}'", "x".repeat(2_000_000))).unwrap();
    // The usual limit is one byte more than the protocol's largest packet.
    session.execute("SET GLOBAL max_allowed_packet = 16777216").unwrap();
    let mut session = server.root();
    session.execute(&of_size((1 << 24) - 1)).unwrap();
    session.execute(&of_size(1 << 24)).unwrap_err();
    session.execute("DO 1").unwrap();
}
