//! A codec and its level, as given on the command line.

use std::str::FromStr;

use codec::Codec;

/// How to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) codec: Codec,
    pub(crate) level: u32,
}

/// The codecs, their names on the command line, and their levels: lowest, default and highest.
const CODECS: [(Codec, &[&str], [u32; 3]); 6] = [
    (Codec::Zstd, &["zstd", "zst"], [1, 3, 22]),
    (Codec::Gzip, &["gzip", "gz"], [1, 6, 9]),
    (Codec::Xz, &["xz"], [0, 6, 9]),
    (Codec::Bzip2, &["bzip2", "bz2"], [1, 9, 9]),
    (Codec::Lz4, &["lz4"], [1, 1, 1]),
    (Codec::Column, &["column", "rcol"], [1, 3, 22]),
];

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let Some((codec, _, [low, usual, high])) =
            CODECS.into_iter().find(|(_, names, _)| names.contains(&name))
        else {
            return Err("the codecs are zstd, gzip, xz, bzip2, lz4 and column".to_owned());
        };
        let level = match level.map(str::parse::<u32>) {
            None => usual,
            Some(Ok(level)) if (low..=high).contains(&level) => level,
            Some(_) if low == high => return Err(format!("{name} has no levels: write {name}")),
            Some(_) => return Err(format!("{name} has the levels {low} to {high}")),
        };
        Ok(Method { codec, level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_read() {
        let method = |text: &str| text.parse::<Method>();
        assert_eq!(method("zstd:19"), Ok(Method { codec: Codec::Zstd, level: 19 }));
        assert_eq!(method("rcol"), Ok(Method { codec: Codec::Column, level: 3 }));
        assert_eq!(method("gzip:0").unwrap_err(), "gzip has the levels 1 to 9");
        assert_eq!(method("lz4:9").unwrap_err(), "lz4 has no levels: write lz4");
        for wrong in ["", "zip", "zstd:", "zstd:x", "zstd:-1", "zstd:23"] {
            assert!(method(wrong).is_err(), "{wrong}");
        }
    }
}
