//! Many rows at once: what they have in common is looked up and counted once for each segment.

use super::{Index, RowState, Segment};
use crate::Error;
use crate::format::record::RowId;

impl Index {
    /// The first rows that wait, at most so many, in the order of their ids.
    pub(crate) fn first_waiting(&mut self, most: usize) -> Result<Vec<RowId>, Error> {
        let head = RowId(self.head);
        let mut rows: Vec<RowId> = self.early.range(..head.0).take(most).map(|id| RowId(*id)).collect();
        let early = rows.len();
        let start = self.segments.range(..=head.0).next_back().map_or(head.0, |(base, _)| *base);
        for (_, segment) in self.segments.range_mut(start..) {
            if rows.len() == most {
                break;
            }
            if segment.waiting() > 0 && segment.end() > head {
                let left = most - rows.len();
                rows.reserve(left.min(usize::try_from(segment.waiting()).unwrap_or(left)));
                let waiting = segment.rows_from(head, |row_state| row_state == RowState::Waiting)?;
                rows.extend(waiting.take(left));
            }
        }
        if early < most {
            let past = || self.segments.last_key_value().map_or(head.0, |(_, last)| last.end().0);
            self.head = rows.get(early).map_or_else(past, |id| id.0);
        }
        Ok(rows)
    }

    /// Makes those of these rows owned that wait.
    pub(crate) fn take_all(&mut self, rows: &[RowId]) -> Result<(), Error> {
        if self.is_ordered() {
            return rows.iter().try_for_each(|id| self.take(*id).map(drop));
        }
        self.change_all(rows, Segment::take_all)
    }

    /// Marks rows as gone. Returns how many were not gone already.
    pub(crate) fn remove_all(&mut self, rows: &[RowId]) -> Result<u64, Error> {
        let before = self.live + self.kept;
        if self.is_ordered() {
            rows.iter().try_for_each(|id| self.remove(*id).map(drop))?;
        } else {
            self.change_all(rows, Segment::remove_all)?;
        }
        Ok(before - self.live - self.kept)
    }

    /// Has each segment change its ones of these rows. None of them waits afterwards.
    fn change_all(
        &mut self,
        rows: &[RowId],
        change: impl Fn(&mut Segment, &[RowId]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut rest = rows;
        while let Some(first) = rest.first().copied() {
            let found = self.segments.range_mut(..=first.0).next_back();
            let Some((base, segment)) = found.filter(|(_, segment)| first < segment.end()) else {
                rest = &rest[1..];
                continue;
            };
            let ids = *base..segment.end().0;
            let here = rest.iter().take_while(|id| ids.contains(&id.0)).count();
            let rows;
            (rows, rest) = rest.split_at(here);
            let before = segment.counts();
            change(segment, rows)?;
            let (after, sealed, sparse) = (segment.counts(), segment.is_sealed(), segment.is_sparse());
            self.live -= (before.live - before.kept) - (after.live - after.kept);
            self.kept -= before.kept - after.kept;
            self.scheduled -= before.scheduled - after.scheduled;
            self.owned = self.owned + after.owned - before.owned;
            rows.iter().for_each(|id| self.stop_waiting(id.0));
            if after.live < before.live && sealed && after.live == 0 {
                let gone = self.segments.remove(&ids.start);
                self.emptied.extend(gone.map(|gone| gone.file().clone()));
            } else if after.live < before.live {
                self.sparse |= sparse;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::format::batch::{IndexLocation, SegmentId};
    use crate::index::NewRow;
    use crate::row_attributes::RowAttributes;
    use crate::store::file::SegmentFile;
    use crate::store::files::OpenFiles;
    use crate::store::folder::Folder;

    /// Six segments of 40 rows, all but the last one sealed; every seventh number is of no row.
    fn filled() -> Index {
        let folder = Folder::new(Arc::new(disk::RealDisk), OpenFiles::new(1), Path::new("/nowhere"));
        let mut index = Index::default();
        let ids = (1..).filter(|id| id % 7 != 0).take(240).collect::<Vec<u64>>();
        for (nth, ids) in ids.chunks(40).enumerate() {
            let file = SegmentFile::new(&folder, SegmentId::active([0; 16], nth as u64, ids[0]));
            for id in ids {
                let (id, attributes) = (RowId(*id), RowAttributes::default());
                index
                    .push(&file, &NewRow { id, offset: id.0 * 100, len: 90, time_ms: 0, attributes })
                    .unwrap();
            }
            if nth < 5 {
                index.seal(&file, IndexLocation { offset: 0, len: 0, file_len: 10_000 });
            }
        }
        index
    }

    fn one_by_one(index: &mut Index, most: usize) -> Vec<RowId> {
        let (mut rows, mut from) = (Vec::new(), RowId(0));
        while let Some(id) = index.next_waiting(from).unwrap().filter(|_| rows.len() < most) {
            rows.push(id);
            from = RowId(id.0 + 1);
        }
        rows
    }

    /// Of how many rows it was so.
    fn count(rows: &[RowId], mut of: impl FnMut(RowId) -> bool) -> u64 {
        rows.iter().map(|id| u64::from(of(*id))).sum()
    }

    fn seen(index: &mut Index) -> (Vec<RowState>, [u64; 4], usize, bool) {
        let row_state = (0..300).map(|id| index.row_state(RowId(id)).unwrap()).collect();
        let counts = [index.live(), index.owned(), index.scheduled(), index.kept()];
        (row_state, counts, index.emptied(), index.sparse)
    }

    #[test]
    fn many_rows_become_what_each_would_become() {
        let (mut many, mut each) = (filled(), filled());
        let mut random = 7_u64;
        for step in 0..400 {
            let mut next = |below: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % below
            };
            let (first, gap) = (next(310), 1 + next(3));
            let rows: Vec<RowId> = (0..next(60)).map(|nth| RowId(first + nth * gap)).collect();
            match next(8) {
                0 | 1 => {
                    many.take_all(&rows).unwrap();
                    count(&rows, |id| each.take(id).unwrap());
                }
                2 if step > 200 => {
                    let gone = many.remove_all(&rows).unwrap();
                    assert_eq!(gone, count(&rows, |id| each.remove(id).unwrap()));
                }
                3 => rows.iter().for_each(|id| {
                    assert_eq!(many.restore(*id).unwrap(), each.restore(*id).unwrap());
                    assert_eq!(many.postpone(*id).unwrap(), each.postpone(*id).unwrap());
                }),
                4 => rows.iter().for_each(|id| {
                    assert_eq!(many.make_due(*id).unwrap(), each.make_due(*id).unwrap());
                }),
                5 => rows.iter().for_each(|id| {
                    assert_eq!(many.restore(*id).unwrap(), each.restore(*id).unwrap());
                }),
                _ => {
                    let most = usize::try_from(next(90)).unwrap();
                    let found = many.first_waiting(most).unwrap();
                    assert_eq!(found, one_by_one(&mut each, most));
                    many.take_all(&found).unwrap();
                    count(&found, |id| each.take(id).unwrap());
                }
            }
            assert_eq!(seen(&mut many), seen(&mut each), "after step {step}");
        }
        let rows: Vec<RowId> = (0..100).map(RowId).collect();
        assert_eq!(many.remove_all(&rows).unwrap(), count(&rows, |id| each.remove(id).unwrap()));
        assert_eq!(seen(&mut many), seen(&mut each));
        assert!(each.emptied() > 0 && each.sparse && each.live() > 0, "{:?}", seen(&mut each));
    }
}
