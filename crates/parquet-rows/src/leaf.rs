//! The values of a field of a file, of some rows: what the library of the format takes and gives.

use bytes::Bytes;
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::writer::SerializedColumnWriter;

use crate::Error;
use crate::value::Value;

/// The levels of a vector's field: NULL, no element, an element.
const LIST_NULL: i16 = 0;
const LIST_EMPTY: i16 = 1;
const LIST_ELEMENT: i16 = 2;

/// A field.
pub(crate) struct Leaf {
    pub(crate) values: Values,
    /// Whether each row has a value: 1 or 0. For a vector a level of each element.
    defined: Vec<i16>,
    /// For a vector: 1 for an element that is not the first one of its row.
    repeated: Option<Vec<i16>>,
    /// Where the next row is while rows are taken out.
    next: usize,
    next_value: usize,
}

/// Values that are not NULL.
pub(crate) enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Bytes one behind the other with the ends of values, or each on its own.
    Bytes(Vec<u8>, Vec<usize>, Vec<ByteArray>),
    Fixed(u8, Vec<FixedLenByteArray>),
}

impl Values {
    pub(crate) fn bytes() -> Values {
        Values::Bytes(Vec::new(), Vec::new(), Vec::new())
    }
}

impl Leaf {
    pub(crate) fn new(values: Values, is_list: bool) -> Leaf {
        Leaf { values, defined: Vec::new(), repeated: is_list.then(Vec::new), next: 0, next_value: 0 }
    }

    pub(crate) fn push_null(&mut self) {
        self.defined.push(0);
        if let Some(repeated) = &mut self.repeated {
            repeated.push(0);
        }
    }

    /// Adds a value. Returns whether this field takes such a value.
    pub(crate) fn push(&mut self, value: Value<'_>) -> bool {
        match (&mut self.values, value) {
            (Values::Bool(values), Value::Bool(value)) => values.push(value),
            (Values::Int32(values), Value::Int32(value)) => values.push(value),
            (Values::Int64(values), Value::Int64(value)) => values.push(value),
            (Values::Float(values), Value::Float(value)) => values.push(value),
            (Values::Double(values), Value::Double(value)) => values.push(value),
            (Values::Bytes(all, ends, _), Value::Bytes(value)) => {
                all.extend_from_slice(value);
                ends.push(all.len());
            }
            (Values::Fixed(bytes, values), Value::Wide(value)) => {
                let big = value.to_be_bytes();
                let skipped = big.len() - usize::from(*bytes).min(big.len());
                values.push(FixedLenByteArray::from(big[skipped..].to_vec()));
            }
            (Values::Float(_), Value::Vector(elements)) => return self.push_list(elements),
            _ => return false,
        }
        self.defined.push(1);
        true
    }

    /// The same for a number.
    pub(crate) fn push_integer(&mut self, number: i64) -> bool {
        match &mut self.values {
            Values::Int32(values) => match i32::try_from(number) {
                Ok(number) => values.push(number),
                Err(_) => return false,
            },
            Values::Int64(values) => values.push(number),
            _ => return false,
        }
        self.defined.push(1);
        true
    }

    fn push_list(&mut self, elements: &[u8]) -> bool {
        let (Values::Float(values), Some(repeated)) = (&mut self.values, &mut self.repeated) else {
            return false;
        };
        let (elements, _) = elements.as_chunks::<4>();
        if elements.is_empty() {
            self.defined.push(LIST_EMPTY);
            repeated.push(0);
        }
        for (at, element) in elements.iter().enumerate() {
            values.push(f32::from_le_bytes(*element));
            self.defined.push(LIST_ELEMENT);
            repeated.push(i16::from(at > 0));
        }
        true
    }

    /// Makes values of bytes that were added one behind the other.
    pub(crate) fn freeze(&mut self) {
        if let Values::Bytes(all, ends, values) = &mut self.values {
            let all = Bytes::from(std::mem::take(all));
            let mut from = 0;
            for end in ends.drain(..) {
                values.push(ByteArray::from(all.slice(from..end)));
                from = end;
            }
        }
    }

    /// Writes all values, which are frozen.
    pub(crate) fn write(&self, to: &mut SerializedColumnWriter<'_>) -> Result<(), Error> {
        self.write_first(usize::MAX, to)
    }

