//! Malformed safetensors files: each is refused, or its tensors lie within the file.

use dlbridge::TensorRef;
use dlbridge_files::{Error, Fault, TensorFile};

/// Returns a file with a declared header length, a header and some data.
fn file(length: u64, header: &str, data: usize) -> Vec<u8> {
    [&length.to_le_bytes()[..], header.as_bytes(), &vec![1; data]].concat()
}

fn honest(header: &str, data: usize) -> Vec<u8> {
    file(header.len() as u64, header, data)
}

/// Loads a file, and reads every byte of its tensors. Returns the number of elements.
fn read(file: Vec<u8>) -> Result<usize, Error> {
    let memory = file.as_ptr().addr()..file.as_ptr().addr() + file.len();
    let file = TensorFile::from_bytes(file)?;
    let mut count = 0;
    for name in file.tensors().keys() {
        let tensor = file.tensor(name)?;
        let bytes = TensorRef::from(&tensor).as_bytes().unwrap();
        if cfg!(target_endian = "little") && !bytes.is_empty() {
            let last = bytes.as_ptr().addr() + bytes.len() - 1;
            assert!(memory.contains(&bytes.as_ptr().addr()) && memory.contains(&last));
        }
        assert_eq!(bytes.len() as u128, tensor.nbytes());
        assert!(bytes.iter().all(|&byte| byte != 2));
        count += tensor.len();
    }
    Ok(count)
}

fn is_refused(file: Vec<u8>) -> bool {
    let refused =
        |error: Error| matches!(error.fault(), Fault::Format { .. } | Fault::Unknown { .. });
    read(file).is_err_and(refused)
}

fn one(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"x":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

#[test]
fn header_with_a_false_length_is_refused() {
    let header = one("U8", "[4]", "[0,4]");
    assert_eq!(read(honest(&header, 4)).unwrap(), 4);
    let exact = header.len() as u64;
    for length in [0, 1, 7, exact - 1, exact + 1, exact + 5, 100_000_000, 1 << 32, i64::MAX as u64]
        .into_iter()
        .chain([u64::MAX - 7, u64::MAX])
    {
        assert!(is_refused(file(length, &header, 4)), "{length}");
    }
    for length in 0..8 {
        assert!(is_refused(vec![0xFF; length]));
    }
}

#[test]
fn offsets_that_do_not_fit_are_refused() {
    for (dtype, shape, offsets) in [
        ("U8", "[4]", "[0,5]"),
        ("U8", "[5]", "[0,5]"),
        ("U8", "[4]", "[4,0]"),
        ("U8", "[4]", "[1,5]"),
        ("U8", "[4]", "[-1,3]"),
        ("F32", "[4]", "[0,4]"),
        ("U8", "[18446744073709551615,2]", "[0,4]"),
        ("F64", "[4611686018427387904,4]", "[0,4]"),
        ("U8", "[4]", "[18446744073709551612,18446744073709551616]"),
        ("U8", "[4]", "[18446744073709551611,18446744073709551615]"),
        ("U8", "[4.0]", "[0,4]"),
        ("U8", "[-4]", "[0,4]"),
        ("U9", "[4]", "[0,4]"),
        ("F4", "[3]", "[0,4]"),
        ("F4", "[7]", "[0,4]"),
    ] {
        let file = honest(&one(dtype, shape, offsets), 4);
        assert!(is_refused(file), "{dtype} {shape} {offsets}");
    }
}

#[test]
fn tensors_that_overlap_or_leave_gaps_are_refused() {
    let two = |first: &str, second: &str| {
        let entry = |name: &str, offsets: &str| {
            format!(r#""{name}":{{"dtype":"U8","shape":[2],"data_offsets":{offsets}}}"#)
        };
        format!("{{{},{}}}", entry("a", first), entry("b", second))
    };
    assert_eq!(read(honest(&two("[0,2]", "[2,4]"), 4)).unwrap(), 4);
    assert_eq!(read(honest(&two("[2,4]", "[0,2]"), 4)).unwrap(), 4);
    for (first, second, data) in [
        ("[0,2]", "[0,2]", 2),
        ("[0,2]", "[1,3]", 3),
        ("[0,2]", "[3,5]", 5),
        ("[0,2]", "[2,4]", 5),
        ("[0,2]", "[2,4]", 3),
    ] {
        assert!(is_refused(honest(&two(first, second), data)), "{first} {second}");
    }
}

#[test]
fn repeated_name_is_refused() {
    let entry = r#""x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}"#;
    assert!(is_refused(honest(&format!("{{{entry},{entry}}}"), 2)));
}

#[test]
fn shapes_with_too_many_dimensions_or_too_large_without_elements_are_refused_or_empty() {
    let many = format!("[{}1]", "1,".repeat(dlbridge::MAX_NDIM));
    assert!(is_refused(honest(&one("U8", &many, "[0,1]"), 1)));
    let huge = one("F64", "[0,9223372036854775807,9223372036854775807]", "[0,0]");
    assert_eq!(read(honest(&huge, 0)).unwrap_or(0), 0);
}

#[test]
fn headers_with_random_changes_are_refused_or_lie_within_the_file() {
    let header = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"y":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}}"#;
    let good = honest(header, 28);
    assert_eq!(read(good.clone()).unwrap(), 10);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..if cfg!(miri) { 15 } else { 20_000 } {
        let mut file = good.clone();
        for _ in 0..1 + random(4) {
            let at = random(8 + header.len());
            match random(4) {
                0 => file[at] = b"0123456789"[random(10)],
                1 => file[at] ^= 1 << random(8),
                2 => drop(file.remove(at)),
                _ => file.insert(at, b"[]{},:\"-9"[random(9)]),
            }
        }
        if random(2) == 0 && file.len() > 36 {
            let length = (file.len() - 36) as u64;
            file[..8].copy_from_slice(&length.to_le_bytes());
        }
        let _ = read(file);
    }
}
