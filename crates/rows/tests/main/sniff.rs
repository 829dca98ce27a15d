//! The sniffer finds the dialect that a file was written in.

use rows::{Dialect, Encoding, Hints, LineEnd, sniff, sniff_encoding};

use proptest::prelude::*;

use crate::text::{bytes, strange_dialect};

/// The number of generated files.
const FILES: u64 = 600;

/// A small generator of numbers, so that file 17 is always the same.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Content {
    Number,
    Price,
    Day,
    Moment,
    Word,
    Sentence,
    Mail,
    Lines,
}

#[derive(Clone, Copy, PartialEq)]
enum Quoting {
    Needed,
    RecordValues,
    All,
}

struct File {
    dialect: Dialect,
    quoting: Quoting,
    header: bool,
    columns: Vec<Content>,
    text: Vec<u8>,
    /// Quotes and escapes occur in the file.
    quoted: bool,
    escaped: bool,
}

const WORDS: [&str; 12] = [
    "apple", "Berlin", "copper", "delta", "Emma", "forest", "granite", "Hugo", "iron", "juniper", "kettle",
    "Lima",
];

fn content(random: &mut Random, content: Content, delimiter: u8) -> String {
    let (day, month) = (random.below(28) + 1, random.below(12) + 1);
    match content {
        Content::Number => random.below(1_000_000).to_string(),
        Content::Price => {
            let point = if delimiter == b';' { ',' } else { '.' };
            format!("{}{point}{:02}", random.below(1000), random.below(100))
        }
        Content::Day => format!("2024-{month:02}-{day:02}"),
        Content::Moment => format!("2024-{month:02}-{day:02} 1{}:0{}:59", random.below(10), random.below(10)),
        Content::Word => random.of(&WORDS).to_owned(),
        Content::Sentence => {
            let between = random.of(&[", ", "; ", " ", " - ", ","]);
            let words = [
                random.of(&WORDS),
                random.of(&WORDS),
                random.of(&["", "5\" pipe", "it's", "O'Neill", "a\\b"]),
            ];
            words.join(between)
        }
        Content::Mail => format!("{}{}@example.com", random.of(&WORDS), random.below(100)),
        Content::Lines => format!("{}\n{}, {}", random.of(&WORDS), random.of(&WORDS), random.below(9)),
    }
}

impl File {
    fn new(seed: u64) -> File {
        let mut random = Random(seed);
        for _ in 0..3 {
            random.below(2);
        }
        let load_data = random.below(6) == 0;
        let quote = if load_data { None } else { Some(random.of(b"\"\"\"'")) };
        let escape = (load_data || random.below(5) == 0).then_some(b'\\');
        let delimiter = if load_data { b'\t' } else { random.of(b",\t;|") };
        let line_end =
            if load_data { LineEnd::Lf } else { random.of(&[LineEnd::Lf, LineEnd::Lf, LineEnd::CrLf]) };
        let all = [
            Content::Number,
            Content::Price,
            Content::Day,
            Content::Moment,
            Content::Word,
            Content::Sentence,
            Content::Mail,
            Content::Lines,
        ];
        let typed = random.of(&[Content::Number, Content::Day, Content::Moment]);
        let mut columns = vec![typed];
        for _ in 0..=random.below(7) {
            columns.push(random.of(&all));
        }
        let at = usize::try_from(random.below(columns.len() as u64)).unwrap();
        columns.swap(0, at);
        let quoting = random.of(&[Quoting::Needed, Quoting::RecordValues, Quoting::All]);
        let dialect = Dialect { delimiter, quote, escape, line_end };
        let header = random.below(2) == 0;
        let mut file =
            File { dialect, quoting, header, columns, text: Vec::new(), quoted: false, escaped: false };
        file.fill(&mut random);
        file
    }

