//! NumPy arrays as arguments: borrowed, refused or copied by the metadata in the array's C struct, without an import.

use dlbridge::{DeviceType, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::{BorrowedArgument, borrow_copy, outliving};
use super::convert::Source;
use super::refusal::Refusal;
use super::spec::ArgumentSpec;
use crate::borrow::{Bytes, Guard};
use crate::numpy::array::{Described, NumpyArray};
use crate::order::Order;
use crate::protocol::{TypeInfo, type_info};

impl ArgumentSpec {
    /// Takes a NumPy array that fits, is contiguous in C order and is read in place; `None` for everything else.
    ///
    /// Inlined where the expected dtype and number of dimensions are constants, which leaves few comparisons. Only the
    /// check of elements such as `bool` takes a reference to the tensor before it is stored; without that check it is
    /// written once, to its final address.
    #[inline(always)]
    pub(super) fn borrow_run<'py>(
        &self,
        object: &Bound<'py, PyAny>,
    ) -> Option<Box<BorrowedArgument<'py>>> {
        let type_info = type_info::of_arrays()?;
        let run = type_info.head?.run(object, self.ndim, self.dtypes)?;
        let fits = self.fits_extents(run.shape())
            && self.fits_device(DeviceType::CPU)
            && self.order != Order::Fortran
            && self.misaligned(run.address(), run.dtype()).is_none()
            && !(self.mode == Mode::Write && run.is_read_only());
        if !fits {
            return None;
        }
        let guard =
            Guard::of_run(&type_info.borrowed, object, run.address(), run.bytes(), self.mode)?;
        // Allocated before the argument exists; the argument would otherwise be built on the stack first.
        let place = Box::new_uninit();
        let tensor = run.tensor()?;
        if (self.checks)(run.dtype()) {
            (self.check)(&tensor).ok()?;
        }
        // SAFETY: the argument keeps a reference to the array, which keeps the memory; the dims are stored with the
        // tensor.
        let tensor = unsafe { outliving(tensor) };
        Some(BorrowedArgument::put(place, tensor, guard, None, object))
    }

    /// Takes a NumPy array that fits and is read in place; `None` for everything else.
    pub(super) fn borrow_numpy<'py>(
        &self,
        type_info: &'static TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Option<Box<BorrowedArgument<'py>>> {
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
            // SAFETY: the tensor is dropped at once; this only checks that exclusive access is possible. See
            // `BorrowedArgument::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.ok()?;
        }
        // SAFETY: the argument keeps a reference to the array, which keeps the memory; the dims are stored with the
        // tensor.
        let tensor = unsafe { outliving(tensor) };
        Some(BorrowedArgument::put(Box::new_uninit(), tensor, guard, None, object))
    }

    /// Refuses a NumPy array that does not fit, if that is clear without an import.
    pub(super) fn refuse_numpy(
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
            let refused = !self.allow_copy && (!fits || self.unfit(head, object).is_some());
            return if refused { Err(Refusal::Object(self)) } else { Ok(()) };
        }
        if head.lacks_dtype(object) { Err(Refusal::Elements(self)) } else { Ok(()) }
    }

    /// Takes a copy of a NumPy array that does not fit; `None` if it fits, or if only an import can decide.
    pub(super) fn copy_numpy<'py>(
        &'static self,
        head: NumpyArray,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<BorrowedArgument<'py>>>, Refusal> {
        let described = || match head.describe(object) {
            Some(array) => Some((array, false)),
            None => head.describe_swapped(object).map(|array| (array, true)),
        };
        let Some((found, byte_swapped)) = described() else { return Ok(None) };
        let unmet = byte_swapped || !self.unmet(&found.tensor, None, None).is_empty();
        if !unmet || !self.fits_extents(found.tensor.shape()) {
            return Ok(None);
        }
        let copy = {
            let _reading = Guard::acquire(&type_info.borrowed, object, &found.tensor, Mode::Read)?;
            // The first borrow may import modules, and code that runs meanwhile may replace the array's memory.
            let same = |now: &(Described<'_>, bool)| now.1 == byte_swapped && now.0.is_as(&found);
            let Some((now, _)) = described().filter(same) else { return Ok(None) };
            let source = Source { tensor: now.tensor, byte_swapped };
            let mut misfit = None;
            let copy = self.convert(&source, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&source.tensor, misfit, None));
            }
            copy
        };
        match copy {
            Some(copy) if self.unmet(&TensorRef::from(&copy), None, None).is_empty() => {
                Ok(Some(borrow_copy(copy, object)))
            }
            _ => Ok(None),
        }
    }
}
