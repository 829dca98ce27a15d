//! Every page of every file that a server has written is intact, and no other is.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use innodb::page::{u16_at, u32_at};
use innodb::page_check::{FIRST_BYTES, PageFormat};
use server::Session;

use crate::support::{connect, execute, of_today, start};

/// Changed bits to look for in each file.
const FLIPS: usize = 60;

/// How a file's pages may be, as far as the test tells it on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Full,
    FullCompressed,
    Old,
    OldCompressed,
    Zip(usize),
}

fn form(first: &[u8], page: &[u8]) -> Form {
    let (flags, kind) = (u32_at(first, 54), u16_at(page, 24));
    match flags >> 1 & 15 {
        _ if flags & 16 != 0 && kind >= 0x8000 => Form::FullCompressed,
        _ if flags & 16 != 0 => Form::Full,
        0 if kind == 34_354 => Form::OldCompressed,
        0 => Form::Old,
        size => Form::Zip(512 << size),
    }
}

/// Whether a byte of a page has a checksum.
fn counts(form: Form, page: &[u8], at: usize) -> bool {
    let end = match form {
        Form::FullCompressed => usize::from(u16_at(page, 24) & 0x7fff) << 8,
        Form::OldCompressed => 40 + usize::from(u16_at(page, 38)),
        _ => page.len(),
    };
    let without = match form {
        Form::Full | Form::FullCompressed => 0..0,
        Form::Old => 26..38,
        Form::OldCompressed => 8..24,
        Form::Zip(_) => 16..24,
    };
    let other = match form {
        Form::Zip(_) => 26..34,
        // What is in front of the sum of compressed data may have bits that nobody reads.
        Form::OldCompressed => end - 5..end - 4,
        _ => 0..0,
    };
    let of_space = form == Form::OldCompressed && (34..38).contains(&at);
    at < end && !without.contains(&at) && !other.contains(&at) && !of_space
}

fn fill(session: &mut Session, name: &str, options: &str) {
    let create = format!(
        "CREATE TABLE {name} (id INT PRIMARY KEY, a VARCHAR(60), b TEXT, KEY (a)) ENGINE=InnoDB {options}"
    );
    execute(session, &create);
    let insert = format!("INSERT INTO {name} SELECT seq, MD5(seq), REPEAT(MD5(seq), 1 + seq % 9 * 30 *");
    // A page of 1 KiB has room for little of a text.
    let factor = i32::from(!options.contains("BLOCK_SIZE=1 ") && !options.contains("BLOCK_SIZE=2"));
    execute(session, &format!("{insert} {factor}) FROM seq_1_to_1500"));
    execute(session, &format!("DELETE FROM {name} WHERE id % 3 = 0"));
}

fn fill_all(session: &mut Session) {
    for format in ["COMPACT", "DYNAMIC", "REDUNDANT"] {
        fill(session, &format.to_lowercase(), &format!("ROW_FORMAT={format}"));
    }
    for size in [1, 2, 4, 8, 16] {
        fill(session, &format!("zip_{size}"), &format!("ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE={size} "));
    }
    fill(session, "packed", "PAGE_COMPRESSED=1");
    execute(session, "SET GLOBAL innodb_checksum_algorithm = crc32");
    fill(session, "old", "");
    fill(session, "old_packed", "PAGE_COMPRESSED=1");
    fill(session, "old_zip", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4");
    execute(session, "SET GLOBAL innodb_checksum_algorithm = full_crc32");
    execute(session, "CREATE TABLE words (id INT PRIMARY KEY, a TEXT, FULLTEXT (a)) ENGINE=InnoDB");
    execute(session, "INSERT INTO words SELECT seq, CONCAT('word', seq, ' other') FROM seq_1_to_2000");
    execute(session, "CREATE TABLE places (p POINT NOT NULL, SPATIAL (p)) ENGINE=InnoDB");
    execute(session, "INSERT INTO places SELECT POINT(seq, seq % 77) FROM seq_1_to_2000");
    execute(session, "SET GLOBAL innodb_file_per_table = 0");
    // More than the first file of the system tablespace has room for.
    fill(session, "shared", "");
    fill(session, "shared_2", "");
    execute(session, "CREATE TABLE gone LIKE compact");
    execute(session, "TRUNCATE TABLE places");
    execute(session, "DROP TABLE gone");
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, found);
        } else if name.ends_with(".ibd") || name.starts_with("ibdata") || name.starts_with("undo") {
            found.push(path);
        }
    }
}

