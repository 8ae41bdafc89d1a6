//! Files in the format npy.

mod common;
mod crafted;

use crafted::{assert_refused_by, open, read};
use dlbridge::{DataType, Tensor, TensorRef};
use dlbridge_files::{Entry, Error, Fault, Place};

/// A file of version 1.0.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header}\n");
    let len = u16::try_from(header.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &len, header.as_bytes(), data].concat()
}

/// A header as NumPy writes it.
fn header(descr: &str, is_fortran: bool, shape: &str) -> String {
    let order = if is_fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

fn index(file: &[u8]) -> Result<Entry, Error> {
    let file = open(file)?;
    assert_eq!((file.tensors().len(), file.metadata().len()), (1, 0));
    Ok(file.tensors()[""].clone())
}

/// The only tensor of a file on disk.
fn tensor(bytes: &[u8]) -> Tensor {
    read(bytes).private_tensor("").unwrap()
}

#[track_caller]
fn assert_refused(file: &[u8], message: &str) {
    assert_refused_by("npy", file, message);
}

#[test]
fn dtypes_of_numpy_are_read() {
    let dtypes = [
        ("|b1", DataType::BOOL),
        ("|i1", DataType::INT8),
        ("<i2", DataType::INT16),
        ("<i4", DataType::INT32),
        ("<i8", DataType::INT64),
        ("|u1", DataType::UINT8),
        ("<u2", DataType::UINT16),
        ("<u4", DataType::UINT32),
        ("<u8", DataType::UINT64),
        ("<f2", DataType::FLOAT16),
        ("<f4", DataType::FLOAT32),
        ("<f8", DataType::FLOAT64),
        ("<c8", DataType::COMPLEX64),
        ("<c16", DataType::COMPLEX128),
    ];
    for (descr, dtype) in dtypes {
        let file = npy(&header(descr, false, "(2, 3)"), &[1; 96]);
        let entry = index(&file).unwrap();
        assert_eq!((entry.dtype, &entry.shape[..]), (dtype, &[2, 3][..]), "{descr}");
        let is_little = cfg!(target_endian = "little");
        assert_eq!(entry.is_swapped, !is_little && dtype.itemsize() > 1, "{descr}");
        let swapped = npy(&header(&descr.replace('<', ">"), false, "(2, 3)"), &[1; 96]);
        assert_eq!(
            index(&swapped).unwrap().is_swapped,
            is_little && dtype.itemsize() > 1,
            "{descr}"
        );
    }
    for (descr, dtype) in
        [("=f4", DataType::FLOAT32), ("|f4", DataType::FLOAT32), ("i8", DataType::INT64)]
    {
        let entry = index(&npy(&header(descr, false, "(1,)"), &[0; 8])).unwrap();
        assert_eq!((entry.dtype, entry.is_swapped), (dtype, false), "{descr}");
    }
    assert!(!index(&npy(&header(">u1", false, "(1,)"), &[0])).unwrap().is_swapped);
}

#[test]
fn elements_are_those_of_the_file() {
    let data: Vec<u8> =
        [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensor = tensor(&npy(&header("<f4", false, "(2, 3)"), &data));
    let view = tensor.view::<f32>().unwrap();
    assert_eq!(view.as_slice(), Some(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]));
    assert_eq!(tensor.shape(), [2, 3]);
}

#[test]
fn fortran_order_has_the_first_index_fastest() {
    let data: Vec<u8> = [1_i16, 2, 3, 4, 5, 6].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensor = tensor(&npy(&header("<i2", true, "(2, 3)"), &data));
    let view = tensor.view::<i16>().unwrap();
    let elements = [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]].map(|at| view[at]);
    assert_eq!((tensor.shape(), elements), (&[2, 3][..], [1, 2, 3, 4, 5, 6]));
    // Both orders are the same.
    assert_eq!(index(&npy(&header("<i2", true, "(3,)"), &data)).unwrap().strides, None);
}

#[test]
fn big_endian_numbers_are_swapped() {
    let data: Vec<u8> = [1_u32, 2, 0x0102_0304].iter().flat_map(|x| x.to_be_bytes()).collect();
    let numbers = tensor(&npy(&header(">u4", false, "(3,)"), &data));
    assert_eq!(numbers.view::<u32>().unwrap().as_slice(), Some(&[1, 2, 0x0102_0304][..]));

    // Both halves of a complex number are swapped, and do not change places.
    let data: Vec<u8> = [1.5_f32, -2.5].iter().flat_map(|x| x.to_be_bytes()).collect();
    let complex = tensor(&npy(&header(">c8", false, "()"), &data));
    let native: Vec<u8> = [1.5_f32, -2.5].iter().flat_map(|x| x.to_ne_bytes()).collect();
    assert_eq!(TensorRef::from(&complex).as_bytes().unwrap(), native);

    let data: Vec<u8> = [1_u16, 2, 3, 4].iter().flat_map(|x| x.to_be_bytes()).collect();
    let fortran = tensor(&npy(&header(">u2", true, "(2, 2)"), &data));
    assert_eq!(fortran.view::<u16>().unwrap()[[1, 0]], 2);
}

