//! The tightest type that holds every value of a column.

mod key;
mod kind;
mod value;
mod word;

use crate::date_time::DateOrder;
pub use key::KeyStats;
pub use kind::{ColumnKind, ColumnType, Habits, Written};
use value::{DOUBLE_DIGITS_MAX, Value, classify};
pub use word::WordStats;

/// The longest VARCHAR that could be the only column of a utf8mb4 row, in characters: 65535 bytes at four
/// each.
const VARCHAR_CHARS_MAX: u64 = 16_383;
/// The same for VARBINARY, in bytes, minus the length and the row's NULL bits.
const VARBINARY_BYTES_MAX: u64 = 65_532;
const TEXT_BYTES_MAX: u64 = (1 << 16) - 1;
const MEDIUMTEXT_BYTES_MAX: u64 = (1 << 24) - 1;
const DECIMAL_DIGITS_MAX: usize = 65;
const DECIMAL_SCALE_MAX: usize = 30;
/// Above this a double can't represent every integer.
const DOUBLE_INT_MAX: u64 = 1 << 53;
/// Smaller numbers fit an INT and leave half of it as room.
const INT_ROOMY_MAX: u64 = 1 << 30;
/// Extra digits before the point, as room.
const DECIMAL_ROOM: u8 = 4;
/// Lengths that people choose for columns.
const LENGTHS: [u32; 9] = [16, 32, 64, 128, 255, 500, 1000, 2000, 4000];
/// The length of a column whose values are all unknown.
const UNKNOWN_CHARS: u32 = 255;

/// The classes of values, as bits of a set.
mod class {
    pub(super) const INT: u16 = 1;
    pub(super) const DECIMAL: u16 = 1 << 1;
    pub(super) const FLOAT: u16 = 1 << 2;
    pub(super) const DATE: u16 = 1 << 3;
    pub(super) const DATETIME: u16 = 1 << 4;
    pub(super) const DATETIME_UTC: u16 = 1 << 5;
    pub(super) const TIME: u16 = 1 << 6;
    pub(super) const BOOLEAN: u16 = 1 << 7;
    pub(super) const TEXT: u16 = 1 << 8;
    pub(super) const INVALID: u16 = 1 << 9;
    pub(super) const COMMA: u16 = 1 << 10;
    pub(super) const LOCAL_DATE: u16 = 1 << 11;
    pub(super) const LOCAL_DATETIME: u16 = 1 << 12;
    /// A comma that can only be a decimal comma.
    pub(super) const COMMA_SURE: u16 = 1 << 13;
    /// A value that is not a date when the day comes first; and one that is not when the month does.
    pub(super) const NOT_DMY: u16 = 1 << 14;
    pub(super) const NOT_MDY: u16 = 1 << 15;
    /// Classes that only say something about other values.
    pub(super) const MARKS: u16 = COMMA_SURE | NOT_DMY | NOT_MDY;
}

/// What is known about a column's values: enough to choose the tightest type that holds them all, and
/// nothing that depends on their order, so that parts of a file can be observed separately and merged.
///
/// The rules follow. A type must keep what a value means and, except for trailing zeros of a fraction, how
/// it is written:
///
/// * Integers have no `+`, no leading zeros (`007` is text: postcodes survive) and no negative zero. Integers
///   above BIGINT UNSIGNED become DECIMAL(p,0), and so do negative ones together with any above BIGINT.
/// * Decimal numbers are as strict about zeros (`00.5` is text); `.5` and `1.` are allowed, because DECIMAL
///   reads them. The scale is the longest one. With more than 65 digits, or 30 after the point, they are
///   text.
/// * Exponents, and the negative zero `-0.0`, make a DOUBLE if all numbers of the column keep their value: at
///   most 17 significant digits, integers up to 2^53, nothing that overflows or underflows. NaN and infinity
///   are text.
/// * Dates are days of the calendar in the years 1000 to 9999; DATETIME adds ` ` or `T`, a time of day and up
///   to six fractional digits. Dates and DATETIMEs can be mixed. `Z` or an offset such as `+01:00` at the
///   end
///   is allowed if every value has one. Leap seconds and zero dates are text.
/// * Dates with the year at the end are dates if some value shows whether the day or the month comes first,
///   and no value contradicts it; or if [`Habits`] say it. They can't be mixed with others.
/// * Numbers with a decimal comma are DECIMAL if no number of the column has only a point, some comma can't
///   be a thousands separator, and the file does not use points ([`Habits::points`]); or if [`Habits`] say
///   so.
/// * An empty text among values that are no text is NULL, if [`Habits`] say that empty fields are, and the
///   column has no other NULL.
/// * TIME is `HH:MM:SS` up to 838:59:59, positive or negative, with a fraction.
/// * `true` and `false` in any case, `t` and `f`, are booleans; 0 and 1 are integers.
/// * Everything else is text, or binary if a value is not UTF-8.
#[derive(Clone, Debug, Default)]
pub struct ColumnStats {
    seen: u16,
    /// Whether a value is an empty text, which is NULL where everything else is a number or the like.
    empties: bool,
    nulls: u64,
    max_bytes: u64,
    max_chars: u64,
    /// The largest integer, and the absolute value of the smallest negative one.
    int_max: u64,
    int_min: u64,
    /// The number of digits of the longest integer beyond `u64`; 0 when there is none.
    big_digits: usize,
    decimal_whole: usize,
    decimal_scale: usize,
    decimal_significant: usize,
    fraction: usize,
    /// The separators in dates with the year at the end, as a bit set.
    separators: u8,
    /// Values that are no text, and texts among them. Once texts are not rare, nothing is counted any more.
    typed: u64,
    texts: u64,
    /// The first text.
    text: Option<Box<[u8]>>,
}

