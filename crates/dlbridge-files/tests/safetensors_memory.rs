//! Safetensors files in memory, compared with those of the format's own library.

use dlbridge::{Access, DataType, Tensor, TensorRef, Unaligned};
use dlbridge_files::{Fault, SaveOptions, TensorFile, Value, save, to_bytes};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

mod common;

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

fn options() -> SaveOptions {
    SaveOptions::default()
}

fn bytes(tensor: &Tensor) -> &[u8] {
    TensorRef::from(tensor).as_bytes().unwrap()
}

#[test]
fn tensors_use_the_bytes_of_the_file() {
    let data: Vec<u8> = (0..64).map(|n| n % 2).collect();
    let tensors = dtypes().map(|(dtype, name)| {
        let len = 8 * dtype.bitsize() / 8;
        (name, TensorView::new(dtype, vec![2, 4], &data[..len]).unwrap())
    });
    let bytes_of_file = safetensors::serialize(tensors, None).unwrap();
    let memory = bytes_of_file.as_ptr_range();
    let file = TensorFile::from_bytes(bytes_of_file).unwrap();
    assert_eq!(file.tensors().len(), dtypes().count());
    for (_, name) in dtypes() {
        let tensor = file.tensor(name).unwrap();
        assert_eq!((tensor.dtype().to_string().as_str(), tensor.shape()), (name, &[2, 4][..]));
        if cfg!(target_endian = "little") {
            assert_eq!(tensor.access(), Access::Immutable);
            assert!(memory.contains(&tensor.data().cast_const().cast()), "{name} was copied");
            assert_eq!(bytes(&tensor), &data[..tensor.nbytes() as usize], "{name}");
        }
        assert_eq!(file.private_tensor(name).unwrap().access(), Access::Exclusive);
    }
}

#[test]
fn numbers_are_little_endian_in_the_file() {
    let data: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![2], &data).unwrap();
    let file = TensorFile::from_bytes(safetensors::serialize([("x", view)], None).unwrap());
    let tensor = file.unwrap().tensor("x").unwrap();
    let numbers = tensor.view::<Unaligned<f32>>().unwrap();
    assert!(numbers.iter().map(|x| x.get()).eq([1.5, -2.0]));
    let again = to_bytes([("x", &tensor)], &options()).unwrap();
    assert_eq!(SafeTensors::deserialize(&again).unwrap().tensor("x").unwrap().data(), data);
}

#[test]
fn every_dtype_is_written_under_its_name_in_the_format() {
    for (dtype, name) in dtypes() {
        let ours: DataType = name.parse().unwrap();
        let owner: Vec<u8> = (0..ours.element_bits() as u8).map(|n| n % 2).collect();
        let tensor = Tensor::from_bytes(owner, ours, [4, 2], 0).unwrap();
        let file = to_bytes([(name, &tensor)], &options()).unwrap();
        let read = SafeTensors::deserialize(&file).unwrap();
        let view = read.tensor(name).unwrap();
        assert_eq!((view.dtype(), view.shape()), (dtype, &[4, 2][..]));
        let again = TensorFile::from_bytes(file).unwrap().tensor(name).unwrap();
        assert_eq!(bytes(&again), bytes(&tensor), "{name}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot rename files")]
fn bytes_are_those_of_a_saved_file() {
    let folder = common::Folder::new();
    let path = folder.join("x.safetensors");
    let (a, b) = (Tensor::from([[1_u8, 2], [3, 4]]).transpose(), Tensor::from(vec![1.0_f64; 8]));
    let options = options().metadata([("by", "us")]);
    save(&path, [("a", &a), ("b", &b)], &options).unwrap();
    let bytes_of_file = to_bytes([("a", &a), ("b", &b)], &options).unwrap();
    assert_eq!(bytes_of_file, std::fs::read(&path).unwrap());
    let file = TensorFile::from_bytes(bytes_of_file).unwrap();
    assert_eq!(bytes(&file.tensor("a").unwrap()), [1, 3, 2, 4]);
    assert_eq!(file.metadata()["by"], Value::Text("us".into()));
    assert_eq!(file.path().as_os_str(), "");
}

#[test]
fn tensor_that_cannot_be_written_is_named_in_the_error() {
    let error = to_bytes([("t", &Tensor::from(vec![0_i128]))], &options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"t\": the elements are int128, which safetensors lacks; view or convert them first"
    );
    assert!(matches!(error.fault(), Fault::DataType { name, .. } if name == "t"));
    let missing =
        TensorFile::from_bytes(to_bytes([("t", &Tensor::from(vec![0_u8]))], &options()).unwrap());
    let error = missing.unwrap().tensor("u").unwrap_err();
    assert_eq!(error.to_string(), "the file has no tensor \"u\"");
}

#[test]
fn owner_of_a_file_comes_back_from_the_last_tensor() {
    let tensor = Tensor::from(vec![1_u8, 2]);
    let bytes_of_file = to_bytes([("a", &tensor), ("b", &tensor)], &options()).unwrap();
    let file = TensorFile::from_bytes(bytes_of_file.clone()).unwrap();
    let (a, b) = (file.tensor("a").unwrap(), file.tensor("b").unwrap());
    drop(file);
    drop(b);
    assert_eq!(bytes(&a), [1, 2]);
    assert_eq!(a.try_into_owner::<Vec<u8>>().unwrap(), bytes_of_file);
}

#[test]
fn empty_file_and_empty_tensors_round_trip() {
    let no_tensors: [(&str, &Tensor); 0] = [];
    let file = TensorFile::from_bytes(to_bytes(no_tensors, &options()).unwrap()).unwrap();
    assert!(file.tensors().is_empty());
    let (empty, scalar) =
        (Tensor::from(Vec::<f32>::new()), Tensor::from_parts(vec![7_u8], []).unwrap());
    let file = to_bytes([("empty", &empty), ("scalar", &scalar)], &options()).unwrap();
    let file = TensorFile::from_bytes(file).unwrap();
    assert_eq!(file.tensor("empty").unwrap().shape(), [0]);
    let scalar = file.tensor("scalar").unwrap();
    assert_eq!((scalar.ndim(), bytes(&scalar)), (0, &[7][..]));
    assert!(TensorFile::from_bytes(Vec::<u8>::new()).is_err());
}

#[test]
fn thousands_of_tensors_share_one_file() {
    let count = if cfg!(miri) { 5 } else { 5000 };
    let tensor = Tensor::from(vec![1_u8, 2, 3]);
    let names: Vec<String> = (0..count).map(|n| format!("layer.{n}.weight")).collect();
    let file = to_bytes(names.iter().map(|name| (name, &tensor)), &options()).unwrap();
    let file = TensorFile::from_bytes(file).unwrap();
    let tensors: Vec<Tensor> = names.iter().map(|name| file.tensor(name).unwrap()).collect();
    assert!(tensors.iter().all(|tensor| bytes(tensor) == [1, 2, 3]));
}
