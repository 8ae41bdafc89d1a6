//! Tensors as values: ONNX Runtime keeps the tensor, and drops it with the last value on its memory.

use std::fmt::Debug;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dlbridge::{Access, DataType, Tensor, TensorRef};
use ort::memory::Allocator;
use ort::sys::{OrtAllocator, OrtMemoryInfo};
use ort::value::{DynTensor, PrimitiveTensorElementType, TensorElementType, TensorValueType};
use ort::{AsPointer, ortsys};

use crate::protect::{self, Protection};
use crate::sealed::Sealed;
use crate::value::take_back;
use crate::{Error, Input, Result, element, library};

/// Tensors as values of [ort](ort::value::Value).
pub trait TensorExt: Sealed {
    /// The tensor as a value, without a copy. The tensor is dropped with the last value on its memory.
    ///
    /// # Errors
    /// Of the tensor: [`NotContiguous`](dlbridge::Error::NotContiguous), [`Misaligned`](dlbridge::Error::Misaligned),
    /// [`NotHostAccessible`](dlbridge::Error::NotHostAccessible), [`InvalidElement`](dlbridge::Error::InvalidElement) for a
    /// `bool` that is none, and unless it is exclusive [`ReadOnly`](dlbridge::Error::ReadOnly) or
    /// [`Shared`](dlbridge::Error::Shared). [`Error::DataType`], [`Error::SubbytePadded`] and [`Error::Library`], and what ONNX
    /// Runtime says. The tensor is dropped then; [`to_value`](Self::to_value) copies it.
    ///
    /// A shared tensor that is all of a value becomes that value again, unless its memory is that of an [`Input`], which a
    /// model has handed on.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_ort::{Result, TensorExt};
    ///
    /// fn ramp() -> Result<ort::value::DynTensor> {
    ///     Tensor::from([[0.0_f32, 1.0], [2.0, 3.0]]).into_value()
    /// }
    /// ```
    fn into_value(self) -> Result<DynTensor>;

    /// As [`into_value`](Self::into_value), with the type of the elements in that of the value.
    ///
    /// # Errors
    /// As [`into_value`](Self::into_value), and for a tensor of another dtype.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_ort::{Result, TensorExt};
    ///
    /// fn ramp() -> Result<ort::value::Tensor<f32>> {
    ///     Tensor::from([[0.0_f32, 1.0], [2.0, 3.0]]).into_value_of()
    /// }
    /// ```
    fn into_value_of<T: PrimitiveTensorElementType + Debug>(self) -> Result<ort::value::Tensor<T>>;

    /// The tensor as what sessions read, without a copy, also where it must not be written.
    ///
    /// An [exclusive](Access::Exclusive) tensor needs no promise: [`into_value`](Self::into_value). Any other can be copied:
    /// [`to_value`](Self::to_value).
    ///
    /// # Safety
    /// If an output of a model *is* its input, a run returns a second value on the memory of the input, and ort lets safe code
    /// write it. As long as the input lives, or anything else that reads the memory, the caller must not write such an output.
    ///
    /// # Errors
    /// As [`into_value`](Self::into_value); of the accesses only `bool` elements that others may write are refused, as
    /// [`Error::UnstableBool`]. Other elements may be memory that others write between the runs: a slice that safe code
    /// extracts of the input borrows it, and is a view of the tensor.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_ort::{Input, Result, TensorExt};
    ///
    /// static WEIGHTS: [f32; 3] = [0.5, 0.25, 0.125];
    ///
    /// fn weights() -> Result<Input> {
    ///     // SAFETY: no output of the models that this program runs is their input.
    ///     unsafe { Tensor::from(&WEIGHTS[..]).into_input() }
    /// }
    /// ```
    unsafe fn into_input(self) -> Result<Input>;

    /// A copy of the tensor as a value: of any strides, alignment and access, packed or padded.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`]; an error for a dtype that ONNX Runtime does not have.
    ///
    /// ```no_run
    /// use dlbridge::Tensor;
    /// use dlbridge_ort::{Result, TensorExt};
    ///
    /// fn columns() -> Result<ort::value::DynTensor> {
    ///     Tensor::from([[0.0_f32, 1.0], [2.0, 3.0]]).transpose().to_value()
    /// }
    /// ```
    fn to_value(&self) -> Result<DynTensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_value(self) -> Result<DynTensor> {
        let access = self.access();
        let tensor = match take_back(self) {
            Ok(held) => return held.writable(access),
            Err(tensor) => tensor,
        };
        let element = check(&tensor)?;
        match tensor.access() {
            Access::Exclusive => lend(tensor, element, None),
            Access::Shared => Err(dlbridge::Error::Shared.into()),
            Access::ReadOnly | Access::Immutable => Err(dlbridge::Error::ReadOnly.into()),
        }
    }

    fn into_value_of<T: PrimitiveTensorElementType + Debug>(self) -> Result<ort::value::Tensor<T>> {
        let element = T::into_tensor_element_type();
        let (found, expected) = (self.dtype(), element::dtype(element));
        let expected = expected.ok_or(Error::ElementType { element })?;
        if found != expected {
            return Err(dlbridge::Error::DataType { found, expected }.into());
        }
        Ok(self.into_value()?.into_dyn().downcast::<TensorValueType<T>>()?)
    }

