//! Code that the compiler must refuse: minimal examples, each with the expected error code. Only nightly compares the
//! codes: `cargo +nightly test -p dlbridge --doc must_not_compile`.
//!
//! # Owners
//!
//! A value that must not cross threads is not an owner:
//! ```compile_fail,E0277
//! let _ = dlbridge::Tensor::from_parts(std::rc::Rc::<[f32]>::from([1.0]), [1]);
//! ```
//! ```compile_fail,E0277
//! let _ = dlbridge::Tensor::from_parts(vec![std::rc::Rc::new(1.0_f32)], [1]);
//! ```
//! ```compile_fail,E0277
//! let parts = dlbridge::RawParts::new(std::ptr::null_mut(), dlbridge::DataType::UINT8);
//! // SAFETY: no elements.
//! let _ = unsafe { dlbridge::Tensor::from_raw_parts(std::rc::Rc::new(1), parts, &[0], None::<&[i64]>) };
//! ```
//! ```compile_fail,E0277
//! struct Mine(*mut f32);
//! // SAFETY: never run.
//! unsafe impl dlbridge::Owner for Mine {
//!     type Item = f32;
//!     const ACCESS: dlbridge::Access = dlbridge::Access::ReadOnly;
//!     fn items(&mut self) -> *mut [f32] {
//!         std::ptr::slice_from_raw_parts_mut(self.0, 1)
//!     }
//! }
//! ```
//! A borrowed value is not an owner:
//! ```compile_fail,E0597
//! let values = vec![1.0_f32];
//! let _ = dlbridge::Tensor::from(values.as_slice());
//! ```
//! ```compile_fail,E0277
//! let mut values = [1.0_f32];
//! let _ = dlbridge::Tensor::from_parts(&mut values[..], [1]);
//! ```
//! Not every type is an element:
//! ```compile_fail,E0277
//! let _ = dlbridge::Tensor::from(vec!['a']);
//! ```
//! ```compile_fail,E0277
//! let _ = dlbridge::TensorRef::from(&[std::cell::Cell::new(1.0_f32)]);
//! ```
//! ```compile_fail,E0277
//! let _ = dlbridge::Tensor::from(vec![1_u32]).view::<std::num::NonZeroU32>();
//! ```
//! The size of an element must be that of its dtype:
//! ```compile_fail,E0080
//! #[derive(Clone, Copy)]
//! struct Wide(#[expect(dead_code)] u64);
//! // SAFETY: none: the compiler must refuse this.
//! unsafe impl dlbridge::Element for Wide {
//!     const DATA_TYPE: dlbridge::DataType = dlbridge::DataType::UINT32;
//! }
//! let _ = dlbridge::TensorRef::from(&[Wide(1)]);
//! ```
//!
//! # Borrows that outlive their tensor
//!
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let view = tensor.view::<u8>().unwrap();
//! drop(tensor);
//! view.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let slice = tensor.view::<u8>().unwrap().as_slice();
//! drop(tensor);
//! slice.unwrap();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let mut elements = tensor.view::<u8>().unwrap().iter();
//! drop(tensor);
//! elements.next();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let element = tensor.view::<u8>().unwrap().get(&[0]);
//! drop(tensor);
//! element.unwrap();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let part = tensor.view::<u8>().unwrap().slice(0, ..).unwrap();
//! drop(tensor);
//! part.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let contiguous = tensor.view::<u8>().unwrap().to_contiguous();
//! drop(tensor);
//! contiguous.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let view = dlbridge::TensorRef::from(&tensor).transpose().view::<u8>().unwrap();
//! drop(tensor);
//! view.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let shape = tensor.shape();
//! let part = tensor.slice(0, ..);
//! shape.len();
//! ```
//! ```compile_fail,E0505
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let slice = tensor.view_mut::<u8>().unwrap().into_mut_slice();
//! drop(tensor);
//! slice.unwrap();
//! ```
//! ```compile_fail,E0505
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let halves = tensor.view_mut::<u8>().unwrap().split_at(0, 0).unwrap();
//! drop(tensor);
//! halves.0.len();
//! ```
//! ```compile_fail,E0505
//! let values = vec![1_u8];
//! let tensor = dlbridge::TensorRef::from(&values);
//! drop(values);
//! tensor.len();
//! ```
//! ```compile_fail,E0505
//! let values = vec![1_u8];
//! let view = dlbridge::TensorRef::from(&values).view::<u8>().unwrap();
//! drop(values);
//! view.len();
//! ```
//! ```compile_fail,E0515
//! fn leak() -> dlbridge::TensorRef<'static> {
//!     let values = [1_u8];
//!     dlbridge::TensorRef::from(&values)
//! }
//! ```
//! ```compile_fail,E0515
//! fn shape() -> &'static [i64] {
//!     dlbridge::TensorRef::from(&[1_u8]).shape()
//! }
//! ```
//!
//! # Two writers, or a writer and a reader
//!
//! ```compile_fail,E0499
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let one = tensor.view_mut::<u8>().unwrap();
//! let two = tensor.view_mut::<u8>().unwrap();
//! one.len();
//! ```
//! ```compile_fail,E0502
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let shared = tensor.view::<u8>().unwrap();
//! let mutable = tensor.view_mut::<u8>().unwrap();
//! shared.len();
//! ```
//! ```compile_fail,E0502
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let mutable = dlbridge::TensorRefMut::try_from(&mut tensor).unwrap();
//! let shared = dlbridge::TensorRef::from(&tensor);
//! mutable.shape();
//! ```
//! ```compile_fail,E0502
//! let mut values = [1_u8];
//! let mut mutable = dlbridge::TensorRefMut::from(&mut values);
//! let shared = mutable.as_tensor_ref();
//! mutable.as_tensor_ref_mut();
//! shared.len();
//! ```
//! ```compile_fail,E0505
//! let mut values = [1_u8];
//! let mutable = dlbridge::TensorRefMut::from(&mut values);
//! let shared = mutable.as_tensor_ref().view::<u8>().unwrap();
//! mutable.swap_bytes();
//! shared.len();
//! ```
//! ```compile_fail,E0505
//! let mut values = [1_u8, 2];
//! let mutable = dlbridge::TensorRefMut::from(&mut values);
//! let shared = mutable.as_tensor_ref();
//! mutable.copy_from(&shared);
//! ```
//! ```compile_fail,E0506
//! let mut values = [1_u8];
//! let mutable = dlbridge::TensorRefMut::from(&mut values);
//! values[0] = 2;
//! mutable.shape();
//! ```
//! ```compile_fail,E0499
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let mut view = tensor.view_mut::<u8>().unwrap();
//! let one = view.as_view_mut();
//! let two = view.as_view_mut();
//! one.len();
//! ```
//! ```compile_fail,E0502
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let mut view = tensor.view_mut::<u8>().unwrap();
//! let shared = view.as_view();
//! view.as_mut_slice();
//! shared.len();
//! ```
//! ```compile_fail,E0499
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let mut view = tensor.view_mut::<u8>().unwrap();
//! let mut elements = view.iter_mut();
//! view.iter_mut();
//! elements.next();
//! ```
//! ```compile_fail,E0382
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let view = tensor.view_mut::<u8>().unwrap();
//! let part = view.slice(0, ..);
//! view.len();
//! ```
//! ```compile_fail,E0599
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let view = tensor.view_mut::<u8>().unwrap();
//! let _ = view.clone();
//! ```
//! ```compile_fail,E0599
//! let mut tensor = dlbridge::Tensor::from([1_u8]);
//! let _ = tensor.view_mut::<u8>().unwrap().broadcast_to([2, 1]);
//! ```
//! ```compile_fail,E0599
//! let _ = dlbridge::TensorRefMut::from(&mut [1_u8]).broadcast_to([2, 1]);
//! ```
//! A shared tensor gives no mutable view:
//! ```compile_fail,E0596
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let _ = tensor.view_mut::<u8>();
//! ```
//! ```compile_fail,E0596
//! let tensor = dlbridge::Tensor::from([1_u8]).into_shared();
//! let _ = tensor.view_mut::<u8>();
//! ```
//! ```compile_fail,E0277
//! let tensor = dlbridge::Tensor::from([1_u8]);
//! let _ = dlbridge::TensorRefMut::try_from(&tensor);
//! ```
//! ```compile_fail,E0277
//! let _ = dlbridge::TensorRefMut::from(&[1_u8]);
//! ```
//!
//! # Bits that are not a value of their type
//!
//! ```compile_fail,E0080
//! let _ = dlbridge::TensorRefMut::from(&mut [true]);
//! ```
//! ```compile_fail,E0080
//! let _ = dlbridge::TensorRefMut::from(&mut vec![[dlbridge::Unaligned::from(true)]]);
//! ```
//! ```compile_fail,E0080
//! let mut tensor = dlbridge::Tensor::from([true]);
//! let _ = dlbridge::TensorRefMut::from(tensor.view_mut::<bool>().unwrap());
//! ```
//! ```compile_fail,E0080
//! let _ = dlbridge::TensorSlice::<bool>::try_from(dlbridge::Tensor::from([true]));
//! ```
//! ```compile_fail,E0080
//! let _ = dlbridge::TensorSliceMut::<bool>::try_from(dlbridge::Tensor::from([true]));
//! ```
//! ```compile_fail,E0080
//! let _ = dlbridge::Unaligned::from(true).get_byte_swapped();
//! ```
//!
//! # Promises that safe code cannot make
//!
//! ```compile_fail,E0133
//! let _ = dlbridge::Tensor::from([1_u8]).assume_immutable();
//! ```
//! ```compile_fail,E0133
//! let _ = dlbridge::Tensor::from([1_u8]).assume_exclusive();
//! ```

/// The same for views of ndarray.
///
/// ```compile_fail,E0505
/// let tensor = dlbridge::Tensor::from([1_u8]);
/// let array = ndarray::ArrayView1::try_from(tensor.view::<u8>().unwrap()).unwrap();
/// drop(tensor);
/// array.len();
/// ```
/// ```compile_fail,E0499
/// let mut tensor = dlbridge::Tensor::from([1_u8]);
/// let one = ndarray::ArrayViewMut1::try_from(tensor.view_mut::<u8>().unwrap()).unwrap();
/// let two = ndarray::ArrayViewMut1::try_from(tensor.view_mut::<u8>().unwrap()).unwrap();
/// one.len();
/// ```
/// ```compile_fail,E0505
/// let array = ndarray::arr1(&[1_u8]);
/// let tensor = dlbridge::TensorRef::from(&array);
/// drop(array);
/// tensor.len();
/// ```
/// ```compile_fail,E0277
/// let _ = dlbridge::Tensor::from(ndarray::arr1(&[1_u8]).view());
/// ```
#[cfg(feature = "ndarray")]
struct Ndarray;
