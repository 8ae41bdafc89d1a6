//! Files of Arrow IPC: those of the crate arrow-ipc, and damaged ones.
#![cfg(feature = "arrow")]

mod common;

use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float64Array, Int32Array, RecordBatch, StringArray, StructArray,
    UInt8Array,
};
use arrow_ipc::writer::FileWriter;
use common::Folder;
use dlbridge_files::{ArrowIpc, Fault, Format, TensorFile, Value};

fn file_of(batches: &[RecordBatch]) -> Vec<u8> {
    let schema = batches[0].schema();
    let mut writer = FileWriter::try_new(Vec::new(), &schema).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn fault(file: &[u8]) -> String {
    ArrowIpc.index(&mut Cursor::new(file), file.len() as u64).unwrap_err().to_string()
}

fn lists() -> FixedSizeListArray {
    let rows = [Some(vec![Some(1.0), Some(2.0)]), Some(vec![Some(3.0), Some(4.0)])];
    FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(rows, 2)
}

#[test]
#[cfg_attr(
    target_endian = "big",
    ignore = "arrow-ipc writes big-endian numbers and calls them little-endian"
)]
fn columns_of_one_batch_are_mapped() {
    let folder = Folder::new();
    let path = folder.join("x.arrow");
    let inner: ArrayRef = Arc::new(UInt8Array::from(vec![1, 2]));
    let record = StructArray::try_from(vec![("inner", inner)]).unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("ints", Arc::new(Int32Array::from(vec![1, -2]))),
        ("nulls", Arc::new(Int32Array::from(vec![Some(1), None]))),
        ("record", Arc::new(record)),
        ("lists", Arc::new(lists())),
        ("floats", Arc::new(Float64Array::from(vec![0.5, 1.5]))),
    ];
    fs::write(&path, file_of(&[batch(columns)])).unwrap();
    // SAFETY: nothing else has the file.
    let file = unsafe { TensorFile::map(&path) }.unwrap();
    let names: Vec<&String> = file.tensors().keys().collect();
    assert_eq!(names, ["ints", "lists", "floats"]);
    assert_eq!(file.tensor("ints").unwrap().view::<i32>().unwrap().to_vec(), [1, -2]);
    assert_eq!(file.tensor("floats").unwrap().view::<f64>().unwrap().to_vec(), [0.5, 1.5]);
    let lists = file.tensor("lists").unwrap();
    assert_eq!(lists.shape(), [2, 2]);
    assert_eq!(lists.view::<f32>().unwrap()[[1, 0]], 3.0);
    assert!(file.tensors()["ints"].alignment() >= 8);
    for (name, reason) in [("text", "Utf8"), ("nulls", "has nulls"), ("record", "Struct")] {
        let error = file.tensor(name).unwrap_err();
        assert!(matches!(error.fault(), Fault::Refused { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn file_without_batches_has_empty_columns() {
    let whole = batch(vec![
        ("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("y", Arc::new(lists().slice(0, 1))),
    ]);
    let metadata = std::collections::HashMap::from([("k".to_string(), "v".to_string())]);
    let schema = whole.schema().as_ref().clone().with_metadata(metadata);
    let mut writer = FileWriter::try_new(Vec::new(), &schema).unwrap();
    writer.finish().unwrap();
    let file = writer.into_inner().unwrap();
    let index = ArrowIpc.index(&mut Cursor::new(&file), file.len() as u64).unwrap();
    assert_eq!(index.tensors["x"].shape, [0]);
    assert_eq!(index.tensors["y"].shape, [0, 2]);
    assert_eq!(index.metadata["k"], Value::Text("v".into()));
}

#[test]
fn several_batches_are_refused() {
    let one = || batch(vec![("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    assert!(
        fault(&file_of(&[one(), one()]))
            .contains("column \"x\": it is split over 2 record batches")
    );
}

#[test]
fn column_behind_one_of_unknown_layout_is_refused() {
    let views = arrow_array::StringViewArray::from(vec!["a"]);
    let x = Int32Array::from(vec![1]);
    let columns: Vec<(&str, ArrayRef)> =
        vec![("first", Arc::new(x.clone())), ("views", Arc::new(views)), ("last", Arc::new(x))];
    let file = file_of(&[batch(columns)]);
    let index = ArrowIpc.index(&mut Cursor::new(&file), file.len() as u64).unwrap();
    assert_eq!(index.tensors.keys().collect::<Vec<_>>(), ["first"]);
    assert!(index.refused["last"].contains("behind a column"));
}

#[test]
fn damage_is_named() {
    let file =
        file_of(&[batch(vec![("x", Arc::new(Int32Array::from(vec![7; 1000])) as ArrayRef)])]);
    assert!(fault(&file[..10]).contains("too few for a footer"));
    assert!(fault(&file[..file.len() - 1]).contains("does not end with ARROW1"));
    let mut long = file.clone();
    let end = long.len() - 10;
    long[end..end + 4].copy_from_slice(&i32::MAX.to_le_bytes());
    assert!(fault(&long).contains("its footer has 2147483647 bytes"));
    // The length of the batch, of its column, or of its buffer.
    for (number, other) in [(1000_i64, 1_000_000_i64), (4000, 100)] {
        let mut wrong = file.clone();
        let places: Vec<usize> = (0..1500.min(wrong.len() - 8))
            .filter(|&place| wrong[place..place + 8] == number.to_le_bytes())
            .collect();
        assert!(!places.is_empty(), "{number}");
        for place in places {
            wrong[place..place + 8].copy_from_slice(&other.to_le_bytes());
        }
        assert!(fault(&wrong).contains("not within the batch"), "{}", fault(&wrong));
    }
    for place in 0..file.len() {
        let mut wrong = file.clone();
        wrong[place] ^= 0x41;
        if let Ok(index) = ArrowIpc.index(&mut Cursor::new(&wrong), wrong.len() as u64) {
            for entry in index.tensors.values() {
                let dlbridge_files::Place::Stored { offset } = entry.place else { panic!() };
                assert!(offset + entry.nbytes().unwrap() <= wrong.len() as u64);
            }
        }
    }
}