#[test]
fn scalars_and_zero_extents_are_read() {
    let scalar = tensor(&npy(&header("<i8", false, "()"), &7_i64.to_le_bytes()));
    assert_eq!(
        (scalar.shape(), scalar.view::<i64>().unwrap().as_slice()),
        (&[][..], Some(&[7][..]))
    );
    for shape in ["(0,)", "(0, 3)", "(3, 0, 2)"] {
        for is_fortran in [false, true] {
            let empty = tensor(&npy(&header("<f8", is_fortran, shape), &[]));
            let extents: Vec<String> = empty.shape().iter().map(i64::to_string).collect();
            assert_eq!(shape.replace(",)", ")"), format!("({})", extents.join(", ")));
        }
    }
}

#[test]
fn versions_differ_in_the_width_of_the_length() {
    let text = header("|u1", false, "(1,)");
    for version in [2, 3] {
        let len = (text.len() as u32).to_le_bytes();
        let start = [&b"\x93NUMPY"[..], &[version, 0]].concat();
        let file = [&start[..], &len, text.as_bytes(), &[5]].concat();
        assert_eq!(index(&file).unwrap().place, Place::Stored { offset: 12 + text.len() as u64 });
        assert_eq!(tensor(&file).view::<u8>().unwrap().as_slice(), Some(&[5][..]));
    }
    let message = "its version is 1.1, and only 1.0, 2.0 and 3.0 are known";
    let mut file = npy(&text, &[5]);
    file[7] = 1;
    assert_refused(&file, message);
}

#[test]
fn headers_of_other_writers_are_read() {
    for text in [
        "{'shape': (2, 1), 'fortran_order': False, 'descr': '<f4'}",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 1)}",
        "{'descr':'<f4','fortran_order':False,'shape':(2,1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 1L), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (np.int64(2), 1), }",
        " {\t'descr' : '<f4' ,\n 'fortran_order'\n: False , 'shape': ( 2 , 1 , ) , } \n\n",
    ] {
        let entry = index(&npy(text, &[0; 8])).unwrap();
        assert_eq!((entry.dtype, entry.shape), (DataType::FLOAT32, vec![2, 1]), "{text}");
    }
}

#[test]
fn bytes_after_the_elements_are_ignored() {
    let file = npy(&header("|u1", false, "(2,)"), &[1, 2, 3, 4]);
    assert_eq!(tensor(&file).view::<u8>().unwrap().as_slice(), Some(&[1, 2][..]));
}

#[test]
fn dtypes_that_no_tensor_has_are_refused() {
    for (descr, advice) in [
        (
            "|V2",
            "no tensor has; NumPy writes bfloat16 and float8 like this, so save the array as safetensors",
        ),
        (
            "<V1",
            "no tensor has; NumPy writes bfloat16 and float8 like this, so save the array as safetensors",
        ),
        ("|V7", "is bytes of no known kind; view the array as numbers and save it again"),
        ("|O", "is Python objects; convert the array to numbers and save it again"),
        ("<U5", "is text; no tensor has it, so convert the array to numbers"),
        ("|S3", "is text; no tensor has it, so convert the array to numbers"),
        ("<M8[ns]", "is dates or times; view the array as int64 and save it again"),
        ("<m8[s]", "is dates or times; view the array as int64 and save it again"),
        ("<f16", "no tensor has; convert the array to float64 or complex128"),
        ("<c32", "no tensor has; convert the array to float64 or complex128"),
    ] {
        let message =
            format!("this npy file cannot be read: the dtype is \"{descr}\", which {advice}");
        assert_refused(&npy(&header(descr, false, "(1,)"), &[0; 64]), &message);
    }
    for descr in ["", "<", "<i3", "<q8", "<i44", ">>i4", "i4 ", "\u{e9}"] {
        let text = format!("the dtype \"{}\" is unknown", descr.as_bytes().escape_ascii());
        assert_refused(&npy(&header(descr, false, "(1,)"), &[0; 64]), &text);
    }
    for descr in ["[('a', '<i4'), ('b', '<f8')]", "('<f4', (2,))"] {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}");
        let message =
            "the dtype has fields, which no tensor has; save each field as an array of its own";
        assert_refused(&npy(&text, &[0; 64]), message);
    }
}

