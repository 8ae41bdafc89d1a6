//! Files in the format npz.
#![cfg(feature = "npz")]

mod archives;
mod common;
mod crafted;

use std::io::Read;

use archives::{Member, archive, stored};
use crafted::{assert_refused_by, open, read};
use dlbridge::DataType;
use dlbridge_files::{Fault, Place};
use flate2::Compression;
use flate2::read::DeflateEncoder;

const DEFLATED: u16 = 8;

fn deflated(name: &str, data: impl Into<Vec<u8>>) -> Member {
    let plain = data.into();
    let mut data = Vec::new();
    DeflateEncoder::new(&plain[..], Compression::default()).read_to_end(&mut data).unwrap();
    Member { method: DEFLATED, size: plain.len() as u64, ..stored(name, data) }
}

/// An npy file of a vector of `float32`.
fn npy(numbers: &[f32]) -> Vec<u8> {
    let shape = format!("({},)", numbers.len());
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    npy_of(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"), &data)
}

fn npy_of(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header:<117}\n");
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data]
        .concat()
}

#[track_caller]
fn assert_refused(file: &[u8], message: &str) {
    assert_refused_by("npz", file, message);
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn members_are_read_in_their_order() {
    for is_64 in [false, true] {
        let long: Vec<f32> = (0..10_000).map(|number| (number % 100) as f32).collect();
        let members = [
            stored("weight.npy", npy(&[1.0, 2.0])),
            deflated("layer/bias.npy", npy(&long)),
            stored("", []),
            stored(".npy", npy(&[])),
            deflated("empty.npy", npy(&[])),
        ];
        let bytes = archive(&members, is_64);
        let file = read(&bytes);
        let names: Vec<&String> = file.tensors().keys().collect();
        assert_eq!(names, ["weight", "layer/bias", "", "empty"]);
        let elements = |name: &str| {
            let tensor = file.private_tensor(name).unwrap();
            tensor.view::<f32>().unwrap().as_slice().unwrap().to_vec()
        };
        assert_eq!(elements("weight"), [1.0, 2.0]);
        assert_eq!(elements("layer/bias"), long);
        assert!(elements("").is_empty() && elements("empty").is_empty());
        let Place::Stored { offset } = file.tensors()["weight"].place else {
            panic!("it is stored")
        };
        assert_eq!(bytes[offset as usize..][..8], [0, 0, 128, 63, 0, 0, 0, 64]);
        let Place::Deflated { skip, len, .. } = file.tensors()["layer/bias"].place else {
            panic!("it is deflated")
        };
        assert_eq!((skip, len), (128, members[1].data.len() as u64));
    }
}

#[test]
fn order_and_byte_order_of_members_are_kept() {
    let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }";
    let data: Vec<u8> = [1_i16, 2, 3, 4].iter().flat_map(|number| number.to_be_bytes()).collect();
    for member in [stored("x.npy", npy_of(header, &data)), deflated("x.npy", npy_of(header, &data))]
    {
        let file = read(&archive(&[member], false));
        let tensor = file.private_tensor("x").unwrap();
        let view = tensor.view::<i16>().unwrap();
        assert_eq!([[0, 0], [1, 0], [0, 1], [1, 1]].map(|at| view[at]), [1, 2, 3, 4]);
    }
}

#[test]
fn other_members_are_ignored() {
    let mut comment = stored("notes.txt", *b"not an array");
    comment.method = 12;
    let file = archive(&[stored("folder/", []), comment, stored("x.npy", npy(&[1.0]))], false);
    let file = open(&file).unwrap();
    assert_eq!(file.tensors().len(), 1);
    assert_eq!(file.tensors()["x"].dtype, DataType::FLOAT32);
}

#[test]
fn archive_without_members_is_read() {
    assert!(open(&archive(&[], false)).unwrap().tensors().is_empty());
}

#[test]
fn fields_before_the_data_are_skipped() {
    let mut member = stored("x.npy", npy(&[1.0, 2.0]));
    // A field that aligns the data.
    member.extra = [&[0x35, 0xd9, 60, 0][..], &[0; 60]].concat();
    let file = read(&archive(&[member], false));
    assert_eq!(
        file.private_tensor("x").unwrap().view::<f32>().unwrap().as_slice(),
        Some(&[1.0, 2.0][..])
    );
}

/// A member whose name is "\u{e9}" in UTF-8, and one whose name is a byte of code page 437.
fn named_in_two_code_pages(letter: u8) -> [Member; 2] {
    let mut utf_8 = stored("\u{e9}.npy", npy(&[1.0]));
    utf_8.flags = 1 << 11;
    let mut dos = stored("", npy(&[1.0]));
    dos.name = [&[letter][..], b".npy"].concat();
    [utf_8, dos]
}

#[test]
fn names_are_of_code_page_437_or_utf_8() {
    let file = open(&archive(&named_in_two_code_pages(0x81), false)).unwrap();
    let names: Vec<&String> = file.tensors().keys().collect();
    assert_eq!(names, ["\u{e9}", "\u{fc}"]);
}

#[test]
fn two_members_of_one_name_are_refused() {
    let file = archive(&[stored("x.npy", npy(&[1.0])), stored("x.npy", npy(&[2.0]))], false);
    assert_refused_by("zip", &file, "two members have the same name");
    assert_refused(
        &archive(&named_in_two_code_pages(0x82), false),
        "two tensors have the name \"\u{e9}\"",
    );
}

