//! Tensors on a CUDA device.

use std::marker::PhantomData;

use dlbridge::{Element, TensorRef, TensorRefMut};

use super::array::{DYNAMIC, dims, form};
use super::{Argument, unexpected};
use crate::error::Result;
use crate::on_cuda::OnCuda;
use crate::parameter::{Form, Kind};
use crate::value::Value;

impl<'a> Argument<'a> for OnCuda<'a> {
    const KIND: Kind = Kind::Cuda;

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        match value {
            Value::Cuda(cuda) => Ok(*cuda),
            _ => unexpected(Self::KIND),
        }
    }
}

/// What a kernel demands of tensors of a Rust type on a CUDA device.
const fn on_cuda<T: Element, const N: usize>(contiguous: bool) -> Form {
    Form { on_cuda: true, ..form::<T, N>(contiguous) }
}

/// The address of the element at index zero.
fn address<T>(tensor: &TensorRef<'_>) -> *mut T {
    tensor.data().wrapping_byte_add(tensor.byte_offset() as usize).cast()
}

macro_rules! tensor {
    ($(#[$doc:meta])* $name:ident, $tensor:ident, $value:ident, $kind:ident, $contiguous:literal) => {
        $(#[$doc])*
        pub struct $name<'a, T, const N: usize = DYNAMIC> {
            tensor: $tensor<'a>,
            element: PhantomData<T>,
        }

        impl<T, const N: usize> $name<'_, T, N> {
            /// The address of the element at index zero, on the device.
            ///
            /// ```no_run
            #[doc = concat!("fn is_null(x: dlbridge_ops::", stringify!($name), "<'_, f32>) -> bool {")]
            ///     x.as_ptr().is_null()
            /// }
            /// ```
            pub fn as_ptr(&self) -> *const T {
                address::<T>(&self.as_tensor_ref())
            }

            /// The number of elements.
            ///
            /// ```no_run
            #[doc = concat!("fn blocks(x: dlbridge_ops::", stringify!($name), "<'_, f32>) -> usize {")]
            ///     x.len().div_ceil(256)
            /// }
            /// ```
            pub fn len(&self) -> usize {
                self.tensor.len()
            }

            /// Returns true if there are no elements: then launch no kernel.
            ///
            /// ```no_run
            #[doc = concat!("fn blocks(x: dlbridge_ops::", stringify!($name), "<'_, f32>) -> usize {")]
            ///     if x.is_empty() { 0 } else { x.len().div_ceil(256) }
            /// }
            /// ```
            pub fn is_empty(&self) -> bool {
                self.tensor.is_empty()
            }

            /// The extents, in elements.
            ///
            /// ```no_run
            #[doc = concat!("fn rank(x: dlbridge_ops::", stringify!($name), "<'_, f32>) -> usize {")]
            ///     x.shape().len()
            /// }
            /// ```
            pub fn shape(&self) -> &[i64] {
                self.tensor.shape()
            }

            /// The strides, in elements.
            ///
            /// ```no_run
            #[doc = concat!("fn pitch(x: dlbridge_ops::", stringify!($name), "<'_, f32, 2>) -> i64 {")]
            ///     x.strides()[0]
            /// }
            /// ```
            pub fn strides(&self) -> &[i64] {
                self.tensor.strides()
            }

            /// The extents, in elements.
            ///
            /// # Panics
            /// If the type has no number of dimensions, because `N` is [`DYNAMIC`]; use `shape()` then.
            ///
            /// ```no_run
            #[doc = concat!("fn columns(x: dlbridge_ops::", stringify!($name), "<'_, f32, 2>) -> usize {")]
            ///     let [_, columns] = x.dims();
            ///     columns
            /// }
            /// ```
            pub fn dims(&self) -> [usize; N] {
                dims(self.tensor.shape())
            }
        }

        impl<'a, T: Element, const N: usize> Argument<'a> for $name<'a, T, N> {
            const KIND: Kind = Kind::$kind(on_cuda::<T, N>($contiguous));

            fn from_value(value: &mut Value<'a>) -> Result<Self> {
                match std::mem::take(value) {
                    Value::$value(tensor) => Ok(Self { tensor: *tensor, element: PhantomData }),
                    _ => unexpected(Self::KIND),
                }
            }
        }
    };
}

macro_rules! read {
    ($name:ident) => {
        impl<'a, T, const N: usize> $name<'a, T, N> {
            fn as_tensor_ref(&self) -> &TensorRef<'a> {
                &self.tensor
            }
        }
    };
}

macro_rules! written {
    ($name:ident) => {
        impl<T, const N: usize> $name<'_, T, N> {
            fn as_tensor_ref(&self) -> TensorRef<'_> {
                self.tensor.as_tensor_ref()
            }

            /// The address of the element at index zero, on the device, for writing.
            ///
            /// ```no_run
            #[doc = concat!("fn is_null(mut x: dlbridge_ops::", stringify!($name), "<'_, f32>) -> bool {")]
            ///     x.as_mut_ptr().is_null()
            /// }
            /// ```
            pub fn as_mut_ptr(&mut self) -> *mut T {
                address::<T>(&self.as_tensor_ref())
            }
        }
    };
}

tensor! {
    /// An input on a CUDA device, in C order without gaps. The call refuses other tensors and copies nothing.
    ///
    /// [`OnCuda`] has an example.
    CudaArray, TensorRef, Tensor, Input, true
}
read!(CudaArray);

tensor! {
    /// An input on a CUDA device with any strides, which the kernel must respect. [`CudaArray`] refuses gaps instead.
    ///
    /// ```no_run
    /// use dlbridge_ops::{CudaOut, CudaView, OnCuda, op};
    ///
    /// #[op]
    /// fn copy(cuda: OnCuda<'_>, x: CudaView<'_, f32, 1>, out: CudaOut<'_, f32, 1>) {
    ///     let (first, step) = (x.as_ptr(), x.strides()[0]);
    ///     // Launch a kernel that reads `first.offset(i * step)`.
    /// }
    /// ```
    CudaView, TensorRef, Tensor, Input, false
}
read!(CudaView);

tensor! {
    /// A tensor on a CUDA device that the function changes, with any strides.
    ///
    /// ```no_run
    /// use dlbridge_ops::{CudaInPlace, OnCuda, op};
    ///
    /// #[op]
    /// fn relu_(cuda: OnCuda<'_>, mut x: CudaInPlace<'_, f32>) {
    ///     let (first, strides) = (x.as_mut_ptr(), x.strides());
    ///     // Launch a kernel.
    /// }
    /// ```
    CudaInPlace, TensorRefMut, TensorMut, InPlace, false
}
written!(CudaInPlace);

tensor! {
    /// An output on a CUDA device, in C order without gaps. Unlike [`Out`](crate::Out), it does not begin as zeros: its elements
    /// are arbitrary until a kernel writes them. If the dtype is boolean, the kernel must write all of them.
    ///
    /// [`OnCuda`] has an example.
    CudaOut, TensorRefMut, TensorMut, Output, true
}
written!(CudaOut);
