//! Collations, by calls into the server.

use std::sync::OnceLock;

use condition::{Collate, Pattern};

use crate::abi::{RqServer, RqSlice};

/// The server's functions for strings; they do not change while the library is loaded.
static SERVER: OnceLock<Functions> = OnceLock::new();

/// The server's functions for strings.
#[derive(Clone, Copy)]
struct Functions {
    equal: extern "C" fn(u32, RqSlice, RqSlice) -> std::ffi::c_int,
    encode: extern "C" fn(u32, RqSlice, *mut u8, usize) -> std::ffi::c_long,
    like: extern "C" fn(u32, RqSlice, std::ffi::c_int, RqSlice, u32) -> std::ffi::c_int,
    decode: extern "C" fn(u32, RqSlice, *mut u8, usize) -> std::ffi::c_long,
}

/// Stores the functions to call.
pub(crate) fn set(server: &RqServer) {
    let RqServer { equal, encode, like, decode, .. } = *server;
    SERVER.get_or_init(|| Functions { equal, encode, like, decode });
}

/// The server's collations.
pub(crate) struct Server;

impl Collate for Server {
    fn equal(&self, collation: u32, one: &[u8], other: &[u8]) -> bool {
        let (one, other) = (RqSlice::new(one), RqSlice::new(other));
        SERVER.get().is_some_and(|server| (server.equal)(collation, one, other) != 0)
    }

    fn like(&self, collation: u32, text: &[u8], pattern: &Pattern) -> bool {
        let (text, bytes) = (RqSlice::new(text), RqSlice::new(&pattern.bytes));
        let (padded, escape) = (pattern.padded.into(), pattern.escape.into());
        SERVER.get().is_some_and(|server| (server.like)(collation, text, padded, bytes, escape) != 0)
    }

    fn decode(&self, collation: u32, text: &[u8]) -> Option<String> {
        let server = SERVER.get()?;
        // No byte of a character set takes more than four of UTF-8.
        let mut out = vec![0; text.len() * 4];
        let len = (server.decode)(collation, RqSlice::new(text), out.as_mut_ptr(), out.len());
        out.truncate(usize::try_from(len).ok()?);
        String::from_utf8(out).ok()
    }

    fn encode(&self, collation: u32, literal: &str) -> Option<Vec<u8>> {
        let server = SERVER.get()?;
        // No character set takes more than four times the bytes of UTF-8.
        let mut out = vec![0; literal.len() * 4 + 4];
        let len = (server.encode)(collation, RqSlice::new(literal.as_bytes()), out.as_mut_ptr(), out.len());
        out.truncate(usize::try_from(len).ok()?);
        Some(out)
    }
}
