//! Frames that no sender of ours would send.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use block::ChunkRequest;
use block::tree::ConcurrentUse;
use disk::Attributes;
use far::{CloneRequest, Connection, FilePart, Freeze, Request};
use proptest::prelude::*;

fn path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec(1u8.., 0..20).prop_map(|bytes| {
        PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes))
    })
}

fn care() -> impl Strategy<Value = ConcurrentUse> {
    prop_oneof![
        Just(ConcurrentUse::Unchanging),
        Just(ConcurrentUse::Removal),
        (12u32..17).prop_map(|power| ConcurrentUse::PageWrites(1 << power))
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let hashes = proptest::option::of(proptest::array::uniform16(0u8..).prop_map(|hash| vec![hash; 256]));
    let blocks = proptest::collection::vec(proptest::bool::ANY, 256);
    let blocks =
        blocks.prop_map(|blocks| ChunkRequest::Blocks(blocks.into_boxed_slice().try_into().unwrap()));
    let want = prop_oneof![hashes.prop_map(ChunkRequest::All), blocks];
    prop_oneof![
        path().prop_map(Request::Stat),
        path().prop_map(Request::Open),
        path().prop_map(Request::Create),
        (path(), 0u64..).prop_map(|(path, len)| Request::Append(path, len)),
        path().prop_map(Request::Volume),
        (path(), path()).prop_map(|(from, to)| Request::Rename(from, to)),
        path().prop_map(Request::Remove),
        path().prop_map(Request::SyncFolder),
        path().prop_map(Request::List),
        path().prop_map(Request::CreateFolder),
        path().prop_map(Request::RemoveFolder),
        (0u32..).prop_map(Request::StatOf),
        (0u32.., 0u64.., 0u32..).prop_map(|(handle, at, len)| Request::ReadAt(handle, at, len)),
        (0u32.., 0u64..).prop_map(|(handle, at)| Request::SkipHole(handle, at)),
        (0u32.., proptest::collection::vec(0u8.., 0..50))
            .prop_map(|(handle, bytes)| Request::Write(handle, bytes)),
        (0u32.., 0u64.., proptest::collection::vec(0u8.., 0..50))
            .prop_map(|(handle, at, bytes)| Request::WriteAt(handle, at, bytes)),
        (0u32.., 0u64.., 0u64..).prop_map(|(handle, at, len)| Request::Clear(handle, at, len)),
        (0u32.., 0u64..).prop_map(|(handle, len)| Request::SetLen(handle, len)),
        (0u32..).prop_map(Request::Sync),
        (0u32..).prop_map(Request::Close),
        (0u32..).prop_map(Request::Scan),
        (0u64.., 0u32.., want).prop_map(|(number, bytes, want)| Request::Expect(number, bytes, want)),
        proptest::collection::vec(path().prop_map(PathBuf::into_os_string), 0..5).prop_map(Request::Run),
        path().prop_map(Request::Entries),
        (path(), path()).prop_map(|(path, target)| Request::MakeLink(path, target)),
        (path(), proptest::bool::ANY, 0u32.., 0i128..).prop_map(|(path, link, mode, modified_ns)| {
            Request::SetAttributes(path, link, Attributes { mode, uid: 1, gid: 2, modified_ns })
        }),
        path().prop_map(Request::Entry),
        (path(), path(), proptest::collection::vec(0u8.., 0..50))
            .prop_map(|(path, name, value)| Request::SetExtended(path, name.into_os_string(), value)),
        (path(), path()).prop_map(|(path, file)| Request::MakeHardLink(path, file)),
        path().prop_map(Request::Extents),
        (0u64..).prop_map(Request::Join),
        (0u32.., 0u64.., proptest::collection::vec(0u8.., 0..50))
            .prop_map(|(handle, at, bytes)| Request::AddBytes(handle, at, bytes)),
        (path(), path(), path(), proptest::bool::ANY, proptest::option::of((0u32.., 0u64..))).prop_map(
            |(from, to, lock, first, freeze)| {
                let freeze = freeze.map(|(process, bound)| Freeze {
                    process,
                    bound: std::time::Duration::from_nanos(bound),
                });
                Request::Clone(CloneRequest { from, to, first, lock: lock.into(), freeze })
            }
        ),
        (0u32.., 0u64.., 0u64.., 0u64.., care(), path()).prop_map(|(handle, at, len, offset, care, path)| {
            Request::AddFile(handle, FilePart { at, len, offset }, care, path)
        }),
    ]
}

proptest! {
    #[test]
    fn a_request_is_decoded_unchanged(request in request()) {
        let (kind, payload) = request.encode();
        prop_assert_eq!(Request::decode(kind, &payload).unwrap(), request);
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(kind in 0u8.., payload in proptest::collection::vec(0u8.., 0..100)) {
        if let Ok(request) = Request::decode(kind, &payload) {
            prop_assert_eq!(request.encode(), (kind, payload));
        }
    }
}

fn answered(bytes: &[u8]) -> io::Result<Connection> {
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(bytes).unwrap();
    drop(far);
    Connection::new(Box::new(near.try_clone().unwrap()), Box::new(near))
}

#[test]
fn another_program_is_not_talked_to() {
    let greeting = |version: u32| {
        let mut payload = b"\0remofar\n".to_vec();
        payload.extend(version.to_le_bytes());
        payload.extend(32u64.to_le_bytes());
        payload.extend([7; 32]);
        payload.extend(0u32.to_le_bytes());
        payload.extend(1u64.to_le_bytes());
        payload.push(b'h');
        let mut frame = u32::try_from(payload.len()).unwrap().to_le_bytes().to_vec();
        frame.extend(payload);
        frame
    };
    assert_eq!(answered(&greeting(far::VERSION)).unwrap().greeting().host, "h");
    assert!(answered(&greeting(far::VERSION + 1)).err().unwrap().to_string().contains("another version"));
    assert!(answered(b"Welcome to Debian!\n").is_err());
    assert!(answered(b"").is_err());
    let whole = greeting(far::VERSION);
    for cut in 1..whole.len() {
        assert!(answered(&whole[..cut]).is_err(), "cut at {cut}");
    }
    // A length that asks for more memory than there is data.
    assert!(answered(&[255, 255, 255, 255, 0]).is_err());
}
