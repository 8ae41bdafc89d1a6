//! Sinks for the numbers of a list: they become elements, or their kind is found.

use dlbridge::{DataType, DataTypeCode, Element, TensorRef};
use pyo3::prelude::*;

use super::super::fault::Fault;
use super::number::{Kinds, Known, Number, NumberKind, element, element_of, kind_of};
use super::value::{self, Read, Value};
use crate::copies;
use crate::error::to_py_err;

/// Arrays of as many elements or more are copied, which other Python threads do not wait for.
const COPIED: usize = 1 << 18;

/// Receives the numbers of a list.
pub(super) trait Sink<'py> {
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault>;

    /// The elements of a tensor that the CPU can read; false for one of another dtype.
    fn put_tensor(&mut self, tensor: &TensorRef<'_>) -> Result<bool, Fault>;

    /// An element, by its bytes; false for one that only [`put_tensor`](Self::put_tensor) takes.
    fn put_element(&mut self, dtype: DataType, bytes: &[u8]) -> bool;

    /// The number of elements so far.
    fn len(&self) -> usize;

    /// Removes the last elements until as many are left.
    fn truncate(&mut self, len: usize);

    fn as_dyn(&mut self) -> &mut dyn Sink<'py>;
}

/// The elements that the numbers become.
pub(super) struct Elements<'py, T> {
    elements: Vec<T>,
    kinds: Kinds<'py>,
    /// The dtype of the last element of another one, and how to read it: a list mostly has one.
    last: Option<(DataType, Read)>,
}

impl<T> Elements<'_, T> {
    pub(super) fn with_capacity(count: usize) -> Option<Self> {
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).ok()?;
        Some(Self { elements, kinds: Kinds::default(), last: None })
    }

    pub(super) fn into_vec(self) -> Vec<T> {
        self.elements
    }
}

impl<T: Number> Elements<'_, T> {
    /// How to read the elements of another dtype; `None` if they are read as Python's numbers, which say what does not fit.
    fn reader(&mut self, dtype: DataType) -> Option<Read> {
        if let Some((last, read)) = self.last
            && last == dtype
        {
            return Some(read);
        }
        kind_of(dtype).filter(|kind| *kind <= T::KIND)?;
        let read = value::reader(dtype)?;
        self.last = Some((dtype, read));
        Some(read)
    }

    /// The elements of a tensor of another dtype; false if they are read as Python's numbers, which say what does not fit.
    fn put_converted(&mut self, tensor: &TensorRef<'_>) -> Result<bool, Fault> {
        let dtype = tensor.dtype();
        let Some(read) = self.reader(dtype).filter(|_| tensor.len() < COPIED) else {
            return Ok(false);
        };
        let own;
        let contiguous = match tensor.is_c_contiguous() {
            true => tensor,
            false => {
                own = copies::copied(tensor, 1)?;
                &TensorRef::from(&own)
            }
        };
        let begin = self.elements.len();
        for bytes in contiguous.as_bytes().map_err(to_py_err)?.chunks_exact(dtype.itemsize()) {
            let Some(element) = read(bytes).and_then(element_of) else {
                self.elements.truncate(begin);
                return Ok(false);
            };
            self.elements.push(element);
        }
        Ok(true)
    }
}

impl<'py, T: Number + Element> Sink<'py> for Elements<'py, T> {
    fn put_tensor(&mut self, tensor: &TensorRef<'_>) -> Result<bool, Fault> {
        if tensor.dtype() != T::DTYPE {
            return self.put_converted(tensor);
        }
        // Other code may write elements that are not valid, so those of types that have such are copied before they are checked.
        if T::CHECK.is_none()
            && tensor.len() < COPIED
            && let Ok(view) = tensor.view::<T>()
        {
            match view.as_slice() {
                Some(elements) => self.elements.extend_from_slice(elements),
                None => self.elements.extend(view.iter().copied()),
            }
            return Ok(true);
        }
        let own = copies::copied(tensor, align_of::<T>())?;
        let view = own.view::<T>().map_err(to_py_err)?;
        self.elements.extend_from_slice(view.as_slice().unwrap_or_default());
        Ok(true)
    }

    fn put_element(&mut self, dtype: DataType, bytes: &[u8]) -> bool {
        let element = if dtype != T::DTYPE {
            self.reader(dtype).and_then(|read| read(bytes)).and_then(element_of)
        } else if T::CHECK.is_none() && bytes.len() == size_of::<T>() {
            // SAFETY: as many bytes as an element has, at any address; without a check all bytes are an element (`Element`).
            Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
        } else {
            None
        };
        element.map(|element| self.elements.push(element)).is_some()
    }

    fn len(&self) -> usize {
        self.elements.len()
    }

    fn truncate(&mut self, len: usize) {
        self.elements.truncate(len);
    }

    fn as_dyn(&mut self) -> &mut dyn Sink<'py> {
        self
    }

    #[inline(always)]
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let element = element(item, &mut self.kinds)?;
        self.elements.push(element);
        Ok(())
    }
}

