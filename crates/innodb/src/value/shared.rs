//! Decodes values whose stored form is the same in the binary log as in InnoDB's pages. Errors say what is
//! not a value.

use super::{Fault, decimal, text, time};

/// DECIMAL(precision, scale).
///
/// # Errors
/// A group of digits that is too large; too few bytes.
pub fn decimal(stored: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    decimal::decode(stored, decimal::DecimalFormat::new(precision, scale), false, out)
}

/// TIME with this many fractional digits.
///
/// # Errors
/// A part that no time has.
pub fn time(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    time::decode_time(stored, fraction, out)
}

/// DATETIME with this many fractional digits.
///
/// # Errors
/// A part that no date or time has.
pub fn datetime(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    time::decode_datetime(stored, fraction, out)
}

/// TIMESTAMP with this many fractional digits, in UTC; zeros for a time of 0.
///
/// # Errors
/// A fraction that no time has; too few bytes.
pub fn timestamp(stored: &[u8], fraction: u8, out: &mut Vec<u8>) -> Result<(), Fault> {
    time::decode_timestamp(stored, fraction, out)
}

/// A value of a COMPRESSED column, which has at most `max` bytes when it is unpacked.
///
/// # Errors
/// A head that is unknown, or what can't be unpacked.
pub fn compressed(stored: &[u8], max: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    text::decode_variable(stored, max, true, out)
}
