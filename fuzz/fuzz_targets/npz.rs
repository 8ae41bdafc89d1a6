//! Files that claim to be in the npz format: accepted tensors lie within the file, or in a stream within it.
#![no_main]

use dlbridge_files::{Place, TensorFile};
use libfuzzer_sys::fuzz_target;

/// The number of inflated bytes that one deflated byte can stand for.
const MAX_RATIO: u64 = 1032;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    match data {
        // An archive of one member, stored or deflated; the size of the latter may be wrong.
        _ if kind % 4 == 1 => run(&archive(0, data, data.len() as u32)),
        [low, high, stream @ ..] if kind % 4 == 2 => {
            run(&archive(8, stream, u16::from_le_bytes([*low, *high]).into()));
        }
        _ => run(data),
    }
});

/// An archive of one member.
fn archive(method: u16, data: &[u8], size: u32) -> Vec<u8> {
    let len = (data.len() as u32).to_le_bytes();
    let header = [
        &[20, 0, 0, 0][..],
        &method.to_le_bytes(),
        &[0; 8],
        &len,
        &size.to_le_bytes(),
        &[5, 0, 0, 0],
    ]
    .concat();
    let list = [&b"PK\x01\x02\x14\x00"[..], &header, &[0; 14], b"x.npy"].concat();
    let begin = (30 + 5 + data.len() as u32).to_le_bytes();
    let list_len = (list.len() as u32).to_le_bytes();
    let end = [&b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00"[..], &list_len, &begin, &[0; 2]];
    [&b"PK\x03\x04"[..], &header, b"x.npy", data, &list, &end.concat()].concat()
}

fn run(file: &[u8]) {
    let Ok(opened) = TensorFile::from_bytes(file.to_vec()) else { return };
    for entry in opened.tensors().values() {
        let nbytes = entry.nbytes().expect("a number of bytes");
        let end = match entry.place {
            Place::Stored { offset } => offset.checked_add(nbytes),
            Place::Deflated { offset, len, skip } => {
                assert!(skip + nbytes <= len * MAX_RATIO);
                offset.checked_add(len)
            }
        };
        assert!(end.is_some_and(|end| end <= file.len() as u64));
    }
}
