//! Numbers, strings and lists of a call.

use std::cell::OnceCell;
use std::ffi::c_void;

use super::buffers::failed;
use super::frame::{self, Scalar, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::parameter::{DefaultValue, Kind, Parameter};
use crate::value::Value;

/// The attribute that has a bit for each optional input, in order: 1 if the call has the input. A call without the
/// attribute has all of them. No parameter can have this name.
pub(super) const PRESENT: &str = "dlbridge.present";

/// The attributes of a call.
pub(super) struct Attributes<'a> {
    all: &'a frame::Attributes,
    count: usize,
}

/// An attribute's type and place.
#[derive(Clone, Copy)]
struct Entry {
    kind: i32,
    place: *const c_void,
}

/// The elements of a list whose type is not the operator's.
pub(super) enum Converted {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl<'a> Attributes<'a> {
    /// # Safety
    /// The lists follow XLA's interface: they have `count` entries, which stay as they are for `'a`.
    pub(super) unsafe fn new(all: &'a frame::Attributes) -> Result<Self> {
        match usize::try_from(all.count) {
            Ok(count) => Ok(Self { all, count }),
            Err(_) => Err(failed(format_args!("XLA passes {} attributes", all.count))),
        }
    }

    fn name(&self, index: usize) -> &'a [u8] {
        // SAFETY: `index` is less than `count` in both callers, and the entry points at a name, by the contract of `new`.
        let name = unsafe { &**self.all.names.add(index) };
        // SAFETY: the name is `len` bytes, which stay for `'a`, by the contract of `new`.
        unsafe { slice(name.data.cast(), name.len) }.unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<Entry> {
        let index = (0..self.count).find(|index| self.name(*index) == name.as_bytes())?;
        // SAFETY: `index` is less than `count`, which is the length of both lists, by the contract of `new`.
        let (kind, place) = unsafe { (*self.all.types.add(index), *self.all.values.add(index)) };
        Some(Entry { kind, place })
    }

    /// Refuses attributes that the operator does not have.
    pub(super) fn check(&self, parameters: impl Iterator<Item = &'static Parameter>) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let names: smallvec::SmallVec<[&str; 8]> = parameters
            .filter(|parameter| parameter.kind.is_attribute())
            .map(|parameter| parameter.name)
            .chain([PRESENT])
            .collect();
        for index in 0..self.count {
            let found = self.name(index);
            if !names.iter().any(|name| name.as_bytes() == found) {
                let found = String::from_utf8_lossy(found);
                return Err(Error::of(
                    ErrorKind::Type,
                    format_args!("there is no attribute {found}; known: {}", names.join(", ")),
                ));
            }
        }
        Ok(())
    }

    /// The bits of the optional inputs that the call has.
    pub(super) fn present(&self) -> Result<u64> {
        let Some(entry) = self.find(PRESENT) else { return Ok(u64::MAX) };
        match entry.scalar().and_then(int) {
            Some(bits) => Ok(bits.cast_unsigned()),
            None => Err(failed(format_args!("{PRESENT} must be an integer"))),
        }
    }

    /// The value of a parameter that is not a list: the attribute of its name, or its default.
    pub(super) fn value(&self, parameter: &Parameter) -> Result<Value<'a>> {
        self.found(parameter, |entry| entry.value(parameter.kind))
    }

    /// The value of a parameter that is a list, with the elements in `converted`.
    pub(super) fn list(
        &self,
        parameter: &Parameter,
        converted: &'a OnceCell<Converted>,
    ) -> Result<Value<'a>> {
        self.found(parameter, |entry| {
            let list = entry.list()?;
            let elements = match parameter.kind {
                Kind::Ints => Converted::Ints(list.elements(int)?),
                _ => Converted::Floats(list.elements(float)?),
            };
            Some(match converted.get_or_init(|| elements) {
                Converted::Ints(ints) => Value::Ints(ints),
                Converted::Floats(floats) => Value::Floats(floats),
            })
        })
    }

    fn found(
        &self,
        parameter: &Parameter,
        value: impl FnOnce(Entry) -> Option<Value<'a>>,
    ) -> Result<Value<'a>> {
        let name = parameter.name;
        let Some(entry) = self.find(name) else {
            return parameter.default.map(Value::from).ok_or_else(|| {
                Error::of(ErrorKind::Type, format_args!("the attribute {name} is missing"))
            });
        };
        value(entry).ok_or_else(|| {
            Error::of(
                ErrorKind::Type,
                format_args!(
                    "{name} must be {}, but XLA passes another type",
                    parameter.kind.text()
                ),
            )
        })
    }
}

impl Entry {
    /// The value for a parameter of this kind.
    fn value<'a>(self, kind: Kind) -> Option<Value<'a>> {
        match kind {
            Kind::Float => self.scalar().and_then(float).map(Value::Float),
            Kind::Int => self.scalar().and_then(int).map(Value::Int),
            Kind::Bool => self.scalar().and_then(boolean).map(Value::Bool),
            Kind::Str => self.text().map(Value::Str),
            _ => None,
        }
    }

