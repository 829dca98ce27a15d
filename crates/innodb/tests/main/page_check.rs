//! Pages made by hand, in each form that a tablespace may have.

use std::io::Write;

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::checksum;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use innodb::Error;
use innodb::page_check::{PageFormat, has_stale_page, may_be_newer};

const FULL: u32 = 0x15;
const OLD: u32 = 0;
const OLD_COMPRESSED: u32 = 1 << 16;

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // xorshift64*, Vigna 2016
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(random).unwrap() % limit
    }
}

pub(crate) fn put(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn crc(bytes: &[u8]) -> u32 {
    u32::try_from(checksum(Crc32Iscsi, bytes)).unwrap()
}

/// A page of tablespace 7 with some content and no checksum.
pub(crate) fn page(number: u32, flags: u32, len: usize) -> Vec<u8> {
    let mut random = Random(u64::from(number) + 1);
    let mut page: Vec<u8> = (0..len).map(|at| u8::try_from(random.below(1 + at % 5)).unwrap()).collect();
    put(&mut page, 0, 0);
    put(&mut page, 4, number);
    put(&mut page, 20, 0x1234_5678);
    page[24..26].copy_from_slice(&[0x45, 0xbf]);
    page[26..34].fill(0);
    put(&mut page, 34, 7);
    if number == 0 {
        put(&mut page, 38, 7);
        put(&mut page, 54, flags);
    }
    page
}

pub(crate) fn full(mut page: Vec<u8>) -> Vec<u8> {
    let end = page.len() - 4;
    let sum = crc(&page[..end]);
    put(&mut page, end, sum);
    page
}

pub(crate) fn old(mut page: Vec<u8>) -> Vec<u8> {
    let end = page.len() - 8;
    let sum = crc(&page[4..26]) ^ crc(&page[38..end]);
    put(&mut page, 0, sum);
    put(&mut page, end, sum);
    page.copy_within(20..24, end + 4);
    page
}

fn zip(mut page: Vec<u8>) -> Vec<u8> {
    let sum = crc(&page[4..16]) ^ crc(&page[24..26]) ^ crc(&page[34..]);
    put(&mut page, 0, sum);
    page
}

/// Compressed, with full checksums: so many bytes count.
fn full_compressed(mut page: Vec<u8>, bytes: u16) -> Vec<u8> {
    page[24..26].copy_from_slice(&(0x8000 | bytes >> 8).to_be_bytes());
    let behind = page.split_off(bytes.into());
    [full(page), behind].concat()
}

/// Compressed in the older form, by a method and with this as the compressed page.
fn old_compressed(page: &[u8], method: u8, inner: &[u8]) -> Vec<u8> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(inner).unwrap();
    let payload = zlib.finish().unwrap();
    let mut out = page[..38].to_vec();
    put(&mut out, 0, 0xDEAD_BEEF);
    out[24..26].copy_from_slice(&34_354_u16.to_be_bytes());
    out[33] = method;
    out.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    out.extend(payload);
    out.resize(page.len(), 0);
    out
}

fn known(first: &[u8]) -> PageFormat {
    let format = PageFormat::of_first_page(first, 16_384).unwrap();
    assert!(format.is_known());
    format
}

/// A page is intact, and with any bit that counts changed it is not.
#[track_caller]
fn only_as_it_is(format: &PageFormat, number: u32, page: &[u8], counts: impl Fn(usize) -> bool) {
    assert_eq!(format.is_intact(number, page), Ok(true));
    let mut random = Random(9);
    let places = (0..600).map(|_| random.below(page.len())).chain(0..64).chain(page.len() - 8..page.len());
    let places: Vec<usize> = places.filter(|&at| counts(at)).collect();
    assert!(places.len() > 60);
    for at in places {
        let mut torn = page.to_vec();
        torn[at] ^= 1 << random.below(8);
        assert_ne!(format.is_intact(number, &torn), Ok(true), "byte {at} is another");
    }
    assert_eq!(format.is_intact(number + 1, page), Ok(false), "it is another page");
    assert_eq!(format.is_intact(number, &vec![0; page.len()]), Ok(true), "it was never written");
}