/// A column that a few values have made text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FewTexts {
    /// How many values are texts.
    pub texts: u64,
    /// How many values there are that are neither NULL nor empty.
    pub values: u64,
    /// The first text, at most [`FewTexts::BYTES_MAX`] bytes of it.
    pub first: Box<[u8]>,
    /// The type of all others.
    pub others: ColumnKind,
}

impl FewTexts {
    /// So many bytes of a text are kept.
    pub const BYTES_MAX: usize = 60;
    /// Texts are rare as long as there is one among so many other values,
    const RARE: u64 = 50;
    /// or, before that can be said, as long as there are no more than these.
    const FEW: u64 = 8;
}

impl ColumnStats {
    /// Nothing observed yet.
    pub fn new() -> ColumnStats {
        ColumnStats::default()
    }

    /// Observes the column's value in one more row; `None` is NULL.
    #[inline]
    pub fn observe(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else {
            self.nulls += 1;
            return;
        };
        if value.is_empty() {
            self.empties = true;
            return;
        }
        if self.texts > FewTexts::FEW && self.texts * FewTexts::RARE > self.typed {
            // The value of a column of texts.
            self.observe_text(value);
        } else if self.observe_typed(value) {
            self.typed += 1;
        } else {
            self.texts += 1;
            self.text.get_or_insert_with(|| value[..value.len().min(FewTexts::BYTES_MAX)].into());
            self.observe_text(value);
        }
    }

    /// The few texts that have made a column of something else one of text; `None` if there are no texts, or
    /// not few.
    pub fn few_texts(&self, habits: &Habits) -> Option<FewTexts> {
        let is_rare = self.texts > 0 && self.texts * FewTexts::RARE <= self.typed;
        let first = self.text.clone().filter(|_| is_rare)?;
        let others = ColumnStats { seen: self.seen & !(class::TEXT | class::INVALID), ..self.clone() };
        let (others, _) = others.kind(habits);
        let values = self.texts + self.typed;
        (!others.is_text()).then_some(FewTexts { texts: self.texts, values, first, others })
    }

