//! How many rows of a queue may be given within a time. docs/formats/queue.md has the table.

use std::str::FromStr;

use crate::format::wire::{ByteReader, put_varint};

/// The feature flag of queues with a rate.
pub(crate) const RATE: u64 = 0x800;

/// The most rows of a rate: the time of each is remembered.
const ROWS_MAX: u64 = 1_000_000;

/// The longest time of a rate: a day.
const SPAN_MAX_MS: u64 = 86_400_000;

/// At most so many rows are given within any span of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryRate {
    /// How many rows.
    pub rows: u64,
    /// The length of the span, milliseconds.
    pub span_ms: u64,
}

impl FromStr for DeliveryRate {
    type Err = String;

    /// Reads `ROWS/SECONDS`, such as `100/60`.
    fn from_str(text: &str) -> Result<DeliveryRate, String> {
        let read = || {
            let (rows, seconds) = text.split_once('/')?;
            let span_ms = seconds.trim().parse::<u64>().ok()?.checked_mul(1000)?;
            Some(DeliveryRate { rows: rows.trim().parse().ok()?, span_ms }).filter(DeliveryRate::is_possible)
        };
        read().ok_or_else(|| {
            format!(
                "'{text}' is not ROWS/SECONDS, such as '100/60' for at most 100 rows in any 60 seconds; at most \
                 {ROWS_MAX} rows, and a day"
            )
        })
    }
}

impl DeliveryRate {
    fn is_possible(&self) -> bool {
        (1..=ROWS_MAX).contains(&self.rows) && (1..=SPAN_MAX_MS).contains(&self.span_ms)
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.rows);
        put_varint(out, self.span_ms);
    }

    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<DeliveryRate> {
        Some(DeliveryRate { rows: reader.varint()?, span_ms: reader.varint()? })
            .filter(DeliveryRate::is_possible)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_rows_and_seconds() {
        assert_eq!("100/60".parse(), Ok(DeliveryRate { rows: 100, span_ms: 60_000 }));
        assert_eq!(" 1 / 86400 ".parse(), Ok(DeliveryRate { rows: 1, span_ms: SPAN_MAX_MS }));
        for wrong in ["", "5", "5/", "/5", "0/5", "5/0", "5/86401", "1000001/5", "-1/5", "1.5/5", "5/5/5"] {
            assert!(wrong.parse::<DeliveryRate>().is_err(), "{wrong}");
        }
    }
}
