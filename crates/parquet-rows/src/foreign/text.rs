//! Values as text that a server reads as the same values.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, RunEndIndexType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RunArray};
use arrow_schema::{DataType, TimeUnit};

use super::kind::Kind;
use super::shape::is_shape;
use super::time;

/// Bytes of a value that a message shows.
const SHOWN_BYTES: usize = 40;

/// A value that no column holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// What is wrong with it, without its column.
    pub(crate) reason: String,
    /// The value as far as it can be shown.
    pub(crate) shown: Vec<u8>,
}

/// Writes the value of a row, which is not NULL.
type Write<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<(), Bad> + 'a>;

/// The values of a column in some rows.
pub(crate) struct Texts<'a> {
    array: &'a dyn Array,
    has_nulls: bool,
    write: Write<'a>,
}

impl<'a> Texts<'a> {
    /// The values of an array of this kind; the reason if it does not have such values.
    pub(crate) fn new(array: &'a dyn Array, kind: Kind) -> Result<Texts<'a>, String> {
        let has_nulls = array.is_nullable();
        let write = writer(array, kind).ok_or_else(|| {
            format!("values of the type {} are not what the file says they are", array.data_type())
        })?;
        Ok(Texts { array, has_nulls, write })
    }

    /// Appends the value of a row and returns true; false for NULL.
    #[inline]
    pub(crate) fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<bool, Bad> {
        if self.has_nulls && is_null(self.array, row) {
            return Ok(false);
        }
        (self.write)(row, out).map(|()| true)
    }
}

/// Whether a value is NULL, in whatever way.
fn is_null(array: &dyn Array, row: usize) -> bool {
    match array.data_type() {
        DataType::Null => true,
        DataType::Dictionary(_, _) => {
            let Some(dictionary) = array.as_any_dictionary_opt() else { return true };
            array.is_null(row)
                || key(dictionary.keys(), row).is_none_or(|key| is_null(dictionary.values(), key))
        }
        DataType::RunEndEncoded(_, _) => run(array, row).is_none_or(|(values, at)| is_null(values, at)),
        _ => array.is_null(row),
    }
}

/// The index in a dictionary.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    fn of<T: ArrowPrimitiveType>(keys: &dyn Array, row: usize) -> Option<usize>
    where
        usize: TryFrom<T::Native>,
    {
        usize::try_from(keys.as_primitive_opt::<T>()?.value(row)).ok()
    }
    match keys.data_type() {
        DataType::Int8 => of::<Int8Type>(keys, row),
        DataType::Int16 => of::<Int16Type>(keys, row),
        DataType::Int32 => of::<Int32Type>(keys, row),
        DataType::Int64 => of::<Int64Type>(keys, row),
        DataType::UInt8 => of::<UInt8Type>(keys, row),
        DataType::UInt16 => of::<UInt16Type>(keys, row),
        DataType::UInt32 => of::<UInt32Type>(keys, row),
        DataType::UInt64 => of::<UInt64Type>(keys, row),
        _ => None,
    }
}

/// The value of a row that is stored once for several rows.
fn run(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
    fn of<T: RunEndIndexType>(array: &dyn Array, row: usize) -> Option<(&dyn Array, usize)> {
        let runs = array.as_any().downcast_ref::<RunArray<T>>()?;
        Some((runs.values().as_ref(), runs.get_physical_index(row)))
    }
    of::<Int32Type>(array, row)
        .or_else(|| of::<Int16Type>(array, row))
        .or_else(|| of::<Int64Type>(array, row))
}

fn integers<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Option<Write<'a>>
where
    T::Native: itoa::Integer,
{
    let array = array.as_primitive_opt::<T>()?;
    Some(Box::new(move |row, out| {
        out.extend_from_slice(itoa::Buffer::new().format(array.value(row)).as_bytes());
        Ok(())
    }))
}

/// Whole numbers of any width as one of 64 bits.
fn numbers<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Option<Box<dyn Fn(usize) -> i64 + 'a>>
where
    i64: From<T::Native>,
{
    let array = array.as_primitive_opt::<T>()?;
    Some(Box::new(move |row| i64::from(array.value(row))))
}

