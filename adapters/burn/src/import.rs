//! Tensors to tensors of burn, which then owns their memory.

use std::mem::MaybeUninit;
use std::slice;

use burn_flex::{Flex, FlexTensor, Layout};
use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes, Shape};
use dlbridge::{Access, Element, Tensor, TensorRef};

use crate::description::{Description, extents};
use crate::kind::{for_type, to_burn};
use crate::sealed::Sealed;
use crate::{Error, FlexKind, Result};

/// Tensors as tensors of burn, on the Flex backend.
pub trait TensorExt: Sealed {
    /// Turns the tensor into a tensor of the Flex backend, without a copy and with its strides.
    ///
    /// Burn writes an [exclusive](dlbridge::Access::Exclusive) tensor in place, and copies an
    /// [immutable](dlbridge::Access::Immutable) one before it writes. Burn takes over its own tensors, vectors and
    /// boxed slices; other owners live as long as the tensor of burn.
    ///
    /// # Errors
    /// [`Error::DataType`] for elements that burn lacks; [`Unstable`](dlbridge::Error::Unstable) for memory of
    /// another owner that other code may write; [`Error::Gaps`] for memory of another owner with gaps between the
    /// elements; [`Error::Tensor`] for a tensor that the CPU cannot read, that is misaligned, or that is `bool` with
    /// other bytes than 0 and 1. The tensor is dropped.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_burn::TensorExt;
    ///
    /// let tensor = Tensor::from(vec![1_i32, 2, 3, 4]).step_by(0, 2)?;
    /// let address = tensor.data().addr();
    /// let flex = tensor.into_flex()?;
    /// assert_eq!((flex.layout().strides(), flex.bytes().as_ptr().addr()), (&[2][..], address));
    /// # Ok::<(), dlbridge_burn::Error>(())
    /// ```
    fn into_flex(self) -> Result<FlexTensor>;

    /// Copies the elements in C order into a tensor of the Flex backend, from any strides and alignment.
    ///
    /// # Errors
    /// As [`into_flex`](Self::into_flex), except for gaps, alignment and memory that other code may write;
    /// [`dlbridge::Error::OutOfMemory`] if the allocation for the copy fails.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_burn::TensorExt;
    ///
    /// let columns = Tensor::from([[1_u8, 2], [3, 4]]).transpose().to_flex()?;
    /// assert_eq!(columns.bytes(), [1, 3, 2, 4]);
    /// # Ok::<(), dlbridge_burn::Error>(())
    /// ```
    fn to_flex(&self) -> Result<FlexTensor>;

    /// As [`into_flex`](Self::into_flex), as burn's own tensor on the device of the Flex backend.
    ///
    /// # Errors
    /// As [`into_flex`](Self::into_flex); [`dlbridge::Error::Ndim`] for another number of dimensions, and
    /// [`Error::Kind`] for elements of another kind.
    ///
    /// ```
    /// use burn_tensor::{Int, Tensor};
    /// use dlbridge_burn::TensorExt;
    ///
    /// let burn: Tensor<1, Int> = dlbridge::Tensor::from(vec![1_i64, 2]).into_burn()?;
    /// assert_eq!((burn * 2).into_data().try_to_vec::<i64>().unwrap(), [2, 4]);
    /// # Ok::<(), dlbridge_burn::Error>(())
    /// ```
    fn into_burn<const D: usize, K: FlexKind>(self) -> Result<burn_tensor::Tensor<D, K>>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_flex(self) -> Result<FlexTensor> {
        let dtype = self.dtype();
        let description = Description::of(&self, to_burn(dtype)?);
        // Checks device, alignment and the bytes of `bool`.
        for_type!(dtype, T => { self.view::<T>()?; Ok(()) })?;
        if self.is_empty() {
            return Ok(FlexTensor::empty(Shape::from(description.shape), description.dtype));
        }
        let tensor = match self.try_into_owner::<FlexTensor>() {
            Ok(whole) => match description.layout_of(&whole) {
                Some(layout) => return Ok(whole.with_layout(layout)),
                None => {
                    let within = description.is_within_tensor(&whole);
                    // SAFETY: the tensor of burn was the owner, which keeps the elements; burn copies shared bytes
                    // before it writes them.
                    unsafe { description.again(whole, within) }?
                }
            },
            Err(tensor) => tensor,
        };
        let tensor = match for_type!(dtype, T => Ok(vec(tensor).map(Bytes::from_elems::<T>)))? {
            Ok(bytes) => match description.layout_in(&bytes) {
                Some(layout) => return Ok(FlexTensor::new(bytes, layout, description.dtype)),
                None => {
                    let within = description.is_within(&bytes);
                    // SAFETY: the vector was the owner, is inside the new owner, and no other code has it.
                    unsafe { description.again(bytes, within) }?
                }
            },
            Err(tensor) => tensor,
        };
        // Burn may return the elements as slices at any time.
        tensor.check_stable()?;
        if !description.is_dense() {
            return Err(Error::Gaps);
        }
        // SAFETY: the CPU can read the tensor, it has elements without gaps, and it is stable.
        let bytes = unsafe { bytes(tensor) };
        let layout = description.layout_in(&bytes).ok_or(dlbridge::Error::TooLarge)?;
        Ok(FlexTensor::new(bytes, layout, description.dtype))
    }