    /// Writes the values of the first rows; of vectors, so many elements.
    pub(crate) fn write_first(&self, rows: usize, to: &mut SerializedColumnWriter<'_>) -> Result<(), Error> {
        let end = rows.min(self.defined.len());
        let defined = self.defined.get(..end).unwrap_or_default();
        let repeated = self.repeated.as_ref().map(|levels| levels.get(..end).unwrap_or_default());
        let has_value = if repeated.is_some() { LIST_ELEMENT } else { 1 };
        let count = defined.iter().filter(|level| **level == has_value).count();
        let defined = Some(defined);
        match (to.untyped(), &self.values) {
            (ColumnWriter::BoolColumnWriter(to), Values::Bool(values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::Int32ColumnWriter(to), Values::Int32(values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::Int64ColumnWriter(to), Values::Int64(values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::FloatColumnWriter(to), Values::Float(values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::DoubleColumnWriter(to), Values::Double(values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::ByteArrayColumnWriter(to), Values::Bytes(_, _, values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            (ColumnWriter::FixedLenByteArrayColumnWriter(to), Values::Fixed(_, values)) => {
                to.write_batch(first(values, count), defined, repeated)?
            }
            _ => return Err(Error::Parquet("a column has another type than its values".to_owned())),
        };
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.defined.clear();
        self.repeated.iter_mut().for_each(Vec::clear);
        (self.next, self.next_value) = (0, 0);
        match &mut self.values {
            Values::Bool(values) => values.clear(),
            Values::Int32(values) => values.clear(),
            Values::Int64(values) => values.clear(),
            Values::Float(values) => values.clear(),
            Values::Double(values) => values.clear(),
            Values::Bytes(all, ends, values) => {
                all.clear();
                ends.clear();
                values.clear();
            }
            Values::Fixed(_, values) => values.clear(),
        }
    }

    /// Reads up to that many rows; returns how many there were.
    pub(crate) fn read(&mut self, from: &mut ColumnReader, rows: usize) -> Result<usize, Error> {
        self.clear();
        let (defined, repeated) = (Some(&mut self.defined), self.repeated.as_mut());
        let (read, ..) = match (from, &mut self.values) {
            (ColumnReader::BoolColumnReader(from), Values::Bool(values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::Int32ColumnReader(from), Values::Int32(values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::Int64ColumnReader(from), Values::Int64(values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::FloatColumnReader(from), Values::Float(values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::DoubleColumnReader(from), Values::Double(values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::ByteArrayColumnReader(from), Values::Bytes(_, _, values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            (ColumnReader::FixedLenByteArrayColumnReader(from), Values::Fixed(_, values)) => {
                from.read_records(rows, defined, repeated, values)?
            }
            _ => return Err(Error::Corrupt("a column has another type than its table's".to_owned())),
        };
        Ok(read)
    }

    /// The value of the next row; `None` for NULL, or behind the end. `scratch`: a place for a vector.
    pub(crate) fn next<'a>(&'a mut self, scratch: &'a mut Vec<u8>) -> Option<Value<'a>> {
        if self.repeated.is_some() {
            return self.next_list(scratch);
        }
        let level = self.defined.get(self.next)?;
        self.next += 1;
        if *level == 0 {
            return None;
        }
        let at = self.next_value;
        self.next_value += 1;
        match &self.values {
            Values::Bool(values) => values.get(at).map(|value| Value::Bool(*value)),
            Values::Int32(values) => values.get(at).map(|value| Value::Int32(*value)),
            Values::Int64(values) => values.get(at).map(|value| Value::Int64(*value)),
            Values::Float(values) => values.get(at).map(|value| Value::Float(*value)),
            Values::Double(values) => values.get(at).map(|value| Value::Double(*value)),
            Values::Bytes(_, _, values) => values.get(at).map(|value| Value::Bytes(value.data())),
            Values::Fixed(_, values) => values.get(at).map(|value| Value::Wide(wide(value.data()))),
        }
    }

    fn next_list<'a>(&mut self, scratch: &'a mut Vec<u8>) -> Option<Value<'a>> {
        let (Values::Float(values), Some(repeated)) = (&self.values, &self.repeated) else { return None };
        let first = *self.defined.get(self.next)?;
        scratch.clear();
        loop {
            if self.defined.get(self.next) == Some(&LIST_ELEMENT) {
                scratch.extend_from_slice(&values.get(self.next_value)?.to_le_bytes());
                self.next_value += 1;
            }
            self.next += 1;
            if repeated.get(self.next) != Some(&1) {
                break;
            }
        }
        (first != LIST_NULL).then_some(Value::Vector(scratch))
    }
}

fn first<T>(values: &[T], count: usize) -> &[T] {
    values.get(..count).unwrap_or(values)
}

/// A number whose highest byte comes first.
fn wide(bytes: &[u8]) -> i128 {
    let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte))
}
