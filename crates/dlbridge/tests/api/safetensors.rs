//! Safetensors files, loaded and written, compared with the crate of that name.
#![cfg(feature = "safetensors")]

use std::collections::BTreeMap;

use crate::common::{Counted, Producer};
use dlbridge::safetensors::{Error, Metadata, load, load_metadata, save, to_bytes};
use dlbridge::{Access, DataType, Tensor, TensorRef, Unaligned};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Every dtype of the format, with dlbridge's name for it.
const DTYPES: &[(Dtype, &str)] = &[
    (Dtype::BOOL, "bool"),
    (Dtype::F4, "float4_e2m1fn"),
    (Dtype::F6_E2M3, "float6_e2m3fn"),
    (Dtype::F6_E3M2, "float6_e3m2fn"),
    (Dtype::U8, "uint8"),
    (Dtype::I8, "int8"),
    (Dtype::F8_E5M2, "float8_e5m2"),
    (Dtype::F8_E4M3, "float8_e4m3fn"),
    (Dtype::F8_E8M0, "float8_e8m0fnu"),
    (Dtype::F8_E4M3FNUZ, "float8_e4m3fnuz"),
    (Dtype::F8_E5M2FNUZ, "float8_e5m2fnuz"),
    (Dtype::I16, "int16"),
    (Dtype::U16, "uint16"),
    (Dtype::F16, "float16"),
    (Dtype::BF16, "bfloat16"),
    (Dtype::I32, "int32"),
    (Dtype::U32, "uint32"),
    (Dtype::F32, "float32"),
    (Dtype::C64, "complex64"),
    (Dtype::F64, "float64"),
    (Dtype::I64, "int64"),
    (Dtype::U64, "uint64"),
];

/// Returns all dtypes; a few under Miri, which is slow.
fn dtypes() -> impl Iterator<Item = (Dtype, &'static str)> {
    DTYPES.iter().copied().step_by(if cfg!(miri) { 7 } else { 1 })
}

fn none() -> Metadata {
    Metadata::new()
}

fn bytes(tensor: &Tensor) -> &[u8] {
    TensorRef::from(tensor).as_bytes().unwrap()
}

#[test]
fn loaded_tensors_use_the_bytes_of_the_file() {
    let data: Vec<u8> = (0..64).map(|n| n % 2).collect();
    let tensors = dtypes().map(|(dtype, name)| {
        let len = 8 * dtype.bitsize() / 8;
        (name, TensorView::new(dtype, vec![2, 4], &data[..len]).unwrap())
    });
    let file = safetensors::serialize(tensors, None).unwrap();
    let memory = file.as_ptr().addr()..file.as_ptr().addr() + file.len();
    let tensors = load(file).unwrap();
    assert_eq!(tensors.len(), dtypes().count());
    for (name, tensor) in &tensors {
        assert_eq!(tensor.dtype(), name.parse::<DataType>().unwrap());
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 4][..], &[4, 1][..]));
        assert_eq!(tensor.access(), Access::Immutable);
        if cfg!(target_endian = "little") {
            assert!(memory.contains(&tensor.data().addr()), "{name} was copied");
        }
        if cfg!(target_endian = "little") || tensor.dtype().itemsize() == 1 {
            assert_eq!(bytes(tensor), &data[..tensor.nbytes() as usize], "{name}");
        }
    }
}

#[test]
fn numbers_are_little_endian_in_the_file() {
    let data: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![2], &data).unwrap();
    let file = safetensors::serialize([("x", view)], None).unwrap();
    let tensors = load(file).unwrap();
    let numbers = tensors["x"].view::<Unaligned<f32>>().unwrap();
    assert!(numbers.iter().map(|x| x.get()).eq([1.5, -2.0]));
    let again = to_bytes([("x", &tensors["x"])], &none()).unwrap();
    assert_eq!(SafeTensors::deserialize(&again).unwrap().tensor("x").unwrap().data(), data);
}

#[test]
fn every_dtype_is_written_under_its_name_in_the_format() {
    for (dtype, name) in dtypes() {
        let ours: DataType = name.parse().unwrap();
        let owner: Vec<u8> = (0..ours.element_bits() as u8).map(|n| n % 2).collect();
        let tensor = Tensor::from_bytes(owner, ours, [4, 2], 0).unwrap();
        let file = to_bytes([(name, &tensor)], &none()).unwrap();
        let read = SafeTensors::deserialize(&file).unwrap();
        let view = read.tensor(name).unwrap();
        assert_eq!((view.dtype(), view.shape()), (dtype, &[4, 2][..]));
        let back = load(file.clone()).unwrap();
        assert_eq!(bytes(&back[name]), bytes(&tensor), "{name}");
    }
}

