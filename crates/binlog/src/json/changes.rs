//! The changed parts of a document, as they are in a log with `binlog_row_value_options=PARTIAL_JSON`.

use std::fmt;

use super::{Json, document};
use crate::error::Flaw;
use crate::wire::Wire;

const NO_PATH: Flaw = Flaw("a path in a JSON document is invalid");
const NO_PART: Flaw = Flaw("a JSON document has not the part that was changed");

/// What happened to a part.
#[derive(Clone, Debug, PartialEq)]
enum What {
    Replace(Json),
    Insert(Json),
    Remove,
}

/// A step from a document to its part.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Item(usize),
}

/// A changed part of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// As it is logged, such as `$.a[1]`.
    path: String,
    /// The steps to what has the part, and the last one to the part.
    steps: Vec<Step>,
    last: Step,
    what: What,
}

/// Reads changes.
pub(crate) fn changes(bytes: &[u8]) -> Result<Vec<Change>, Flaw> {
    let (mut wire, mut all) = (Wire(bytes), Vec::new());
    while !wire.is_empty() {
        let kind = wire.u8()?;
        let path = sized(&mut wire)?;
        let path = String::from_utf8(path.to_vec()).map_err(|_| NO_PATH)?;
        let mut steps = steps(&path)?;
        let last = steps.pop().ok_or(NO_PATH)?;
        let what = match kind {
            0 => What::Replace(document(sized(&mut wire)?)?),
            1 => What::Insert(document(sized(&mut wire)?)?),
            2 => What::Remove,
            _ => return Err(Flaw("an unknown change of a JSON document")),
        };
        all.push(Change { path, steps, last, what });
    }
    Ok(all)
}

fn sized<'a>(wire: &mut Wire<'a>) -> Result<&'a [u8], Flaw> {
    let len = wire.packed_len()?;
    wire.take(len)
}

/// The steps of a path: `$`, and then `.name`, `."name"` or `[7]`.
fn steps(path: &str) -> Result<Vec<Step>, Flaw> {
    let mut rest = path.strip_prefix('$').ok_or(NO_PATH)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, behind) = if let Some(item) = rest.strip_prefix('[') {
            let (number, behind) = item.split_once(']').ok_or(NO_PATH)?;
            (Step::Item(number.parse().map_err(|_| NO_PATH)?), behind)
        } else {
            let name = rest.strip_prefix('.').ok_or(NO_PATH)?;
            let len = if name.starts_with('"') {
                quoted_len(name)?
            } else {
                name.find(['.', '[']).unwrap_or(name.len())
            };
            let (name, behind) = name.split_at(len);
            let name = match name.starts_with('"') {
                true => serde_json::from_str(name).map_err(|_| NO_PATH)?,
                false => name.to_owned(),
            };
            (Step::Member(name), behind)
        };
        steps.push(step);
        rest = behind;
    }
    Ok(steps)
}

/// The length of a text in double quotes.
fn quoted_len(text: &str) -> Result<usize, Flaw> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return Ok(at + 1),
            byte => is_escaped = byte == b'\\' && !is_escaped,
        }
    }
    Err(NO_PATH)
}

impl Change {
    /// Does it to a document.
    pub(crate) fn apply(self, document: &mut Json) -> Result<(), Flaw> {
        let mut parent = document;
        for step in &self.steps {
            parent = match (parent, step) {
                (Json::Array(items), Step::Item(at)) => items.get_mut(*at).ok_or(NO_PART)?,
                (Json::Object(members), Step::Member(name)) => {
                    let found = members.iter_mut().find(|(own, _)| own == name);
                    found.map(|(_, value)| value).ok_or(NO_PART)?
                }
                _ => return Err(NO_PART),
            };
        }
        match (parent, self.last) {
            (Json::Array(items), Step::Item(at)) => match self.what {
                What::Replace(value) => *items.get_mut(at).ok_or(NO_PART)? = value,
                // Behind the end it is the last one.
                What::Insert(value) => items.insert(at.min(items.len()), value),
                What::Remove if at < items.len() => drop(items.remove(at)),
                What::Remove => return Err(NO_PART),
            },
            (Json::Object(members), Step::Member(name)) => {
                // Keys are in the order of their length, and then of their bytes.
                let place = members
                    .binary_search_by(|(own, _)| (own.len(), own.as_str()).cmp(&(name.len(), name.as_str())));
                match (self.what, place) {
                    (What::Replace(value), Ok(at)) => {
                        if let Some(member) = members.get_mut(at) {
                            member.1 = value;
                        }
                    }
                    (What::Insert(value), Err(at)) => members.insert(at, (name, value)),
                    (What::Remove, Ok(at)) => drop(members.remove(at)),
                    _ => return Err(NO_PART),
                }
            }
            _ => return Err(NO_PART),
        }
        Ok(())
    }
}

/// As a function that does it, without the document.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, is_item) = (&self.path, matches!(self.last, Step::Item(_)));
        match &self.what {
            What::Replace(value) => write!(f, "JSON_REPLACE('{path}', {value})"),
            What::Insert(value) if is_item => write!(f, "JSON_ARRAY_INSERT('{path}', {value})"),
            What::Insert(value) => write!(f, "JSON_INSERT('{path}', {value})"),
            What::Remove => write!(f, "JSON_REMOVE('{path}')"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_members_and_items() {
        let member = |name: &str| Step::Member(name.to_owned());
        let found = steps(r#"$.a[10]."b.\"[1]\\"[0].\u00e9"#.replace(".\\u00e9", ".\u{e9}").as_str());
        assert_eq!(
            found,
            Ok(vec![member("a"), Step::Item(10), member(r#"b."[1]\"#), Step::Item(0), member("\u{e9}")])
        );
        assert_eq!(steps("$"), Ok(Vec::new()));
        for wrong in ["", "a", "$a", "$[", "$[x]", "$[-1]", "$.\"a", "$.\"a\\\"", "$[1]x"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }
}
