//! Borrowed tensors of any dtype, and the `DLTensor` that C kernels get of them.

mod common;

use common::{Producer, dims};
use dlbridge::sys::{DLTensor, kDLCPU, kDLOpenCL};
use dlbridge::{
    Access, DataType, Device, DeviceType, Error, RawParts, Tensor, TensorRef, TensorRefMut,
};

/// A C kernel: the sum of a tensor of two dimensions.
unsafe extern "C" fn sum(t: *const DLTensor) -> f64 {
    // SAFETY: the tests pass a valid tensor of f64 with two dimensions.
    unsafe {
        let (shape, strides, data) = ((*t).shape, (*t).strides, (*t).data.cast::<f64>());
        let mut sum = 0.0;
        for i in 0..*shape {
            for j in 0..*shape.add(1) {
                sum += *data.offset((i * *strides + j * *strides.add(1)) as isize);
            }
        }
        sum
    }
}

/// A C kernel that numbers the elements of a tensor of two dimensions.
unsafe extern "C" fn number(t: *mut DLTensor) {
    // SAFETY: the tests pass a valid, writable tensor of i32 with two dimensions.
    unsafe {
        let (shape, strides, data) = ((*t).shape, (*t).strides, (*t).data.cast::<i32>());
        let mut next = 0;
        for i in 0..*shape {
            for j in 0..*shape.add(1) {
                *data.offset((i * *strides + j * *strides.add(1)) as isize) = next;
                next += 1;
            }
        }
    }
}

#[test]
fn a_kernel_reads_what_is_borrowed() {
    let values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    let owned = Tensor::from(values);
    let view = owned.view::<f64>().unwrap();
    let total = |tensor: &TensorRef<'_>| {
        // SAFETY: valid for the length of the call.
        unsafe { sum(&tensor.dl_tensor()) }
    };
    assert_eq!(total(&TensorRef::from(&values)), 21.0);
    assert_eq!(total(&TensorRef::from(&values[..1])), 6.0);
    assert_eq!(total(&TensorRef::from(&values.to_vec())), 21.0);
    assert_eq!(total(&TensorRef::from(&owned)), 21.0);
    assert_eq!(total(&TensorRef::from(view.clone())), 21.0);
    assert_eq!(total(&TensorRef::from(view.slice(1, 1..).unwrap())), 16.0);
    assert_eq!(total(&TensorRef::from(&owned).slice(0, ..1).unwrap().flip(1).unwrap()), 6.0);
}

#[test]
fn a_kernel_writes_what_is_borrowed_mutably() {
    let call = |mut tensor: TensorRefMut<'_>| {
        // SAFETY: valid for the length of the call.
        unsafe { number(&mut tensor.dl_tensor()) }
    };
    let mut values = [[9, 9], [9, 9]];
    call(TensorRefMut::from(&mut values));
    assert_eq!(values, [[0, 1], [2, 3]]);
    call(TensorRefMut::from(&mut values).transpose());
    assert_eq!(values, [[0, 2], [1, 3]]);
    call(TensorRefMut::from(&mut values[1..]));
    assert_eq!(values, [[0, 2], [0, 1]]);
    let mut vec = vec![9; 6];
    call(TensorRefMut::from(&mut vec).reshape([3, 2]).unwrap().slice(0, 1..).unwrap());
    assert_eq!(vec, [9, 9, 0, 1, 2, 3]);
    let mut tensor = Tensor::from([[9, 9, 9], [9, 9, 9]]);
    call(TensorRefMut::try_from(&mut tensor).unwrap().step_by(1, 2).unwrap());
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [0, 9, 1, 2, 9, 3]);
    let view = tensor.view_mut::<i32>().unwrap().flip(1).unwrap();
    call(TensorRefMut::from(view));
    assert_eq!(tensor.view::<i32>().unwrap().to_vec(), [2, 1, 0, 5, 4, 3]);
}