    /// Returns whether the value is something other than text.
    #[inline]
    fn observe_typed(&mut self, value: &[u8]) -> bool {
        match classify(value) {
            Value::Int { negative, magnitude } => {
                self.seen |= class::INT;
                if negative {
                    self.int_min = self.int_min.max(magnitude);
                } else {
                    self.int_max = self.int_max.max(magnitude);
                }
            }
            Value::BigInt { digits } => {
                self.seen |= class::INT;
                self.big_digits = self.big_digits.max(digits);
            }
            Value::Decimal { whole, scale, significant } => {
                self.seen |= class::DECIMAL;
                self.decimal_whole = self.decimal_whole.max(whole);
                self.decimal_scale = self.decimal_scale.max(scale);
                self.decimal_significant = self.decimal_significant.max(significant);
            }
            Value::Float => self.seen |= class::FLOAT,
            Value::Date => self.seen |= class::DATE,
            Value::DateTime { fraction, utc } => {
                self.seen |= if utc { class::DATETIME_UTC } else { class::DATETIME };
                self.fraction = self.fraction.max(fraction);
            }
            Value::Time { fraction } => {
                self.seen |= class::TIME;
                self.fraction = self.fraction.max(fraction);
            }
            Value::Boolean => self.seen |= class::BOOLEAN,
            Value::Comma { whole, scale, thousands } => {
                self.seen |= class::COMMA | if thousands { 0 } else { class::COMMA_SURE };
                self.decimal_whole = self.decimal_whole.max(whole);
                self.decimal_scale = self.decimal_scale.max(scale);
            }
            Value::LocalDate { dmy, mdy, separator, timed, fraction } => {
                self.seen |= if timed { class::LOCAL_DATETIME } else { class::LOCAL_DATE };
                self.seen |= if dmy { 0 } else { class::NOT_DMY } | if mdy { 0 } else { class::NOT_MDY };
                self.fraction = self.fraction.max(fraction);
                self.separators |= match separator {
                    b'.' => 1,
                    b'/' => 2,
                    _ => 4,
                };
            }
            Value::Text => return false,
        }
        let length = value.len() as u64;
        self.max_bytes = self.max_bytes.max(length);
        self.max_chars = self.max_chars.max(length);
        true
    }

    #[inline]
    fn observe_text(&mut self, value: &[u8]) {
        self.seen |= class::TEXT;
        let length = value.len() as u64;
        self.max_bytes = self.max_bytes.max(length);
        if value.is_ascii() {
            self.max_chars = self.max_chars.max(length);
        } else {
            self.observe_unicode(value);
        }
    }

    fn observe_unicode(&mut self, value: &[u8]) {
        let length = match std::str::from_utf8(value) {
            Ok(text) => text.chars().count(),
            Err(_) => {
                self.seen |= class::INVALID;
                value.len()
            }
        };
        self.max_chars = self.max_chars.max(length as u64);
    }

    /// Adds what was observed in another part.
    pub fn merge(&mut self, later: &ColumnStats) {
        self.seen |= later.seen;
        self.empties |= later.empties;
        self.nulls += later.nulls;
        self.max_bytes = self.max_bytes.max(later.max_bytes);
        self.max_chars = self.max_chars.max(later.max_chars);
        self.int_max = self.int_max.max(later.int_max);
        self.int_min = self.int_min.max(later.int_min);
        self.big_digits = self.big_digits.max(later.big_digits);
        self.decimal_whole = self.decimal_whole.max(later.decimal_whole);
        self.decimal_scale = self.decimal_scale.max(later.decimal_scale);
        self.decimal_significant = self.decimal_significant.max(later.decimal_significant);
        self.fraction = self.fraction.max(later.fraction);
        self.separators |= later.separators;
        self.typed += later.typed;
        self.texts += later.texts;
        if self.text.is_none() {
            self.text.clone_from(&later.text);
        }
    }

    /// The tightest type for everything observed. A column without values is VARCHAR, of one character if it
    /// has rows.
    pub fn decide(&self) -> ColumnType {
        self.decide_by(&Habits::default())
    }

    /// The type for everything observed, considering what else is known. With [`Habits::roomy`] a column may
    /// also hold NULL, integers are INT or BIGINT, and DECIMAL and VARCHAR have room for longer values.
    pub fn decide_by(&self, habits: &Habits) -> ColumnType {
        let (kind, written) = self.kind(habits);
        let kind = if habits.roomy { self.with_room(kind) } else { kind };
        let nullable =
            self.nulls > 0 || !self.has_values() || self.reads_empty_as_null(habits) || habits.roomy;
        ColumnType { kind, nullable, max_chars: self.max_chars, max_bytes: self.max_bytes, written }
    }

    /// Whether there is any value other than NULL.
    pub fn has_values(&self) -> bool {
        self.seen != 0 || self.empties
    }

    /// Whether an empty text can only be NULL: everything else is a number, a date or the like, and nothing
    /// else is NULL, as in a file that has quotes around all fields.
    pub fn reads_empty_as_null(&self, habits: &Habits) -> bool {
        self.empties
            && habits.empty_is_null
            && self.nulls == 0
            && self.seen & !class::MARKS != 0
            && self.seen & class::TEXT == 0
            && !self.kind_of_others(habits).0.is_text()
    }

    /// Whether there are numbers with a point that can't stand between thousands.
    pub fn has_points(&self) -> bool {
        self.only(class::INT | class::DECIMAL | class::FLOAT)
            && self.seen & class::DECIMAL != 0
            && self.decimal_scale != 3
    }