#[test]
fn strided_or_padded_elements_are_written_contiguous_and_packed() {
    let columns = Tensor::from([[1_u8, 2], [3, 4]]).transpose();
    let padded = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0).unwrap();
    let padded = padded.to_unpacked().unwrap();
    let file = to_bytes([("columns", &columns), ("padded", &padded)], &none()).unwrap();
    let tensors = load(file).unwrap();
    assert_eq!(bytes(&tensors["columns"]), [1, 3, 2, 4]);
    assert_eq!(bytes(&tensors["padded"]), [0x21, 0x43]);
}

#[test]
fn tensor_that_cannot_be_written_is_named_in_the_error() {
    let refused = |tensor: &Tensor| to_bytes([("t", tensor)], &none()).unwrap_err().to_string();
    assert_eq!(
        refused(&Tensor::from(vec![0_i128])),
        "tensor \"t\": the elements are int128, which safetensors lacks; view or convert them first"
    );
    let cuda = Producer::new(vec![0_u8], &[1]).device(2, 0).import().unwrap();
    assert_eq!(
        refused(&cuda),
        "tensor \"t\": the data is on cuda:0, where the CPU cannot read it; copy it to the CPU first"
    );
}

#[test]
fn repeated_or_reserved_name_is_refused() {
    let tensor = Tensor::from(vec![1_u8]);
    for names in [&["a", "a"][..], &["a", "b", "a"], &["__metadata__"]] {
        let tensors = names.iter().map(|name| (name, &tensor));
        let refused = to_bytes(tensors, &none()).unwrap_err();
        assert!(refused.to_string().contains("is that of two tensors, or kept for metadata"));
        assert!(matches!(refused, Error::Name { name } if name == names[0]));
    }
}

#[test]
fn packed_elements_that_end_within_a_byte_are_named_in_the_error() {
    let half = Tensor::from_bytes(vec![0x21, 0x03], DataType::FLOAT4_E2M1FN, [3], 0).unwrap();
    let refused = to_bytes([("t", &half)], &none()).unwrap_err();
    assert!(refused.to_string().starts_with("tensor \"t\": the float4_e2m1fn elements are packed"));
    assert!(std::error::Error::source(&refused).is_none(), "its text is part of the error's text");
}

#[test]
fn owner_of_a_file_comes_back_from_the_last_tensor() {
    let tensor = Tensor::from(vec![1_u8, 2]);
    let file = to_bytes([("a", &tensor), ("b", &tensor)], &none()).unwrap();
    let (owner, dropped) = Counted::new(file.clone());
    let mut tensors = load(owner).unwrap();
    let a = tensors.remove("a").unwrap();
    drop(tensors);
    assert_eq!((bytes(&a), dropped.get()), (&[1, 2][..], 0));
    let owner = a.try_into_owner::<Counted<Vec<u8>>>().unwrap();
    assert_eq!((&owner.owner, dropped.get()), (&file, 0));
    drop(owner);
    let (owner, dropped) = Counted::new(file[1..].to_vec());
    assert!(load(owner).is_err());
    assert_eq!(dropped.get(), 1);
}

