//! Transactions as bytes: who prepared one, and what its commit does. docs/formats/queue.md has the tables.

use std::collections::BTreeMap;

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of files that may have records of transactions.
pub(crate) const TRANSACTIONS: u64 = 0x1;

/// The most bytes of each of the two parts of an XID.
const PART_MAX: usize = 64;

/// The name that a transaction coordinator gives to a transaction, as X/Open XA defines it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid {
    format: i64,
    gtrid: Vec<u8>,
    bqual: Vec<u8>,
}

impl Xid {
    /// An XID of its format id, global transaction id and branch qualifier; `None` when one of the last two
    /// has more than 64 bytes.
    #[must_use]
    pub fn new(format: i64, gtrid: &[u8], bqual: &[u8]) -> Option<Xid> {
        let fits = gtrid.len() <= PART_MAX && bqual.len() <= PART_MAX;
        fits.then(|| Xid { format, gtrid: gtrid.to_vec(), bqual: bqual.to_vec() })
    }

    /// The format id.
    #[must_use]
    pub fn format(&self) -> i64 {
        self.format
    }

    /// The global transaction id.
    #[must_use]
    pub fn gtrid(&self) -> &[u8] {
        &self.gtrid
    }

    /// The branch qualifier.
    #[must_use]
    pub fn bqual(&self) -> &[u8] {
        &self.bqual
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let len = |part: &[u8]| u8::try_from(part.len()).unwrap_or(u8::MAX);
        out.extend(self.format.to_le_bytes());
        out.extend([len(&self.gtrid), len(&self.bqual)]);
        out.extend(&self.gtrid);
        out.extend(&self.bqual);
    }

    fn decode(reader: &mut ByteReader<'_>) -> Option<Xid> {
        let format = i64::from_le_bytes(reader.array()?);
        let (gtrid, bqual) = (reader.u8()?, reader.u8()?);
        let (gtrid, bqual) = (reader.take(usize::from(gtrid))?, reader.take(usize::from(bqual))?);
        Xid::new(format, gtrid, bqual)
    }
}

/// A transaction that is prepared and not decided. All row ranges are `(first, count)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    pub(crate) xid: Xid,
    /// The incarnation of the queue that decides; zeros when the server does.
    pub(crate) coordinator: [u8; 16],
    /// The rows that it adds.
    pub(crate) rows: (u64, u64),
    /// The rows that it ends, in order.
    pub(crate) ended: Vec<(u64, u64)>,
}

impl Prepared {
    /// Appends the transaction without the id of its first row.
    pub(crate) fn encode(&self, tx: u64, out: &mut Vec<u8>) {
        put_varint(out, tx);
        self.xid.encode(out);
        out.extend(self.coordinator);
        put_varint(out, self.rows.1);
        put_varint(out, self.ended.len() as u64);
        let mut end = 0;
        for (first, count) in &self.ended {
            put_varint(out, first - end);
            put_varint(out, count - 1);
            end = first + count;
        }
    }

    /// Reads what [`Prepared::encode`] appended; its rows begin with the id `first`.
    pub(crate) fn decode(reader: &mut ByteReader<'_>, first: u64) -> Option<(u64, Prepared)> {
        let tx = reader.varint()?;
        let xid = Xid::decode(reader)?;
        let coordinator = reader.array()?;
        let count = reader.varint().filter(|count| first.checked_add(*count).is_some())?;
        let (mut ended, mut end) = (Vec::new(), 0u64);
        for _ in 0..reader.varint()? {
            let first = end.checked_add(reader.varint()?)?;
            let count = reader.varint()?.checked_add(1)?;
            end = first.checked_add(count)?;
            ended.push((first, count));
        }
        Some((tx, Prepared { xid, coordinator, rows: (first, count), ended }))
    }

    /// The ranges of all rows that it adds or ends.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ended.iter().chain([&self.rows]).copied()
    }
}

/// The prepared transactions of a queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transactions {
    /// The number of the next transaction.
    pub(crate) next: u64,
    pub(crate) open: BTreeMap<u64, Prepared>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        Transactions { next: 1, open: BTreeMap::new() }
    }
}

impl Transactions {
    /// Notes that a number is used, so that it is not given again.
    pub(crate) fn note(&mut self, tx: u64) {
        self.next = self.next.max(tx.saturating_add(1));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.next);
        put_varint(out, self.open.len() as u64);
        for (tx, prepared) in &self.open {
            put_varint(out, prepared.rows.0);
            prepared.encode(*tx, out);
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Transactions> {
        let mut transactions = Transactions { next: reader.varint()?, open: BTreeMap::new() };
        for _ in 0..reader.varint()? {
            let first = reader.varint()?;
            let (tx, prepared) = Prepared::decode(reader, first)?;
            transactions.open.insert(tx, prepared);
        }
        Some(transactions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::{Prepared, Transactions, Xid};
    use crate::format::wire::ByteReader;

    #[test]
    fn a_part_of_an_xid_has_at_most_64_bytes() {
        assert!(Xid::new(1, &[7; 64], &[8; 64]).is_some());
        assert_eq!(Xid::new(1, &[7; 65], &[]), None);
        assert_eq!(Xid::new(1, &[], &[7; 65]), None);
        let mut bytes = vec![0; 8];
        bytes.extend([65, 0]);
        bytes.extend([7; 65]);
        assert_eq!(Xid::decode(&mut ByteReader::new(&bytes)), None);
    }

    proptest! {
        #[test]
        fn transactions_come_back(
            next in any::<u64>(),
            open in prop::collection::vec(
                (any::<(u64, i64, [u8; 16])>(), prop::collection::vec(any::<u8>(), 0..128),
                 any::<(u32, u32)>(), prop::collection::vec(any::<(u16, u16)>(), 0..5)),
                0..4,
            ),
        ) {
            let mut transactions = Transactions { next, ..Transactions::default() };
            for ((tx, format, coordinator), name, (first, count), gaps) in open {
                let xid = Xid::new(format, &name[..name.len() / 2], &name[name.len() / 2..]).unwrap();
                let mut end = 0;
                let ended = gaps.into_iter().map(|(gap, count)| {
                    let range = (end + u64::from(gap), u64::from(count) + 1);
                    end = range.0 + range.1;
                    range
                });
                let (rows, ended) = ((first.into(), count.into()), ended.collect());
                transactions.open.insert(tx, Prepared { xid, coordinator, rows, ended });
            }
            let mut bytes = Vec::new();
            transactions.encode(&mut bytes);
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(Transactions::decode(&mut reader), Some(transactions));
            prop_assert_eq!(reader.is_empty(), true);
        }
    }
}