    fn to_flex(&self) -> Result<FlexTensor> {
        let (tensor, dtype) = (TensorRef::from(self), to_burn(self.dtype())?);
        let bytes = for_type!(self.dtype(), T => Ok(Bytes::from_elems(tensor.to_vec::<T>()?)))?;
        let shape = Shape::from(extents(self.shape()));
        Ok(FlexTensor::new(bytes, Layout::contiguous(shape), dtype))
    }

    fn into_burn<const D: usize, K: FlexKind>(self) -> Result<burn_tensor::Tensor<D, K>> {
        let (found, dtype) = (self.ndim(), self.dtype());
        if found != D {
            return Err(dlbridge::Error::Ndim { expected: D, found }.into());
        }
        if !K::has(to_burn(dtype)?) {
            return Err(Error::Kind { kind: K::NAME, dtype });
        }
        Ok(burn_tensor::Tensor::from_primitive::<Flex>(self.into_flex()?))
    }
}

/// Returns the vector or the boxed slice that the tensor was made of.
fn vec<T: Element>(tensor: Tensor) -> std::result::Result<Vec<T>, Tensor> {
    match tensor.try_into_owner::<Vec<T>>() {
        Ok(vec) => Ok(vec),
        Err(tensor) => tensor.try_into_owner::<Box<[T]>>().map(<[T]>::into_vec),
    }
}

/// A tensor on the CPU whose elements cover all bytes from its lowest to its highest.
///
/// - **Held.** All these bytes belong to elements of the tensor, and no other code writes them: the tensor is
///   exclusive and this is its only holder, or it is immutable.
struct Held {
    tensor: Tensor,
    lowest: isize,
    len: usize,
    align: usize,
}

/// The bytes of a tensor for burn, from the lowest to the highest.
///
/// # Safety
/// The tensor is on the CPU and has elements without gaps, and [`Tensor::check_stable`] accepts it.
pub(crate) unsafe fn bytes(tensor: Tensor) -> Bytes {
    let bounds = TensorRef::from(&tensor).byte_bounds();
    let (lowest, len) = (bounds.start, bounds.len());
    let held = Held { lowest, len, align: tensor.dtype().itemsize(), tensor };
    const { assert_threads::<Held>() };
    // SAFETY: elements are initialised, and all bytes belong to elements (Held).
    unsafe { Bytes::from_controller(Box::new(held), len) }
}

/// The assumptions that burn makes about memory.
const fn assert_threads<T: Send + Sync + 'static>() {}

impl Held {
    fn first(&self) -> *mut MaybeUninit<u8> {
        self.tensor.data().wrapping_byte_offset(self.lowest).cast()
    }
}

impl AllocationController for Held {
    fn alloc_align(&self) -> usize {
        self.align
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    fn capacity(&self) -> usize {
        self.len
    }

    fn memory(&self, _: AccessPolicy) -> std::result::Result<&[MaybeUninit<u8>], AccessError> {
        // SAFETY: Held; this holder writes the bytes only while the tensor is borrowed mutably.
        Ok(unsafe { slice::from_raw_parts(self.first(), self.len) })
    }

    unsafe fn memory_mut(
        &mut self,
        policy: AccessPolicy,
    ) -> std::result::Result<&mut [MaybeUninit<u8>], AccessError> {
        if self.tensor.access() != Access::Exclusive {
            if !policy.copy_allowed() {
                return Err(AccessError::WouldCopy);
            }
            // SAFETY: Held; this holder writes the bytes only while the tensor is borrowed mutably.
            let bytes = unsafe { slice::from_raw_parts(self.first().cast::<u8>(), self.len) };
            let tensor = TensorRef::from(bytes).to_copy();
            let tensor = tensor.map_err(|error| AccessError::Read(error.to_string()))?;
            *self = Self { tensor, lowest: 0, ..*self };
        }
        // SAFETY: Held; the tensor is exclusive and borrowed mutably.
        Ok(unsafe { slice::from_raw_parts_mut(self.first(), self.len) })
    }
}