#[test]
fn full_checksums_cover_every_byte() {
    for (size, bytes) in [(3, 4096), (4, 8192), (5, 16_384), (6, 32_768), (7, 65_536)] {
        let first = full(page(0, 0x10 | size, bytes));
        let format = known(&first);
        assert_eq!(format.page_bytes(), bytes);
        only_as_it_is(&format, 0, &first, |_| true);
        only_as_it_is(&format, 3, &full(page(3, 0, bytes)), |_| true);
    }
}

#[test]
fn page_compressed() {
    // A number of the method is above the mark of full checksums.
    let format = known(&full(page(0, FULL | 1 << 5, 16_384)));
    only_as_it_is(&format, 3, &full(page(3, 0, 16_384)), |_| true);
    only_as_it_is(&format, 3, &full_compressed(page(3, 0, 16_384), 4096), |at| at < 4096);
    let longer = full_compressed(page(3, 0, 16_384), 16_384);
    only_as_it_is(&format, 3, &longer, |_| true);

    let format = known(&old(page(0, OLD_COMPRESSED, 16_384)));
    only_as_it_is(&format, 3, &old(page(3, 0, 16_384)), |at| !(26..38).contains(&at));
    let inner = old(page(3, 0, 16_384));
    let packed = old_compressed(&inner, 1, &inner);
    let end = 40 + usize::from(u16::from_be_bytes([packed[38], packed[39]]));
    // The last byte of compressed data before its sum may have bits that nobody reads.
    let counts = |at: usize| at < 8 || (24..34).contains(&at) || (38..end).contains(&at) && at != end - 5;
    only_as_it_is(&format, 3, &packed, counts);
    let mut torn = inner.clone();
    torn[9000] ^= 1;
    assert_eq!(format.is_intact(3, &old_compressed(&inner, 1, &torn)), Ok(false));
    let lz4 = format.is_intact(3, &old_compressed(&inner, 2, &inner));
    assert!(matches!(&lz4, Err(Error::Unsupported(what)) if what.contains("another method")), "{lz4:?}");
    // Only where the first page says that pages may be compressed.
    assert_eq!(known(&old(page(0, OLD, 16_384))).is_intact(3, &packed), Ok(false));
}

#[test]
fn checksums_of_older_servers() {
    for (size, bytes) in [(3, 4096), (4, 8192), (0, 16_384), (6, 32_768), (7, 65_536)] {
        let first = old(page(0, size << 6, bytes));
        let format = known(&first);
        assert_eq!(format.page_bytes(), bytes);
        only_as_it_is(&format, 0, &first, |at| !(26..38).contains(&at));
        only_as_it_is(&format, 3, &old(page(3, 0, bytes)), |at| !(26..38).contains(&at));
        let mut none = old(page(3, 0, bytes));
        put(&mut none, 0, 0xDEAD_BEEF);
        assert_eq!(format.is_intact(3, &none), Ok(false), "only one of two says that there is none");
        put(&mut none, bytes - 8, 0xDEAD_BEEF);
        assert_eq!(format.is_intact(3, &none), Ok(true));
    }
}

/// `ut_fold_binary()`
fn fold(bytes: &[u8]) -> u32 {
    let pair = |sum: u32, byte: u32| {
        let mixed = ((sum ^ byte ^ 1_653_893_711) << 8).wrapping_add(sum);
        (mixed ^ 1_463_735_687).wrapping_add(byte)
    };
    bytes.iter().fold(0, |sum, byte| pair(sum, (*byte).into()))
}

/// `innodb_checksum_algorithm=innodb`: one in the header, and an older one in the trailer, or, from MySQL
/// 5.6, the upper half of the LSN there.
#[test]
fn checksums_before_crc_32() {
    let format = known(&old(page(0, OLD, 16_384)));
    let mut whole = page(3, 0, 16_384);
    whole[16..20].copy_from_slice(&[7, 6, 5, 4]);
    let sum = fold(&whole[4..26]).wrapping_add(fold(&whole[38..16_376]));
    put(&mut whole, 0, sum);
    whole.copy_within(20..24, 16_380);
    for back in [fold(&whole[..26]), 0x0706_0504] {
        put(&mut whole, 16_376, back);
        only_as_it_is(&format, 3, &whole, |at| !(26..38).contains(&at));
    }
    put(&mut whole, 16_376, sum);
    assert_eq!(format.is_intact(3, &whole), Ok(false), "the same in both places");
}