    /// Whether the values may be numbers with a decimal comma, and nothing proves that they are.
    pub fn is_ambiguous_comma(&self, habits: &Habits) -> bool {
        self.seen & class::COMMA != 0 && self.only(class::INT | class::COMMA) && !self.has_commas(habits)
    }

    fn has_commas(&self, habits: &Habits) -> bool {
        habits.decimal_comma || !habits.points && self.seen & class::COMMA_SURE != 0
    }

    /// Whether the values are dates with the year at the end that are valid with either the day or the month
    /// first.
    pub fn is_ambiguous_date(&self) -> bool {
        self.only(class::LOCAL_DATE | class::LOCAL_DATETIME)
            && self.separators.is_power_of_two()
            && self.seen & (class::NOT_DMY | class::NOT_MDY) == 0
    }

    fn kind(&self, habits: &Habits) -> (ColumnKind, Written) {
        if self.empties && !self.reads_empty_as_null(habits) {
            return (self.text(), Written::Plainly);
        }
        self.kind_of_others(habits)
    }

    /// The type for all values that are not empty.
    fn kind_of_others(&self, habits: &Habits) -> (ColumnKind, Written) {
        if let Some(found) = self.people_wrote(habits) {
            return found;
        }
        let fraction = u8::try_from(self.fraction).unwrap_or(6);
        let kind = if self.only(class::INT) {
            self.integer().or_else(|| self.decimal())
        } else if self.only(class::INT | class::DECIMAL) {
            self.decimal()
        } else if self.only(class::INT | class::DECIMAL | class::FLOAT) {
            self.double_holds_all().then_some(ColumnKind::Double)
        } else if self.only(class::DATE) {
            Some(ColumnKind::Date)
        } else if self.only(class::DATE | class::DATETIME) {
            Some(ColumnKind::DateTime { fraction, utc: false })
        } else if self.only(class::DATETIME_UTC) {
            Some(ColumnKind::DateTime { fraction, utc: true })
        } else if self.only(class::TIME) {
            Some(ColumnKind::Time { fraction })
        } else if self.only(class::BOOLEAN) {
            Some(ColumnKind::Boolean)
        } else {
            None
        };
        (kind.unwrap_or_else(|| self.text()), Written::Plainly)
    }

    /// The type of the values if people wrote them in a local format.
    fn people_wrote(&self, habits: &Habits) -> Option<(ColumnKind, Written)> {
        if self.seen & class::COMMA != 0 && self.only(class::INT | class::COMMA) {
            let found = self.decimal().filter(|_| self.has_commas(habits));
            return Some((found?, Written::DecimalComma));
        }
        if !self.only(class::LOCAL_DATE | class::LOCAL_DATETIME) || !self.separators.is_power_of_two() {
            return None;
        }
        let fraction = u8::try_from(self.fraction).unwrap_or(6);
        let kind = match self.seen & class::LOCAL_DATETIME {
            0 => ColumnKind::Date,
            _ => ColumnKind::DateTime { fraction, utc: false },
        };
        let (dmy, mdy) = (self.seen & class::NOT_DMY == 0, self.seen & class::NOT_MDY == 0);
        let order = match habits.date_order {
            Some(DateOrder::Dmy) => dmy.then_some(DateOrder::Dmy),
            Some(DateOrder::Mdy) => mdy.then_some(DateOrder::Mdy),
            None if dmy && !mdy => Some(DateOrder::Dmy),
            None if mdy && !dmy => Some(DateOrder::Mdy),
            None => None,
        };
        Some((kind, Written::Dates(order?)))
    }

