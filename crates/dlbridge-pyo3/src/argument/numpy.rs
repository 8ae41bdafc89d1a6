//! Arrays of NumPy as arguments: taken, refused or copied by what their head says, without an import.

use dlbridge::{DeviceType, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::convert::Source;
use super::expected::Expected;
use super::refusal::Refusal;
use super::taken::{Taken, outliving, taken_copy};
use crate::borrow::{Bytes, Guard};
use crate::numpy::array::NumpyArray;
use crate::order::Order;
use crate::protocol::{TypeInfo, type_info};

impl Expected {
    /// Takes an array of NumPy that fits and is contiguous in C order, where it is read in its place; `None` for all else.
    ///
    /// Inlined where the expected dtype and number of dimensions are known, so that little is left to compare. No code takes a
    /// reference to the tensor, so it is written once, where the argument stays.
    #[inline(always)]
    pub(super) fn take_run<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Box<Taken<'py>>> {
        let type_info = type_info::array_of(object)?;
        let run = type_info.head?.run(object, self.ndim, self.dtypes)?;
        let fits = self.fits_extents(run.shape())
            && self.fits_device(DeviceType::CPU)
            && self.requirement.order != Order::Fortran
            && self.misaligned(run.address(), run.dtype()).is_none()
            && !(self.mode == Mode::Write && run.is_read_only());
        if !fits {
            return None;
        }
        let guard =
            Guard::of_run(&type_info.borrowed, object, run.address(), run.bytes(), self.mode)?;
        // Allocated before the argument is made, which would be written on the stack first otherwise.
        let place = Box::new_uninit();
        let tensor = run.tensor()?;
        if (self.checks)(run.dtype()) {
            (self.check)(&tensor).ok()?;
        }
        // SAFETY: the object keeps the array, and the dims are the tensor's own.
        let tensor = unsafe { outliving(tensor) };
        Some(Taken::put(place, tensor, guard, None, object))
    }

    /// Takes an array of NumPy that fits, where it is read in its place; `None` for all else.
    pub(super) fn take_array<'py>(
        &self,
        type_info: &'static TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Option<Box<Taken<'py>>> {
        let head = type_info.head?;
        let (dtype, ndim) = head.dtype_and_ndim(object)?;
        if !self.fits_dtype(dtype) || self.ndim.is_some_and(|expected| expected != ndim) {
            return None;
        }
        let array = head.describe(object)?;
        let tensor = array.tensor;
        if !self.fits(&tensor, array.read_only) {
            return None;
        }
        let guard = match tensor.is_empty() {
            true => Guard::NONE,
            false => Guard::of_array(&type_info.borrowed, object, &Bytes::of(&tensor), self.mode)?,
        };
        if (self.checks)(dtype) {
            (self.check)(&tensor).ok()?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.ok()?;
        }
        // SAFETY: the object keeps the array, and the dims are the tensor's own.
        let tensor = unsafe { outliving(tensor) };
        Some(Taken::put(Box::new_uninit(), tensor, guard, None, object))
    }

    /// Refuses an array of NumPy that does not fit, if that is found without an import.
    pub(super) fn refuse_array(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'_, PyAny>,
    ) -> Result<(), Refusal> {
        let Some(head) = type_info.head else { return Ok(()) };
        if !self.times.is_empty() {
            return if head.has_times(object) { Ok(()) } else { Err(Refusal::Elements(self)) };
        }
        if let Some((dtype, ndim)) = head.dtype_and_ndim(object) {
            let fits = self.fits_dtype(dtype) && self.ndim.is_none_or(|expected| expected == ndim);
            let refused =
                !self.requirement.allow_copy && (!fits || self.unfit(head, object).is_some());
            return if refused { Err(Refusal::Object(self)) } else { Ok(()) };
        }
        if head.lacks_dtype(object) { Err(Refusal::Elements(self)) } else { Ok(()) }
    }

    /// Takes a copy of an array of NumPy that does not fit; `None` if it fits, or if only an import tells.
    pub(super) fn take_converted_array<'py>(
        &'static self,
        head: NumpyArray,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<Taken<'py>>>, Refusal> {
        let (array, byte_swapped) = match head.describe(object) {
            Some(array) => (array, false),
            None => match head.describe_swapped(object) {
                Some(array) => (array, true),
                None => return Ok(None),
            },
        };
        let tensor = array.tensor;
        let unmet = byte_swapped || !self.unmet(&tensor, None, None).is_empty();
        if !unmet || !self.fits_extents(tensor.shape()) {
            return Ok(None);
        }
        let copy = {
            let _reading = Guard::acquire(&type_info.borrowed, object, &tensor, Mode::Read)?;
            let source = Source { tensor, byte_swapped };
            let mut misfit = None;
            let copy = self.convert(&source, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&source.tensor, misfit, None));
            }
            copy
        };
        match copy {
            Some(copy) if self.unmet(&TensorRef::from(&copy), None, None).is_empty() => {
                Ok(Some(taken_copy(copy, object)))
            }
            _ => Ok(None),
        }
    }
}
