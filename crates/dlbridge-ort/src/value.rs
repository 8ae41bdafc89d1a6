//! Values as tensors.

use dlbridge::{Access, DataType, RawParts, Tensor};
use ort::value::{DynTensor, DynTensorValueType, Value, ValueType, ValueTypeMarker};

use crate::sealed::Sealed;
use crate::{Error, Result, element, protect};

/// Values of [ort](ort::value::Value) as tensors.
pub trait ValueExt: Sealed {
    /// The value as a tensor in C order, which owns it, without a copy. [`Access::Shared`]; read-only for `bool`, and
    /// where a model has handed on the memory of a read-only input.
    ///
    /// # Who else has the value
    /// ort does not tell what else has hold of a value's memory, and lets safe code write it by that. As long as the tensor
    /// lives, whoever calls this must not
    /// - run a session with an [`IoBinding`](ort::session::IoBinding) that has the value as its output, by
    ///   [`bind_output`](ort::session::IoBinding::bind_output) or out of an earlier run, also where only a device
    ///   was bound: drop the binding first, or clear its outputs;
    /// - run a session with [options](ort::session::OutputSelector::preallocate) that preallocate the value as an
    ///   output: each run writes it again;
    /// - write, by its number, an output that was [removed](ort::session::SessionOutputs::remove) from outputs: drop those;
    /// - write another value on the same memory, where a model's output *is* its input.
    ///
    /// # Errors
    /// [`Error::NotATensor`], [`Error::ElementType`] and [`Error::Device`] by name. The value is dropped then.
    ///
    /// ```no_run
    /// use dlbridge_ort::{Result, ValueExt};
    /// use ort::session::SessionOutputs;
    ///
    /// fn scores(mut outputs: SessionOutputs<'_>) -> Option<Result<dlbridge::Tensor>> {
    ///     outputs.remove("scores").map(|value| value.into_tensor())
    /// }
    /// ```
    fn into_tensor(self) -> Result<Tensor>;
}

impl<Type: ValueTypeMarker + ?Sized> Sealed for Value<Type> {}

impl<Type: ValueTypeMarker + ?Sized> ValueExt for Value<Type> {
    fn into_tensor(self) -> Result<Tensor> {
        let ValueType::Tensor { ty, shape, .. } = self.dtype() else {
            return Err(Error::NotATensor { kind: self.dtype().to_string() });
        };
        // ort gives sparse ones the same type, and they have no elements in C order.
        if !self.is_tensor() {
            return Err(Error::NotATensor { kind: format!("a sparse {}", self.dtype()) });
        }
        let dtype = element::dtype(*ty).ok_or(Error::ElementType { element: *ty })?;
        let shape = shape.clone();
        let mut value = self.into_dyn().downcast::<DynTensorValueType>()?;
        let memory = value.memory_info();
        if !memory.is_cpu_accessible() {
            return Err(Error::Device { name: memory.allocation_device().as_str().to_owned() });
        }
        let data = value.data_ptr_mut();
        let read_only = protect::is_read_only(&protect::bytes_of(&value));
        let access = match dtype == DataType::BOOL || read_only {
            true => Access::ReadOnly,
            false => Access::Shared,
        };
        let held = Held { value, only_bool: !read_only };
        let parts = RawParts { access, ..RawParts::new(data, dtype) };
        // SAFETY: the contract of `Tensor::from_raw_parts`: a value has all elements of its shape, in C order, in
        // memory of the host that stays where it is until the last value on it is gone; any bytes are elements,
        // but of `bool`, which is read-only. That nobody writes them while a view is alive cannot be asked of a
        // value: a binding, and the outputs that it was removed from, can have hold of it. It is as with
        // the slices that ort itself gives out, and stated above as what the caller must see to.
        let tensor = unsafe { Tensor::from_raw_parts(held, parts, &shape, None::<&[i64]>) }?;
        Ok(tensor)
    }
}

/// The value in a tensor. Nobody but this crate takes it out: a consumer may have written it.
pub(crate) struct Held {
    pub(crate) value: DynTensor,
    /// The tensor is not read-only, unless for its `bool` elements, which only consumers must not write.
    only_bool: bool,
}

impl Held {
    /// The value, if whoever has it may write it as the tensor was accessed.
    pub(crate) fn writable(self, access: Access) -> Result<DynTensor> {
        let is_input = protect::is_protected(&protect::bytes_of(&self.value));
        let is_bool = element::dtype(*self.value.data_type()) == Some(DataType::BOOL);
        match access {
            Access::Exclusive => Ok(self.value),
            Access::Shared if !is_input => Ok(self.value),
            Access::ReadOnly if !is_input && is_bool && self.only_bool => Ok(self.value),
            Access::Shared => Err(dlbridge::Error::Shared.into()),
            Access::ReadOnly => Err(dlbridge::Error::ReadOnly.into()),
        }
    }
}

/// The value that a tensor is all of; the tensor itself if there is none.
pub(crate) fn take_back(tensor: Tensor) -> std::result::Result<Held, Tensor> {
    let (dtype, data, shape) = (tensor.dtype(), tensor.data(), tensor.shape().to_vec());
    let (access, c_order) = (tensor.access(), tensor.is_c_contiguous());
    let strides = tensor.strides().to_vec();
    let held = tensor.try_into_owner::<Held>()?;
    // As many elements as the value has, in its order, can only be all of them.
    let whole = c_order
        && element::dtype(*held.value.data_type()) == Some(dtype)
        && **held.value.shape() == *shape;
    if whole {
        return Ok(held);
    }
    let parts = RawParts { access, ..RawParts::new(data, dtype) };
    // SAFETY: the same elements as those of the tensor that the value was just taken out of, in the same value.
    let part = unsafe { Tensor::from_raw_parts(held, parts, &shape, Some(&strides)) };
    Err(part.expect("what was a tensor is one"))
}