    /// A type that also holds somewhat larger values than those observed.
    fn with_room(&self, kind: ColumnKind) -> ColumnKind {
        match kind {
            ColumnKind::Int { .. } if self.int_max.max(self.int_min) < INT_ROOMY_MAX => {
                ColumnKind::Int { bytes: 4, unsigned: false }
            }
            ColumnKind::Int { .. } => {
                ColumnKind::Int { bytes: 8, unsigned: i64::try_from(self.int_max).is_err() }
            }
            ColumnKind::Decimal { precision, scale } => {
                let precision =
                    (precision + DECIMAL_ROOM).min(u8::try_from(DECIMAL_DIGITS_MAX).unwrap_or(u8::MAX));
                ColumnKind::Decimal { precision, scale }
            }
            ColumnKind::Varchar { chars } if self.has_values() => {
                ColumnKind::Varchar { chars: length_with_room(chars, VARCHAR_CHARS_MAX) }
            }
            ColumnKind::Varbinary { bytes } => {
                ColumnKind::Varbinary { bytes: length_with_room(bytes, VARBINARY_BYTES_MAX) }
            }
            ColumnKind::Text if self.max_bytes > TEXT_BYTES_MAX / 2 => ColumnKind::MediumText,
            ColumnKind::MediumText if self.max_bytes > MEDIUMTEXT_BYTES_MAX / 2 => ColumnKind::LongText,
            ColumnKind::Blob if self.max_bytes > TEXT_BYTES_MAX / 2 => ColumnKind::MediumBlob,
            ColumnKind::MediumBlob if self.max_bytes > MEDIUMTEXT_BYTES_MAX / 2 => ColumnKind::LongBlob,
            other => other,
        }
    }

    /// Whether there are values, and all are of these classes.
    fn only(&self, classes: u16) -> bool {
        self.seen & !class::MARKS != 0 && self.seen & !(classes | class::MARKS) == 0
    }

    fn integer(&self) -> Option<ColumnKind> {
        if self.big_digits > 0 {
            return None;
        }
        let unsigned = self.int_min == 0;
        for bytes in [1u8, 2, 3, 4, 8] {
            let above = 1u128 << (u32::from(bytes) * 8 - u32::from(!unsigned));
            if u128::from(self.int_max) < above && u128::from(self.int_min) <= above {
                return Some(ColumnKind::Int { bytes, unsigned });
            }
        }
        None
    }

    fn decimal(&self) -> Option<ColumnKind> {
        let int_digits = digits(self.int_max).max(digits(self.int_min)).max(self.big_digits);
        let precision = (int_digits.max(self.decimal_whole) + self.decimal_scale).max(1);
        if precision > DECIMAL_DIGITS_MAX || self.decimal_scale > DECIMAL_SCALE_MAX {
            return None;
        }
        let (precision, scale) = (u8::try_from(precision).ok()?, u8::try_from(self.decimal_scale).ok()?);
        Some(ColumnKind::Decimal { precision, scale })
    }

    fn double_holds_all(&self) -> bool {
        self.big_digits == 0
            && self.int_max.max(self.int_min) <= DOUBLE_INT_MAX
            && self.decimal_significant <= DOUBLE_DIGITS_MAX
    }

    fn text(&self) -> ColumnKind {
        if !self.has_values() {
            return ColumnKind::Varchar { chars: if self.nulls > 0 { 1 } else { UNKNOWN_CHARS } };
        }
        let binary = self.seen & class::INVALID != 0;
        let (length, limit) =
            if binary { (self.max_bytes, VARBINARY_BYTES_MAX) } else { (self.max_chars, VARCHAR_CHARS_MAX) };
        match u32::try_from(length.max(1)) {
            Ok(bytes) if binary && length <= limit => ColumnKind::Varbinary { bytes },
            Ok(chars) if length <= limit => ColumnKind::Varchar { chars },
            _ => self.long_text(binary),
        }
    }

    fn long_text(&self, binary: bool) -> ColumnKind {
        match (self.max_bytes, binary) {
            (..=TEXT_BYTES_MAX, false) => ColumnKind::Text,
            (..=TEXT_BYTES_MAX, true) => ColumnKind::Blob,
            (..=MEDIUMTEXT_BYTES_MAX, false) => ColumnKind::MediumText,
            (..=MEDIUMTEXT_BYTES_MAX, true) => ColumnKind::MediumBlob,
            (_, false) => ColumnKind::LongText,
            (_, true) => ColumnKind::LongBlob,
        }
    }
}

/// At least twice the length, if there is such a type.
fn length_with_room(length: u32, limit: u64) -> u32 {
    let wanted = length.saturating_mul(2);
    let round = LENGTHS.into_iter().find(|round| *round >= wanted).unwrap_or(wanted);
    round.min(u32::try_from(limit).unwrap_or(u32::MAX))
}

/// Whether the value is a number, a date or the like: anything but text.
pub(crate) fn is_typed(value: &[u8]) -> bool {
    classify(value) != Value::Text
}

/// How many decimal digits a number has; none for zero.
fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(0, |log| log as usize + 1)
}

mod text;

#[cfg(test)]
mod tests;