#[test]
fn the_description_is_complete() {
    let values = [[[1_u16; 4]; 3]; 2];
    let tensor = TensorRef::from(&values);
    let description = tensor.dl_tensor();
    assert_eq!(description.data.addr(), values.as_ptr().addr());
    assert_eq!((description.ndim, description.byte_offset), (3, 0));
    assert_eq!(dims(&description), (vec![2, 3, 4], vec![12, 4, 1]));
    assert_eq!(DataType::from(description.dtype), DataType::UINT16);
    assert_eq!(description.device.device_type, kDLCPU);
    let deep = [[[[[[1_u8; 2]; 1]; 3]; 1]; 2]; 1];
    let many = TensorRef::from(&deep);
    assert_eq!(dims(&many.dl_tensor()).0, [1, 2, 1, 3, 1, 2]);
    let moved = Box::new(many);
    assert_eq!(dims(&moved.dl_tensor()).1, [12, 6, 6, 2, 2, 1]);
    let scalar = Tensor::from_parts(vec![1_u8], []).unwrap();
    assert_eq!(dims(&TensorRef::from(&scalar).dl_tensor()), (vec![], vec![]));
    let opencl = Producer::at(std::ptr::without_provenance_mut(7), DataType::INT8, &[4]);
    let opencl = opencl.device(kDLOpenCL.0, 1).byte_offset(9).import().unwrap();
    let part = TensorRef::from(&opencl).slice(0, 2..).unwrap();
    let description = part.dl_tensor();
    assert_eq!((description.data.addr(), description.byte_offset), (7, 11));
    assert_eq!(description.device.device_id, 1);
}

#[test]
fn nothing_has_no_address() {
    let values: [[f32; 3]; 0] = [];
    let tensor = TensorRef::from(&values);
    assert_eq!((tensor.shape(), tensor.strides()), (&[0, 3][..], &[3, 1][..]));
    assert!(tensor.is_empty() && tensor.data().is_null() && tensor.is_c_contiguous());
    assert_eq!(tensor.view::<f32>().unwrap().as_slice(), Some(&[][..]));
    assert_eq!(tensor.as_bytes().unwrap(), [0_u8; 0]);
    assert!(tensor.to_copy().unwrap().is_empty());
    let part = TensorRef::from(&[1, 2, 3]).slice(0, 2..2).unwrap();
    assert!(part.data().is_null() && part.to_copy().unwrap().is_empty());
}

#[test]
fn what_a_borrowed_tensor_tells() {
    let values = [[1.0_f32; 3]; 2];
    let tensor = TensorRef::from(&values);
    assert_eq!((tensor.ndim(), tensor.len(), tensor.nbytes()), (2, 6, 24));
    assert_eq!((tensor.device(), tensor.byte_offset()), (Device::CPU, 0));
    assert!(tensor.is_c_contiguous() && !tensor.is_f_contiguous());
    assert!(tensor.transpose().is_f_contiguous());
    assert_eq!(
        format!("{tensor:?}"),
        "TensorRef { shape: [2, 3], strides: [3, 1], dtype: float32, device: cpu }"
    );
    let mut values = [1_u8];
    let mutable = TensorRefMut::from(&mut values);
    assert_eq!(
        (mutable.shape(), mutable.strides(), mutable.dtype()),
        (&[1][..], &[1][..], DataType::UINT8)
    );
    assert!(format!("{mutable:?}").starts_with("TensorRefMut(TensorRef { shape: [1]"));
    assert_eq!(
        mutable.as_tensor_ref().view::<i8>().unwrap_err(),
        Error::DataType { expected: DataType::INT8, found: DataType::UINT8 }
    );
}

#[test]
fn only_what_is_exclusive_is_borrowed_mutably() {
    let error = |mut tensor: Tensor| TensorRefMut::try_from(&mut tensor).unwrap_err();
    assert_eq!(error(Tensor::from(&[1][..])), Error::ReadOnly);
    assert_eq!(error(Producer::new(vec![1], &[1]).import().unwrap()), Error::Shared);
    let repeated = Tensor::from_parts_strided(vec![1], [2], [0], 0).unwrap();
    assert_eq!(error(repeated), Error::Overlapping);
}

