//! JSON lines: an object on each line, whose keys are the columns; or an array on each line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::{Ragged, write_load_data};

/// Whether a text begins with a JSON object on its own line.
pub(crate) fn is_json_lines(text: &[u8]) -> bool {
    let object = |line: &[u8]| {
        line.first() == Some(&b'{')
            && serde_json::from_slice::<BTreeMap<Cow<'_, str>, IgnoredAny>>(line).is_ok()
    };
    lines(text).next().is_some_and(object)
}

/// Whether a text begins with two JSON arrays, each on its own line. One alone may be a whole table.
pub(crate) fn is_json_arrays(text: &[u8]) -> bool {
    let mut lines = lines(text);
    let mut next = || lines.next().and_then(values_of).is_some_and(|values| !values.is_empty());
    next() && next()
}

/// Whether a text is one JSON array, as far as its beginning shows.
pub(crate) fn is_json_array(text: &[u8]) -> bool {
    let mut lines = lines(text);
    let opens = lines.next() == Some(b"[") && lines.next().is_some();
    opens || serde_json::from_slice::<Vec<IgnoredAny>>(text).is_ok()
}

/// The values of the first array in a text, and whether they are the names of the columns: they are all
/// texts, and later values are not. `None` if nothing shows that they are or are not.
pub(crate) fn first_array(text: &[u8]) -> (usize, Option<bool>) {
    let is_text = |value: &&RawValue| value.get().starts_with('"');
    let mut rows = lines(text).map(|line| values_of(line).unwrap_or_default());
    let first = rows.next().unwrap_or_default();
    let is_other = |value: &&RawValue| !is_text(value) && value.get() != "null";
    let header = if !first.iter().all(is_text) {
        Some(false)
    } else {
        rows.any(|row| row.iter().any(is_other)).then_some(true)
    };
    (first.len(), header)
}

/// The lines of a text that are not blank.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// The values of an array on a line.
fn values_of(line: &[u8]) -> Option<Vec<&RawValue>> {
    serde_json::from_slice(line).ok()
}

/// Adds the keys of the objects in complete lines to the known keys, in order of appearance. Other lines are
/// left to the reader.
pub fn json_keys(lines: &[u8], keys: &mut Vec<String>) {
    for line in lines.split(|byte| *byte == b'\n') {
        each_value(line, |key, _| {
            if keys.iter().all(|known| *known != key) {
                keys.push(key.into_owned());
            }
            Ok(())
        })
        .ok();
    }
}

/// Converts JSON lines to lines of LOAD DATA's dialect; the first of them has the names of the columns.
pub(crate) struct JsonLines {
    rows: Rows,
    header: Option<Vec<u8>>,
    /// A line that has not ended yet.
    tail: Vec<u8>,
    /// Lines at the start that are not objects.
    skip_lines: u64,
    values: Vec<Option<Vec<u8>>>,
}

/// What is on each line.
enum Rows {
    Objects {
        keys: BTreeMap<String, usize>,
        /// Whether keys that were not chosen are left out; otherwise they are an error.
        leave_out: bool,
    },
    Arrays,
}

impl JsonLines {
    /// For an array of so many values on each line.
    pub(crate) fn arrays(columns: usize, skip_lines: u64) -> JsonLines {
        let header = b"\n".repeat(usize::try_from(skip_lines).unwrap_or_default());
        JsonLines {
            rows: Rows::Arrays,
            values: vec![None; columns],
            header: Some(header),
            ..JsonLines::new(&[], false, skip_lines)
        }
    }

    pub(crate) fn new(keys: &[String], leave_out: bool, skip_lines: u64) -> JsonLines {
        let mut header = b"\n".repeat(usize::try_from(skip_lines).unwrap_or_default());
        for (at, key) in keys.iter().enumerate() {
            header.extend((at > 0).then_some(b'\t'));
            write_load_data(Some(key.as_bytes()), &mut header);
        }
        header.push(b'\n');
        JsonLines {
            rows: Rows::Objects { keys: keys.iter().cloned().zip(0..).collect(), leave_out },
            header: Some(header),
            tail: Vec::new(),
            skip_lines,
            values: vec![None; keys.len()],
        }
    }

    pub(crate) fn translate(&mut self, text: &[u8], last: bool, out: &mut Vec<u8>) {
        out.extend(self.header.take().unwrap_or_default());
        let mut rest = text;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, behind) = (&rest[..end], &rest[end + 1..]);
            if self.skip_lines > 0 {
                self.skip_lines -= 1;
                self.tail.clear();
                rest = behind;
                continue;
            }
            if self.tail.is_empty() {
                self.line(line, out);
            } else {
                let mut whole = std::mem::take(&mut self.tail);
                whole.extend_from_slice(line);
                self.line(&whole, out);
            }
            out.push(b'\n');
            rest = behind;
        }
        self.tail.extend_from_slice(rest);
        if last {
            let line = std::mem::take(&mut self.tail);
            self.line(line.strip_suffix(b"\x1a").unwrap_or(&line), out);
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let JsonLines { rows, values, .. } = self;
        values.iter_mut().for_each(|value| *value = None);
        let read = match rows {
            Rows::Objects { keys, leave_out } => object_values(line, keys, *leave_out, values),
            Rows::Arrays => array_values(line, values),
        };
        if let Err(what) = read {
            write_bad(line, &what, values.len(), out);
            return;
        }
        for (at, value) in self.values.iter().enumerate() {
            out.extend((at > 0).then_some(b'\t'));
            write_load_data(value.as_deref(), out);
        }
    }
}

