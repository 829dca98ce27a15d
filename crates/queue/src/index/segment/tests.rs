//! Tests of a segment.

use std::path::Path;

use super::*;
use crate::condition::rank::Ranked;
use crate::format::batch::Place;
use crate::store::files::Files;
use crate::store::folder::Folder;

#[test]
fn rows_keep_their_places_at_large_offsets_and_after_gaps() {
    let folder = Folder::new(Arc::new(disk::RealDisk), Files::new(1), Path::new("/nowhere"));
    let place = Place::active([0; 16], 0, 1);
    let base = 1 << 40;
    let mut segment = Segment::active(SegmentFile::new(&folder, place), RowId(base));
    let rows: [(u64, u64, usize); 4] =
        [(0, (1 << 31) + 5, (1 << 29) - 1), (1, 3 << 30, 9), (7, (1 << 32) - 100, 90), (9, (1 << 32) - 5, 4)];
    for (id, offset, len) in rows {
        let (id, ranked) = (RowId(base + id), Ranked::default());
        segment.push(&Arrival { id, offset, len, time_ms: 0, ranked });
    }
    for (id, offset, len) in rows {
        let id = RowId(base + id);
        assert!(segment.change(id, Doing::Waiting, Doing::Owned).unwrap());
        let (_, found) = segment.spot(id).unwrap().unwrap();
        assert_eq!((found.offset, found.len), (offset, len));
        assert_eq!(segment.rows_from(id, Doing::is_live).unwrap().next(), Some(id));
        assert_eq!(segment.doing(id).unwrap(), Doing::Owned);
    }
    for absent in [2, 6, 8, 10] {
        assert_eq!(segment.doing(RowId(base + absent)).unwrap(), Doing::Gone);
    }
    let next =
        |segment: &mut Segment, from| segment.rows_from(RowId(base + from), Doing::is_live).unwrap().next();
    assert_eq!(next(&mut segment, 2), Some(RowId(base + 7)));
    assert!(segment.change(RowId(base), Doing::Owned, Doing::Kept).unwrap());
    assert_eq!(segment.spot(RowId(base)).unwrap().unwrap().1.len, (1 << 29) - 1);
    assert_eq!((segment.kept_bytes(), next(&mut segment, 0)), ((1 << 29) - 1, Some(RowId(base + 1))));
    assert_eq!(segment.live_bytes(), (1 << 29) - 1 + 9 + 90 + 4);
}
