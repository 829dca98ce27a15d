//! Tests of a segment.

use std::path::Path;

use super::*;
use crate::format::batch::SegmentId;
use crate::row_attributes::RowAttributes;
use crate::store::files::OpenFiles;
use crate::store::folder::Folder;

#[test]
fn rows_keep_their_places_at_large_offsets_and_after_gaps() {
    let folder = Folder::new(Arc::new(disk::RealDisk), OpenFiles::new(1), Path::new("/nowhere"));
    let segment_id = SegmentId::active([0; 16], 0, 1);
    let base = 1 << 40;
    let mut segment = Segment::active(SegmentFile::new(&folder, segment_id), RowId(base));
    let rows: [(u64, u64, usize); 4] =
        [(0, (1 << 31) + 5, (1 << 29) - 1), (1, 3 << 30, 9), (7, (1 << 32) - 100, 90), (9, (1 << 32) - 5, 4)];
    for (id, offset, len) in rows {
        let (id, attributes) = (RowId(base + id), RowAttributes::default());
        segment.push(&NewRow { id, offset, len, time_ms: 0, attributes });
    }
    for (id, offset, len) in rows {
        let id = RowId(base + id);
        assert!(segment.change(id, RowState::Waiting, RowState::Owned).unwrap());
        let (_, found) = segment.byte_range(id).unwrap().unwrap();
        assert_eq!((found.offset, found.len), (offset, len));
        assert_eq!(segment.rows_from(id, RowState::is_live).unwrap().next(), Some(id));
        assert_eq!(segment.row_state(id).unwrap(), RowState::Owned);
    }
    for absent in [2, 6, 8, 10] {
        assert_eq!(segment.row_state(RowId(base + absent)).unwrap(), RowState::Gone);
    }
    let next = |segment: &mut Segment, from| {
        segment.rows_from(RowId(base + from), RowState::is_live).unwrap().next()
    };
    assert_eq!(next(&mut segment, 2), Some(RowId(base + 7)));
    assert!(segment.change(RowId(base), RowState::Owned, RowState::Kept).unwrap());
    assert_eq!(segment.byte_range(RowId(base)).unwrap().unwrap().1.len, (1 << 29) - 1);
    assert_eq!((segment.kept_bytes(), next(&mut segment, 0)), ((1 << 29) - 1, Some(RowId(base + 1))));
    assert_eq!(segment.live_bytes(), (1 << 29) - 1 + 9 + 90 + 4);
}
