//! Values to tensors.

use dlbridge::{Access, DataType, RawParts, Tensor, TensorRef};
use ort::value::{DynTensor, DynTensorValueType, Value, ValueType, ValueTypeMarker};

use crate::sealed::Sealed;
use crate::{Error, Result, element, input};

/// Values of [ort](ort::value::Value) as tensors.
pub trait ValueExt: Sealed {
    /// Copies the value into an exclusive tensor in C order.
    ///
    /// The copy reads the value as ort's own [`try_extract_tensor`](ort::value::Value::try_extract_tensor) does,
    /// which returns a slice for the same borrow.
    ///
    /// # Errors
    /// [`Error::NotATensor`], [`Error::ElementType`] and [`Error::Device`], by name; the error of a failed
    /// allocation.
    ///
    /// ```no_run
    /// use dlbridge_ort::{Result, ValueExt};
    /// use ort::session::SessionOutputs;
    ///
    /// fn scores(outputs: &SessionOutputs<'_>) -> Result<dlbridge::Tensor> {
    ///     outputs["scores"].to_tensor()
    /// }
    /// ```
    fn to_tensor(&self) -> Result<Tensor>;

    /// Wraps the value in a tensor in C order, without a copy.
    ///
    /// The tensor is [`Access::Shared`]; [`Access::ReadOnly`] if a model returned the memory of a read-only input; otherwise
    /// [`Access::Immutable`] for `bool`.
    ///
    /// # Safety
    /// ort does not show what else holds a value's memory, and lets safe code write the memory through each holder.
    /// As long as the tensor lives, or anything that keeps its memory, the caller must not
    /// - run a session with an [`IoBinding`](ort::session::IoBinding) that has the value as its output, set by
    ///   [`bind_output`](ort::session::IoBinding::bind_output) or left from an earlier run, even if only a device
    ///   was bound: drop the binding first, or clear its outputs;
    /// - run a session with [options](ort::session::OutputSelector::preallocate) that preallocate the value as an
    ///   output: each run writes it again;
    /// - write an output by its number after it was [removed](ort::session::SessionOutputs::remove): drop the outputs;
    /// - write another value on the same memory, if a model's output *is* its input. If the elements are `bool`, the
    ///   caller also makes sure that no owner of such an input writes them.
    ///
    /// # Errors
    /// Those of [`to_tensor`](Self::to_tensor). The value is then dropped.
    ///
    /// ```no_run
    /// use dlbridge_ort::{Result, ValueExt};
    /// use ort::session::Session;
    ///
    /// fn scores(session: &mut Session) -> Option<Result<dlbridge::Tensor>> {
    ///     let inputs: [ort::session::SessionInputValue<'_>; 0] = [];
    ///     let scores = session.run(inputs).ok()?.remove("scores")?;
    ///     // SAFETY: the run used no binding and preallocated nothing, and its outputs are dropped. The model has no
    ///     // input, so no other value has the memory.
    ///     Some(unsafe { scores.into_tensor() })
    /// }
    /// ```
    unsafe fn into_tensor(self) -> Result<Tensor>;
}

impl<Type: ValueTypeMarker + ?Sized> Sealed for Value<Type> {}

impl<Type: ValueTypeMarker + ?Sized> ValueExt for Value<Type> {
    fn to_tensor(&self) -> Result<Tensor> {
        let dtype = host_dtype(self)?;
        let value = self.view().into_dyn().downcast::<DynTensorValueType>()?;
        // `RawParts` has one type of pointer; read-only parts are not written.
        let data = value.data_ptr().cast_mut();
        let parts = RawParts { access: Access::ReadOnly, ..RawParts::new(data, dtype) };
        // SAFETY: the elements of the value's shape, in C order, on the host; `value` borrows them until the copy is made.
        // Meanwhile another holder writes them only where it could write under the slice that ort's safe
        // `try_extract_tensor` returns for the same borrow, so the copy relies on nothing that ort does not rely on.
        let elements = unsafe { TensorRef::from_raw_parts(&parts, value.shape(), None::<&[i64]>) }?;
        Ok(elements.to_copy()?)
    }

