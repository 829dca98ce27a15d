//! A value, between a line and a column.

/// A value that is not NULL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Bool(bool),
    Int32(i32),
    Int64(i64),
    /// A number of more than 64 bits.
    Wide(i128),
    Float(f32),
    Double(f64),
    /// Bytes, or text in UTF-8.
    Bytes(&'a [u8]),
    /// The number of a reference system, and well-known binary.
    Geometry(u32, &'a [u8]),
    /// Single precision numbers, little-endian.
    Vector(&'a [u8]),
}
