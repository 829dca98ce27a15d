//! Trains a model: `train SIZE NUMBER OUT.urlmodel NOTE.txt LIST.txt...`. The model in `model/` was made with it;
//! the page next to it names the lists.

#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "a tool that says what it does")]
#![expect(clippy::disallowed_methods, reason = "an example has no disk crate to write through")]

use urlpack::{Options, Progress, train};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, number, out, note, lists @ ..] = &arguments[..] else {
        panic!("train SIZE NUMBER OUT NOTE LIST...")
    };
    let texts: Vec<Vec<u8>> = lists.iter().map(|list| std::fs::read(list).unwrap()).collect();
    let lines =
        texts.iter().flat_map(|text| text.split(|&byte| byte == b'\n')).filter(|line| !line.is_empty());
    let mut options = Options::new(size.parse().unwrap());
    options.number = number.parse().unwrap();
    options.note = std::fs::read_to_string(note).unwrap();
    let model = train(lines, &options, &mut |progress| {
        if !matches!(progress, Progress::Read { .. }) {
            eprintln!("{progress:?}");
        }
    });
    std::fs::write(out, model.unwrap()).unwrap();
}