#[test]
fn compressed() {
    for (size, bytes) in [(1, 1024), (2, 2048), (3, 4096), (4, 8192), (5, 16_384)] {
        let first = zip(page(0, 0x21 | size << 1, bytes));
        let format = known(&first);
        assert_eq!(format.page_bytes(), bytes);
        let counts = |at| !(16..24).contains(&at) && !(26..34).contains(&at);
        only_as_it_is(&format, 0, &first, counts);
        only_as_it_is(&format, 3, &zip(page(3, 0, bytes)), counts);
        let mut none = page(3, 0, bytes);
        put(&mut none, 0, 0xDEAD_BEEF);
        assert_eq!(format.is_intact(3, &none), Ok(true));
    }
    // Adler-32 that begins with 0: of a page with a single byte, both halves are known.
    let format = known(&zip(page(0, 0x21 | 5 << 1, 16_384)));
    let mut adler = vec![0; 16_384];
    adler[7] = 3;
    adler[16_383] = 2;
    // Byte 7 is followed by 8, 2 and 16,350 bytes.
    put(&mut adler, 0, (3 * (9 + 2 + 16_350) + 2) << 16 | 5);
    only_as_it_is(&format, 3, &adler, |at| !(16..24).contains(&at) && !(26..34).contains(&at));
}

#[test]
fn a_first_page_that_was_not_written_yet_leaves_every_form_possible() {
    let format = PageFormat::of_first_page(&[0; 16_384], 16_384).unwrap();
    assert!(!format.is_known());
    assert_eq!(format.page_bytes(), 16_384);
    only_as_it_is(&format, 3, &full(page(3, 0, 16_384)), |_| true);
    only_as_it_is(&format, 3, &full_compressed(page(3, 0, 16_384), 4096), |at| at < 4096);
    only_as_it_is(&format, 3, &old(page(3, 0, 16_384)), |at| !(26..38).contains(&at));
    let inner = old(page(3, 0, 16_384));
    assert_eq!(format.is_intact(3, &old_compressed(&inner, 1, &inner)), Ok(true));
    for bytes in [1024, 2048, 4096, 8192, 16_384] {
        let count = u32::try_from(16_384 / bytes).unwrap();
        let mut pages: Vec<_> = (3 * count..4 * count).map(|number| zip(page(number, 0, bytes))).collect();
        assert_eq!(format.is_intact(3, &pages.concat()), Ok(true));
        let mut none = pages.clone();
        put(&mut none[0], 0, 0xDEAD_BEEF);
        assert_eq!(format.is_intact(3, &none.concat()), Ok(false), "this could be anything");
        if count > 2 {
            pages[1].fill(0);
        }
        assert_eq!(format.is_intact(3, &pages.concat()), Ok(true));
        pages.last_mut().unwrap()[bytes - 1] ^= 1;
        assert_eq!(format.is_intact(3, &pages.concat()), Ok(false));
    }
    // The server's pages may have another size.
    for bytes in [4096, 65_536] {
        let format = PageFormat::of_first_page(&[0; 65_536], bytes).unwrap();
        assert_eq!(format.page_bytes(), bytes);
        only_as_it_is(&format, 3, &full(page(3, 0, bytes)), |_| true);
    }
    // A file may be shorter than any page.
    let mut short = [0; 100];
    assert!(!PageFormat::of_first_page(&short, 16_384).unwrap().is_known());
    short[99] = 1;
    assert!(PageFormat::of_first_page(&short, 16_384).unwrap().is_known());
    // Only the first page is looked at: behind it may be others.
    let new: Vec<u8> = [vec![0; 1024], zip(page(1, 0, 1024))].concat();
    assert!(!PageFormat::of_first_page(&new, 16_384).unwrap().is_known());
}