/// Takes the values of an object on a line.
fn object_values(
    line: &[u8],
    keys: &BTreeMap<String, usize>,
    leave_out: bool,
    values: &mut [Option<Vec<u8>>],
) -> Result<(), String> {
    let mut seen = vec![false; values.len()];
    each_value(line, |key, value| match keys.get(key.as_ref()) {
        Some(&at) if seen[at] => Err(format!("the key {key} occurs twice")),
        Some(&at) => {
            seen[at] = true;
            values[at] =
                text(value).map_err(|what| format!("the text of the key {key} is damaged: {what}"))?;
            Ok(())
        }
        None if leave_out => Ok(()),
        None => Err(format!("the key {key} is new; --fields lists the keys to read, and ignores all others")),
    })
}

/// Takes the values of an array on a line.
fn array_values(line: &[u8], values: &mut [Option<Vec<u8>>]) -> Result<(), String> {
    let found: Vec<&RawValue> = serde_json::from_slice(line)
        .map_err(|error| format!("this is not a JSON array on one line: {error}"))?;
    if found.len() != values.len() {
        return Err(Ragged { expected: values.len(), found: found.len() }.to_string());
    }
    for (at, (value, raw)) in values.iter_mut().zip(found).enumerate() {
        *value = text(raw).map_err(|what| format!("the text of value {} is damaged: {what}", at + 1))?;
    }
    Ok(())
}

/// Writes a line that is not a row with one field too many, so that it can't be taken for a row: the first
/// field is the line itself, the last says what is wrong with it.
fn write_bad(line: &[u8], what: &str, columns: usize, out: &mut Vec<u8>) {
    write_load_data(Some(line.strip_suffix(b"\r").unwrap_or(line)), out);
    out.extend(b"\t".repeat(columns.max(1)));
    write_load_data(Some(what.as_bytes()), out);
}

/// The line that is not a row, and what is wrong with it, from the translator's output.
pub(crate) fn bad(fields: &[Vec<u8>], columns: usize) -> Option<(&[u8], &[u8])> {
    match fields {
        [line, .., what] if fields.len() == columns.max(1) + 1 => Some((line, what)),
        _ => None,
    }
}

/// An object from a row's fields; all values are strings, because an import treats them so.
pub(crate) fn object(keys: &[String], fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let value =
        |field: &Option<Vec<u8>>| field.as_ref().map(|text| String::from_utf8_lossy(text).into_owned());
    let pairs: Vec<String> = keys
        .iter()
        .zip(fields)
        .map(|(key, field)| format!("{}: {}", json!(key), json!(value(field))))
        .collect();
    format!("{{{}}}", pairs.join(", ")).into_bytes()
}

/// An array from a row's fields, in which all values are strings too.
pub(crate) fn array(fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let text = |field: &Option<Vec<u8>>| {
        json!(field.as_ref().map(|text| String::from_utf8_lossy(text).into_owned())).to_string()
    };
    format!("[{}]", fields.iter().map(text).collect::<Vec<_>>().join(", ")).into_bytes()
}

/// The value as text: strings without their quotes, null as `None`, everything else unchanged. A string whose
/// escapes are no characters (half of a pair, such as `\ud83d`) is an error.
fn text(value: &RawValue) -> Result<Option<Vec<u8>>, String> {
    let raw = value.get();
    match raw.as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => match serde_json::from_str::<String>(raw) {
            Ok(text) => Ok(Some(text.into_bytes())),
            Err(error) => {
                let what = error.to_string();
                // The place would be counted in the value, not in the line.
                Err(what.split(" at line ").next().unwrap_or_default().to_owned())
            }
        },
        _ => Ok(Some(raw.as_bytes().to_vec())),
    }
}

/// Takes a key and its value.
type Take<'f> = dyn FnMut(Cow<'_, str>, &RawValue) -> Result<(), String> + 'f;

/// Passes each key and value of the object on a line to `take`.
fn each_value(
    line: &[u8],
    mut take: impl FnMut(Cow<'_, str>, &RawValue) -> Result<(), String>,
) -> Result<(), String> {
    struct Each<'f>(&'f mut Take<'f>);

    impl<'de> Visitor<'de> for Each<'_> {
        type Value = Result<(), String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object on each line")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut result = Ok(());
            while let Some(key) = map.next_key::<Key<'de>>()? {
                let value = map.next_value::<&'de RawValue>()?;
                if result.is_ok() {
                    result = (self.0)(key.0, value);
                }
            }
            Ok(result)
        }
    }

    let mut json = serde_json::Deserializer::from_slice(line);
    let result = json.deserialize_map(Each(&mut take)).and_then(|result| json.end().map(|()| result));
    result.map_err(|error| format!("this is not a JSON object on one line: {error}"))?
}

/// A key that is copied only if it contains escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Key<'de>, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        json.deserialize_str(Text)
    }
}
