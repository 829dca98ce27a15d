//! The values of one record, until its last one is known.

use crate::Value;

#[derive(Clone, Copy)]
enum Text<'r> {
    Null,
    /// A part of the record.
    Same(&'r [u8]),
    /// A part of [`RecordValues::made`].
    Made(usize, usize),
}

/// Values that [`Values::next`](crate::Values::next) has given, by number. Only those that are no part of the
/// record are copied.
pub struct RecordValues<'r> {
    texts: Vec<Text<'r>>,
    made: Vec<u8>,
}

impl<'r> RecordValues<'r> {
    /// So many values, all of them NULL.
    #[must_use]
    pub fn new(count: usize) -> RecordValues<'r> {
        RecordValues { texts: vec![Text::Null; count], made: Vec::new() }
    }

    /// Makes all of them NULL.
    pub fn clear(&mut self) {
        self.made.clear();
        self.texts.fill(Text::Null);
    }

    /// Keeps a value; one with a number that there is not is forgotten.
    #[inline]
    pub fn set(&mut self, number: usize, value: Value<'r, '_>) {
        let Some(text) = self.texts.get_mut(number) else { return };
        *text = match value {
            Value::Null => Text::Null,
            Value::Same(value) => Text::Same(value),
            Value::Made(value) => {
                let start = self.made.len();
                self.made.extend_from_slice(value);
                Text::Made(start, self.made.len())
            }
        };
    }

    /// A value; none is NULL.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        match *self.texts.get(number)? {
            Text::Null => None,
            Text::Same(text) => Some(text),
            Text::Made(start, end) => self.made.get(start..end),
        }
    }
}