    fn scalar(self) -> Option<Number> {
        if self.kind != frame::Attributes::SCALAR || self.place.is_null() {
            return None;
        }
        // SAFETY: an attribute of the type `SCALAR` points at a `Scalar`, by the contract of `Attributes::new`.
        let scalar = unsafe { &*self.place.cast::<Scalar>() };
        (!scalar.value.is_null()).then_some(Number { dtype: scalar.dtype, place: scalar.value })
    }

    fn text<'a>(self) -> Option<&'a str> {
        if self.kind != frame::Attributes::TEXT || self.place.is_null() {
            return None;
        }
        // SAFETY: an attribute of the type `TEXT` points at a `Text`, by the contract of `Attributes::new`.
        let text = unsafe { &*self.place.cast::<Text>() };
        // SAFETY: the text is `len` bytes, which XLA keeps for the call.
        std::str::from_utf8(unsafe { slice(text.data, text.len) }?).ok()
    }

    fn list(self) -> Option<List> {
        if self.kind != frame::Attributes::LIST || self.place.is_null() {
            return None;
        }
        // SAFETY: an attribute of the type `LIST` points at a `List`, by the contract of `Attributes::new`.
        let list = unsafe { &*self.place.cast::<frame::List>() };
        Some(List { dtype: list.dtype, len: list.len, data: list.data })
    }
}

/// A list of numbers with XLA's number of their type.
struct List {
    dtype: i32,
    len: usize,
    data: *const c_void,
}

impl List {
    fn elements<T>(&self, convert: impl Fn(Number) -> Option<T>) -> Option<Vec<T>> {
        if self.len == 0 {
            return Some(Vec::new());
        }
        let size = size(self.dtype)?;
        if self.data.is_null() || self.len.checked_mul(size)? > isize::MAX as usize {
            return None;
        }
        let element = |index: usize| {
            // SAFETY: XLA's list has `len` elements of `size` bytes each, and `index` is less than `len`.
            let place = unsafe { self.data.cast::<u8>().add(index * size) };
            convert(Number { dtype: self.dtype, place: place.cast() })
        };
        (0..self.len).map(element).collect()
    }
}

/// A number of one of XLA's types, at a place that is valid for reads.
#[derive(Clone, Copy)]
struct Number {
    dtype: i32,
    place: *const c_void,
}

impl Number {
    /// Reads the number.
    ///
    /// # Safety
    /// `T` has the type that `dtype` names, and any bits of it are valid.
    unsafe fn read<T>(self) -> T {
        // SAFETY: the place has a number of the type `dtype`, which is `T`; XLA may not align it.
        unsafe { self.place.cast::<T>().read_unaligned() }
    }
}

/// The size of a number in bytes.
fn size(dtype: i32) -> Option<usize> {
    Some(match dtype {
        1 | 2 | 6 => 1,
        3 | 7 => 2,
        4 | 8 | 11 => 4,
        5 | 9 | 12 => 8,
        _ => return None,
    })
}

fn float(number: Number) -> Option<f64> {
    // SAFETY: each arm reads the type that XLA's number names; any bits are a valid float.
    unsafe {
        match number.dtype {
            11 => Some(f64::from(number.read::<f32>())),
            12 => Some(number.read::<f64>()),
            _ => None,
        }
    }
}

fn int(number: Number) -> Option<i64> {
    // SAFETY: each arm reads the type that XLA's number names; any bits are a valid integer.
    unsafe {
        match number.dtype {
            2 => Some(i64::from(number.read::<i8>())),
            3 => Some(i64::from(number.read::<i16>())),
            4 => Some(i64::from(number.read::<i32>())),
            5 => Some(number.read::<i64>()),
            6 => Some(i64::from(number.read::<u8>())),
            7 => Some(i64::from(number.read::<u16>())),
            8 => Some(i64::from(number.read::<u32>())),
            9 => i64::try_from(number.read::<u64>()).ok(),
            _ => None,
        }
    }
}

fn boolean(number: Number) -> Option<bool> {
    if number.dtype != 1 {
        return None;
    }
    // SAFETY: XLA's boolean is one byte; any bits are a valid `u8`.
    match unsafe { number.read::<u8>() } {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The bytes at a place; `None` if the place is NULL and there are any.
///
/// # Safety
/// The place has `len` bytes, which stay as they are for `'a`.
unsafe fn slice<'a>(data: *const u8, len: usize) -> Option<&'a [u8]> {
    match (data.is_null(), len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: the caller guarantees `len` bytes for `'a`, and the pointer is not NULL.
        (false, _) => Some(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

impl From<DefaultValue> for Value<'_> {
    fn from(default: DefaultValue) -> Self {
        match default {
            DefaultValue::Float(value) => Value::Float(value),
            DefaultValue::Int(value) => Value::Int(value),
            DefaultValue::Bool(value) => Value::Bool(value),
            DefaultValue::Str(value) => Value::Str(value),
            DefaultValue::Ints(values) => Value::Ints(values),
            DefaultValue::Floats(values) => Value::Floats(values),
        }
    }
}