#[test]
fn damaged_header_is_refused() {
    let rest = "'fortran_order': False, 'shape': (1,)";
    for (text, message) in [
        ("", "the header ends where '{' is expected".into()),
        ("()", "the header has '(' at byte 0, where '{' is expected".into()),
        ("{}", "the header lacks the key 'descr'".into()),
        ("{'descr': '<f4', 'shape': ()}", "the header lacks the key 'fortran_order'".into()),
        ("{'descr': '<f4', 'fortran_order': True}", "the header lacks the key 'shape'".into()),
        (
            "{'descr': '<f4', 'order': 1}",
            "the header has the key 'order', and only descr, fortran_order and shape are allowed"
                .into(),
        ),
        ("{'descr': '<f4', 'descr': '<f4'}", "the header has the key 'descr' twice".into()),
        ("{'descr' '<f4'}", "the header has '\\'' at byte 9, where ':' is expected".into()),
        (
            "{'descr': <f4}",
            "the header has '<' at byte 10, where text in quotation marks is expected".into(),
        ),
        ("{'descr': '<f4}", "the text at byte 10 of the header has no end".into()),
        ("{'descr': '<f\\x34'}", "the text at byte 10 of the header has an escape".into()),
        (
            "{'descr': '<f4' 'shape': ()}",
            "the header has '\\'' at byte 16, where '}' is expected".into(),
        ),
        ("{,}", "the header has ',' at byte 1, where text in quotation marks is expected".into()),
        (
            "{'fortran_order': 0}",
            "the header has '0' at byte 18, where True or False is expected".into(),
        ),
        ("{'fortran_order': Truer}", "the header has 'r' at byte 22, where '}' is expected".into()),
        ("{'shape': 3}", "the header has '3' at byte 10, where '(' is expected".into()),
        ("{'shape': (3)}", "the header has ')' at byte 12, where ',' is expected".into()),
        ("{'shape': (,)}", "the header has ',' at byte 11, where an extent is expected".into()),
        ("{'shape': (1,,)}", "the header has ',' at byte 13, where an extent is expected".into()),
        ("{'shape': (-1,)}", "the header has '-' at byte 11, where an extent is expected".into()),
        ("{'shape': (1.0,)}", "the header has '.' at byte 12, where ',' is expected".into()),
        ("{'shape': (1, 2", "the header ends where ')' is expected".into()),
        (
            "{'shape': (99999999999999999999,)}",
            // The first digit that makes the number larger than `usize`.
            format!(
                "the extent at byte {} of the header is too large",
                10 + usize::MAX.to_string().len()
            ),
        ),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", {
            "the header has 'x' at byte 56, where the end is expected".to_owned()
        }),
        (&format!("{{'descr': '<f4', {rest}"), "the header ends where '}' is expected".into()),
    ] {
        assert_refused(&npy(text, &[0; 8]), &format!("not a valid npy file: {message}"));
    }
}

#[test]
fn missing_elements_are_refused() {
    let message = "the shape [2, 3] of float32 needs 24 bytes, and 23 follow the header";
    assert_refused(&npy(&header("<f4", false, "(2, 3)"), &[0; 23]), message);
}

#[test]
fn shapes_that_exceed_all_memory_are_refused() {
    let large = 1_u64 << 63;
    let reason = match usize::BITS {
        64 => "no memory holds the shape",
        _ => "of the header is too large",
    };
    for shape in [
        format!("({large},)"),
        format!("({}, {})", 1_u64 << 32, 1_u64 << 31),
        // Strides cannot count across the other extents.
        format!("(0, {large})"),
        format!("(0, {}, {})", 1_u64 << 32, 1_u64 << 31),
    ] {
        let fault = index(&npy(&header("|u1", false, &shape), &[])).unwrap_err().to_string();
        assert!(fault.contains(reason), "{fault}");
    }
    // Each extent fits 32 bits.
    let shape = format!("({0}, {0}, {1})", 1 << 16, 1_u64 << 31);
    let fault = index(&npy(&header("|u1", false, &shape), &[])).unwrap_err().to_string();
    assert!(fault.contains("no memory holds the shape"), "{fault}");
    let shape = format!("({})", "1,".repeat(dlbridge::MAX_NDIM));
    assert_eq!(
        index(&npy(&header("|u1", false, &shape), &[0])).unwrap().shape.len(),
        dlbridge::MAX_NDIM
    );
    let shape = format!("({})", "1,".repeat(dlbridge::MAX_NDIM + 1));
    assert_refused(
        &npy(&header("|u1", false, &shape), &[0]),
        "the array has more than 1024 dimensions",
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri is too slow")]
fn long_header_is_refused() {
    let text = |spaces: usize| header("|u1", false, "(1,)") + &" ".repeat(spaces);
    let file = |text: &str| {
        [&b"\x93NUMPY\x02\x00"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes(), &[1]]
            .concat()
    };
    let limit = 1 << 20;
    let full = text(limit - text(0).len());
    assert_eq!(index(&file(&full)).unwrap().shape, [1]);
    let message = "the header has 1048577 bytes, and at most 1048576 are allowed";
    assert_refused(&file(&(full + " ")), message);
}

#[test]
fn truncated_file_is_refused() {
    let file = npy(&header("<f4", false, "(2, 3)"), &[0; 24]);
    for len in (6..file.len()).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let error = index(&file[..len]).unwrap_err();
        assert!(matches!(error.fault(), Fault::Format { format: "npy", .. }), "{len}: {error}");
    }
    assert_refused(&file[..9], "the file ends within the header");
    assert_refused(
        &file[..40],
        &format!("the header ends at byte {}, and the file has 40 bytes", file.len() - 24),
    );
}
