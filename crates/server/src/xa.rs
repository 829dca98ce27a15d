//! Distributed transactions (XA): those that are prepared, and their names.

use crate::{Error, Session};

/// The name of a distributed transaction: the format, and the bytes of its global part and its branch.
pub type XaName = (u32, Vec<u8>, Vec<u8>);

/// The name as `XA COMMIT` and `XA ROLLBACK` take it.
#[must_use]
pub fn xa_literal((format, global, branch): &XaName) -> String {
    let quoted = |bytes: &[u8]| {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && !b"'\\".contains(byte);
        match bytes.iter().all(is_plain) {
            true => format!("'{}'", bytes.iter().copied().map(char::from).collect::<String>()),
            false => format!("X'{}'", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        }
    };
    let global = quoted(global);
    match (format, branch.is_empty()) {
        (1, true) => global,
        (1, false) => format!("{global},{}", quoted(branch)),
        _ => format!("{global},{},{format}", quoted(branch)),
    }
}

/// The transactions in XA PREPARE. `XA RECOVER` has the lengths of both parts and their bytes on every
/// server; its other forms are for people.
///
/// # Errors
/// [`Error::Privilege`] on MySQL from 8.0 on without XA_RECOVER_ADMIN, and the like.
pub fn prepared_xa(session: &mut Session) -> Result<Vec<XaName>, Error> {
    let rows = session.rows("XA RECOVER")?;
    Ok(rows.iter().filter_map(|row| name(row)).collect())
}

/// The name in a row: the format, the lengths of both parts, and their bytes.
fn name(row: &[Option<Vec<u8>>]) -> Option<XaName> {
    let [Some(format), Some(global), Some(_), Some(data)] = row else { return None };
    let (global, branch) = data.split_at_checked(number(global)?)?;
    Some((u32::try_from(number(format)?).ok()?, global.to_vec(), branch.to_vec()))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_bytes_and_can_be_pasted() {
        let row = |cells: [&[u8]; 4]| name(&cells.map(|cell| Some(cell.to_vec())));
        for (cells, wanted) in [
            ([b"1", b"8", b"0", &b"order-17"[..]], "'order-17'"),
            ([b"1", b"3", b"1", b"a bc"], "'a b','c'"),
            ([b"7", b"4", b"1", b"it's\xff"], "X'69742773',X'ff',7"),
            ([b"2", b"0", b"1", b"x"], "'','x',2"),
        ] {
            assert_eq!(xa_literal(&row(cells).unwrap()), wanted);
        }
        for wrong in [[&b"1"[..], b"3", b"0", b"ab"], [b"x", b"1", b"0", b"a"], [b"1", b"", b"0", b"a"]] {
            assert_eq!(row(wrong), None);
        }
    }
}
