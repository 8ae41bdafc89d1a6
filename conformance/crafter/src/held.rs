//! A managed tensor as a consumer holds it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::block::{Block, given_back};
use crate::delete::{self, Way};
use crate::extent;
use crate::managed::{Managed, numbers};

/// The flag of a struct with read-only memory.
const READ_ONLY: u64 = 1;

/// A managed tensor that a consumer has taken, and whose deleter it must call once. Every access after the call raises
/// ValueError.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Held {
    managed: Managed,
    /// Set if the tensor was crafted.
    block: Option<&'static Block>,
    /// The fields as they were made, if it came from a `Crafted`.
    made: Option<Py<PyDict>>,
    /// Set once the deleter was called through this object, or the tensor was given away.
    is_gone: AtomicBool,
}

impl Held {
    /// Takes ownership of a managed tensor.
    ///
    /// # Safety
    /// The caller gives the tensor away. It is crafted, or satisfies the invariant Held.
    pub(crate) unsafe fn new(managed: Managed) -> Self {
        let block = Block::at(managed.address.addr());
        Self { managed, block, made: None, is_gone: AtomicBool::new(false) }
    }

    /// The struct of a crafted tensor, with the fields as they were made.
    pub(crate) fn of(block: &'static Block, made: Py<PyDict>) -> Self {
        Self {
            managed: block.managed(),
            block: Some(block),
            made: Some(made),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Gives the tensor away: the caller must delete it. A crafted tensor can be given away more than once.
    pub(crate) fn give_away(&self) -> PyResult<Managed> {
        match self.is_gone.swap(true, SeqCst) && self.block.is_none() {
            true => Err(given_back()),
            false => Ok(self.managed),
        }
    }

    /// Calls `act` with `count` bytes that begin `offset` bytes after the first element, while the tensor lives.
    fn at<T>(
        &self,
        offset: isize,
        count: usize,
        is_written: bool,
        act: impl FnOnce(*mut u8) -> T,
    ) -> PyResult<T> {
        if let Some(block) = self.block {
            return block.bytes(offset, count, act);
        }
        if self.is_gone.load(SeqCst) {
            return Err(given_back());
        }
        // SAFETY: Held: `is_gone` is false, so the struct lives, and the GIL keeps others from giving it away
        // meanwhile.
        let (tensor, flags) = unsafe { self.managed.tensor() };
        if is_written && flags & READ_ONLY != 0 {
            return Err(PyValueError::new_err("the flags of the tensor say READ_ONLY"));
        }
        // SAFETY: Held: shape and strides have `ndim` numbers.
        let (shape, strides) =
            unsafe { (numbers(tensor.shape, tensor.ndim)?, numbers(tensor.strides, tensor.ndim)?) };
        let range = extent::of(&tensor, flags, shape.as_deref(), strides.as_deref())?;
        extent::check(&range, offset, count)?;
        Ok(act(extent::place(tensor.data, tensor.byte_offset, offset, count)?))
    }
}

#[pymethods]
impl Held {
    /// The address of the struct.
    #[getter]
    fn address(&self) -> usize {
        self.managed.address.addr()
    }

    /// True if the struct is versioned.
    #[getter]
    fn versioned(&self) -> bool {
        self.managed.versioned
    }

    /// Every field, as keywords of `Fields`.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(made) = &self.made {
            return made.bind(py).copy();
        }
        if self.is_gone.load(SeqCst) {
            return Err(given_back());
        }
        // SAFETY: a crafted struct is never freed (Kept). Any other lives while `is_gone` is false (Held).
        unsafe { self.managed.fields(py) }
    }

    /// Reads `count` bytes of the data that begin `offset` bytes after the first element.
    #[pyo3(signature = (count, offset=0))]
    fn bytes<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        offset: isize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.at(offset, count, false, |_| ())?;
        if isize::try_from(count).is_err() {
            return Err(PyMemoryError::new_err(format!(
                "{count} bytes are more than there can be"
            )));
        }
        PyBytes::new_with(py, count, |bytes| {
            self.at(offset, count, false, |place| {
                // SAFETY: `at` has checked that these bytes belong to the tensor; `bytes` has `count` bytes.
                unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), count) }
            })
        })
    }

    /// Writes bytes to the data.
    #[pyo3(signature = (bytes, offset=0))]
    fn write(&self, bytes: &[u8], offset: isize) -> PyResult<()> {
        self.at(offset, bytes.len(), true, |place| {
            // SAFETY: `at` has checked that these bytes belong to the tensor, and may be written.
            unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        })
    }

    /// Calls the deleter, in one of the ways of `Way`.
    fn delete(&self, py: Python<'_>, way: u8) -> PyResult<()> {
        let way = Way::try_from(way)?;
        // SAFETY: `give_away` gives the tensor to this call.
        unsafe { delete::by(py, self.give_away()?, way) }
    }

    /// Calls the deleter while an exception is pending, and returns whether the same exception is pending afterwards.
    fn delete_pending(&self, exception: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: `give_away` gives the tensor to this call.
        Ok(unsafe { delete::pending(self.give_away()?, exception) })
    }
}
