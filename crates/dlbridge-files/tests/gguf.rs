//! Files in the format GGUF.

mod common;
mod crafted;

use std::io::{self, Cursor, Read, Seek, SeekFrom};

use crafted::{assert_refused_by, open, read};
use dlbridge::{DataType, TensorRef};
use dlbridge_files::{Fault, Place, Quantization, TensorFile, Value};

const UINT32: u32 = 4;
const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// The parts of a file.
#[derive(Default)]
struct Parts {
    entries: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: Vec<u8>,
}

fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

impl Parts {
    fn entry(mut self, key: &str, kind: u32, value: impl AsRef<[u8]>) -> Self {
        self.entries.push([&text(key), &kind.to_le_bytes()[..], value.as_ref()].concat());
        self
    }

    /// Adds a tensor, with its extents in the order of the file.
    fn tensor(mut self, name: &str, extents: &[u64], kind: u32, offset: u64) -> Self {
        let mut bytes = text(name);
        bytes.extend((extents.len() as u32).to_le_bytes());
        bytes.extend(extents.iter().flat_map(|extent| extent.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    fn data(mut self, data: impl AsRef<[u8]>) -> Self {
        self.data = data.as_ref().to_vec();
        self
    }

    fn file(&self) -> Vec<u8> {
        self.aligned(32)
    }

    fn aligned(&self, alignment: usize) -> Vec<u8> {
        let mut file = [&b"GGUF"[..], &3_u32.to_le_bytes()].concat();
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.entries.len() as u64).to_le_bytes());
        file.extend(self.entries.concat());
        file.extend(self.tensors.concat());
        file.resize(file.len().next_multiple_of(alignment), 0);
        file.extend(&self.data);
        file
    }
}

#[track_caller]
fn assert_refused(file: &[u8], message: &str) {
    assert_refused_by("GGUF", file, message);
}

#[test]
fn element_types_are_read_in_c_order() {
    let kinds = [
        (0, DataType::FLOAT32),
        (1, DataType::FLOAT16),
        (24, DataType::INT8),
        (25, DataType::INT16),
        (26, DataType::INT32),
        (27, DataType::INT64),
        (28, DataType::FLOAT64),
        (30, DataType::BFLOAT16),
    ];
    for (kind, dtype) in kinds {
        let file = Parts::default().tensor("x", &[3, 2], kind, 0).data([0; 48]).file();
        let opened = open(&file).unwrap();
        let entry = &opened.tensors()["x"];
        assert_eq!((entry.dtype, &entry.shape[..]), (dtype, &[2, 3][..]));
        assert_eq!(entry.quantization, None);
        assert_eq!(entry.place, Place::Stored { offset: file.len() as u64 - 48 });
    }
}

#[test]
fn elements_are_those_of_the_file() {
    let numbers = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    data.resize(32, 0);
    data.extend(9_i16.to_le_bytes());
    let parts = Parts::default().tensor("x", &[3, 2], 0, 0).tensor("y", &[], 25, 32).data(&data);
    let file = read(&parts.file());
    let names: Vec<&String> = file.tensors().keys().collect();
    assert_eq!(names, ["x", "y"]);
    let x = file.tensor("x").unwrap();
    assert_eq!((x.shape(), x.view::<f32>().unwrap().as_slice()), (&[2, 3][..], Some(&numbers[..])));
    let y = file.tensor("y").unwrap();
    assert_eq!((y.shape(), y.view::<i16>().unwrap().as_slice()), (&[][..], Some(&[9][..])));
}

/// The facts of ggml's header: the numbers of types, and the layout of their blocks.
const BLOCKS: [(u32, &str, usize, usize); 27] = [
    (2, "Q4_0", 32, 2 + 16),
    (3, "Q4_1", 32, 2 + 2 + 16),
    (6, "Q5_0", 32, 2 + 4 + 16),
    (7, "Q5_1", 32, 2 + 2 + 4 + 16),
    (8, "Q8_0", 32, 2 + 32),
    (9, "Q8_1", 32, 2 + 2 + 32),
    (10, "Q2_K", 256, 2 + 2 + 256 / 16 + 256 / 4),
    (11, "Q3_K", 256, 2 + 256 / 4 + 256 / 8 + 12),
    (12, "Q4_K", 256, 2 + 2 + 256 / 2 + 12),
    (13, "Q5_K", 256, 2 + 2 + 256 / 2 + 256 / 8 + 12),
    (14, "Q6_K", 256, 2 + 256 / 2 + 256 / 4 + 256 / 16),
    (15, "Q8_K", 256, 4 + 256 + 2 * 256 / 16),
    (16, "IQ2_XXS", 256, 2 + 256 / 4),
    (17, "IQ2_XS", 256, 2 + 256 / 4 + 256 / 32),
    (18, "IQ3_XXS", 256, 2 + 256 / 4 + 256 / 8),
    (19, "IQ1_S", 256, 2 + 256 / 8 + 256 / 16),
    (20, "IQ4_NL", 32, 2 + 16),
    (21, "IQ3_S", 256, 2 + 256 / 4 + 256 / 8 + 256 / 32 + 4),
    (22, "IQ2_S", 256, 2 + 256 / 4 + 256 / 16),
    (23, "IQ4_XS", 256, 2 + 2 + 256 / 2 + 256 / 64),
    (29, "IQ1_M", 256, 256 / 8 + 256 / 16 + 256 / 32),
    (34, "TQ1_0", 256, 2 + 4 * 13),
    (35, "TQ2_0", 256, 2 + 64),
    (39, "MXFP4", 32, 1 + 16),
    (40, "NVFP4", 64, 4 + 32),
    (41, "Q1_0", 128, 2 + 16),
    (42, "Q2_0", 64, 2 + 16),
];

#[test]
fn quantised_blocks_are_bytes() {
    let blocks = BLOCKS.into_iter().step_by(if cfg!(miri) { 9 } else { 1 });
    for (kind, name, block_len, block_bytes) in blocks {
        let data: Vec<u8> = (0..6 * block_bytes).map(|byte| byte as u8).collect();
        let extents = [2 * block_len as u64, 3];
        let file = read(&Parts::default().tensor("x", &extents, kind, 0).data(&data).file());
        let entry = &file.tensors()["x"];
        assert_eq!((entry.dtype, &entry.shape[..]), (DataType::UINT8, &[3, 2 * block_bytes][..]));
        let shape = vec![3, 2 * block_len];
        assert_eq!(entry.quantization, Some(Quantization { name, block_len, block_bytes, shape }));
        let tensor = file.tensor("x").unwrap();
        assert_eq!(TensorRef::from(&tensor).as_bytes().unwrap(), data);
    }
}

#[test]
fn rows_of_incomplete_blocks_are_refused() {
    let file = Parts::default().tensor("x", &[33, 2], 2, 0).data([0; 64]).file();
    assert_refused(&file, "tensor \"x\" has rows of 33 numbers, and Q4_0 has blocks of 32");
    let file = Parts::default().tensor("x", &[], 12, 0).data([0; 64]).file();
    assert_refused(&file, "tensor \"x\" has rows of 1 numbers, and Q4_K has blocks of 256");
}

#[test]
fn unknown_types_are_refused() {
    let unknown = [43, 66, 142, u32::MAX].map(|kind| (kind, "is unknown"));
    let removed = [4, 5, 31, 32, 33, 36, 37, 38]
        .map(|kind| (kind, "the format no longer has; convert the model again"));
    let kinds = unknown.into_iter().chain(removed);
    for (kind, reason) in kinds.step_by(if cfg!(miri) { 4 } else { 1 }) {
        // The metadata, and tensors of other types, stay readable.
        let alone = Parts::default().entry("key", 7, [1]).tensor("x", &[2], kind, 0);
        let beside = Parts::default().tensor("x", &[2], kind, 0).tensor("y", &[2], 0, 32);
        for (parts, names) in [(alone, &[][..]), (beside, &["y"][..])] {
            let file = read(&parts.data([0; 40]).file());
            assert!(file.tensors().keys().eq(names));
            assert_eq!(file.metadata().contains_key("key"), names.is_empty());
            let refused = file.tensor("x").unwrap_err().fault().to_string();
            assert_eq!(refused, format!("tensor \"x\": it has the type {kind}, which {reason}"));
        }
    }
}

/// The float32 numbers of a tensor.
fn numbers(file: &TensorFile, name: &str) -> Vec<f32> {
    file.dequantize(name, DataType::FLOAT32).unwrap().view::<f32>().unwrap().to_vec()
}

#[test]
fn dequantize_of_a_q4_0_block_is_scale_times_integer() {
    // The scale is -2. The first byte has the elements 0 and 16, and the last 15 and 31.
    let mut block = vec![0x00, 0xc0];
    block.extend([0x88; 16]);
    (block[2], block[17]) = (0xf0, 0x19);
    let file = read(&Parts::default().tensor("x", &[32, 1], 2, 0).data(block).file());
    let mut expected = [-0.0; 32];
    (expected[0], expected[16], expected[15], expected[31]) = (16.0, -14.0, -2.0, 14.0);
    let found = numbers(&file, "x");
    assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected.map(f32::to_bits));
    let half = file.dequantize("x", DataType::FLOAT16).unwrap();
    assert_eq!(TensorRef::from(&half).as_bytes().unwrap()[..4], [0x00, 0x4c, 0x00, 0x80]);
    assert_eq!((half.shape(), half.dtype()), (&[1, 32][..], DataType::FLOAT16));
    let brain = file.dequantize("x", DataType::BFLOAT16).unwrap();
    assert_eq!(TensorRef::from(&brain).as_bytes().unwrap()[..4], [0x80, 0x41, 0x00, 0x80]);
}

