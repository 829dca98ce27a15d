//! `~/.mylogin.cnf`, in which `mysql_config_editor` keeps accounts: an option file whose lines are encrypted
//! with a key at its beginning. It keeps passwords from the eyes of bystanders, not from readers of the file.
//!
//! Facts: `mysys_ssl/my_default.cc` and `client/mysql_config_editor.cc` of MySQL 8.0 and later.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, KeyInit};

/// Bytes that mean nothing, before the key.
const UNUSED_BYTES: usize = 4;
/// Bytes of the key as it is in the file.
const KEY_BYTES: usize = 20;
/// Bytes of the length before each line, the lowest first.
const LENGTH_BYTES: usize = 4;
const BLOCK_BYTES: usize = 16;

/// The text of the file. `None`: it does not exist, or others than its owner may read or change it: the
/// clients of MySQL pass over such a file.
///
/// # Errors
/// What is wrong with it, if it was not written by `mysql_config_editor`.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, &'static str> {
    let Ok(about) = fs::metadata(path) else { return Ok(None) };
    if about.is_file() && about.permissions().mode() & 0o077 != 0 {
        tracing::warn!(file = %path.display(), "a login file that others may read or change is ignored: chmod 600");
        return Ok(None);
    }
    let Ok(content) = fs::read(path) else { return Ok(None) };
    let why = "is damaged, or was not written by mysql_config_editor, which makes a new one: mysql_config_editor set";
    decrypted(&content).map(Some).ok_or(why)
}

fn decrypted(content: &[u8]) -> Option<Vec<u8>> {
    let (_, content) = content.split_at_checked(UNUSED_BYTES)?;
    let (folded, mut lines) = content.split_at_checked(KEY_BYTES)?;
    let mut key = [0; BLOCK_BYTES];
    for (at, byte) in folded.iter().enumerate() {
        *key.get_mut(at % BLOCK_BYTES)? ^= byte;
    }
    let cipher = Aes128::new(&key.into());
    let mut text = Vec::new();
    while !lines.is_empty() {
        let (length, rest) = lines.split_first_chunk::<LENGTH_BYTES>()?;
        let (line, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
        text.extend(plain(&cipher, line)?);
        lines = rest;
    }
    Some(text)
}

/// A line: each block is encrypted for itself, and the last one says in its last byte how many of its bytes
/// are none of the line (PKCS #7).
fn plain(cipher: &Aes128, line: &[u8]) -> Option<Vec<u8>> {
    let (blocks, rest) = line.as_chunks::<BLOCK_BYTES>();
    let mut plain = Vec::with_capacity(line.len());
    for block in blocks {
        let mut block = (*block).into();
        cipher.decrypt_block(&mut block);
        plain.extend_from_slice(&block);
    }
    let padding = usize::from(*plain.last()?);
    let len = plain
        .len()
        .checked_sub(padding)
        .filter(|_| rest.is_empty() && (1..=BLOCK_BYTES).contains(&padding))?;
    plain.get(len..)?.iter().all(|byte| usize::from(*byte) == padding).then(|| plain.truncate(len))?;
    Some(plain)
}

#[cfg(test)]
pub(crate) mod tests {
    use aes::cipher::BlockCipherEncrypt;

    use super::*;

    /// A file with these lines.
    pub(crate) fn file(lines: &[&str]) -> Vec<u8> {
        let folded: Vec<u8> = (7..).take(KEY_BYTES).collect();
        let mut key = [0; BLOCK_BYTES];
        folded.iter().enumerate().for_each(|(at, byte)| key[at % BLOCK_BYTES] ^= byte);
        let cipher = Aes128::new(&key.into());
        let mut content = [&[0; UNUSED_BYTES][..], &folded].concat();
        for line in lines {
            let padding = BLOCK_BYTES - line.len() % BLOCK_BYTES;
            let bytes = [line.as_bytes(), &vec![u8::try_from(padding).unwrap(); padding]].concat();
            content.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
            for block in bytes.as_chunks::<BLOCK_BYTES>().0 {
                let mut block = (*block).into();
                cipher.encrypt_block(&mut block);
                content.extend_from_slice(&block);
            }
        }
        content
    }

    /// Made with `mysql_config_editor` 9.7.4: `set --user=nightly --host=db1.example`, then
    /// `set --login-path=shop --user="o'hara #1" --port=3307 --password`.
    const WRITTEN_BY_MYSQL: &[u8] = include_bytes!("../tests/cases/mysql-9.7.mylogin");

    #[test]
    fn what_mysql_wrote_is_read() {
        let text = decrypted(WRITTEN_BY_MYSQL).unwrap();
        let wanted = "[client]\nuser = \"nightly\"\nhost = \"db1.example\"\n[shop]\nuser = \"o'hara #1\"\n\
                      password = \"p#a\\ss \\\"w\\\"\"\nport = 3307\n";
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
    }

    #[test]
    fn the_lines_of_a_login_file_are_read() {
        let lines =
            ["[client]\n", "user = \"a name of more than one block\"\n", "password = \"exactly 1\"\n"];
        let content = file(&lines);
        assert_eq!(decrypted(&content).unwrap(), lines.concat().as_bytes());
        assert_eq!(decrypted(&file(&[])).unwrap(), b"");
        for end in 0..content.len() {
            // Whole lines are a file.
            if let Some(text) = decrypted(&content[..end]) {
                assert!(
                    lines.concat().as_bytes().starts_with(&text)
                        && text.last().is_none_or(|byte| *byte == b'\n')
                );
            }
        }
        let mut other = content.clone();
        *other.last_mut().unwrap() ^= 1;
        assert_eq!(decrypted(&other), None);
    }
}