    fn fill(&mut self, random: &mut Random) {
        let columns = self.columns.clone();
        if self.header {
            for at in 0..columns.len() {
                self.delimit(at);
                self.write(
                    &format!("{}_{at}", random.of(&["amount", "city", "when", "note"])),
                    Content::Word,
                );
            }
            self.text.extend_from_slice(self.dialect.line_end.bytes());
        }
        for row in 0..random.below(60) + 3 {
            for (at, &column) in columns.iter().enumerate() {
                self.delimit(at);
                if row > 1 && random.below(12) == 0 {
                    self.text.extend_from_slice(if self.dialect.escape.is_some() { b"\\N" } else { b"" });
                    self.escaped |= self.dialect.escape.is_some();
                } else {
                    let text = content(random, column, self.dialect.delimiter);
                    self.write(&text, column);
                }
            }
            self.text.extend_from_slice(self.dialect.line_end.bytes());
        }
    }

    fn delimit(&mut self, at: usize) {
        self.text.extend((at > 0).then_some(self.dialect.delimiter));
    }

    fn write(&mut self, text: &str, column: Content) {
        let Dialect { delimiter, quote, escape, .. } = self.dialect;
        let special = |byte: &u8| *byte == delimiter || Some(*byte) == quote || matches!(byte, b'\r' | b'\n');
        let is_text = !matches!(column, Content::Number | Content::Price | Content::Day | Content::Moment);
        let enclosed = quote.filter(|_| {
            self.quoting == Quoting::All
                || is_text && self.quoting == Quoting::RecordValues
                || text.as_bytes().iter().any(special)
        });
        self.quoted |= enclosed.is_some();
        self.text.extend(enclosed);
        for byte in text.bytes() {
            let taken = Some(byte) == enclosed || enclosed.is_none() && special(&byte);
            if escape.is_some() && (taken || byte == b'\\') {
                self.escaped = true;
                self.text.push(b'\\');
            } else if taken {
                self.text.push(byte);
            }
            self.text.push(byte);
        }
        self.text.extend(enclosed);
    }
}

#[test]
fn the_dialect_of_every_file_is_found() {
    let mut wrong = Vec::new();
    for seed in 0..FILES {
        let file = File::new(seed);
        let found = sniff(&file.text, true, Encoding::Utf8, &Hints::default());
        let dialect = found.dialect;
        let right = dialect.delimiter == file.dialect.delimiter
            && found.columns == file.columns.len()
            && found.header == file.header
            && dialect.line_end == file.dialect.line_end
            && (!file.quoted || dialect.quote == file.dialect.quote)
            && (!file.escaped || dialect.escape == file.dialect.escape)
            && (file.escaped || dialect.escape.is_none())
            && found.notes.iter().all(|note| note.contains("NULL"));
        if !right {
            let text = String::from_utf8_lossy(&file.text);
            let start: Vec<&str> = text.lines().take(6).collect();
            let written = (file.dialect.to_string(), file.columns.len(), file.header);
            wrong.push(format!(
                "file {seed}: {found} {:?} instead of {written:?}\n{}\n",
                found.notes,
                start.join("\n")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {FILES} files\n{}", wrong.len(), wrong.join("\n"));
}

proptest! {
    #[test]
    fn any_bytes_are_something(bytes in bytes(), whole: bool, dialect in strange_dialect(), hinted in 0..32u8) {
        let hint = |bit: u8| hinted >> bit & 1 == 1;
        let hints = Hints {
            delimiter: hint(0).then_some(dialect.delimiter),
            quote: hint(1).then_some(dialect.quote),
            escape: hint(2).then_some(dialect.escape),
            line_end: hint(3).then_some(dialect.line_end),
            header: hint(4).then_some(whole),
            ..Hints::default()
        };
        let found = sniff(&bytes, whole, sniff_encoding(&bytes), &hints);
        prop_assert!(found.columns >= 1);
        prop_assert!(!found.to_string().contains('\n'));
        prop_assert!(hints.delimiter.is_none_or(|delimiter| found.dialect.delimiter == delimiter));
        prop_assert!(hints.quote.is_none_or(|quote| found.dialect.quote == quote));
        prop_assert!(hints.escape.is_none_or(|escape| found.dialect.escape == escape));
        prop_assert!(hints.line_end.is_none_or(|line_end| found.dialect.line_end == line_end));
        prop_assert!(hints.header.is_none_or(|header| found.header == header));
    }
}