#[test]
fn encrypted_members_and_other_methods_are_refused() {
    let mut member = stored("x.npy", npy(&[1.0]));
    member.flags = 1;
    assert_refused(&archive(&[member], false), "member \"x\": it is encrypted");
    let names = [(9, "Deflate64"), (12, "bzip2"), (14, "LZMA"), (93, "Zstandard"), (95, "XZ")];
    for (method, name) in names {
        let mut member = stored("x.npy", npy(&[1.0]));
        member.method = method;
        let message = format!(
            "member \"x\": it is compressed by {name}, and only deflated members can be read"
        );
        assert_refused(&archive(&[member], false), &message);
    }
}

#[test]
fn faults_of_a_member_have_its_name() {
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    for member in
        [stored("x.npy", npy_of(header, &[0; 8])), deflated("x.npy", npy_of(header, &[0; 8]))]
    {
        let message = "this npz file cannot be read: member \"x\": the dtype is \"|O\", which is Python objects; \
            convert the array to numbers and save it again";
        assert_refused(&archive(&[member], false), message);
    }
    let file = archive(&[stored("x.npy", *b"PK\x05\x06 and more")], false);
    assert_refused(&file, "not a valid npz file: member \"x\": the first bytes are not \\x93NUMPY");
    let file = archive(&[stored("x.npy", [])], false);
    assert_refused(&file, "member \"x\": the file ends within the header");
    let short = &npy(&[1.0])[..131];
    let file = archive(&[stored("x.npy", short)], false);
    assert_refused(
        &file,
        "member \"x\": the shape [1] of float32 needs 4 bytes, and 3 follow the header",
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn sizes_that_cannot_be_are_refused() {
    let mut member = stored("x.npy", npy(&[1.0]));
    member.size -= 1;
    assert_refused(&archive(&[member], false), "member \"x\": it has 132 bytes, and 131 when read");

    let mut member = deflated("x.npy", npy(&[1.0]));
    let len = member.data.len() as u64;
    member.size = len * 1032 + 1;
    let message =
        format!("member \"x\": its {len} bytes cannot inflate to {} bytes", len * 1032 + 1);
    assert_refused(&archive(&[member], false), &message);

    // Zeros are deflated almost to the limit.
    let member = deflated("x.npy", npy(&vec![0.0; 2_500_000]));
    let ratio = member.size / member.data.len() as u64;
    assert!((1000..=1032).contains(&ratio), "{ratio}");
    assert_eq!(open(&archive(&[member], false)).unwrap().tensors()["x"].shape, [2_500_000]);
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn headers_larger_than_the_file_are_refused() {
    let spaces = " ".repeat(100_000);
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}}{spaces}");
    let len = (header.len() as u32).to_le_bytes();
    let array = [&b"\x93NUMPY\x02\x00"[..], &len, header.as_bytes(), &[1]].concat();
    let members = |count: usize| -> Vec<Member> {
        (0..count).map(|nth| deflated(&format!("{nth}.npy"), array.clone())).collect()
    };
    assert_eq!(open(&archive(&members(5), false)).unwrap().tensors().len(), 5);
    let file = archive(&members(20), false);
    let message =
        format!("the headers of its arrays have more than 4 times its {} bytes", file.len());
    assert_refused(&file, &message);
}

#[test]
fn counts_that_exceed_the_file_are_refused() {
    let mut file = archive(&[stored("x.npy", npy(&[1.0]))], true);
    let end = file.windows(4).position(|bytes| bytes == b"PK\x06\x06").unwrap();
    for count in [2, 1 << 40, u64::MAX] {
        file[end + 24..][..8].copy_from_slice(&u64::to_le_bytes(count));
        file[end + 32..][..8].copy_from_slice(&u64::to_le_bytes(count));
        let fault = open(&file).unwrap_err().to_string();
        assert!(
            fault.starts_with(
                "not a valid zip file: the list of members at its end is damaged or missing"
            ),
            "{fault}"
        );
    }
}

#[test]
fn damaged_streams_are_refused() {
    let mut member = deflated("x.npy", npy(&[1.0]));
    member.data[0] = 0xff;
    assert_refused(&archive(&[member], false), "member \"x\": corrupt deflate stream");
    let mut member = deflated("x.npy", npy(&[1.0]));
    member.data.truncate(20);
    assert_refused(&archive(&[member], false), "member \"x\": the file ends within the header");
}

#[test]
fn damaged_headers_of_members_are_refused() {
    let good = archive(&[stored("x.npy", npy(&[1.0]))], false);
    let list = 30 + 5 + 132;
    let damaged = "member \"x\": the list of members at its end is damaged or missing";
    let is_damaged = |file: &[u8]| open(file).unwrap_err().to_string().contains(damaged);
    for offset in [1_u32, 1000, u32::MAX - 1] {
        let mut file = good.clone();
        file[list + 42..][..4].copy_from_slice(&offset.to_le_bytes());
        assert!(is_damaged(&file), "{offset}");
    }
    // The lengths of its name and its extra fields.
    let mut file = good.clone();
    file[28..30].copy_from_slice(&[255, 255]);
    let message = format!(
        "member \"x\": it has 132 bytes from byte {} on, and the file has {} bytes",
        35 + 65535,
        good.len()
    );
    assert_refused(&file, &message);
}

#[test]
fn truncated_file_is_refused() {
    for is_64 in [false, true] {
        let members = [stored("x.npy", npy(&[1.0])), deflated("y.npy", npy(&[1.0]))];
        let file = archive(&members, is_64);
        for len in (0..file.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let error = open(&file[..len]).unwrap_err();
            let is_damaged = matches!(error.fault(), Fault::Format { format: "zip", .. });
            assert!(is_damaged || len < 4, "{len}: {error}");
        }
    }
}
