//! Files of safetensors: what its own library wrote, what it reads, and damaged ones.
// Miri cannot map or rename files.
#![cfg(not(miri))]

mod common;

use std::collections::HashMap;
use std::fs;

use common::Folder;
use dlbridge::{Access, DataType, Tensor, TensorRef};
use dlbridge_files::{Fault, FileWriter, Planned, SaveOptions, TensorFile, Value, save};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

fn file_of(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn fault(file: &[u8]) -> String {
    TensorFile::from_bytes(file.to_vec()).unwrap_err().to_string()
}

/// The names of the files, sorted.
fn names(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.join("")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn options() -> SaveOptions {
    SaveOptions::default()
}

#[test]
fn file_of_the_crate_is_read_and_mapped() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    // A file is little-endian on every machine.
    let bytes =
        [[1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat(), 7_i64.to_le_bytes().into()];
    let views = [
        ("x", TensorView::new(Dtype::F32, vec![2, 2], &bytes[0]).unwrap()),
        ("y", TensorView::new(Dtype::I64, vec![1], &bytes[1]).unwrap()),
    ];
    let about = HashMap::from([("a".to_string(), "b".to_string())]);
    fs::write(&path, safetensors::serialize(views, Some(about)).unwrap()).unwrap();
    // SAFETY: nothing else has the file.
    let mapped = unsafe { TensorFile::map(&path) }.unwrap();
    let read = TensorFile::read(&path).unwrap();
    for file in [&mapped, &read] {
        assert_eq!(file.tensors().len(), 2);
        assert_eq!(file.metadata()["a"], Value::Text("b".into()));
        assert_eq!(file.tensor("x").unwrap().view::<f32>().unwrap().to_vec(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(file.tensor("y").unwrap().view::<i64>().unwrap().to_vec(), [7]);
        assert!(
            matches!(file.tensor("z").unwrap_err().fault(), Fault::Missing { name } if name == "z")
        );
    }
    if cfg!(target_endian = "little") {
        assert_eq!(mapped.tensor("x").unwrap().access(), Access::Immutable);
        assert_eq!(mapped.tensor("x").unwrap().data(), mapped.tensor("x").unwrap().data());
    } else {
        // A copy in the machine's byte order.
        assert_eq!(mapped.tensor("x").unwrap().access(), Access::Exclusive);
    }
    let mut private = mapped.private_tensor("x").unwrap();
    private.view_mut::<f32>().unwrap()[[0, 0]] = 9.0;
    assert_eq!(mapped.tensor("x").unwrap().view::<f32>().unwrap()[[0, 0]], 1.0);
    assert_eq!(read.tensor("x").unwrap().access(), Access::Exclusive);
    // Tensors outlive the file, also a removed one.
    let kept = mapped.tensor("x").unwrap();
    drop(mapped);
    fs::remove_file(&path).unwrap();
    assert_eq!(kept.view::<f32>().unwrap()[[1, 1]], 4.0);
}

#[test]
fn saved_file_is_read_by_the_crate() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]]).transpose();
    let bits = Tensor::zeroed(DataType::FLOAT4_E2M1FN, [2, 3]).unwrap();
    let empty = Tensor::zeroed(DataType::BFLOAT16, [0, 5]).unwrap();
    let scalar = Tensor::zeroed(DataType::FLOAT64, []).unwrap();
    let tensors = [("x", &x), ("bits", &bits), ("empty", &empty), ("scalar", &scalar)];
    save(&path, tensors, &options().metadata([("k", "v\"\n")])).unwrap();
    let bytes = fs::read(&path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["k"], "v\"\n");
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    for (name, tensor) in tensors {
        let view = theirs.tensor(name).unwrap();
        let shape: Vec<i64> = view.shape().iter().map(|&extent| extent as i64).collect();
        assert_eq!(shape, tensor.shape(), "{name}");
    }
    let numbers: Vec<u8> =
        [1.0_f32, 3.0, 5.0, 2.0, 4.0, 6.0].into_iter().flat_map(f32::to_le_bytes).collect();
    assert_eq!(theirs.tensor("x").unwrap().data(), numbers);
    let file = TensorFile::read(&path).unwrap();
    assert_eq!(file.tensor("empty").unwrap().shape(), [0, 5]);
    assert_eq!(file.tensor("bits").unwrap().dtype(), DataType::FLOAT4_E2M1FN);
}

#[test]
fn padded_elements_are_packed() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    let packed = Tensor::from_bytes(vec![0x21, 0x43], DataType::FLOAT4_E2M1FN, [4], 0).unwrap();
    save(&path, [("x", &packed.to_unpacked().unwrap())], &options()).unwrap();
    let again = TensorFile::read(&path).unwrap().tensor("x").unwrap();
    assert_eq!(TensorRef::from(&again).as_bytes().unwrap(), [0x21, 0x43]);
}

