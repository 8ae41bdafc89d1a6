//! The arguments of a call on PyTorch's stack: owned, so that each path releases them exactly once.

use std::ffi::c_void;
use std::ptr;

use dlbridge::{Device, DeviceType};
use smallvec::SmallVec;

use super::shim::{Object, Shim};
use crate::error::{Error, ErrorKind, Result};
use crate::operator::Operator;
use crate::parameter::Kind;
use crate::value::Value;

/// A reference to a tensor.
pub(super) struct Tensor {
    shim: &'static Shim,
    object: Object,
}

// SAFETY: PyTorch counts the references to a tensor atomically, and any thread may release one.
unsafe impl Send for Tensor {}
// SAFETY: the methods that take `&self` only read facts that no code changes during a call. `mutable_data`, which may give
// the tensor memory of its own, takes `&mut self`.
unsafe impl Sync for Tensor {}

/// A tensor's description.
pub(super) struct Description<'t> {
    pub(super) dtype: i32,
    pub(super) sizes: &'t [i64],
    pub(super) strides: &'t [i64],
}

impl Tensor {
    /// # Safety
    /// `object` is a tensor of PyTorch, whose ownership passes to the result.
    pub(super) unsafe fn new(shim: &'static Shim, object: Object) -> Self {
        Self { shim, object }
    }

    /// The tensor for the stack, which owns it from now on.
    pub(super) fn into_raw(self) -> u64 {
        let object = self.object;
        std::mem::forget(self);
        object.expose_provenance() as u64
    }

    /// The device. Refuses tensors without strided memory on the CPU or on CUDA.
    #[inline]
    pub(super) fn strided_on(&self, name: &str) -> Result<Device> {
        let (mut device, mut layout) = (-1, -1);
        // SAFETY: the tensor is alive, and the results are valid for writes.
        let codes = unsafe {
            (self.shim.device_type)(self.object, &mut device)
                | (self.shim.layout)(self.object, &mut layout)
        };
        self.shim.succeeded(codes, "describe a tensor")?;
        if device == self.shim.cpu && layout == self.shim.strided {
            return Ok(Device::CPU);
        }
        if device == self.shim.cuda && layout == self.shim.strided {
            let mut index = -1;
            // SAFETY: the tensor is alive, and the result is valid for writes.
            let code = unsafe { (self.shim.device_index)(self.object, &mut index) };
            self.shim.succeeded(code, "describe a tensor")?;
            return Ok(Device::new(DeviceType::CUDA, index));
        }
        Err(Error::of(
            ErrorKind::Buffer,
            format_args!(
                "{name} must be a strided tensor on the CPU or on CUDA; call cpu() or to_dense() on it"
            ),
        ))
    }

    /// The dtype, extents and strides.
    #[inline]
    pub(super) fn describe(&self) -> Result<Description<'_>> {
        let (mut dtype, mut dim) = (-1, 0);
        let (mut sizes, mut strides) = (ptr::null(), ptr::null());
        // SAFETY: the tensor is alive, and the results are valid for writes.
        let codes = unsafe {
            (self.shim.dtype)(self.object, &mut dtype)
                | (self.shim.dim)(self.object, &mut dim)
                | (self.shim.sizes)(self.object, &mut sizes)
                | (self.shim.strides)(self.object, &mut strides)
        };
        self.shim.succeeded(codes, "describe a tensor")?;
        // SAFETY: PyTorch returned as many extents and strides as dimensions, which live as long as the tensor; no code
        // changes a tensor's shape during a call.
        let (sizes, strides) = unsafe { (list(sizes, dim), list(strides, dim)) };
        Ok(Description { dtype, sizes, strides })
    }

    /// The address of the first element, for reads.
    #[inline]
    pub(super) fn data(&self) -> Result<*mut c_void> {
        let mut data = ptr::null();
        // SAFETY: the tensor is alive, and the result is valid for writes.
        let code = unsafe { (self.shim.const_data)(self.object, &mut data) };
        self.shim.succeeded(code, "get a tensor's memory")?;
        Ok(data.cast_mut())
    }

    /// The address of the first element, for writes. Elements that tensors share until a write are copied first; from then
    /// on, [`data`](Self::data) returns the same address.
    #[inline]
    pub(super) fn mutable_data(&mut self) -> Result<*mut c_void> {
        let mut data = ptr::null_mut();
        // SAFETY: the tensor is alive, and the result is valid for writes.
        let code = unsafe { (self.shim.mutable_data)(self.object, &mut data) };
        self.shim.succeeded(code, "get a tensor's memory")?;
        Ok(data)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the tensor is owned, and not used afterwards.
        unsafe { (self.shim.delete_tensor)(self.object) };
    }
}

/// # Safety
/// `first` is the first of `count` numbers, which live for `'t`, or `count` is zero.
unsafe fn list<'t>(first: *const i64, count: i64) -> &'t [i64] {
    match usize::try_from(count) {
        // SAFETY: the caller guarantees `count` numbers.
        Ok(count) if count > 0 && !first.is_null() => unsafe {
            std::slice::from_raw_parts(first, count)
        },
        _ => &[],
    }
}

/// A string.
pub(super) struct Text {
    shim: &'static Shim,
    object: Object,
}

