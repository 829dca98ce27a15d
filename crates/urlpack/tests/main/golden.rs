//! Packed values of the first model version: users' tables hold such bytes.

use urlpack::{Model, Options, train};

use crate::model::urls;

const MODEL: &[u8] = include_bytes!("../data/v2.urlmodel");
const VALUES: &str = include_str!("../data/v2.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn version_1_packs_the_same_for_ever() {
    let model = Model::from_bytes(MODEL).unwrap();
    for line in VALUES.lines() {
        let (packed, string) = line.split_once(' ').unwrap();
        let mut value = Vec::new();
        model.pack(string.as_bytes(), &mut value);
        assert_eq!(hex(&value), packed, "{string}");
        let mut back = Vec::new();
        model.unpack(&value, &mut back, 1_000).unwrap();
        assert_eq!(back, string.as_bytes());
    }
    assert!(VALUES.lines().count() >= 10);
}

/// Writes the two files again: `URLPACK_GOLDEN=1 cargo test -p urlpack`, only for a new version of the
/// format.
#[test]
fn golden_files_can_be_made() {
    let mut options = Options::new(12_000);
    options.note = "made up by the tests".to_owned();
    let file = train(urls(), &options, &mut |_| {}).unwrap();
    let model = Model::from_bytes(file.as_slice()).unwrap();
    let strings = [
        "",
        "h",
        "http://",
        "http://www.example.com/",
        "https://shop.example.org/catalog/item/77",
        "HTTP://EXAMPLE.COM/",
        "http://www.example.com/%E6%97%A5%e6%9c%ac/1",
        "ftp://ftp.example.net/pub/README",
        "mailto:a@b.example",
        "~",
        "no url at all \u{e9}\u{4e2d}",
    ];
    let mut lines = String::new();
    for string in strings {
        let mut value = Vec::new();
        model.pack(string.as_bytes(), &mut value);
        lines += &format!("{} {string}\n", hex(&value));
    }
    if std::env::var_os("URLPACK_GOLDEN").is_some() {
        #[expect(clippy::disallowed_methods, reason = "a test writes its own data files on request")]
        {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v2.urlmodel"), &file).unwrap();
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/v2.txt"), lines).unwrap();
        }
    }
}