#[test]
fn the_system_tablespace_has_several_files_and_pages_that_nobody_checks() {
    let of_size = |number, flags, bytes| {
        let mut page = page(number, flags, bytes);
        put(&mut page, 34, 0);
        put(&mut page, 38, 0);
        full(page)
    };
    for (flags, bytes, copies) in [(0x13, 4096, 256..768), (0x14, 8192, 128..384), (0x17, 65_536, 64..192)] {
        let format = known(&of_size(0, flags, bytes));
        for number in [copies.start - 1, copies.start, copies.end - 1, copies.end] {
            let intact = format.is_intact(number, &vec![1; bytes]);
            assert_eq!(intact, Ok(copies.contains(&number)), "{bytes}: page {number}");
        }
    }
    let of_system = |number| of_size(number, FULL, 16_384);
    let format = known(&of_system(0));
    let torn = [1; 16_384];
    for (number, intact) in [(63, false), (64, true), (191, true), (192, false)] {
        assert_eq!(format.is_intact(number, &torn), Ok(intact), "page {number}");
    }
    // Other tablespaces have tables there.
    assert_eq!(known(&full(page(0, FULL, 16_384))).is_intact(64, &torn), Ok(false));

    let second = PageFormat::of_first_page(&of_system(640), 16_384).unwrap();
    only_as_it_is(&second, 0, &of_system(640), |_| true);
    only_as_it_is(&second, 70, &of_system(710), |_| true);
    assert_eq!(second.is_intact(70, &torn), Ok(false));
    let unused = PageFormat::of_first_page(&[0; 16_384], 16_384).unwrap();
    assert_eq!(unused.is_intact(70, &of_system(710)), Ok(true));
}

/// Pages of encrypted tablespaces have checksums over what is in the file; not all of them are encrypted.
#[test]
fn encrypted_pages_are_checked_without_a_key() {
    let first = |flags: u32, len: usize, at: usize| {
        let mut page = page(0, flags, len);
        page[at..at + 7].copy_from_slice(b"s\x0e\x0cREt\x01");
        page
    };
    let format = known(&first(FULL, 16_384, 10_428));
    only_as_it_is(&format, 3, &full(page(3, FULL, 16_384)), |_| true);
    assert_eq!(format.is_intact(0, &full(first(FULL, 16_384, 10_428))), Ok(true));
    for (flags, len, at, ranges) in [
        (0, 16_384, 10_428, [4..26, 38..16_376, 0..0]),
        (0x21 | 1 << 1, 1024, 828, [4..16, 24..26, 34..1024]),
    ] {
        let format = known(&first(flags, len, at));
        let mut encrypted = page(3, flags, len);
        encrypted[26..30].copy_from_slice(&1_u32.to_be_bytes());
        let sum = ranges.into_iter().fold(0, |sum, range| sum ^ crc(&encrypted[range]));
        encrypted[30..34].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(format.is_intact(3, &encrypted), Ok(true), "{flags:#x}");
        assert_eq!(format.is_intact(4, &encrypted), Ok(false), "{flags:#x}");
        encrypted[500] ^= 1;
        assert_eq!(format.is_intact(3, &encrypted), Ok(false), "{flags:#x}");
        encrypted[500] ^= 1;
        // What was never encrypted has no such checksum.
        let other = known(&page(0, flags, len));
        assert_eq!(other.is_intact(3, &encrypted), Ok(false), "{flags:#x}");
        encrypted[26..30].fill(0);
        assert_eq!(format.is_intact(3, &encrypted), Ok(false), "{flags:#x}");
    }
    // Compressed and then encrypted, it has none.
    let format = known(&first(1 << 16, 16_384, 10_428));
    let mut squeezed = page(3, 1 << 16, 16_384);
    squeezed[24..26].copy_from_slice(&37_401_u16.to_be_bytes());
    squeezed[26..30].copy_from_slice(&1_u32.to_be_bytes());
    let said = format.is_intact(3, &squeezed).unwrap_err().to_string();
    assert!(said.contains("ALTER TABLE"), "{said}");
}

