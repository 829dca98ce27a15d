//! Where a stopped server says that a transaction was not over.

use innodb::page::PAGE_BYTES;
use innodb::transaction::{State, own_rollback_segments, rollback_segments, state, undo_logs};

/// A page in which all places are empty, but these.
fn page(places: &[(usize, u32)]) -> [u8; PAGE_BYTES] {
    let mut page = [0xFF; PAGE_BYTES];
    page[24..26].copy_from_slice(&7_u16.to_be_bytes());
    for (at, number) in places {
        page[*at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    page
}

#[test]
fn rollback_segments_are_in_128_places() {
    // The first and the last place, and one behind it.
    let last = 56 + 127 * 8;
    let found = page(&[(56, 0), (60, 6), (last, 3), (last + 4, 9), (last + 8, 4), (last + 12, 5)]);
    assert_eq!(rollback_segments(&found), Ok(vec![(0, 6), (3, 9)]));
    let mut other = found;
    other[25] = 6;
    assert!(rollback_segments(&other).is_err());
}

#[test]
fn an_undo_tablespace_of_mysql_lists_its_own() {
    let mut list = page(&[(56, 4), (60, u32::MAX), (64, 9), (56 + 4 * 127, 7), (56 + 4 * 128, 8)]);
    for at in (68..56 + 4 * 127).step_by(4) {
        list[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    }
    assert!(own_rollback_segments(&list).is_err());
    list[24..26].copy_from_slice(&21_u16.to_be_bytes());
    assert_eq!(own_rollback_segments(&list), Ok(vec![4, 9, 7]));
}

#[test]
fn undo_logs_are_in_1024_places() {
    assert_eq!(
        undo_logs(&page(&[(68, 7), (72, 1), (76, 300), (72 + 4 * 1023, 2), (72 + 4 * 1024, 3)])),
        [1, 300, 2]
    );
}

#[test]
fn a_transaction_has_one_of_seven_states() {
    let of = |number: u32| state(&page(&[(56, number << 16)]), 9);
    let found: Vec<_> = (0..9).map(of).map(Result::ok).collect();
    let (active, over, prepared) = (Some(State::Active), Some(State::Finished), Some(State::Prepared));
    assert_eq!(found, [None, active, over, over, over, prepared, prepared, prepared, None]);
    assert!(of(0).unwrap_err().to_string().contains("page 9"), "{}", of(0).unwrap_err());
}