impl Text {
    fn get(&self) -> Result<&str> {
        let (mut length, mut data) = (0, ptr::null());
        // SAFETY: the string is alive, and the results are valid for writes.
        let codes = unsafe {
            (self.shim.string_length)(self.object, &mut length)
                | (self.shim.string_data)(self.object, &mut data)
        };
        self.shim.succeeded(codes, "read a string")?;
        // SAFETY: PyTorch returned the bytes and their number; they live as long as the string.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast(), length) };
        Ok(std::str::from_utf8(bytes)?)
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the string is owned, and not used afterwards.
        unsafe { (self.shim.delete_string)(self.object) };
    }
}

/// A list.
pub(super) struct List {
    shim: &'static Shim,
    object: Object,
}

impl List {
    fn items<T>(&self, item: impl Fn(u64) -> T) -> Result<Vec<T>> {
        let mut size = 0;
        // SAFETY: the list is alive, and the result is valid for writes.
        let code = unsafe { (self.shim.list_size)(self.object, &mut size) };
        self.shim.succeeded(code, "read a list")?;
        let read = |index| {
            let mut value = 0;
            // SAFETY: the list is alive, the index is below its size, and the result is valid for writes.
            let code = unsafe { (self.shim.list_item)(self.object, index, &mut value) };
            self.shim.succeeded(code, "read a list")?;
            Ok(item(value))
        };
        (0..size).map(read).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list is owned, and not used afterwards. Its items are numbers.
        unsafe { (self.shim.delete_list)(self.object) };
    }
}

/// An argument.
pub(super) enum Owned {
    None,
    Tensor(Tensor),
    /// A float, an integer or a boolean, in the lower bytes.
    Number(u64),
    Text(Text),
    List(List),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

/// The arguments of a call, for few of them without an allocation.
pub(super) type Arguments = SmallVec<[Owned; 6]>;

/// Takes the arguments from the stack: a value for each parameter that is not an output, then `outs` tensors.
///
/// # Safety
/// The stack has exactly these values, which the caller does not use afterwards.
pub(super) unsafe fn take(
    shim: &'static Shim,
    operator: &'static Operator,
    stack: *const u64,
    outs: usize,
) -> Arguments {
    let kinds = operator.inputs().map(|parameter| Some(parameter.kind));
    let kinds = kinds.chain(std::iter::repeat_n(None, outs));
    kinds
        .enumerate()
        .map(|(index, kind)| {
            // SAFETY: the caller guarantees a value for each of these.
            let value = unsafe { *stack.add(index) };
            // SAFETY: PyTorch converted the value by the schema, which has the type of this kind (the contract of `Define`).
            unsafe { own(shim, kind, value) }
        })
        .collect()
}

/// # Safety
/// The value is of the kind (of a tensor, without one), and its ownership passes to the result.
unsafe fn own(shim: &'static Shim, kind: Option<Kind>, value: u64) -> Owned {
    let object = ptr::with_exposed_provenance_mut::<c_void>(value as usize);
    match kind {
        Some(Kind::Float | Kind::Int | Kind::Bool) => Owned::Number(value),
        Some(Kind::Str) => Owned::Text(Text { shim, object }),
        Some(Kind::Ints | Kind::Floats) => Owned::List(List { shim, object }),
        Some(Kind::Optional(_)) if object.is_null() => Owned::None,
        Some(Kind::Optional(_)) => {
            let boxed: *mut u64 = object.cast();
            // SAFETY: a value that is present is in a box, which is read and then deleted once. The tensor in it is
            // owned from here on.
            unsafe {
                let tensor = ptr::with_exposed_provenance_mut(*boxed as usize);
                shim.delete_box(boxed);
                Owned::Tensor(Tensor::new(shim, tensor))
            }
        }
        // SAFETY: all other kinds are tensors, and the caller passes the ownership on.
        _ => Owned::Tensor(unsafe { Tensor::new(shim, object) }),
    }
}

/// Reads the lists.
pub(super) fn read_lists(operator: &'static Operator, arguments: &mut Arguments) -> Result<()> {
    for (parameter, argument) in operator.inputs().zip(arguments) {
        if let Owned::List(list) = argument {
            *argument = match parameter.kind {
                Kind::Ints => Owned::Ints(list.items(|item| item as i64)?),
                _ => Owned::Floats(list.items(f64::from_bits)?),
            };
        }
    }
    Ok(())
}

impl Owned {
    /// The tensor, if the argument is one.
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor for changes, if the argument is one.
    pub(super) fn tensor_mut(&mut self) -> Option<&mut Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The value of an attribute.
    pub(super) fn attribute(&self, kind: Kind) -> Result<Value<'_>> {
        Ok(match (self, kind) {
            (Self::Number(value), Kind::Float) => Value::Float(f64::from_bits(*value)),
            (Self::Number(value), Kind::Bool) => Value::Bool(*value & 0xff != 0),
            (Self::Number(value), _) => Value::Int(*value as i64),
            (Self::Text(text), _) => Value::Str(text.get()?),
            (Self::Ints(values), _) => Value::Ints(values),
            (Self::Floats(values), _) => Value::Floats(values),
            (Self::None | Self::Tensor(_) | Self::List(_), _) => Value::None,
        })
    }
}