/// How the values of an array are written.
fn writer(array: &dyn Array, kind: Kind) -> Option<Write<'_>> {
    if array.is_empty() {
        return Some(Box::new(|_, _| Ok(())));
    }
    match array.data_type() {
        DataType::Null => Some(Box::new(|_, _| Ok(()))),
        DataType::Boolean => {
            let array = array.as_boolean_opt()?;
            Some(Box::new(move |row, out| {
                out.push(if array.value(row) { b'1' } else { b'0' });
                Ok(())
            }))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => reals(array),
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => decimals(array),
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => times(array),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let (keys, values) = (dictionary.keys(), writer(dictionary.values().as_ref(), kind)?);
            Some(Box::new(move |row, out| key(keys, row).map_or(Ok(()), |key| values(key, out))))
        }
        DataType::RunEndEncoded(_, _) => {
            let values = writer(run(array, 0).map_or(array, |(values, _)| values), kind)?;
            Some(Box::new(move |row, out| run(array, row).map_or(Ok(()), |(_, at)| values(at, out))))
        }
        _ => bytes(array, kind),
    }
}

fn reals(array: &dyn Array) -> Option<Write<'_>> {
    match array.data_type() {
        DataType::Float16 => {
            let array = array.as_primitive_opt::<Float16Type>()?;
            Some(Box::new(move |row, out| single(array.value(row).to_f32(), out)))
        }
        DataType::Float32 => {
            let array = array.as_primitive_opt::<Float32Type>()?;
            Some(Box::new(move |row, out| single(array.value(row), out)))
        }
        _ => {
            let array = array.as_primitive_opt::<Float64Type>()?;
            Some(Box::new(move |row, out| double(array.value(row), out)))
        }
    }
}

fn single(value: f32, out: &mut Vec<u8>) -> Result<(), Bad> {
    // The fewest digits that tell it from its neighbours are above the range of the type.
    if !value.is_finite() || value.abs() == f32::MAX {
        return double(f64::from(value), out);
    }
    shortest(ryu::Buffer::new().format_finite(value), out);
    Ok(())
}

fn double(value: f64, out: &mut Vec<u8>) -> Result<(), Bad> {
    if value.is_finite() {
        shortest(ryu::Buffer::new().format_finite(value), out);
        return Ok(());
    }
    // A word for NULL may be one of these, so they are left to the rest of the import, and to the server.
    let word = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    out.extend_from_slice(word.as_bytes());
    Ok(())
}

/// A number without a fraction that is zero.
fn shortest(digits: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(digits.strip_suffix(".0").unwrap_or(digits).as_bytes());
}

fn decimals(array: &dyn Array) -> Option<Write<'_>> {
    fn of<'a, T: DecimalType>(array: &'a dyn Array, scale: i8) -> Option<Write<'a>>
    where
        T::Native: ToString,
    {
        let array = array.as_primitive_opt::<T>()?;
        Some(Box::new(move |row, out| {
            point(&array.value(row).to_string(), scale, out);
            Ok(())
        }))
    }
    match array.data_type() {
        DataType::Decimal32(_, scale) => of::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => of::<Decimal64Type>(array, *scale),
        DataType::Decimal256(_, scale) => of::<Decimal256Type>(array, *scale),
        DataType::Decimal128(_, scale) => {
            let (array, scale) = (array.as_primitive_opt::<Decimal128Type>()?, *scale);
            Some(Box::new(move |row, out| {
                point(itoa::Buffer::new().format(array.value(row)), scale, out);
                Ok(())
            }))
        }
        _ => None,
    }
}

/// Digits with the point in its place.
fn point(number: &str, scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    out.extend_from_slice(sign.as_bytes());
    let Ok(scale) = usize::try_from(scale) else {
        out.extend_from_slice(digits.as_bytes());
        let zeros = if digits == "0" { 0 } else { usize::from(scale.unsigned_abs()) };
        out.resize(out.len() + zeros, b'0');
        return;
    };
    let whole = digits.len().saturating_sub(scale);
    let (before, behind) = digits.split_at(whole);
    out.extend_from_slice(if before.is_empty() { b"0" } else { before.as_bytes() });
    if scale > 0 {
        out.push(b'.');
        out.resize(out.len() + scale - behind.len(), b'0');
        out.extend_from_slice(behind.as_bytes());
    }
}