#[test]
fn dequantize_of_many_blocks_writes_each_number() {
    // More than one piece, which threads share under Miri; the last piece is incomplete.
    let blocks = 19;
    let data: Vec<u8> =
        (0..blocks).flat_map(|n| [vec![0x00, 0x3c], vec![n; 32]].concat()).collect();
    let file = read(&Parts::default().tensor("x", &[32, 19], 8, 0).data(data).file());
    let expected: Vec<f32> = (0..blocks).flat_map(|n| [f32::from(n); 32]).collect();
    assert_eq!(numbers(&file, "x"), expected);
}

#[test]
fn dequantize_of_each_type_has_the_extents_of_the_numbers() {
    let kinds = [2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 34, 35, 39];
    let (row, rows, step) = if cfg!(miri) { (256, 1, 4) } else { (512, 3, 1) };
    for kind in kinds.into_iter().step_by(step) {
        let parts =
            Parts::default()
                .tensor("x", &[row, rows], kind, 0)
                .data(vec![7; (2 * row * rows) as usize]);
        let numbers = read(&parts.file()).dequantize("x", DataType::FLOAT32).unwrap();
        assert_eq!(numbers.shape(), [rows as i64, row as i64]);
        let numbers = numbers.view::<f32>().unwrap().to_vec();
        assert!(numbers.chunks(256).all(|row| row.iter().any(|x| *x != 0.0)), "{kind}");
    }
    let empty = read(&Parts::default().tensor("x", &[512, 0], 12, 0).file());
    assert_eq!(empty.dequantize("x", DataType::FLOAT16).unwrap().shape(), [0, 512]);
}

