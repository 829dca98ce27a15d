//! A digest of the contents of a page.

use crc_fast::CrcAlgorithm::Crc64Nvme;
use crc_fast::Digest;

use crate::page::{self, DATA, Kind, Page, TRAILER, u32_at, u64_at};
use crate::write::Plan;

/// The range of the transaction that has changed a page of entries last. The clustered index has something
/// else there, which counts.
const LAST_TRANSACTION: std::ops::Range<usize> = DATA + 18..DATA + 26;

/// The place of an index's number.
const INDEX_ID: usize = DATA + 28;

/// The places of the tablespace's number in the two references to segments that a root has.
const SEGMENT_SPACES: [usize; 2] = [DATA + 36, DATA + 46];

/// The digest of a page of this plan, never 0: a CRC-64 of everything except what IMPORT TABLESPACE changes
/// in each page, which are checksums, LSNs, and the ids of the tablespace and of the indexes.
/// `None` if it is a page of another tablespace or index.
#[must_use]
pub fn digest(page: &Page, plan: &Plan) -> Option<u64> {
    let mut sum = Digest::new(Crc64Nvme);
    let mut add = |from: usize, to: usize| sum.update(page.get(from..to).unwrap_or_default());
    let is_own = |at: usize| u32_at(page, at) == plan.space_id;
    // The page, its neighbours, and its kind.
    add(4, 16);
    add(24, 26);
    let mut is_planned = is_own(34);
    match page::kind(page) {
        Kind::FSP_HDR => {
            is_planned &= is_own(DATA);
            add(DATA + 4, TRAILER);
        }
        Kind::INDEX => {
            let index = plan.roots.iter().position(|root| root.index_id == u64_at(page, INDEX_ID))?;
            let is_root = plan.roots.get(index).is_some_and(|root| root.page == page::number(page));
            is_planned &= !is_root || SEGMENT_SPACES.into_iter().all(is_own);
            add(DATA, LAST_TRANSACTION.start);
            if index == 0 {
                add(LAST_TRANSACTION.start, LAST_TRANSACTION.end);
            }
            add(LAST_TRANSACTION.end, INDEX_ID);
            add(SEGMENT_SPACES[0] + 4, SEGMENT_SPACES[1]);
            add(SEGMENT_SPACES[1] + 4, TRAILER);
            sum.update(&index.to_le_bytes());
        }
        _ => add(DATA, TRAILER),
    }
    is_planned.then(|| sum.finalize().max(1))
}