fn times(array: &dyn Array) -> Option<Write<'_>> {
    let units = |unit: TimeUnit| match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let number = match array.data_type() {
        DataType::Date32 => numbers::<Date32Type>(array),
        DataType::Date64 => numbers::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => numbers::<Time32SecondType>(array),
        DataType::Time32(_) => numbers::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Nanosecond) => numbers::<Time64NanosecondType>(array),
        DataType::Time64(_) => numbers::<Time64MicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => numbers::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => numbers::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => numbers::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers::<TimestampNanosecondType>(array),
        _ => None,
    }?;
    let out_of_range = |written: bool, from: usize, out: &mut Vec<u8>| match written {
        true => Ok(()),
        false => {
            let shown = out.split_off(from);
            Err(Bad { reason: "the year is not one from 0 to 9999".to_owned(), shown })
        }
    };
    Some(match array.data_type() {
        DataType::Date32 => Box::new(move |row, out| {
            let from = out.len();
            out_of_range(time::date(number(row), out), from, out)
        }),
        // Some writers keep the time of the day in it.
        DataType::Date64 => Box::new(move |row, out| {
            let (value, from) = (number(row), out.len());
            if value % 86_400_000 == 0 {
                return out_of_range(time::date(value / 86_400_000, out), from, out);
            }
            out_of_range(time::timestamp(value, 1_000, out), from, out)
        }),
        DataType::Timestamp(unit, _) => {
            let unit = units(*unit);
            Box::new(move |row, out| {
                let from = out.len();
                out_of_range(time::timestamp(number(row), unit, out), from, out)
            })
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let unit = units(*unit);
            Box::new(move |row, out| {
                time::time(number(row), unit, out);
                Ok(())
            })
        }
        _ => return None,
    })
}

fn bytes<'a>(array: &'a dyn Array, kind: Kind) -> Option<Write<'a>> {
    let value: Box<dyn Fn(usize) -> &'a [u8] + 'a> = match array.data_type() {
        DataType::Binary => {
            let array = array.as_binary_opt::<i32>()?;
            Box::new(move |row| array.value(row))
        }
        DataType::LargeBinary => {
            let array = array.as_binary_opt::<i64>()?;
            Box::new(move |row| array.value(row))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view_opt()?;
            Box::new(move |row| array.value(row))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary_opt()?;
            Box::new(move |row| array.value(row))
        }
        DataType::Utf8 => {
            let array = array.as_string_opt::<i32>()?;
            Box::new(move |row| array.value(row).as_bytes())
        }
        DataType::LargeUtf8 => {
            let array = array.as_string_opt::<i64>()?;
            Box::new(move |row| array.value(row).as_bytes())
        }
        DataType::Utf8View => {
            let array = array.as_string_view_opt()?;
            Box::new(move |row| array.value(row).as_bytes())
        }
        _ => return None,
    };
    Some(match kind {
        Kind::Text | Kind::Json | Kind::InPath => Box::new(move |row, out| text(value(row), out)),
        Kind::Bytes { .. } => Box::new(move |row, out| {
            hexadecimal(value(row), out);
            Ok(())
        }),
        Kind::Geometry => Box::new(move |row, out| {
            let value = value(row);
            if !is_shape(value) {
                let mut shown = Vec::new();
                hexadecimal(value.get(..SHOWN_BYTES).unwrap_or(value), &mut shown);
                let reason = "it is no well-known binary of a shape with two coordinates".to_owned();
                return Err(Bad { reason, shown });
            }
            hexadecimal(value, out);
            Ok(())
        }),
        Kind::Uuid => Box::new(move |row, out| {
            let value = value(row);
            for (at, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
                out.extend((at > 0).then_some(b'-'));
                hexadecimal(value.get(part).unwrap_or_default(), out);
            }
            Ok(())
        }),
        // The old times of 96 bits.
        Kind::Timestamp { .. } => Box::new(move |row, out| {
            let (value, from) = (value(row), out.len());
            match time::of_96_bits(value, out) {
                true => Ok(()),
                false => {
                    let shown = out.split_off(from);
                    Err(Bad { reason: "the time is not within the years from 0 to 9999".to_owned(), shown })
                }
            }
        }),
        _ => return None,
    })
}

fn text(value: &[u8], out: &mut Vec<u8>) -> Result<(), Bad> {
    if let Err(error) = str::from_utf8(value) {
        let shown = value.escape_ascii().to_string().into_bytes();
        let reason = format!("byte {} of the text is not UTF-8", error.valid_up_to() + 1);
        return Err(Bad { reason, shown });
    }
    out.extend_from_slice(value);
    Ok(())
}

/// Two digits for each byte.
fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.extend(
            [byte >> 4, byte & 0xf].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0')),
        );
    }
}