#[test]
fn a_page_that_is_no_first_page_is_refused() {
    for flags in [0x10, 0x12, 0x18, 1 << 6, 5 << 6, 8 << 6, 6 << 1, 3 << 6 | 5 << 1] {
        let found = PageFormat::of_first_page(&page(0, flags, 16_384), 16_384);
        assert!(matches!(found, Err(Error::Corrupt { .. })), "{flags:#x}: {found:?}");
    }
    let found = PageFormat::of_first_page(&full(page(3, 0, 16_384)), 16_384);
    assert!(matches!(found, Err(Error::Corrupt { .. })), "{found:?}");
}

#[test]
fn the_first_bad_page_of_a_range_is_found() {
    let mut file: Vec<u8> = (0..8).flat_map(|number| zip(page(number, 0x21 | 3 << 1, 4096))).collect();
    let format = known(&file[..16_384]);
    assert_eq!(format.first_bad(0, &file), Ok(None));
    file[5 * 4096 + 100] ^= 1;
    file[6 * 4096 + 100] ^= 1;
    assert_eq!(format.first_bad(0, &file), Ok(Some(5 * 4096)));
    assert_eq!(format.first_bad(16_384, &file[16_384..]), Ok(Some(5 * 4096)));
    // A part of a page says nothing.
    assert_eq!(format.first_bad(5 * 4096 + 1, &file[5 * 4096 + 1..6 * 4096]), Ok(None));
    assert_eq!(format.first_bad(5 * 4096 + 1, &file[5 * 4096 + 1..]), Ok(Some(6 * 4096)));
    assert_eq!(format.first_bad(0, &file[..6 * 4096 - 1]), Ok(None));
}

/// A page with the LSN of its last change.
fn at_lsn(number: u32, lsn: u64, len: usize) -> Vec<u8> {
    let mut page = page(number, 0x15, len);
    page[16..24].copy_from_slice(&lsn.to_be_bytes());
    full(page)
}

#[test]
fn a_changed_page_must_have_a_later_lsn() {
    for bytes in [4096, 16_384] {
        let (was, now) = (at_lsn(3, 900, bytes), at_lsn(3, 700, bytes));
        assert!(has_stale_page(&was, &now, bytes, 800));
        assert!(!has_stale_page(&was, &now, bytes, 700), "it was written since");
        assert!(!has_stale_page(&was, &was, bytes, 1000), "it is the same");
        assert!(!has_stale_page(&was, &vec![0; bytes], bytes, 800), "it was freed");
        assert!(!has_stale_page(&was, &at_lsn(4, 700, bytes), bytes, 800), "it is another page");
        let mut other = at_lsn(3, 700, bytes);
        put(&mut other, 34, 8);
        assert!(!has_stale_page(&was, &full(other), bytes, 800), "it is of another tablespace");
        let mut torn = now.clone();
        torn[2000] ^= 1;
        assert!(!has_stale_page(&was, &torn, bytes, 800) && !has_stale_page(&torn, &now, bytes, 800));
        let two = |one: &[u8], other: &[u8]| [one, other].concat();
        assert!(has_stale_page(&two(&was, &was), &two(&was, &now), bytes, 800), "the second one");
    }
    // A copy of some page that is about to be written.
    let copy = |lsn| {
        let mut page = at_lsn(64, lsn, 16_384);
        put(&mut page, 34, 0);
        full(page)
    };
    assert!(!has_stale_page(&copy(900), &copy(700), 16_384, 800));
    assert!(has_stale_page(&at_lsn(64, 900, 16_384), &at_lsn(64, 700, 16_384), 16_384, 800), "no such copy");
    assert!(
        !has_stale_page(&at_lsn(3, 900, 16_384), &at_lsn(3, 700, 16_384), 65_536, 800),
        "a part of a page"
    );
}

#[test]
fn a_page_that_was_written_since_or_freed_may_be_newer() {
    for bytes in [4096, 16_384] {
        let (page, zeros) = (at_lsn(3, 800, bytes), vec![0; bytes]);
        assert!(may_be_newer(&page, bytes, 799) && !may_be_newer(&page, bytes, 800));
        assert!(may_be_newer(&[&page[..], &zeros].concat(), bytes, 800));
        assert!(may_be_newer(&[&page[..], &at_lsn(4, 801, bytes)].concat(), bytes, 800));
        assert!(!may_be_newer(&zeros[..bytes - 1], bytes, 0), "a part of a page");
    }
}
