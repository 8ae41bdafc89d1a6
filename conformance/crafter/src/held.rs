//! A managed tensor as a consumer holds it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::block::{Block, given_back};
use crate::delete::{self, Way};
use crate::extent;
use crate::managed::{Managed, numbers};

/// The flag of a struct whose memory must not be written.
const READ_ONLY: u64 = 1;

/// A managed tensor that a consumer has taken: its deleter is to be called once. Nothing of it can be asked for
/// after that.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Held {
    managed: Managed,
    /// If it was crafted.
    block: Option<&'static Block>,
    /// The fields as they were made, if it came from a `Crafted`.
    made: Option<Py<PyDict>>,
    /// Set once the deleter was called from here, or is another's to call.
    is_gone: AtomicBool,
}

impl Held {
    /// Wraps a managed tensor that was given away to here.
    ///
    /// # Safety
    /// Held.
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

    /// Gives it away: it is the caller's to delete. A crafted one can be given away more than once.
    pub(crate) fn give_away(&self) -> PyResult<Managed> {
        match self.is_gone.swap(true, SeqCst) && self.block.is_none() {
            true => Err(given_back()),
            false => Ok(self.managed),
        }
    }

    /// Does something with `count` bytes, `offset` bytes from the first element on, while the tensor lives.
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
        // SAFETY: Held: it was not given away, and is not while this runs.
        let (tensor, flags) = unsafe { self.managed.tensor() };
        if is_written && flags & READ_ONLY != 0 {
            return Err(PyValueError::new_err("the flags of the tensor say READ_ONLY"));
        }
        // SAFETY: Held.
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

    /// True if the struct is a versioned one.
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
        // SAFETY: Held, or Kept.
        unsafe { self.managed.fields(py) }
    }

    /// Bytes of the data, from a distance in bytes to the address of the first element on.
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
                // SAFETY: `at` has checked that these bytes are the tensor's.
                unsafe { std::ptr::copy(place, bytes.as_mut_ptr(), count) }
            })
        })
    }

    /// Writes bytes to the data.
    #[pyo3(signature = (bytes, offset=0))]
    fn write(&self, bytes: &[u8], offset: isize) -> PyResult<()> {
        self.at(offset, bytes.len(), true, |place| {
            // SAFETY: as in `bytes`.
            unsafe { std::ptr::copy(bytes.as_ptr(), place, bytes.len()) }
        })
    }

    /// Calls the deleter, in one of the ways of `Way`.
    fn delete(&self, py: Python<'_>, way: u8) -> PyResult<()> {
        let way = Way::try_from(way)?;
        // SAFETY: given away to here.
        unsafe { delete::by(py, self.give_away()?, way) }
    }

    /// Calls the deleter while an exception is pending; whether the same one is afterwards.
    fn delete_pending(&self, exception: &Bound<'_, PyAny>) -> PyResult<bool> {
        // SAFETY: given away to here.
        Ok(unsafe { delete::pending(self.give_away()?, exception) })
    }
}
