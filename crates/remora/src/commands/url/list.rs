//! Lists of URLs: files of lines, compressed or not, and how to divide them for a fair test.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use disk::{Disk as _, RealDisk};
use urlpack::Family;

/// URLs, stored one after the other in one buffer.
#[derive(Debug, Default)]
pub(crate) struct List {
    text: Vec<u8>,
    /// Where each URL begins and ends in `text`.
    places: Vec<(usize, usize)>,
}

impl List {
    /// Reads files, or standard input for `-`. A line ends with LF or CR LF; empty lines are left out.
    pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<List> {
        let mut list = List::default();
        for path in paths {
            list.add(path).with_context(|| path.display().to_string())?;
        }
        if list.places.is_empty() {
            bail!("{}: no URLs: there is no line that is not empty", shown(paths));
        }
        Ok(list)
    }

    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let source: Box<dyn Read + Send> = match path == Path::new("-") {
            true => Box::new(std::io::stdin()),
            false => Box::new(RealDisk.open(path)?),
        };
        let (_, mut plain) = codec::decoder(source)?;
        let mut from = self.text.len();
        plain.read_to_end(&mut self.text)?;
        while from < self.text.len() {
            let rest = self.text.get(from..).unwrap_or_default();
            let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                self.places.push((from, from + line.len()));
            }
            from += length + 1;
        }
        Ok(())
    }

    /// All URLs, in the order of the files.
    pub(crate) fn urls(&self) -> Vec<&[u8]> {
        self.places.iter().filter_map(|(from, to)| self.text.get(*from..*to)).collect()
    }

    /// The URLs of nine tenths of the hosts, and those of the other hosts: the fair measure of a model is how
    /// it does on unknown hosts. Text has no hosts: there it is nine tenths of the different strings.
    pub(crate) fn divide(&self, family: Family) -> (Vec<&[u8]>, Vec<&[u8]>) {
        let belongs = |string| if family == Family::Url { host(string) } else { string };
        self.urls().into_iter().partition(|string| !hash(belongs(string)).is_multiple_of(10))
    }
}

pub(crate) fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The text between `//` and the next `/`, or before the first `/` if there is no scheme.
fn host(url: &[u8]) -> &[u8] {
    let begin = url.windows(3).position(|window| window == b"://").map_or(0, |at| at + 3);
    let rest = url.get(begin..).unwrap_or_default();
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// FNV-1a, 64 bits (Fowler, Noll and Vo): the same division on every machine.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_ends_at_the_path() {
        let host = |url: &str| String::from_utf8_lossy(host(url.as_bytes())).into_owned();
        assert_eq!(host("https://a.example:8080/b//c"), "a.example:8080");
        assert_eq!(host("http://a.example?q=/"), "a.example");
        assert_eq!(host("a.example/b"), "a.example");
        assert_eq!(host(""), "");
    }

    #[test]
    fn a_host_is_on_one_side_only() {
        let mut list = List::default();
        for number in 0..2_000 {
            let url = format!("http://host{}.example/{number}", number / 10);
            list.places.push((list.text.len(), list.text.len() + url.len()));
            list.text.extend_from_slice(url.as_bytes());
        }
        let (train, test) = list.divide(Family::Url);
        assert_eq!(train.len() + test.len(), 2_000);
        assert!((50..500).contains(&test.len()), "{}", test.len());
        assert!(test.iter().all(|url| train.iter().all(|other| host(other) != host(url))));
    }
}