#[test]
fn dequantize_converts_floats() {
    let data = [0x3c00_u16, 0xfc00, 1].map(u16::to_le_bytes).concat();
    let file = read(&Parts::default().tensor("x", &[3], 1, 0).data(data).file());
    assert_eq!(numbers(&file, "x"), [1.0, f32::NEG_INFINITY, f32::from_bits(103 << 23)]);
}

#[test]
fn dequantize_refuses_other_types_and_dtypes() {
    let refused = |kind, dtype| {
        let file = read(&Parts::default().tensor("x", &[256], kind, 0).data([0; 512]).file());
        file.dequantize("x", dtype).unwrap_err().fault().to_string()
    };
    let message = "tensor \"x\": it has blocks of the type IQ2_XXS, whose numbers this library does not compute; \
                   gguf-py does, of the bytes";
    assert_eq!(refused(16, DataType::FLOAT32), message);
    let message = "tensor \"x\": its elements are int8, not blocks; read them as they are";
    assert_eq!(refused(24, DataType::FLOAT32), message);
    let message = "tensor \"x\": its numbers become float32, float16 or bfloat16, not int8";
    assert_eq!(refused(8, DataType::INT8), message);
    let message = "tensor \"x\": it has the type 99, which is unknown";
    assert_eq!(refused(99, DataType::FLOAT32), message);
}

