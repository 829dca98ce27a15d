//! Nested values as JSON text.

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_schema::{DataType, Field};

use super::kind::{self, Kind};
use super::text::{Bad, Texts};

/// The values of a column, or of a part of it.
pub(crate) enum Node<'a> {
    Leaf { texts: Texts<'a>, kind: Kind },
    List { array: &'a dyn Array, bounds: Bounds<'a>, values: Box<Node<'a>> },
    Structure { array: &'a dyn Array, names: Vec<String>, fields: Vec<Node<'a>> },
    Map { array: &'a dyn Array, bounds: Bounds<'a>, keys: Box<Node<'a>>, values: Box<Node<'a>> },
}

/// Where the elements of a row begin and end.
type Bounds<'a> = Box<dyn Fn(usize) -> (usize, usize) + 'a>;

fn place(offset: impl TryInto<usize>) -> usize {
    offset.try_into().unwrap_or(0)
}

impl<'a> Node<'a> {
    /// The values of an array; the reason if some can't be written.
    pub(crate) fn new(array: &'a dyn Array, field: &Field) -> Result<Node<'a>, String> {
        let unlike =
            || format!("values of the type {} are not what the file says they are", array.data_type());
        match array.data_type() {
            DataType::List(element) => {
                Node::list(array, array.as_list_opt::<i32>().ok_or_else(unlike)?, element)
            }
            DataType::LargeList(element) => {
                Node::list(array, array.as_list_opt::<i64>().ok_or_else(unlike)?, element)
            }
            DataType::FixedSizeList(element, length) => {
                let list = array.as_fixed_size_list_opt().ok_or_else(unlike)?;
                let length = place(*length);
                let bounds: Bounds<'_> = Box::new(move |row| (row * length, (row + 1) * length));
                let values = Box::new(Node::new(list.values().as_ref(), element)?);
                Ok(Node::List { array, bounds, values })
            }
            DataType::Struct(fields) => {
                let parts = array.as_struct_opt().ok_or_else(unlike)?;
                let nodes = parts.columns().iter().zip(fields);
                let nodes: Result<Vec<_>, _> =
                    nodes.map(|(part, field): (&ArrayRef, _)| Node::new(part.as_ref(), field)).collect();
                let names = fields.iter().map(|field| field.name().clone()).collect();
                Ok(Node::Structure { array, names, fields: nodes? })
            }
            DataType::Map(entry, _) => {
                let map = array.as_map_opt().ok_or_else(unlike)?;
                let DataType::Struct(fields) = entry.data_type() else { return Err(unlike()) };
                let [key, value] = fields.as_ref() else { return Err(unlike()) };
                let offsets = map.value_offsets();
                let bounds: Bounds<'_> = Box::new(move |row| bounds(offsets, row));
                let keys = Box::new(Node::new(map.keys().as_ref(), key)?);
                Ok(Node::Map {
                    array,
                    bounds,
                    keys,
                    values: Box::new(Node::new(map.values().as_ref(), value)?),
                })
            }
            _ => {
                let kind = kind::of_field(field)?;
                if kind == Kind::Nested {
                    return Err(format!(
                        "values of the type {} within others can't be read",
                        array.data_type()
                    ));
                }
                Ok(Node::Leaf { texts: Texts::new(array, kind)?, kind })
            }
        }
    }

    fn list<O: OffsetSizeTrait + TryInto<usize>>(
        array: &'a dyn Array,
        list: &'a GenericListArray<O>,
        element: &Field,
    ) -> Result<Node<'a>, String> {
        let offsets = list.value_offsets();
        let bounds: Bounds<'_> = Box::new(move |row| bounds(offsets, row));
        Ok(Node::List { array, bounds, values: Box::new(Node::new(list.values().as_ref(), element)?) })
    }

    /// Whether a value is NULL.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Node::Leaf { .. } => false,
            Node::List { array, .. } | Node::Structure { array, .. } | Node::Map { array, .. } => {
                array.is_null(row)
            }
        }
    }

    /// Appends a value.
    pub(crate) fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Bad> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match self {
            Node::Leaf { texts, kind } => return leaf(texts, *kind, row, out),
            Node::List { bounds, values, .. } => {
                out.push(b'[');
                let (from, to) = bounds(row);
                for at in from..to {
                    out.extend_from_slice(if at > from { b", " } else { b"" });
                    values.append(at, out)?;
                }
                out.push(b']');
            }
            Node::Structure { names, fields, .. } => {
                out.push(b'{');
                for (at, (name, node)) in names.iter().zip(fields).enumerate() {
                    out.extend_from_slice(if at > 0 { b", " } else { b"" });
                    string(name.as_bytes(), out);
                    out.extend_from_slice(b": ");
                    node.append(row, out)?;
                }
                out.push(b'}');
            }
            Node::Map { bounds, keys, values, .. } => {
                out.push(b'{');
                let (from, to) = bounds(row);
                for at in from..to {
                    out.extend_from_slice(if at > from { b", " } else { b"" });
                    let mut key = Vec::new();
                    keys.append(at, &mut key)?;
                    // A name is a string in any case.
                    if key.first() == Some(&b'"') {
                        out.append(&mut key);
                    } else {
                        string(&key, out);
                    }
                    out.extend_from_slice(b": ");
                    values.append(at, out)?;
                }
                out.push(b'}');
            }
        }
        Ok(())
    }
}

fn bounds<T: Copy + TryInto<usize>>(offsets: &[T], row: usize) -> (usize, usize) {
    let at = |index: usize| offsets.get(index).copied().map_or(0, place);
    (at(row), at(row + 1))
}

fn leaf(texts: &Texts<'_>, kind: Kind, row: usize, out: &mut Vec<u8>) -> Result<(), Bad> {
    let mut text = Vec::new();
    if !texts.append(row, &mut text)? {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match kind {
        Kind::Boolean => out.extend_from_slice(if text == b"1" { b"true" } else { b"false" }),
        // JSON has numbers only.
        Kind::Float | Kind::Double if text.ends_with(b"N") || text.ends_with(b"y") => {
            return Err(Bad { reason: "JSON has no such number".to_owned(), shown: text });
        }
        _ if kind.is_number() => out.append(&mut text),
        _ => string(&text, out),
    }
    Ok(())
}

/// A string of JSON.
fn string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