/// What is in a compressed page of the older form; nothing if it can't be unpacked.
fn unpacked(page: &[u8]) -> Vec<u8> {
    let payload = &page[40..][..usize::from(u16_at(page, 38))];
    let mut out = Vec::new();
    let whole = flate2::read::ZlibDecoder::new(payload).read_to_end(&mut out).is_ok();
    if whole { out } else { Vec::new() }
}

/// Checks a file, and that changed bits are noticed. Returns the forms that its pages have.
fn check(path: &Path, random: &mut u64) -> BTreeSet<Form> {
    let bytes = std::fs::read(path).unwrap();
    let format = PageFormat::of_first_page(&bytes[..bytes.len().min(FIRST_BYTES)], 16_384).unwrap();
    assert!(format.is_known() || path.ends_with("ibdata2"), "{}", path.display());
    assert_eq!(format.first_bad(0, &bytes), Ok(None), "{}", path.display());
    let size = format.page_bytes();
    assert_eq!(bytes.len() % size, 0, "{}", path.display());
    let first = if path.ends_with("ibdata2") { &[0, 0, 0, 0x15].repeat(16) } else { &bytes[..size] };
    let is_doublewrite = |number: usize| path.ends_with("ibdata1") && (64..192).contains(&number);
    let used: Vec<usize> = (0..bytes.len() / size)
        .filter(|&number| !is_doublewrite(number))
        .filter(|number| bytes[number * size..][..size].iter().any(|&byte| byte != 0))
        .collect();
    let mut below = |limit: usize| {
        // xorshift64*, Vigna 2016
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        usize::try_from(random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).unwrap() % limit
    };
    let mut forms = BTreeSet::new();
    for number in used.iter().copied().chain((0..FLIPS).map(|_| used[below(used.len())]).collect::<Vec<_>>())
    {
        let mut page = bytes[number * size..][..size].to_vec();
        let form = form(first, &page);
        forms.insert(form);
        let (at, bit) = (below(size), below(8));
        if counts(form, &page, at) {
            page[at] ^= 1 << bit;
            let found = format.is_intact(u32::try_from(number).unwrap(), &page);
            let shown = path.display();
            // A few bits of compressed data say nothing, such as the code of a symbol that does not occur.
            let same = form == Form::OldCompressed && unpacked(&page) == unpacked(&bytes[number * size..]);
            assert!(found != Ok(true) || same, "{shown}: {form:?}, page {number}, byte {at}, bit {bit}");
        }
    }
    forms
}

#[test]
fn pages_of_every_form_are_intact_and_changed_bits_are_noticed() {
    for product in of_today() {
        // The system tablespace gets a second file.
        let system = "--innodb-data-file-path=ibdata1:12M;ibdata2:8M:autoextend";
        let mut server = start(product, &["--innodb-undo-tablespaces=3", system]);
        // Some series make undo tablespaces only after they were stopped slowly.
        execute(&mut connect(&server), "SET GLOBAL innodb_fast_shutdown = 0");
        server.stop().unwrap();
        server.restart().unwrap();
        let mut session = connect(&server);
        fill_all(&mut session);
        drop(session);
        server.stop().unwrap();
        let mut found = Vec::new();
        files(server.data(), &mut found);
        let mut random = 5;
        let forms: BTreeSet<Form> = found.iter().flat_map(|path| check(path, &mut random)).collect();
        let sizes = [1024, 2048, 4096, 8192, 16_384].map(Form::Zip);
        let all = [Form::Full, Form::FullCompressed, Form::Old, Form::OldCompressed];
        assert_eq!(forms, all.into_iter().chain(sizes).collect(), "{product}");
        let has = |name: &str| found.iter().any(|path| path.ends_with(name));
        assert!(has("ibdata1") && has("ibdata2") && has("undo001") && has("undo003"), "{product}: {found:?}");
        assert!(found.iter().any(|path| path.to_string_lossy().contains("/FTS_")), "{product}: {found:?}");
        assert!(!has("shared.ibd"), "{product}: {found:?}");
    }
}
