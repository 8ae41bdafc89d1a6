//! Tensors to values: ONNX Runtime keeps the tensor, and drops it with the last value on its memory.

use std::fmt::Debug;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dlbridge::{Access, DataType, Tensor, TensorRef};
use ort::memory::Allocator;
use ort::sys::{OrtAllocator, OrtMemoryInfo};
use ort::value::{DynTensor, PrimitiveTensorElementType, TensorElementType, TensorValueType};
use ort::{AsPointer, ortsys};

use crate::input::{self, Protection};
use crate::sealed::Sealed;
use crate::value::take_back;
use crate::{Error, Input, Result, element, library};

/// Tensors as values of [ort](ort::value::Value).
pub trait TensorExt: Sealed {
    /// Turns the tensor into a value, without a copy. The last value on its memory drops the tensor.
    ///
    /// # Errors
    /// Of the tensor: [`NotContiguous`](dlbridge::Error::NotContiguous), [`Misaligned`](dlbridge::Error::Misaligned),
    /// [`NotHostAccessible`](dlbridge::Error::NotHostAccessible), [`InvalidElement`](dlbridge::Error::InvalidElement)
    /// for invalid `bool` bytes, and [`ReadOnly`](dlbridge::Error::ReadOnly) or [`Shared`](dlbridge::Error::Shared)
    /// unless it is exclusive. [`Error::DataType`], [`Error::SubbytePadded`], [`Error::Library`], and the errors of
    /// ONNX Runtime. The tensor is dropped then; [`to_value`](Self::to_value) copies it.
    ///
    /// A shared tensor that is all of a value becomes that value again, unless its memory is that of an [`Input`]
    /// which a model returned as its output.
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

    /// As [`into_value`](Self::into_value), with the element type in the type of the value.
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

    /// Turns the tensor into an input for sessions to read, without a copy, whatever its access.
    ///
    /// An [exclusive](Access::Exclusive) tensor does not need this unsafe method: [`into_value`](Self::into_value).
    /// Any other can be copied: [`to_value`](Self::to_value).
    ///
    /// # Safety
    /// If an output of a model *is* its input, a run returns a second value on the memory of the input, and ort lets
    /// safe code write it. As long as the input lives, or anything else that reads the memory, the caller must not
    /// write such an output.
    ///
    /// # Errors
    /// As [`into_value`](Self::into_value), except for the access: only `bool` elements that other code may write are
    /// refused, as [`Error::UnstableBool`]. Other code may write other elements between the runs: a slice that safe
    /// code extracts from the input borrows it, and is a view of the tensor.
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

    /// Copies the tensor into a value, from any strides, alignment and access, packed or padded.
    ///
    /// # Errors
    /// Those of [`Tensor::to_copy`]; an error for a dtype that ONNX Runtime lacks.
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
            Access::Exclusive => export(tensor, element, None),
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
        // A model returned memory of an input as its output. The same value becomes an input again, so that a loop
        // does not build a chain of owners.
        let tensor = match input::covers(&bytes, read_only) {
            true => match take_back(self) {
                Ok(held) => {
                    return Ok(Input::new(held.value, Some(Protection::new(bytes, read_only))));
                }
                Err(tensor) => tensor,
            },
            // This makes a new value even if the tensor is all of a value: the protection must last as long as any
            // holder of the input, such as a binding.
            false => self,
        };
        let protection = Protection::new(bytes, read_only);
        export(tensor, element, Some(protection)).map(|value| Input::new(value, None))
    }

    fn to_value(&self) -> Result<DynTensor> {
        let copy = match self.dtype().is_subbyte() && self.is_subbyte_padded() {
            true => self.to_packed(),
            false => self.to_copy(),
        }?;
        copy.into_value()
    }
}

/// Checks that ort can use the elements, and returns ort's type for them.
fn check(tensor: &Tensor) -> Result<TensorElementType> {
    let dtype = tensor.dtype();
    let element = element::element_type(dtype).ok_or(Error::DataType { dtype })?;
    if dtype.is_subbyte() && tensor.is_subbyte_padded() {
        return Err(Error::SubbytePadded { dtype });
    }
    // Checks that the elements are on the host and contiguous.
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

/// The deleter of a value's memory in the form that ONNX Runtime needs: a struct that begins with an allocator.
#[repr(C)]
struct Exported {
    allocator: OrtAllocator,
    memory: *const OrtMemoryInfo,
    _protection: Option<Protection>,
    tensor: Tensor,
}

// SAFETY: the tensor and the protection may be dropped on any thread, and the rest is only read.
unsafe impl Send for Exported {}
// SAFETY: shared access reads the allocator's pointers and the tensor, which is `Sync`; nothing changes them before the
// last handle is dropped.
unsafe impl Sync for Exported {}

/// Makes a value over the memory of a tensor that `check` accepted.
fn export(
    tensor: Tensor,
    element: TensorElementType,
    protection: Option<Protection>,
) -> Result<DynTensor> {
    library::open()?;
    let host = Allocator::default();
    let bytes = TensorRef::from(&tensor).as_bytes()?.len();
    let data = tensor.data();
    let exported = Arc::new(Exported {
        allocator: OrtAllocator {
            Free: Some(free),
            Info: Some(memory_of),
            // SAFETY: numbers and null pointers; ONNX Runtime calls only the two members above.
            ..unsafe { OrtAllocator::default() }
        },
        // The memory info of the default allocator lives as long as the library.
        memory: host.memory_info().ptr(),
        _protection: protection,
        tensor,
    });
    let deleter = Arc::into_raw(Arc::clone(&exported));
    let shape = exported.tensor.shape();
    let mut value = ptr::null_mut();
    // SAFETY: the memory is the tensor's, which `deleter` keeps: `bytes` bytes, as many as elements of that shape and
    // type need. `deleter` begins with the allocator, and lives until the allocator's `Free` was called.
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
    // SAFETY: the status of the call above, which no other code has.
    let made = unsafe { ort::Error::result_from_status(status) };
    let made = made.and_then(|()| {
        NonNull::new(value).ok_or_else(|| ort::Error::new("ONNX Runtime made no value"))
    });
    match made {
        // SAFETY: the call just made the value, and no other code has it.
        Ok(value) => Ok(unsafe { DynTensor::from_ptr(value, Some(&host)) }),
        Err(error) => {
            // ONNX Runtime either refused before it took the deleter, or has called it.
            if Arc::strong_count(&exported) > 1 {
                // SAFETY: the reference was meant for ONNX Runtime, which did not take it.
                unsafe { Arc::decrement_strong_count(deleter) };
            }
            Err(error.into())
        }
    }
}

/// Drops the tensor. Its deleter does not unwind.
///
/// # Safety
/// ONNX Runtime calls this once, with the pointer that it got from [`export`].
unsafe extern "system" fn free(this: *mut OrtAllocator, _: *mut std::ffi::c_void) {
    // SAFETY: ONNX Runtime passes the pointer that `Arc::into_raw` made for it, with a reference of its own, and
    // calls this once.
    drop(unsafe { Arc::from_raw(this.cast::<Exported>()) });
}

/// Returns the memory info for ONNX Runtime.
///
/// # Safety
/// ONNX Runtime calls this with the pointer that it got from [`export`], before [`free`].
unsafe extern "system" fn memory_of(this: *const OrtAllocator) -> *const OrtMemoryInfo {
    // SAFETY: ONNX Runtime passes the pointer that `Arc::into_raw` made for it, which is valid until `free` is
    // called.
    unsafe { (*this.cast::<Exported>()).memory }
}