#[test]
fn metadata_of_each_type_is_read() {
    let array = |kind: u32, values: &[&[u8]]| {
        [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes(), &values.concat()].concat()
    };
    let inner = array(0, &[&[1], &[2]]);
    let file = Parts::default()
        .entry("u8", 0, [255])
        .entry("i8", 1, [255])
        .entry("u16", 2, 65535_u16.to_le_bytes())
        .entry("i16", 3, (-2_i16).to_le_bytes())
        .entry("u32", UINT32, u32::MAX.to_le_bytes())
        .entry("i32", 5, (-3_i32).to_le_bytes())
        .entry("f32", 6, 0.5_f32.to_le_bytes())
        .entry("bool", 7, [1])
        .entry("text", TEXT, text("caf\u{e9}"))
        .entry("bytes", TEXT, text(b"\xff!"))
        .entry("texts", ARRAY, array(TEXT, &[&text("a"), &text("")]))
        .entry("nested", ARRAY, array(ARRAY, &[&inner, &array(7, &[])]))
        .entry("u64", 10, u64::MAX.to_le_bytes())
        .entry("i64", 11, i64::MIN.to_le_bytes())
        .entry("f64", 12, 0.1_f64.to_le_bytes())
        .file();
    let file = open(&file).unwrap();
    let metadata = file.metadata();
    let bytes = Value::Array(vec![Value::Uint(1), Value::Uint(2)]);
    for (key, value) in [
        ("u8", Value::Uint(255)),
        ("i8", Value::Int(-1)),
        ("u16", Value::Uint(65535)),
        ("i16", Value::Int(-2)),
        ("u32", Value::Uint(u32::MAX.into())),
        ("i32", Value::Int(-3)),
        ("f32", Value::Float(0.5)),
        ("bool", Value::Bool(true)),
        ("text", Value::Text("caf\u{e9}".into())),
        ("bytes", Value::Text("\u{fffd}!".into())),
        ("texts", Value::Array(vec![Value::Text("a".into()), Value::Text(String::new())])),
        ("nested", Value::Array(vec![bytes, Value::Array(Vec::new())])),
        ("u64", Value::Uint(u64::MAX)),
        ("i64", Value::Int(i64::MIN)),
        ("f64", Value::Float(0.1)),
    ] {
        assert_eq!(metadata[key], value, "{key}");
    }
    assert_eq!(metadata.len(), 15);
}

