//! Maps of real files: read-only, copy-on-write and mutable.
#![cfg(all(feature = "memmap2", not(miri)))]

use std::fs::{self, File};
use std::path::PathBuf;

use dlbridge::{Access, DataType, Error, Tensor};
use memmap2::{Mmap, MmapMut, MmapOptions};

/// A temporary file, which is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, numbers: &[f32]) -> Self {
        let path = std::env::temp_dir().join(format!("dlbridge-{}-{name}", std::process::id()));
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn numbers(&self) -> Vec<f32> {
        let bytes = fs::read(&self.0).unwrap();
        bytes.chunks_exact(4).map(|n| f32::from_ne_bytes(n.try_into().unwrap())).collect()
    }

    fn writable(&self) -> File {
        File::options().read(true).write(true).open(&self.0).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn read_only_map_becomes_a_read_only_tensor() {
    let file = Temporary::new("read", &[1.0, 2.0, 3.0, 4.0]);
    // SAFETY: no other code changes the file of this test.
    let map = unsafe { Mmap::map(&File::open(&file.0).unwrap()) }.unwrap();
    let address = map.as_ptr().addr();
    let mut tensor = Tensor::from_bytes(map, DataType::FLOAT32, [2, 2], 0).unwrap();
    assert_eq!((tensor.access(), tensor.data().addr()), (Access::Immutable, address));
    assert_eq!(tensor.view::<f32>().unwrap()[[1, 0]], 3.0);
    assert_eq!(tensor.view_mut::<f32>().unwrap_err(), Error::ReadOnly);
    let map = tensor.try_into_owner::<Mmap>().unwrap();
    assert_eq!(map.as_ptr().addr(), address);
    let whole = Tensor::from(map);
    assert_eq!((whole.shape(), whole.dtype()), (&[16][..], DataType::UINT8));
}

#[test]
fn mutable_map_writes_the_file() {
    let file = Temporary::new("write", &[1.0, 2.0]);
    // SAFETY: no other code changes the file of this test.
    let map = unsafe { MmapMut::map_mut(&file.writable()) }.unwrap();
    let mut tensor = Tensor::from_bytes(map, DataType::FLOAT32, [2], 0).unwrap();
    assert_eq!(tensor.access(), Access::Exclusive);
    tensor.view_mut::<f32>().unwrap()[[1]] = 20.0;
    tensor.try_into_owner::<MmapMut>().unwrap().flush().unwrap();
    assert_eq!(file.numbers(), [1.0, 20.0]);
}

#[test]
fn copy_on_write_map_does_not_change_the_file() {
    let file = Temporary::new("copy", &[1.0, 2.0]);
    // SAFETY: no other code changes the file of this test.
    let map = unsafe { MmapOptions::new().map_copy(&File::open(&file.0).unwrap()) }.unwrap();
    let mut tensor = Tensor::from_bytes(map, DataType::FLOAT32, [2], 0).unwrap();
    assert_eq!(tensor.access(), Access::Exclusive);
    tensor.view_mut::<f32>().unwrap()[[1]] = 20.0;
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [1.0, 20.0]);
    drop(tensor);
    assert_eq!(file.numbers(), [1.0, 2.0]);
}

#[test]
fn map_at_an_odd_offset_is_misaligned() {
    let file = Temporary::new("odd", &[1.0, 2.0]);
    // SAFETY: no other code changes the file of this test.
    let map = unsafe { MmapOptions::new().offset(1).map(&File::open(&file.0).unwrap()) }.unwrap();
    let tensor = Tensor::from_bytes(map, DataType::FLOAT32, [1], 0).unwrap();
    let refused = tensor.view::<f32>().unwrap_err();
    assert!(matches!(refused, Error::Misaligned { required: 4, .. }), "{refused}");
    assert_eq!(tensor.view::<dlbridge::Unaligned<f32>>().unwrap().len(), 1);
    assert!(tensor.to_copy().unwrap().view::<f32>().is_ok());
}

#[test]
fn anonymous_map_is_exclusive() {
    let mut tensor = Tensor::from(MmapMut::map_anon(4096).unwrap());
    assert_eq!(tensor.data().addr() % 4096, 0);
    tensor.view_mut::<u8>().unwrap().as_mut_slice().unwrap().fill(7);
    assert!(tensor.view::<u8>().unwrap().iter().all(|&byte| byte == 7));
}