/// The kind that all numbers can become, as NumPy finds it.
pub(super) struct Natural<'py> {
    /// The last kind of a number; `None` without numbers.
    kind: Option<NumberKind>,
    /// The range that has all integers.
    range: Range,
    /// True if an integer is negative, or an array has a dtype with a sign.
    signed: bool,
    pub(super) dtypes: Dtypes,
    kinds: Kinds<'py>,
}

/// A range of integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Range {
    Int64,
    Uint64,
    /// That of Python.
    Larger,
}

/// The dtypes of the items that have one: NumPy's scalars, and tensors.
#[derive(Clone, Copy)]
pub(super) enum Dtypes {
    /// The list is empty.
    None,
    /// All items have this one.
    One(DataType),
    /// They have several, or some have none.
    Several,
}

impl Natural<'_> {
    pub(super) fn new() -> Self {
        Self {
            kind: None,
            range: Range::Int64,
            signed: false,
            dtypes: Dtypes::None,
            kinds: Kinds::default(),
        }
    }

    /// The kind that all numbers can become. No integer type has both the largest integers and negative ones, so these become floats.
    pub(super) fn kind(&self) -> Option<NumberKind> {
        match self.range == Range::Uint64 && self.signed {
            true => self.kind.max(Some(NumberKind::Float)),
            false => self.kind,
        }
    }

    /// Returns true if an integer is larger than those of 64 bits with a sign.
    pub(super) fn is_large(&self) -> bool {
        self.range > Range::Int64
    }

    #[inline(always)]
    fn add(&mut self, known: Known) {
        self.kind = self.kind.max(Some(known.kind));
        self.dtypes = match (self.dtypes, known.dtype) {
            (Dtypes::None, Some(dtype)) => Dtypes::One(dtype),
            (Dtypes::One(one), Some(dtype)) if one == dtype => Dtypes::One(one),
            _ => Dtypes::Several,
        };
    }
}

impl Natural<'_> {
    /// Counts elements of a dtype; false for one that lists do not become.
    fn add_dtype(&mut self, dtype: DataType) -> bool {
        let Some(kind) = kind_of(dtype) else { return false };
        self.add(Known { kind, dtype: Some(dtype) });
        self.signed |= dtype.code() == DataTypeCode::INT;
        if dtype == DataType::UINT64 {
            self.range = self.range.max(Range::Uint64);
        }
        true
    }
}

impl<'py> Sink<'py> for Natural<'py> {
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let Some(known) = self.kinds.of(item)? else { return Err(Fault::not_a_number(item)) };
        self.add(known);
        if known.kind == NumberKind::Integer {
            let small = match self.kinds.value(item) {
                Some(Value::Integer(value)) => Some(value),
                _ => i64::from_integer(item)?,
            };
            match small {
                Some(value) => self.signed |= value < 0,
                None if u64::from_integer(item)?.is_some() => {
                    self.range = self.range.max(Range::Uint64);
                }
                None => self.range = Range::Larger,
            }
        }
        Ok(())
    }

    fn put_tensor(&mut self, tensor: &TensorRef<'_>) -> Result<bool, Fault> {
        let dtype = tensor.dtype();
        if !self.add_dtype(dtype) {
            let extents: Vec<_> = tensor.shape().iter().map(|&extent| extent as usize).collect();
            return Err(Fault::tensor(tensor, &extents));
        }
        Ok(true)
    }

    fn put_element(&mut self, dtype: DataType, _: &[u8]) -> bool {
        self.add_dtype(dtype)
    }

    fn len(&self) -> usize {
        0
    }

    // The same numbers again change nothing.
    fn truncate(&mut self, _: usize) {}

    fn as_dyn(&mut self) -> &mut dyn Sink<'py> {
        self
    }
}