    unsafe fn into_input(self) -> Result<Input> {
        let element = check(&self)?;
        if self.dtype() == DataType::BOOL && self.check_stable().is_err() {
            return Err(Error::UnstableBool { access: self.access() });
        }
        let (start, read_only) = (self.data().addr(), self.is_read_only());
        let bytes = start..start + TensorRef::from(&self).as_bytes()?.len();
        // A model has handed on what was lent to it: it goes in again as it is, so that a loop makes no chain.
        let tensor = match protect::covers(&bytes, read_only) {
            true => match take_back(self) {
                Ok(held) => {
                    return Ok(Input::new(held.value, Some(Protection::new(bytes, read_only))));
                }
                Err(tensor) => tensor,
            },
            // Lent also where the tensor is all of a value: the protection must last as long as whatever has hold of
            // the input, such as a binding.
            false => self,
        };
        let protection = Protection::new(bytes, read_only);
        lend(tensor, element, Some(protection)).map(|value| Input::new(value, None))
    }

    fn to_value(&self) -> Result<DynTensor> {
        let copy = match self.dtype().is_subbyte() && self.is_subbyte_padded() {
            true => self.to_packed(),
            false => self.to_copy(),
        }?;
        copy.into_value()
    }
}

/// The type that ort has for the elements, which are as ort needs them.
fn check(tensor: &Tensor) -> Result<TensorElementType> {
    let dtype = tensor.dtype();
    let element = element::element_type(dtype).ok_or(Error::DataType { dtype })?;
    if dtype.is_subbyte() && tensor.is_subbyte_padded() {
        return Err(Error::SubbytePadded { dtype });
    }
    // On the host, and adjacent.
    TensorRef::from(tensor).as_bytes()?;
    let (address, required) = (tensor.data().addr(), element::alignment(dtype));
    if !address.is_multiple_of(required) {
        return Err(dlbridge::Error::Misaligned { address, required }.into());
    }
    if dtype == DataType::BOOL {
        tensor.view::<bool>()?;
    }
    Ok(element)
}

/// What frees the memory of a value, as ONNX Runtime wants it: an allocator, at the beginning of what it belongs to.
#[repr(C)]
struct Lent {
    allocator: OrtAllocator,
    memory: *const OrtMemoryInfo,
    _protection: Option<Protection>,
    tensor: Tensor,
}

// SAFETY: the tensor and the protection may be dropped on any thread, and the rest is only read.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// A value over the memory of a tensor that was checked.
fn lend(
    tensor: Tensor,
    element: TensorElementType,
    protection: Option<Protection>,
) -> Result<DynTensor> {
    library::open()?;
    let host = Allocator::default();
    let bytes = TensorRef::from(&tensor).as_bytes()?.len();
    let data = tensor.data();
    let lent = Arc::new(Lent {
        allocator: OrtAllocator {
            Free: Some(free),
            Info: Some(memory_of),
            // SAFETY: numbers and nothing; the members that ONNX Runtime calls are the two above.
            ..unsafe { OrtAllocator::default() }
        },
        // The default allocator's, which lives as long as the library.
        memory: host.memory_info().ptr(),
        _protection: protection,
        tensor,
    });
    let deleter = Arc::into_raw(Arc::clone(&lent));
    let shape = lent.tensor.shape();
    let mut value = ptr::null_mut();
    // SAFETY: the memory is the tensor's, which `deleter` keeps: so many bytes, which the shape takes of such
    // elements. `deleter` begins with the allocator, and lives until that has freed.
    let status = unsafe {
        ortsys![CreateTensorWithDataAndDeleterAsOrtValue](
            deleter.cast_mut().cast(),
            data,
            bytes,
            shape.as_ptr(),
            shape.len(),
            element.into(),
            &mut value,
        )
    };
    // SAFETY: the status of the call, which nobody else has.
    let made = unsafe { ort::Error::result_from_status(status) };
    let made = made.and_then(|()| {
        NonNull::new(value).ok_or_else(|| ort::Error::new("ONNX Runtime made no value"))
    });
    match made {
        // SAFETY: just made, and given to nobody else.
        Ok(value) => Ok(unsafe { DynTensor::from_ptr(value, Some(&host)) }),
        Err(error) => {
            // Refused before it took the deleter, or called it.
            if Arc::strong_count(&lent) > 1 {
                // SAFETY: the reference that was to be ONNX Runtime's, which did not take it.
                unsafe { Arc::decrement_strong_count(deleter) };
            }
            Err(error.into())
        }
    }
}

/// Drops the tensor. Its deleter does not unwind.
///
/// # Safety
/// Called once, by ONNX Runtime, with what [`lend`] gave it.
unsafe extern "system" fn free(this: *mut OrtAllocator, _: *mut std::ffi::c_void) {
    // SAFETY: ONNX Runtime passes the pointer that `Arc::into_raw` made for it, with a reference of its own, and calls this once.
    drop(unsafe { Arc::from_raw(this.cast::<Lent>()) });
}

/// Where the memory is, for ONNX Runtime.
///
/// # Safety
/// Called by ONNX Runtime with what [`lend`] gave it, before [`free`].
unsafe extern "system" fn memory_of(this: *const OrtAllocator) -> *const OrtMemoryInfo {
    // SAFETY: ONNX Runtime passes the pointer that `Arc::into_raw` made for it; the value is there until `free` is called.
    unsafe { (*this.cast::<Lent>()).memory }
}
