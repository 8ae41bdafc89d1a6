//! Numbers, strings and lists of a call.

use std::cell::OnceCell;
use std::ffi::c_void;

use super::buffers::failed;
use super::frame::{self, Scalar, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::parameter::{Kind, Parameter};
use crate::value::{List, Value};

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
        converted: &'a OnceCell<List>,
    ) -> Result<Value<'a>> {
        self.found(parameter, |entry| {
            let list = entry.list()?;
            let elements = match parameter.kind {
                Kind::Ints => List::Ints(list.elements(int)?),
                _ => List::Floats(list.elements(float)?),
            };
            Some(Value::from(converted.get_or_init(|| elements)))
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

    fn scalar<'a>(self) -> Option<&'a Scalar> {
        // SAFETY: an attribute of this type points at a `Scalar`.
        unsafe { self.target::<Scalar>(frame::Attributes::SCALAR) }
            .filter(|one| !one.value.is_null())
    }

    fn text<'a>(self) -> Option<&'a str> {
        // SAFETY: an attribute of this type points at a `Text`.
        let text = unsafe { self.target::<Text>(frame::Attributes::TEXT) }?;
        // SAFETY: the text is `len` bytes, which XLA keeps for the call.
        std::str::from_utf8(unsafe { slice(text.data, text.len) }?).ok()
    }

    fn list<'a>(self) -> Option<&'a frame::List> {
        // SAFETY: an attribute of this type points at a `List`.
        unsafe { self.target(frame::Attributes::LIST) }
    }

    /// The attribute, if it is of a type.
    ///
    /// # Safety
    /// An attribute of the type points at a `T`.
    unsafe fn target<'a, T>(self, kind: i32) -> Option<&'a T> {
        // SAFETY: the caller guarantees the type, and the contract of `Attributes::new` that the entry stays for `'a`.
        (self.kind == kind).then(|| unsafe { self.place.cast::<T>().as_ref() })?
    }
}

impl frame::List {
    fn elements<T>(&self, convert: impl Fn(&Scalar) -> Option<T>) -> Option<Vec<T>> {
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
            convert(&Scalar { dtype: self.dtype, value: place.cast() })
        };
        (0..self.len).map(element).collect()
    }
}

impl Scalar {
    /// Reads the number.
    ///
    /// # Safety
    /// `T` has the type that `dtype` names, and any bits of it are valid.
    unsafe fn read<T>(&self) -> T {
        // SAFETY: the place has a number of the type `dtype`, which is `T`; XLA may not align it.
        unsafe { self.value.cast::<T>().read_unaligned() }
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

fn float(number: &Scalar) -> Option<f64> {
    // SAFETY: each arm reads the type that XLA's number names; any bits are a valid float.
    unsafe {
        match number.dtype {
            11 => Some(f64::from(number.read::<f32>())),
            12 => Some(number.read::<f64>()),
            _ => None,
        }
    }
}

fn int(number: &Scalar) -> Option<i64> {
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

fn boolean(number: &Scalar) -> Option<bool> {
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
