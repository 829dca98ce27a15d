//! What a backup has lost, in words.

use block::restore::Loss;
use humanize::text;

/// A loss in words.
pub(crate) fn shown(loss: &Loss) -> String {
    let (from, to) = (loss.bytes.start, loss.bytes.end);
    match &loss.path {
        None => format!("bytes {from} to {to}"),
        Some(path) if path.as_os_str().is_empty() => {
            format!("a part of the list of files (bytes {from} to {to}): what is named there is not known")
        }
        Some(file) => format!("{} bytes {from} to {to}", text::path(file)),
    }
}