#[test]
fn alignment_is_that_of_the_metadata() {
    let parts = |alignment: u32| {
        let parts = Parts::default().entry("general.alignment", UINT32, alignment.to_le_bytes());
        parts.tensor("x", &[1], 24, 0).tensor("y", &[1], 24, 64).data([7; 65])
    };
    let file = parts(64).aligned(64);
    assert_eq!(
        open(&file).unwrap().tensors()["x"].place,
        Place::Stored { offset: file.len() as u64 - 65 }
    );
    assert_eq!(open(&parts(8).aligned(8)).unwrap().tensors()["y"].shape, [1]);
    let message = "tensor \"y\" is at byte 64 of the data, which is not a multiple of 128";
    assert_refused(&parts(128).aligned(128), message);
    let demand = "and must be a power of two from 8 to 2^31, of type uint32";
    for wrong in [0, 1, 4, 48] {
        assert_refused(&parts(wrong).file(), &format!("general.alignment is {wrong}, {demand}"));
    }
    let file = Parts::default().entry("general.alignment", 5, 32_i32.to_le_bytes()).file();
    assert_refused(&file, &format!("general.alignment is of another type, {demand}"));
}

#[test]
fn empty_tensors_are_read() {
    // The file ends before its data.
    let parts = Parts::default().tensor("x", &[0, 4], 0, 0).tensor("y", &[256, 0], 12, 32);
    let bytes = parts.aligned(1);
    let file = read(&bytes);
    assert_eq!(file.tensor("x").unwrap().shape(), [4, 0]);
    assert_eq!(file.tensor("y").unwrap().shape(), [0, 144]);
    assert!(open(&Parts::default().file()).unwrap().tensors().is_empty());
}

#[test]
fn versions_other_than_2_and_3_are_refused() {
    let mut file = Parts::default().tensor("x", &[1], 24, 0).data([7]).file();
    file[4] = 2;
    assert_eq!(open(&file).unwrap().tensors()["x"].shape, [1]);
    for version in [0, 1, 4] {
        file[4] = version;
        assert_refused(&file, &format!("its version is {version}, and only 2 and 3 are known"));
    }
    let message = "it is in big-endian order; convert it with gguf_convert_endian.py of llama.cpp";
    file[4..8].copy_from_slice(&3_u32.to_be_bytes());
    assert_refused(&file, message);
    file[..4].copy_from_slice(b"FUGG");
    assert_refused(&file, message);
}

#[test]
fn duplicates_are_refused() {
    let file = Parts::default().entry("key", 7, [0]).entry("key", 7, [1]).file();
    assert_refused(&file, "the metadata has the key \"key\" twice");
    let file =
        Parts::default().tensor("x", &[1], 24, 0).tensor("x", &[1], 24, 32).data([0; 64]).file();
    assert_refused(&file, "two tensors have the name \"x\"");
}

#[test]
fn tensors_that_overlap_or_exceed_the_file_are_refused() {
    let overlapping = |offset| {
        let parts = Parts::default().tensor("x", &[1], 24, offset).tensor("y", &[33], 24, 0);
        parts.tensor("z", &[0], 24, 32).data([0; 65]).file()
    };
    assert_refused(&overlapping(32), "tensors \"y\" and \"x\" overlap");
    assert!(open(&overlapping(64)).is_ok());
    let file = overlapping(64);
    let len = file.len();
    let message = format!("tensor \"x\" ends at byte {len}, and the file has {} bytes", len - 1);
    assert_refused(&file[..len - 1], &message);
    let far = Parts::default().tensor("x", &[1], 24, u64::MAX - 31).data([0; 64]).file();
    let message =
        format!("tensor \"x\" ends at byte {}, and the file has {} bytes", u64::MAX, far.len());
    assert_refused(&far, &message);
}

#[test]
fn shapes_that_exceed_all_memory_are_refused() {
    for extents in [&[u64::MAX][..], &[1 << 32, 1 << 31], &[0, 1 << 32, 1 << 31], &[1 << 61]] {
        let file = Parts::default().tensor("x", extents, 0, 0).file();
        assert_refused(&file, "tensor \"x\" has more bytes than any file");
    }
    // No element, and just fewer bytes than the largest memory.
    let empty = Parts::default().tensor("x", &[0, (1 << 61) - 1], 0, 0).file();
    assert_eq!(open(&empty).unwrap().tensors()["x"].nbytes(), Some(0));
    let file = Parts::default().tensor("x", &[1 << 63, 2], 12, 0).file();
    assert_refused(&file, "tensor \"x\" has more bytes than any file");
    let file = Parts::default().tensor("x", &[1; 5], 0, 0).data([0; 4]).file();
    assert_refused(&file, "tensor \"x\" has 5 dimensions, and at most 4 are allowed");
}

