//! Well-known binary, as the servers take it: shapes with two coordinates. MariaDB silently makes NULL of
//! anything else. The format: OGC 06-103r4, section 8.

/// Shapes in shapes, at most.
const DEPTH_MAX: u32 = 32;
/// Bytes of a point.
const POINT_BYTES: usize = 16;

/// Whether all of the bytes are one shape.
pub(super) fn is_shape(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    shape(&mut rest, DEPTH_MAX).is_some() && rest.is_empty()
}

/// Takes a shape.
fn shape(rest: &mut &[u8], depth: u32) -> Option<()> {
    let is_little = match take(rest, 1)? {
        [0] => false,
        [1] => true,
        _ => return None,
    };
    let number = |rest: &mut &[u8]| -> Option<u32> {
        let bytes = *take(rest, 4)?.first_chunk()?;
        Some(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let points = |rest: &mut &[u8]| {
        let bytes = usize::try_from(number(rest)?).ok()?.checked_mul(POINT_BYTES)?;
        take(rest, bytes).map(drop)
    };
    match number(rest)? {
        1 => take(rest, POINT_BYTES).map(drop),
        2 => points(rest),
        3 => (0..number(rest)?).try_for_each(|_| points(rest)),
        4..=7 => {
            let depth = depth.checked_sub(1)?;
            (0..number(rest)?).try_for_each(|_| shape(rest, depth))
        }
        _ => None,
    }
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::is_shape;

    /// A shape: its type, a count if it has one, and what is in it.
    fn made(kind: u8, count: Option<u8>, inside: &[u8]) -> Vec<u8> {
        let count = count.map(|count| vec![count, 0, 0, 0]).unwrap_or_default();
        [&[1, kind, 0, 0, 0], &count[..], inside].concat()
    }

    #[test]
    fn each_kind_of_shape_is_one_and_nothing_shorter_or_longer() {
        let (point, points) = (made(1, None, &[0; 16]), [0; 48]);
        let line = made(2, Some(3), &points);
        let ring = [&[3, 0, 0, 0], &points[..]].concat();
        let polygon = made(3, Some(2), &ring.repeat(2));
        let several = made(4, Some(2), &point.repeat(2));
        let mixed = made(7, Some(3), &[&several[..], &line, &polygon].concat());
        for shape in [point.clone(), line, polygon, several, mixed, made(7, Some(0), &[])] {
            assert!(is_shape(&shape), "{shape:?}");
            for end in 0..shape.len() {
                assert!(!is_shape(&shape[..end]), "{shape:?} to {end}");
            }
            assert!(!is_shape(&[&shape[..], &[0]].concat()));
        }
        // The highest byte first.
        assert!(is_shape(&[&[0, 0, 0, 0, 1], &[0; 16][..]].concat()));
        // No byte order, no such type, three coordinates (by either convention).
        for shape in [
            &[2, 1, 0, 0, 0][..],
            &[1, 0, 0, 0, 0],
            &[1, 8, 0, 0, 0],
            &[1, 0xe9, 3, 0, 0],
            &[1, 1, 0, 0, 0x80],
        ] {
            assert!(!is_shape(&[shape, &[0; 24]].concat()), "{shape:?}");
        }
        let deep = (0..40).fold(point, |inside, _| made(7, Some(1), &inside));
        assert!(!is_shape(&deep));
    }
}