#[test]
fn metadata_of_a_file_round_trips() {
    let text = Metadata::from([("format".into(), "pt".into()), ("by".into(), "us".into())]);
    let tensor = Tensor::from(vec![1_u8]);
    let file = to_bytes([("x", &tensor)], &text).unwrap();
    assert_eq!(load_metadata(&file).unwrap(), text);
    assert_eq!(load(file).unwrap().len(), 1);
    let silent = to_bytes([("x", &tensor)], &none()).unwrap();
    assert_eq!(load_metadata(&silent).unwrap(), none());
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot rename files")]
fn saved_file_equals_the_bytes() {
    let path = std::env::temp_dir().join(format!("dlbridge-{}-saved", std::process::id()));
    let tensor = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
    save([("x", &tensor)], &none(), &path).unwrap();
    let saved = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(saved, to_bytes([("x", &tensor)], &none()).unwrap());
    let text = Metadata::from([("by".into(), "us".into())]);
    save([("x", &tensor)], &text, &path).unwrap();
    assert_eq!(load_metadata(&std::fs::read(&path).unwrap()).unwrap(), text);
    std::fs::remove_file(&path).unwrap();
    let path = path.join("no/such/directory");
    let nowhere = save([("x", &tensor)], &none(), &path).unwrap_err();
    let told = nowhere.to_string();
    assert!(
        told.starts_with(&format!("the file {} cannot be written: ", path.display())),
        "{told}"
    );
    assert!(matches!(nowhere, Error::Write { path: Some(found), .. } if found == path));
}

#[test]
fn empty_file_and_empty_tensors_round_trip() {
    let no_tensors: [(&str, &Tensor); 0] = [];
    assert!(load(to_bytes(no_tensors, &none()).unwrap()).unwrap().is_empty());
    let (empty, scalar) =
        (Tensor::from(Vec::<f32>::new()), Tensor::from_parts(vec![7_u8], []).unwrap());
    let tensors =
        load(to_bytes([("empty", &empty), ("scalar", &scalar)], &none()).unwrap()).unwrap();
    assert_eq!(tensors["empty"].shape(), [0]);
    assert_eq!((tensors["scalar"].ndim(), bytes(&tensors["scalar"])), (0, &[7][..]));
}

/// Returns a file with this header and `data` bytes of data.
fn with_header(header: &str, data: usize) -> Vec<u8> {
    let len = (header.len() as u64).to_le_bytes();
    [&len[..], header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn hostile_files_are_refused() {
    let entry = |shape: &str, offsets: &str| {
        format!(r#"{{"x":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let good = with_header(&entry("[2]", "[0,8]"), 8);
    assert_eq!(load(good.clone()).unwrap()["x"].shape(), [2]);
    for len in (0..good.len()).step_by(if cfg!(miri) { 17 } else { 1 }) {
        assert!(load(good[..len].to_vec()).is_err(), "cut at {len}");
    }
    let lies = [0, 1, 7, u64::MAX, u64::MAX - 7, 1 << 32, good.len() as u64];
    for lie in lies.into_iter().step_by(if cfg!(miri) { 3 } else { 1 }) {
        let mut file = good.clone();
        file[..8].copy_from_slice(&lie.to_le_bytes());
        assert!(load(file).is_err(), "a header of {lie} bytes");
    }
    let headers = [
        entry("[2]", "[0,7]"),
        entry("[2]", "[8,0]"),
        entry("[2]", "[4,12]"),
        entry("[2]", "[0,18446744073709551615]"),
        entry("[3]", "[0,8]"),
        entry("[-1]", "[0,8]"),
        entry("[18446744073709551615,2]", "[0,8]"),
        entry("[4611686018427387904,4,2]", "[0,8]"),
        r#"{"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}"#.into(),
        r#"{"x":{"dtype":"F32","shape":[2]}}"#.into(),
        r#"["x"]"#.into(),
        "{".into(),
    ];
    for header in headers {
        let refused = load(with_header(&header, 8));
        assert!(matches!(refused, Err(Error::Format(_))), "{header}: {refused:?}");
    }
    let overlapping = concat!(
        r#"{"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"#,
        r#""y":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#
    );
    assert!(load(with_header(overlapping, 8)).is_err());
    // More dimensions than a tensor can have.
    let deep = format!("[{}1]", "1,".repeat(1024));
    let refused = load(with_header(&entry(&deep, "[0,4]"), 4)).unwrap_err();
    assert_eq!(refused.to_string(), "tensor \"x\": ndim is 1025; it must be 0 to 1024");
}

#[test]
fn thousands_of_tensors_share_one_file() {
    let count = if cfg!(miri) { 5 } else { 5000 };
    let tensor = Tensor::from(vec![1_u8, 2, 3]);
    let names: Vec<String> = (0..count).map(|n| format!("layer.{n}.weight")).collect();
    let file = to_bytes(names.iter().map(|name| (name, &tensor)), &none()).unwrap();
    let (owner, dropped) = Counted::new(file);
    let tensors: BTreeMap<String, Tensor> = load(owner).unwrap();
    assert_eq!(tensors.len(), count);
    assert!(tensors.values().all(|tensor| bytes(tensor) == [1, 2, 3]));
    drop(tensors);
    assert_eq!(dropped.get(), 1);
}
