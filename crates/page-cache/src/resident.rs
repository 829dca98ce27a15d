//! Shows which part of a file is in the page cache.

use std::io;

use disk::{Source, page_size};

use progress::{as_f64, size};

/// Characters of a bar.
const CELLS: u64 = 40;

/// Which part of a file is in the page cache, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Its length.
    pub len: u64,
    /// Cached bytes.
    pub there: u64,
    /// Cached bytes that are not on the disk yet, if the kernel tells.
    pub dirty: Option<u64>,
    /// Whether the file exists only in memory.
    only_there: bool,
}

impl Look {
    /// Examines a file; none if the kernel does not tell.
    pub fn at(source: &dyn Source) -> io::Result<Option<Look>> {
        let len = source.stat()?.len;
        let Some(resident) = source.resident(0, len)? else { return Ok(None) };
        // The last page extends beyond the end of the file.
        let bytes = |pages: u64| (pages * page_size()).min(len);
        Ok(Some(Look {
            len,
            there: bytes(resident.pages),
            dirty: resident.dirty.map(bytes),
            only_there: resident.only_there,
        }))
    }
}

/// Why something is still cached.
pub fn why(after: &Look, synced: bool) -> Option<String> {
    let dirty = after.dirty.unwrap_or(0);
    match after.there {
        0 => None,
        _ if after.only_there => Some("its file system is only in memory".to_owned()),
        there if dirty >= there && !synced => Some("not on disk yet".to_owned()),
        _ if dirty > 0 => Some(format!("{} not on disk yet, the rest in use", size(dirty))),
        _ if after.dirty.is_none() && !synced => Some("in use, or not on disk yet".to_owned()),
        _ => Some("in use: mapped, locked, or being read".to_owned()),
    }
}

/// `512 MB of 1.07 GB  48 %`
pub fn held(look: &Look) -> String {
    let share = if look.len == 0 { 0.0 } else { as_f64(look.there) / as_f64(look.len) * 100.0 };
    format!("{:>9} of {:>9} {share:>3.0} %", size(look.there), size(look.len))
}

/// A character for each fortieth of a file: `#` all of it is cached, `+` half or more, `.` something, and a
/// space nothing.
pub fn bar(source: &dyn Source, len: u64) -> io::Result<String> {
    let pages = len.div_ceil(page_size());
    let mut bar = String::new();
    for cell in 0..CELLS {
        let (from, mut to) = (pages * cell / CELLS, pages * (cell + 1) / CELLS);
        // In a file of few pages a page covers several characters.
        to = to.max(from + 1).min(pages.max(from + 1));
        let bytes = (to * page_size()).min(len) - (from * page_size()).min(len);
        let there = source.resident(from * page_size(), bytes)?.map_or(0, |resident| resident.pages);
        bar.push(mark(there, to - from));
    }
    Ok(bar)
}

fn mark(there: u64, of: u64) -> char {
    match there {
        0 => ' ',
        _ if there >= of => '#',
        _ if there * 2 >= of => '+',
        _ => '.',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_cached_pages_of_small_files() {
        assert_eq!(
            [mark(0, 9), mark(1, 900), mark(450, 900), mark(899, 900), mark(9, 9)],
            [' ', '.', '+', '+', '#']
        );
    }

    #[test]
    fn the_reason_for_cached_pages_is_shown() {
        let look = |there, dirty, only_there| Look { len: 9000, there, dirty, only_there };
        assert_eq!(why(&look(0, Some(0), false), false), None);
        let text = |look: Look, synced| why(&look, synced).unwrap();
        assert!(text(look(4096, Some(4096), false), false).starts_with("not on disk"));
        assert!(text(look(8192, Some(4096), false), false).contains("the rest in use"));
        assert!(text(look(4096, Some(0), false), true).starts_with("in use"));
        assert!(text(look(4096, Some(0), true), true).contains("only in memory"));
        assert!(text(look(4096, None, false), false).contains("or not on disk"));
    }
}