#[test]
fn large_strided_tensor_is_written_in_pieces() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    let numbers: Vec<u32> = (0..6_000_000).collect();
    let x = Tensor::from_parts(numbers, [2, 1500, 2000]).unwrap();
    let x = x.permute([0, 2, 1]).unwrap();
    save(&path, [("x", &x)], &options()).unwrap();
    let again = TensorFile::read(&path).unwrap().tensor("x").unwrap();
    assert_eq!(again.shape(), [2, 2000, 1500]);
    assert!(x.view::<u32>().unwrap() == again.view::<u32>().unwrap());
}

#[test]
fn multiples_of_64_bytes_are_aligned() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    let odd = Tensor::from(vec![1_u8; 3]);
    let half = Tensor::from(vec![1_u8; 32]);
    let whole = Tensor::from(vec![1_u8; 128]);
    save(&path, [("a", &odd), ("b", &half), ("c", &whole), ("d", &whole)], &options()).unwrap();
    let file = TensorFile::read(&path).unwrap();
    for name in ["b", "c", "d"] {
        assert!(file.tensors()[name].alignment() >= 64, "{name}");
    }
}

#[test]
fn model_is_split_into_shards() {
    let folder = Folder::new();
    let tensors: Vec<(String, Tensor)> =
        (0..5).map(|n| (format!("layer.{n}"), Tensor::from(vec![n as f32; 100]))).collect();
    let named = tensors.iter().map(|(name, tensor)| (name.clone(), tensor));
    save(folder.join("m.safetensors"), named, &options().max_shard_bytes(800)).unwrap();
    assert_eq!(
        names(&folder),
        [
            "m-00001-of-00003.safetensors",
            "m-00002-of-00003.safetensors",
            "m-00003-of-00003.safetensors",
            "m.safetensors.index.json"
        ]
    );
    let file = TensorFile::read(folder.join("m.safetensors.index.json")).unwrap();
    for (name, tensor) in &tensors {
        assert!(file.tensor(name).unwrap().view::<f32>().unwrap() == tensor.view::<f32>().unwrap());
    }
}

#[test]
fn name_in_two_shards_is_refused() {
    let folder = Folder::new();
    let x = Tensor::from(vec![1_u8]);
    save(folder.join("a.safetensors"), [("x", &x)], &options()).unwrap();
    save(folder.join("b.safetensors"), [("x", &x)], &options()).unwrap();
    let index = r#"{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}"#;
    fs::write(folder.join("i.json"), index).unwrap();
    let error = TensorFile::read(folder.join("i.json")).unwrap_err();
    assert!(matches!(error.fault(), Fault::Name { name } if name == "x"), "{error}");
}

#[test]
fn plan_is_kept() {
    let folder = Folder::new();
    let path = folder.join("x.safetensors");
    let plan = || [Planned::new("x", DataType::FLOAT32, [2])];
    let mut writer = FileWriter::create(&path, plan(), &options()).unwrap();
    let error = writer.write(&TensorRef::from(&[1.0_f64, 2.0])).unwrap_err();
    assert!(error.to_string().ends_with(
        "tensor \"x\": float64 of shape [2] was written, and float32 of shape [2] was planned"
    ));
    writer.write(&TensorRef::from(&[1.0_f32, 2.0])).unwrap();
    assert_eq!(writer.next_index(), None);
    writer.finish().unwrap();
    let writer = FileWriter::create(&path, plan(), &options()).unwrap();
    assert!(matches!(writer.finish().unwrap_err().fault(), Fault::Missing { .. }));
    assert_eq!(names(&folder), ["x.safetensors"]);
}