#[test]
fn bytes_are_those_of_the_elements() {
    let values = [0x0102_0304_u32, 5];
    let expected: Vec<u8> = values.iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert_eq!(TensorRef::from(&values).as_bytes().unwrap(), expected);
    let reversed = TensorRef::from(&values).flip(0).unwrap();
    assert_eq!(reversed.as_bytes().unwrap_err(), Error::NotContiguous);
    let cuda = Producer::new(vec![1_u8], &[1]).device(2, 3).import().unwrap();
    let device = Device::new(DeviceType::CUDA, 3);
    assert_eq!(TensorRef::from(&cuda).as_bytes().unwrap_err(), Error::NotHostAccessible { device });
}

#[test]
fn parts_that_somebody_vouches_for_are_checked() {
    let values = [1_i16, 2, 3, 4];
    let parts = RawParts::of_elements(values.as_ptr().cast_mut(), Access::ReadOnly);
    let make = |parts: &RawParts, shape: &[i64], strides: Option<&[i64]>| {
        // SAFETY: the layouts that are not refused stay within four numbers, or are never read.
        unsafe { TensorRef::from_raw_parts(parts, shape, strides) }
    };
    let tensor = make(&parts, &[2, 2], Some(&[1, 2])).unwrap();
    assert_eq!(tensor.view::<i16>().unwrap().to_vec(), [1, 3, 2, 4]);
    let second = RawParts { byte_offset: 2, ..parts };
    assert_eq!(make(&second, &[3], None).unwrap().view::<i16>().unwrap().to_vec(), [2, 3, 4]);
    let error = |parts: &RawParts, shape: &[i64], strides| make(parts, shape, strides).unwrap_err();
    assert_eq!(error(&parts, &[2], Some(&[])), Error::StridesLength { ndim: 1, strides: 0 });
    assert_eq!(error(&parts, &[-1], None), Error::NegativeExtent { axis: 0, extent: -1 });
    assert_eq!(error(&parts, &[i64::MAX, 2], None), Error::TooLarge);
    assert_eq!(error(&parts, &[2], Some(&[i64::MAX])), Error::TooLarge);
    let null = RawParts::new(std::ptr::null_mut(), DataType::INT16);
    let no_data = Error::NullPointer { field: "the data of a tensor with elements" };
    assert_eq!(error(&null, &[1], None), no_data);
    assert!(make(&null, &[0], None).is_ok());
    let many = vec![1; dlbridge::MAX_NDIM + 1];
    assert_eq!(error(&parts, &many, None), Error::InvalidNdim { ndim: 1025 });
    let dtype = DataType::INT16.with_lanes(0);
    let wrong = RawParts { dtype, ..parts };
    assert_eq!(error(&wrong, &[1], None), Error::InvalidDataType { dtype });
}

#[test]
#[cfg(feature = "ndarray")]
fn arrays_of_ndarray_are_borrowed_with_their_strides() {
    use ndarray::{Array2, s};

    let array = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f64);
    let total = |tensor: TensorRef<'_>| {
        // SAFETY: valid for the length of the call.
        unsafe { sum(&tensor.dl_tensor()) }
    };
    assert_eq!(total(TensorRef::from(&array)), array.sum());
    let part = array.slice(s![..;-1, 1..;2]);
    assert_eq!(total(TensorRef::from(&part)), part.sum());
    assert_eq!(TensorRef::from(&part).strides(), [-4, 2]);
    assert_eq!(TensorRef::from(&array.t()).data().addr(), array.as_ptr().addr());
}

#[test]
fn borrowed_tensors_cross_threads() {
    fn crosses<T: Send + Sync>(_: &T) {}
    let values = [1, 2, 3];
    let tensor = TensorRef::from(&values);
    crosses(&tensor);
    let total: i32 = std::thread::scope(|scope| {
        scope.spawn(|| tensor.view::<i32>().unwrap().iter().sum()).join().unwrap()
    });
    assert_eq!(total, 6);
}
