//! Sinks for the numbers of a list: one makes elements, the other finds the kind of the numbers.

use dlbridge::{DataType, DataTypeCode, Element, TensorRef};
use pyo3::prelude::*;

use super::super::fault::Fault;
use super::number::{Kinds, Known, Number, NumberKind, element, element_of, kind_of};
use super::value::{self, Read, Value};
use crate::copies;
use crate::error::to_py_err;

/// Arrays with at least this many elements are copied through `copies`, which lets other Python threads run during
/// large copies.
const COPIED: usize = 1 << 18;

/// Receives the numbers of a list.
pub(super) trait Sink<'py> {
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault>;

    /// Adds the elements of a tensor that the CPU can read; false for an unsuitable dtype.
    fn put_tensor(&mut self, tensor: &TensorRef<'_>) -> Result<bool, Fault>;

    /// Adds an element by its bytes; false if only [`put_tensor`](Self::put_tensor) accepts it.
    fn put_element(&mut self, dtype: DataType, bytes: &[u8]) -> bool;

    /// The number of elements so far.
    fn len(&self) -> usize;

    /// Removes the last elements until `len` are left.
    fn truncate(&mut self, len: usize);

    fn as_dyn(&mut self) -> &mut dyn Sink<'py>;
}

/// The elements that the numbers are converted to.
pub(super) struct Elements<'py, T> {
    elements: Vec<T>,
    kinds: Kinds<'py>,
    /// The last dtype other than `T`'s, and how to read it: most lists have one.
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
    /// A function that reads elements of another dtype; `None` if they are read as Python's numbers, whose errors
    /// name the element.
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

    /// Adds the elements of a tensor of another dtype; false if they are read as Python's numbers, whose errors name
    /// the element.
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
        // Other code may write invalid elements, so elements of types with invalid bit patterns are copied before
        // their check.
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
            // SAFETY: `bytes` has the size of an element, and the read needs no alignment; a type without a check
            // accepts all bytes (`Element`).
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

/// The kind that all numbers can be converted to, as NumPy finds it.
pub(super) struct Natural<'py> {
    /// The last kind of any number so far; `None` without numbers.
    kind: Option<NumberKind>,
    /// The smallest range with all integers so far.
    range: Range,
    /// True if an integer is negative, or an array has a signed dtype.
    signed: bool,
    pub(super) dtypes: Dtypes,
    kinds: Kinds<'py>,
}

/// A range of integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Range {
    Int64,
    Uint64,
    /// Only Python integers are this large.
    Larger,
}

/// The dtypes of the items that have a dtype: NumPy's scalars, and tensors.
#[derive(Clone, Copy)]
pub(super) enum Dtypes {
    /// The list is empty.
    None,
    /// All items have this dtype.
    One(DataType),
    /// The items have several dtypes, or some have none.
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

    /// The kind that all numbers can be converted to. If there are negative integers and some above i64, it is float:
    /// no integer type holds both.
    pub(super) fn kind(&self) -> Option<NumberKind> {
        match self.range == Range::Uint64 && self.signed {
            true => self.kind.max(Some(NumberKind::Float)),
            false => self.kind,
        }
    }

    /// Returns true if an integer does not fit 64 signed bits.
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
    /// Counts elements of a dtype; false if lists cannot become it.
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

    // Counting the same numbers again changes nothing.
    fn truncate(&mut self, _: usize) {}

    fn as_dyn(&mut self) -> &mut dyn Sink<'py> {
        self
    }
}