#[test]
fn damaged_metadata_is_refused() {
    let file = |kind: u32, value: &[u8]| Parts::default().entry("key", kind, value).file();
    assert_refused(&file(7, &[2]), "the boolean of the key \"key\" is 2, and must be 0 or 1");
    let message = "the value of the key \"key\" has the type 13, which is unknown";
    assert_refused(&file(13, &[]), message);
    let array = [&13_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat();
    assert_refused(&file(ARRAY, &array), message);
    assert_refused(
        &Parts::default().entry("", 7, [0]).file(),
        "the key 0 of the metadata is empty",
    );
    let mut bytes = file(7, &[1]);
    bytes[32] = 0xff;
    let message =
        "the key 0 of the metadata is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0";
    assert_refused(&bytes, message);
    let unnamed = Parts::default().tensor("", &[1], 24, 0).data([0]).file();
    assert_refused(&unnamed, "the name of the tensor 0 is empty");
}

#[test]
fn deeply_nested_arrays_are_refused() {
    let nested = |depth: usize| {
        let level = [&ARRAY.to_le_bytes()[..], &1_u64.to_le_bytes()].concat();
        let innermost = [&0_u32.to_le_bytes()[..], &0_u64.to_le_bytes()].concat();
        let arrays = [&level.repeat(depth - 1)[..], &innermost].concat();
        Parts::default().entry("key", ARRAY, arrays).file()
    };
    assert!(open(&nested(8)).is_ok());
    assert_refused(&nested(9), "the key \"key\" has arrays nested more than 8 deep");
}

#[test]
fn counts_that_exceed_the_file_are_refused() {
    for (tensors, entries) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (2, 1)] {
        let mut file = Parts::default().file();
        file[8..16].copy_from_slice(&tensors.to_le_bytes());
        file[16..24].copy_from_slice(&entries.to_le_bytes());
        file.resize(24 + 61, 0);
        let message = format!(
            "{entries} entries of metadata and {tensors} tensors exceed the 61 bytes that follow"
        );
        assert_refused(&file, &message);
    }
    let array = [&TEXT.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &[0; 16]].concat();
    let file = Parts::default().entry("key", ARRAY, array).aligned(1);
    let message = format!("the key \"key\" has {} values, and 16 bytes follow", u64::MAX);
    assert_refused(&file, &message);
    let file = Parts::default().entry("key", TEXT, u64::MAX.to_le_bytes()).aligned(1);
    assert_refused(
        &file,
        &format!("the file has {} bytes, and ends within the header", file.len()),
    );
}

/// A file that says that it has 2^40 bytes.
struct Long(Cursor<Vec<u8>>);

impl Read for Long {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Seek for Long {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if let SeekFrom::End(0) = to { Ok(1 << 40) } else { self.0.seek(to) }
    }
}

#[test]
fn long_header_is_refused() {
    let file = Parts::default().entry("key", TEXT, (1_u64 << 39).to_le_bytes()).file();
    let error = TensorFile::from_reader(Long(Cursor::new(file))).unwrap_err().to_string();
    let message = "not a valid GGUF file: the header has more than 100000000 bytes, or is damaged";
    assert_eq!(error, message);
}

#[test]
fn truncated_file_is_refused() {
    let parts = Parts::default().entry("key", TEXT, text("value")).tensor("x", &[3, 2], 0, 0);
    let file = parts.data([0; 24]).file();
    for len in (4..file.len()).step_by(if cfg!(miri) { 9 } else { 1 }) {
        let error = open(&file[..len]).unwrap_err();
        assert!(matches!(error.fault(), Fault::Format { format: "GGUF", .. }), "{len}: {error}");
    }
}
