//! What must not compile. The error codes are compared where the compiler can (nightly).
//!
//! An owner of one thread:
//! ```compile_fail,E0277
//! let shared: std::rc::Rc<[f32]> = [1.0].into();
//! let tensor = dlbridge::Tensor::from_parts(shared, [1]);
//! ```
//! Elements of one thread:
//! ```compile_fail,E0277
//! let tensor = dlbridge::Tensor::from(vec![std::rc::Rc::new(1.0)]);
//! ```
//! A borrowed owner:
//! ```compile_fail,E0597
//! let values = vec![1.0_f32];
//! let tensor = dlbridge::Tensor::from(values.as_slice());
//! ```
//! An owner that somebody else may write:
//! ```compile_fail,E0277
//! let values: &'static mut [f32] = vec![1.0].leak();
//! let tensor = dlbridge::Tensor::from_parts(values, [1]);
//! ```
//! Elements with no dtype:
//! ```compile_fail,E0277
//! let tensor = dlbridge::Tensor::from(vec!['a']);
//! ```
//! A view, a slice, an element, a part, an iterator or a borrowed tensor that outlives the tensor:
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let view = tensor.view::<i32>().unwrap();
//! drop(tensor);
//! view.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let slice = tensor.view::<i32>().unwrap().as_slice();
//! drop(tensor);
//! slice.unwrap();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let element = tensor.view::<i32>().unwrap().get(&[0]);
//! drop(tensor);
//! element.unwrap();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let part = tensor.view::<i32>().unwrap().slice(0, ..).unwrap();
//! drop(tensor);
//! part.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let iter = tensor.view::<i32>().unwrap().into_iter();
//! drop(tensor);
//! iter.count();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let borrowed = dlbridge::TensorRef::from(&tensor).transpose();
//! drop(tensor);
//! borrowed.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let elements = tensor.view::<i32>().unwrap().to_contiguous();
//! drop(tensor);
//! elements.len();
//! ```
//! ```compile_fail,E0505
//! let tensor = dlbridge::Tensor::from_bytes(vec![1], "uint4".parse().unwrap(), [2], 0).unwrap();
//! let view = tensor.view_subbyte().unwrap();
//! drop(tensor);
//! view.len();
//! ```
//! A borrowed tensor that outlives the slice it is made of:
//! ```compile_fail,E0505
//! let values = vec![1];
//! let borrowed = dlbridge::TensorRef::from(&values);
//! drop(values);
//! borrowed.len();
//! ```
//! Two mutable views; a mutable one beside a shared one; one of a tensor that is not mutable:
//! ```compile_fail,E0499
//! let mut tensor = dlbridge::Tensor::from(vec![1]);
//! let one = tensor.view_mut::<i32>().unwrap();
//! let two = tensor.view_mut::<i32>().unwrap();
//! one.len();
//! ```
//! ```compile_fail,E0502
//! let mut tensor = dlbridge::Tensor::from(vec![1]);
//! let shared = tensor.view::<i32>().unwrap();
//! let exclusive = tensor.view_mut::<i32>().unwrap();
//! shared.len();
//! ```
//! ```compile_fail,E0596
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let view = tensor.view_mut::<i32>().unwrap();
//! ```
//! ```compile_fail,E0596
//! let tensor = std::sync::Arc::new(dlbridge::Tensor::from(vec![1]));
//! let view = tensor.view_mut::<i32>().unwrap();
//! ```
//! A mutable view that was consumed, by a part or by a borrowed tensor:
//! ```compile_fail,E0382
//! let mut tensor = dlbridge::Tensor::from(vec![1]);
//! let view = tensor.view_mut::<i32>().unwrap();
//! let part = view.transpose();
//! view.len();
//! ```
//! ```compile_fail,E0382
//! let mut tensor = dlbridge::Tensor::from(vec![1]);
//! let view = tensor.view_mut::<i32>().unwrap();
//! let borrowed = dlbridge::TensorRefMut::from(view);
//! view.len();
//! ```
//! An element that is read while it can be written:
//! ```compile_fail,E0502
//! let mut tensor = dlbridge::Tensor::from(vec![1]);
//! let mut view = tensor.view_mut::<i32>().unwrap();
//! let element = view.get(&[0]);
//! view.as_mut_slice();
//! element.unwrap();
//! ```
//! ```compile_fail,E0502
//! let mut values = [1];
//! let mut tensor = dlbridge::TensorRefMut::from(&mut values);
//! let shared = tensor.as_tensor_ref();
//! tensor.dl_tensor();
//! shared.len();
//! ```
//! Two mutable elements at a time, or an element that outlives its view:
//! ```compile_fail,E0499
//! let mut tensor = dlbridge::Tensor::from(vec![1, 2]);
//! let mut view = tensor.view_mut::<i32>().unwrap();
//! let (one, two) = (view.get_mut(&[0]), view.get_mut(&[0]));
//! one.unwrap();
//! ```
//! A mutable element out of a shared view:
//! ```compile_fail,E0594
//! let tensor = dlbridge::Tensor::from(vec![1]);
//! let view = tensor.view::<i32>().unwrap();
//! view[[0]] = 2;
//! ```
//! Elements with invalid bit patterns where anything may be written to them, or between two looks:
//! ```compile_fail,E0080
//! let mut flags = [true];
//! let tensor = dlbridge::TensorRefMut::from(&mut flags);
//! ```
//! ```compile_fail,E0080
//! let mut tensor = dlbridge::Tensor::from(vec![true]);
//! let tensor = dlbridge::TensorRefMut::from(tensor.view_mut::<bool>().unwrap());
//! ```
//! ```compile_fail,E0080
//! let slice = dlbridge::TensorSlice::<bool>::try_from(dlbridge::Tensor::from(vec![true]));
//! ```
//! ```compile_fail,E0080
//! let swapped = dlbridge::Unaligned::from(true).get_byte_swapped();
//! ```
//! A tensor from C without `unsafe`:
//! ```compile_fail,E0133
//! let tensor = dlbridge::Tensor::from_raw(std::ptr::null_mut());
//! ```