    unsafe fn into_tensor(self) -> Result<Tensor> {
        let dtype = host_dtype(&self)?;
        let mut value = self.into_dyn().downcast::<DynTensorValueType>()?;
        let data = value.data_ptr_mut();
        let read_only = input::is_read_only(&input::bytes_of(&value));
        let access = match dtype == DataType::BOOL {
            _ if read_only => Access::ReadOnly,
            true => Access::Immutable,
            false => Access::Shared,
        };
        let shape = value.shape().clone();
        let held = Held { value, only_bool: !read_only };
        let parts = RawParts { access, ..RawParts::new(data, dtype) };
        // SAFETY: a value has all elements of its shape, in C order, in memory of the host that stays where it is
        // until the last value on it is dropped, and the tensor owns one. Any bytes are elements, except of `bool`,
        // which consumers must not write. The caller guarantees that no other holder writes them, which makes `bool`
        // immutable.
        let tensor = unsafe { Tensor::from_raw_parts(held, parts, &shape, None::<&[i64]>) }?;
        Ok(tensor)
    }
}

/// Returns the dtype of a dense tensor on the host.
fn host_dtype<Type: ValueTypeMarker + ?Sized>(value: &Value<Type>) -> Result<DataType> {
    let ValueType::Tensor { ty, .. } = value.dtype() else {
        return Err(Error::NotATensor { kind: value.dtype().to_string() });
    };
    // ort has the same type for sparse tensors, whose elements are not in C order.
    if !value.is_tensor() {
        return Err(Error::NotATensor { kind: format!("a sparse {}", value.dtype()) });
    }
    let dtype = element::dtype(*ty).ok_or(Error::ElementType { element: *ty })?;
    let tensor = value.view().into_dyn().downcast::<DynTensorValueType>()?;
    let memory = tensor.memory_info();
    if !memory.is_cpu_accessible() {
        return Err(Error::Device { name: memory.allocation_device().as_str().to_owned() });
    }
    Ok(dtype)
}

/// The value inside a tensor. Only this crate takes it out, because a consumer may have written it.
pub(crate) struct Held {
    pub(crate) value: DynTensor,
    /// True if only `bool` elements, which consumers must not write, can make the tensor read-only.
    only_bool: bool,
}

impl Held {
    /// Returns the value if safe code may write it, given the access of the tensor.
    pub(crate) fn writable(self, access: Access) -> Result<DynTensor> {
        let is_input = input::is_protected(&input::bytes_of(&self.value));
        let is_bool = element::dtype(*self.value.data_type()) == Some(DataType::BOOL);
        match access {
            Access::Exclusive => Ok(self.value),
            Access::Shared if !is_input => Ok(self.value),
            Access::ReadOnly | Access::Immutable if !is_input && is_bool && self.only_bool => {
                Ok(self.value)
            }
            Access::Shared => Err(dlbridge::Error::Shared.into()),
            Access::ReadOnly | Access::Immutable => Err(dlbridge::Error::ReadOnly.into()),
        }
    }
}

/// Returns the value that a tensor is all of, else the tensor.
pub(crate) fn take_back(tensor: Tensor) -> std::result::Result<Held, Tensor> {
    let (dtype, data, shape) = (tensor.dtype(), tensor.data(), tensor.shape().to_vec());
    let (access, c_order) = (tensor.access(), tensor.is_c_contiguous());
    let strides = tensor.strides().to_vec();
    let held = tensor.try_into_owner::<Held>()?;
    // A tensor in C order with as many elements as the value has all of them.
    let whole = c_order
        && element::dtype(*held.value.data_type()) == Some(dtype)
        && **held.value.shape() == *shape;
    if whole {
        return Ok(held);
    }
    // The promise that nothing writes the elements ended when the value left the tensor.
    let access = if access == Access::Immutable { Access::ReadOnly } else { access };
    let parts = RawParts { access, ..RawParts::new(data, dtype) };
    // SAFETY: the elements, parts and strides of the tensor that the value was just taken out of, in the same value.
    let again = unsafe { Tensor::from_raw_parts(held, parts, &shape, Some(&strides)) };
    Err(again.expect("it was a tensor before"))
}
