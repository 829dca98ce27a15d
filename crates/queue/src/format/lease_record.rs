//! Leases as bytes: who may end a row without being connected, and until when. docs/formats/queue.md has the
//! tables.

use crate::format::retry_policy::POLICIES;
use crate::format::wire::{ByteReader, RowId, put_varint};

/// The feature flag of files that may have records of leases.
pub(crate) const LEASES: u64 = 0x2;

/// A time that begins at some moment of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Milliseconds since 1970.
    pub(crate) since_ms: u64,
    pub(crate) for_ms: u64,
}

impl Span {
    /// How much of it is left. A clock that was set back does not make it longer than it was.
    pub(crate) fn left_ms(self, now_ms: u64) -> u64 {
        self.since_ms.saturating_add(self.for_ms).saturating_sub(now_ms).min(self.for_ms)
    }
}

/// What a row is doing that was leased once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It was given back.
    Free,
    /// The lease has expired. Its holder can still end the row while nobody else has it.
    Expired,
    /// It is leased.
    Leased(Span),
    /// It was given back, and waits again when this is over.
    Delayed(Span),
    /// The lease has expired, and the row waits again when this is over. Its holder can still end it.
    ExpiredDelayed(Span),
    /// It has no tries left.
    Dead,
}

/// All that is known of the leases of a row. A record replaces what was known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) row: RowId,
    /// The number of its last lease; all leases of a queue have different ones, and they only grow.
    pub(crate) number: u64,
    /// Random: with the number it is the token.
    pub(crate) secret: u64,
    /// How many tries have failed.
    pub(crate) failed: u64,
    pub(crate) phase: Phase,
}

impl Lease {
    /// The feature flags of files that may have it: one of them is enough.
    pub(crate) fn features(&self) -> u64 {
        match self.phase {
            Phase::ExpiredDelayed(_) | Phase::Dead => POLICIES,
            _ => LEASES | POLICIES,
        }
    }

    /// Whether nobody is given the row meanwhile.
    pub(crate) fn blocks_delivery(&self) -> bool {
        !matches!(self.phase, Phase::Free | Phase::Expired)
    }

    /// Whether nobody is given the row and its token is good.
    pub(crate) fn has_valid_token(&self) -> bool {
        matches!(self.phase, Phase::Leased(_) | Phase::ExpiredDelayed(_))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, span) = match self.phase {
            Phase::Free => (0, None),
            Phase::Expired => (1, None),
            Phase::Leased(span) => (2, Some(span)),
            Phase::Delayed(span) => (3, Some(span)),
            Phase::ExpiredDelayed(span) => (4, Some(span)),
            Phase::Dead => (5, None),
        };
        put_varint(out, self.row.0);
        put_varint(out, self.number);
        out.extend(self.secret.to_le_bytes());
        put_varint(out, self.failed);
        out.push(kind);
        if let Some(span) = span {
            put_varint(out, span.since_ms);
            put_varint(out, span.for_ms);
        }
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Lease> {
        let (row, number, secret) = (RowId(reader.varint()?), reader.varint()?, reader.u64()?);
        let (failed, kind) = (reader.varint()?, reader.u8()?);
        let span =
            |reader: &mut ByteReader<'_>| Some(Span { since_ms: reader.varint()?, for_ms: reader.varint()? });
        let phase = match kind {
            0 => Phase::Free,
            1 => Phase::Expired,
            2 => Phase::Leased(span(reader)?),
            3 => Phase::Delayed(span(reader)?),
            4 => Phase::ExpiredDelayed(span(reader)?),
            5 => Phase::Dead,
            _ => return None,
        };
        Some(Lease { row, number, secret, failed, phase })
    }
}

/// The leases of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Leases {
    /// Only numbers below this one have been given; 0 when the queue never had a lease.
    pub(crate) ceiling: u64,
    /// In the order of the rows.
    pub(crate) rows: Vec<Lease>,
}

impl Leases {
    /// The feature flags that they need.
    pub(crate) fn features(&self) -> u64 {
        if self.ceiling > 0 { LEASES } else { 0 }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.ceiling);
        put_varint(out, self.rows.len() as u64);
        self.rows.iter().for_each(|lease| lease.encode(out));
    }

    /// Reads them from a file with these feature flags.
    pub(crate) fn decode(reader: &mut ByteReader<'_>, features: u64) -> Option<Leases> {
        let mut leases = Leases { ceiling: reader.varint()?, rows: Vec::new() };
        for _ in 0..reader.varint()? {
            leases.rows.push(Lease::decode(reader).filter(|lease| lease.features() & features != 0)?);
        }
        (leases.features() == features & LEASES).then_some(leases)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::{LEASES, Lease, Leases, POLICIES, Phase, Span};
    use crate::format::wire::{ByteReader, RowId};

    #[test]
    fn a_clock_that_jumps_makes_a_lease_neither_longer_nor_negative() {
        let span = Span { since_ms: 1000, for_ms: 50 };
        let left: Vec<u64> = [0, 999, 1000, 1020, 1050, 9999].map(|now_ms| span.left_ms(now_ms)).to_vec();
        assert_eq!(left, [50, 50, 50, 30, 0, 0]);
        assert_eq!(Span { since_ms: u64::MAX, for_ms: u64::MAX }.left_ms(7), u64::MAX - 7);
    }

    proptest! {
        #[test]
        fn leases_come_back(
            ceiling in 0..3u64,
            rows in prop::collection::vec((any::<(u64, u64, u64, u64)>(), 0..6, any::<(u64, u64)>()), 0..6),
        ) {
            let lease = |((row, number, secret, failed), phase, (since_ms, for_ms))| {
                let span = Span { since_ms, for_ms };
                let phase = match phase {
                    0 => Phase::Free,
                    1 => Phase::Expired,
                    2 => Phase::Leased(span),
                    3 => Phase::Delayed(span),
                    4 => Phase::ExpiredDelayed(span),
                    _ => Phase::Dead,
                };
                Lease { row: RowId(row), number, secret, failed, phase }
            };
            let leases = Leases { ceiling, rows: rows.into_iter().map(lease).collect() };
            let mut bytes = Vec::new();
            leases.encode(&mut bytes);
            let features = leases.features() | POLICIES;
            let mut reader = ByteReader::new(&bytes);
            prop_assert_eq!(Leases::decode(&mut reader, features), Some(leases.clone()));
            prop_assert_eq!(reader.is_empty(), true);
            for at in 0..bytes.len() {
                prop_assert_eq!(Leases::decode(&mut ByteReader::new(&bytes[..at]), features), None);
            }
            prop_assert_eq!(Leases::decode(&mut ByteReader::new(&bytes), features ^ LEASES), None);
            let plain = leases.rows.iter().all(|lease| lease.features() & LEASES != 0);
            let decoded = Leases::decode(&mut ByteReader::new(&bytes), LEASES);
            prop_assert_eq!(decoded.is_some(), ceiling > 0 && plain);
        }
    }
}