#[test]
fn what_cannot_be_written_is_refused_before_a_file_appears() {
    let folder = Folder::new();
    let x = Tensor::from(vec![1_u8]);
    let written = |name: &str, tensors: &[(&str, &Tensor)], options: &SaveOptions| {
        save(folder.join(name), tensors.iter().map(|&(name, tensor)| (name, tensor)), options)
            .unwrap_err()
            .to_string()
    };
    assert!(written("x.txt", &[("x", &x)], &options()).contains("the extension is not"));
    assert!(written("x.npy", &[], &options()).contains("exactly one tensor, not 0"));
    let with_metadata = || options().metadata([("a", "b")]);
    for refused in [
        written("x.npz", &[("x", &x)], &with_metadata()),
        written("x.npy", &[("x", &x)], &options().max_shard_bytes(1)),
    ] {
        assert!(refused.contains("leave them out, or write NAME.safetensors"), "{refused}");
    }
    let deep = Tensor::zeroed(DataType::UINT8, [1; 65]).unwrap();
    let refused = written("x.npy", &[("x", &deep)], &options());
    assert!(refused.contains("has 65 dimensions, and NumPy at most 64"), "{refused}");
    let long = written("x.safetensors", &[(&"x".repeat(100_000_000), &x)], &options());
    assert!(long.contains("and at most 100000000 are allowed"), "{long}");
    let twice = written("x.safetensors", &[("x", &x), ("x", &x)], &options());
    assert!(twice.contains("that of two tensors"), "{twice}");
    assert!(written("x.safetensors", &[("__metadata__", &x)], &options()).contains("reserves"));
    let odd = Tensor::zeroed(DataType::FLOAT4_E2M1FN, [3]).unwrap();
    assert!(written("x.safetensors", &[("x", &odd)], &options()).contains("packed"));
    let brain = Tensor::zeroed(DataType::BFLOAT16, [3]).unwrap();
    let refused = written("x.npy", &[("", &brain)], &options());
    assert!(refused.contains("npy: the elements are bfloat16, which npy lacks"), "{refused}");
    let refused = written("x.npz", &[("", &brain)], &options());
    assert!(refused.contains("npz: tensor \"\": the elements are bfloat16"), "{refused}");
    assert_eq!(names(&folder), [""; 0]);
}

#[test]
fn damage_is_named() {
    assert!(fault(&[&[0xff; 8][..], b"{"].concat()).contains("at most 100000000 are allowed"));
    assert!(fault(&file_of("{}", 0)[..9]).contains("only 1 follow"));
    assert!(fault(&file_of("{\"\u{fe}", 0)).contains("header is not valid"));
    assert!(fault(&file_of("{} {}", 0)).contains("header is not valid"));
    assert!(fault(&file_of("{}", 3)).contains("3 follow the header"));
    let one = |text: &str| fault(&file_of(&format!("{{\"x\": {text}}}"), 8));
    assert!(one("1").contains("header is not valid"));
    assert!(one(r#"{"dtype": "F32", "shape": [2]}"#).contains("data_offsets"));
    assert!(
        one(r#"{"dtype": "?", "shape": [2], "data_offsets": [0, 8]}"#).contains("\"?\" is unknown")
    );
    assert!(
        one(r#"{"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}"#).contains("have 12 bytes")
    );
    assert!(
        one(r#"{"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}"#)
            .contains("begins at byte 8")
    );
    assert!(one(r#"{"dtype": "F4", "shape": [3], "data_offsets": [0, 8]}"#).contains("12 bits"));
    // Each extent fits 32 bits.
    let huge = r#"{"dtype": "F32", "shape": [4294967295, 4294967295, 2], "data_offsets": [0, 8]}"#;
    assert!(one(huge).contains("more bytes than any file"));
    let deep =
        format!(r#"{{"dtype": "U8", "shape": [{}1], "data_offsets": [0, 1]}}"#, "1,".repeat(1024));
    assert!(one(&deep).contains("1025 dimensions, and at most 1024"));
    let strange = r#"{"dtype": "U8", "shape": [8], "data_offsets": [0, 8], "more": 1e999}"#;
    assert!(one(strange).contains("header is not valid"));
    let strange = r#"{"dtype": "U8", "shape": [8], "data_offsets": [0, 8], "more": "\ud800"}"#;
    assert!(one(strange).contains("header is not valid"));
    let second = r#"{"dtype": "U8", "dtype": "I8", "shape": [8], "data_offsets": [0, 8]}"#;
    assert!(one(second).contains("two fields \"dtype\""));
    let escaped = r#"{"x": {"d\u0074ype": "\u0055\u0038", "shape": [8], "data_offsets": [0, 8], "more": {}}}"#;
    let file = file_of(escaped, 8);
    let file = TensorFile::from_bytes(file).unwrap();
    assert_eq!(file.tensors()["x"].dtype, DataType::UINT8);
    let twice = r#"{"x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                    "x": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}"#;
    assert!(fault(&file_of(twice, 8)).contains("two tensors have the name"));
    let gap = r#"{"x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                  "y": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}"#;
    assert!(fault(&file_of(gap, 8)).contains("the one before ends at 3"));
}

#[test]
fn shape_that_numpy_lacks_is_refused() {
    let folder = Folder::new();
    let x = Tensor::zeroed(DataType::UINT8, [1; 65]).unwrap();
    let error = save(folder.join("x.npy"), [("", &x)], &options()).unwrap_err();
    assert!(error.to_string().contains("has 65 dimensions, and NumPy at most 64"), "{error}");
}
