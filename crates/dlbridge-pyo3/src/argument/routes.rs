//! The routes by which an argument gets its tensor. Each makes all checks of an import.
//!
//! 1. [`borrow_run`](ArgumentSpec::borrow_run), [`borrow_numpy`](ArgumentSpec::borrow_numpy): NumPy's array is read in
//!    place; it is copied if it does not fit and a copy is allowed.
//! 2. [`borrow_torch`](ArgumentSpec::borrow_torch): PyTorch's tensor that is only read is described in place, and its
//!    storage keeps the memory.
//! 3. [`borrow_buffer`](ArgumentSpec::borrow_buffer): an object whose buffer has the same data as its `__dlpack__`,
//!    such as a JAX array, is viewed through that buffer.
//! 4. [`import_argument`](ArgumentSpec::import_argument): every other object is imported, as `import/mod.rs` describes,
//!    and compared.
//! 5. [`copy_sequence`](ArgumentSpec::copy_sequence): a list or tuple is copied, if the argument allows that.
//! 6. [`import_times`](ArgumentSpec::import_times): elements that are times, in a unit of the argument.
//! 7. [`import_on_device`](ArgumentSpec::import_on_device): a `PyDeviceTensor` is imported with its stream.

use dlbridge::{Access as TensorAccess, CopyReason, DeviceType, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::{BorrowedArgument, MemoryOwner, borrow_copy, outliving};
use super::cast::rescaled;
use super::mismatch::{Access, Difference};
use super::refusal::{Refusal, not_borrowed};
use super::sequence;
use super::spec::{ArgumentSpec, Unfit};
use crate::borrow::{Guard, bytes_of};
use crate::import::{self, Depth};
use crate::import_options::Order;
use crate::imported::Imported;
use crate::protocol::buffer::HeldBuffer;
use crate::protocol::time::Times;
use crate::protocol::{TypeInfo, torch_view, type_info};
use crate::python::objects;
use crate::stream::StreamOf;

/// The result of a route; `None` if only a later one can decide.
type Route<'py> = Result<Option<Box<BorrowedArgument<'py>>>, Refusal>;

impl ArgumentSpec {
    /// Gets the tensor of an object that [`borrow_run`](Self::borrow_run) leaves and that is not a list.
    #[inline(never)]
    pub(super) fn extract<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        // Code that tries several types most often refuses arrays, so this comes first.
        if let Some(type_info) = type_info::array_of(object)
            && let Some(argument) = self.borrow_numpy(type_info, object)?
        {
            return Ok(argument);
        }
        let quick = type_info::quick_of(object);
        if let Some(type_info) = quick
            && let Some(argument) = self.borrow_torch(type_info, object)?
        {
            return Ok(argument);
        }
        if quick.is_none() && objects::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        let found;
        let type_info = match quick {
            Some(type_info) => type_info,
            None => {
                found = type_info::of(object)?;
                // The first array of the process.
                if let Some(type_info) = type_info::array_of(object)
                    && let Some(argument) = self.borrow_numpy(type_info, object)?
                {
                    return Ok(argument);
                }
                &found
            }
        };
        if let Some(argument) = self.borrow_buffer(type_info, object)? {
            return Ok(argument);
        }
        self.import_argument(type_info, object)
    }

    /// Borrows a NumPy array that fits, is contiguous in C order and is read in place; `None` for everything else.
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
            && self.fits_address(run.address(), run.dtype())
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

    /// Borrows a NumPy array that fits, copies one that does not, or refuses it.
    fn borrow_numpy<'py>(
        &'static self,
        type_info: &'static TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Route<'py> {
        let Some(head) = type_info.head else { return Ok(None) };
        let Some((dtype, ndim)) = head.dtype_and_ndim(object) else {
            if head.lacks_dtype(object) {
                return Err(Refusal::Elements(self));
            }
            if let Some(copies) = self.copies {
                let copy = (copies.of_array)(self, head, type_info, object, true);
                return self.borrow_copied(copy, object);
            }
            let Some(array) = head.describe_swapped(object) else { return Ok(None) };
            let reason = Some(CopyReason::ByteOrder);
            let mismatch = self.compare(&array.tensor, Access::new(array.read_only), reason);
            return Err(Refusal::of(self, &array.tensor, mismatch, reason));
        };
        let fits = self.fits_dtype(dtype) && self.ndim.is_none_or(|expected| expected == ndim);
        if !fits && self.copies.is_none() {
            return Err(Refusal::Object(self));
        }
        let Some(array) = head.describe(object) else { return Ok(None) };
        let tensor = &array.tensor;
        let mismatch = self.compare(tensor, Access::new(array.read_only), None);
        if !mismatch.is_empty() {
            return match self.copies {
                Some(copies) if !mismatch.has(Difference::Extents) => {
                    let copy = (copies.of_array)(self, head, type_info, object, false);
                    self.borrow_copied(copy, object)
                }
                _ => Err(Refusal::Object(self)),
            };
        }
        let guard = match tensor.is_empty() {
            true => Some(Guard::NONE),
            false => Guard::of_array(&type_info.borrowed, object, bytes_of(tensor), self.mode),
        };
        // An import raises the errors.
        let Some(guard) = guard else { return Ok(None) };
        let is_valid = !(self.checks)(dtype) || (self.check)(tensor).is_ok();
        if !is_valid || self.exclusive.is_some_and(|check| check(tensor).is_err()) {
            return Ok(None);
        }
        // SAFETY: the argument keeps a reference to the array, which keeps the memory; the dims are stored with the
        // tensor.
        let tensor = unsafe { outliving(array.tensor) };
        Ok(Some(BorrowedArgument::put(Box::new_uninit(), tensor, guard, None, object)))
    }

    /// Borrows an object that fits and is described in its storage. A description lacks the flag for read-only memory,
    /// so an argument that writes needs an import.
    #[inline]
    fn borrow_torch<'py>(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Route<'py> {
        match torch_view::is_described(type_info) && self.mode == Mode::Read {
            true => self.borrow_described(type_info, object),
            false => Ok(None),
        }
    }

    #[inline(never)]
    fn borrow_described<'py>(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Route<'py> {
        let _depth = Depth::enter()?;
        type_info.check_before(object)?;
        // Allocated before the argument exists; the argument would otherwise be built on the stack first.
        let place = Box::new_uninit();
        let found = torch_view::Described::of(object, type_info)?;
        let Some(found) = found else { return Ok(None) };
        let storage = found.storage.clone();
        let stored = |found: torch_view::Described<'py>| Some(MemoryOwner::Storage(found.storage));
        // SAFETY: no code has run since the description. No element is read before `is_stored` below, and the argument
        // keeps the storage as long as the tensor.
        let mut argument = match unsafe { found.run() } {
            Some(tensor) => {
                BorrowedArgument::put(place, tensor, Guard::NONE, stored(found), object)
            }
            // SAFETY: as above: `run` only reads the description, and calls nothing.
            None => match unsafe { found.tensor() } {
                Some(tensor) => {
                    BorrowedArgument::put(place, tensor, Guard::NONE, stored(found), object)
                }
                None => return Ok(None),
            },
        };
        let dtype = argument.tensor().dtype();
        // The import of an argument that may copy converts elements that are not values.
        let may_convert = self.copies.is_some() && (self.checks)(dtype);
        if !self.compare(argument.tensor(), Access::Writable, None).is_empty()
            || may_convert
            || !torch_view::is_sound(object, type_info, dtype)?
            || !torch_view::is_stored(&storage, argument.tensor())?
        {
            return Ok(None);
        }
        let guard = Guard::acquire(&type_info.borrowed, object, argument.tensor(), self.mode)?;
        argument.set_guard(guard);
        self.check_elements(argument.tensor())?;
        Ok(Some(argument))
    }

    /// Borrows the buffer of an object that fits. If the object refuses, `__dlpack__` reports the reason.
    #[inline]
    fn borrow_buffer<'py>(&self, type_info: &TypeInfo, object: &Bound<'py, PyAny>) -> Route<'py> {
        if type_info.same_buffer.is_none() {
            return Ok(None);
        }
        type_info.check_before(object)?;
        let Some(buffer) = HeldBuffer::get(object)? else { return Ok(None) };
        let Some(tensor) = buffer.describe() else { return Ok(None) };
        if !self.compare(&tensor, Access::new(buffer.is_read_only()), None).is_empty() {
            return Ok(None);
        }
        // SAFETY: the argument keeps the buffer, which keeps the memory; the dims are stored with the tensor.
        let tensor = unsafe { outliving(tensor) };
        self.borrow(tensor, Some(MemoryOwner::Buffer(buffer)), type_info, object).map(Some)
    }

    /// Imports an object, and borrows its tensor or a copy of it.
    fn import_argument<'py>(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let table = match self.copies.filter(|_| self.ndim == Some(2)) {
            Some(copies) => (copies.of_table)(object, self.order),
            None => Ok(None),
        };
        let imported = table.and_then(|table| match table {
            None => import::import_as_it_is(object, type_info, &self.import_options()),
            table => Ok(table),
        });
        let imported = imported.map_err(|error| self.no_tensor(object, error))?;
        self.borrow_imported(imported.ok_or(Refusal::Object(self))?, type_info, object)
    }

    /// Imports an object whose elements are times, in a unit of the argument.
    pub(super) fn import_times<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        if objects::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        let times = Times::new(self.times, self.copies.is_some(), self.allow_cast.then_some(true));
        let imported = import::import_times(object, &times);
        if let Some(found) = times.found() {
            return Err(Refusal::Other(Box::new((self, found))));
        }
        let (Some((mut imported, source)), Some(chosen)) = (imported?, times.chosen()) else {
            return Err(Refusal::Object(self));
        };
        let type_info = type_info::of(&source)?;
        if !chosen.scale.is_one() && self.fits_extents(imported.tensor.shape()) {
            let found = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&type_info.borrowed, &source, &found, Mode::Read)?;
            let made = self.in_words(&found, Some(&chosen.found), rescaled(&found, &chosen));
            if let Some(made) = self.unless_unfit(made)? {
                imported = copied(imported, made);
            }
        }
        let argument = self.borrow_imported(imported, &type_info, &source);
        let mut argument = argument.map_err(|refusal| refusal.of_times(&chosen.found))?;
        // The owner keeps the memory of another object, such as the array's view as integers.
        (argument.time, argument.object) = (Some(chosen.name), object.clone());
        Ok(argument)
    }

    /// Copies a list or tuple of numbers into a new tensor; `None` for other objects.
    #[inline(never)]
    pub(super) fn copy_sequence<'py>(&'static self, object: &Bound<'py, PyAny>) -> Route<'py> {
        let Some(made) = sequence::tensor_of(self, object)? else { return Ok(None) };
        let tensor = TensorRef::from(&made);
        if self.compare(&tensor, Access::Writable, None).is_empty() {
            return self.borrow_valid(made, object).map(Some);
        }
        // The extents, the dtype and the device already fit.
        let rearranged =
            self.unless_unfit(self.in_words(&tensor, None, self.convert(&tensor, false)))?;
        rearranged.map(|owner| self.borrow_valid(owner, object)).transpose()
    }

    /// Borrows a copy that fits, and checks its elements.
    fn borrow_valid<'py>(
        &self,
        copy: Tensor,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        self.check_elements(&TensorRef::from(&copy))?;
        Ok(borrow_copy(copy, object))
    }

    /// Checks that the elements are values of the dtype.
    #[inline]
    fn check_elements(&self, tensor: &TensorRef<'_>) -> PyResult<()> {
        match (self.checks)(tensor.dtype()) {
            true => (self.check)(tensor).map_err(not_borrowed),
            false => Ok(()),
        }
    }

    /// Borrows a copy of a NumPy array; `None` if no copy fits, or if only an import can decide.
    fn borrow_copied<'py>(
        &'static self,
        copy: Result<Tensor, Unfit>,
        object: &Bound<'py, PyAny>,
    ) -> Route<'py> {
        self.unless_unfit(copy)?.map(|copy| self.borrow_valid(copy, object)).transpose()
    }

    /// A copy, or the refusal of a tensor with an element that does not fit; `None` if no copy can fit.
    fn unless_unfit(&'static self, copy: Result<Tensor, Unfit>) -> Result<Option<Tensor>, Refusal> {
        match copy {
            Ok(copy) => Ok(Some(copy)),
            Err(Unfit::Always) => Ok(None),
            Err(Unfit::Element(found)) => Err(Refusal::Other(Box::new((self, found)))),
            Err(Unfit::Raised(error)) => Err(error.into()),
        }
    }

    /// Imports an argument for code that works on the data's device, and synchronises the data with the argument's
    /// stream. Host memory is borrowed; device memory is not, because its streams order the accesses.
    pub(super) fn import_on_device<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
        choice: Option<StreamOf>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        if objects::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        let imported =
            import::on_device(object, choice).map_err(|error| self.no_tensor(object, error))?;
        let (imported, stream) = imported.ok_or(Refusal::Object(self))?;
        let tensor = TensorRef::from(&imported.tensor);
        let mismatch = self.compare(&tensor, Access::of(&imported), imported.reason);
        if !mismatch.is_empty() {
            return Err(Refusal::of(self, &tensor, mismatch, imported.reason));
        }
        // SAFETY: the argument keeps the owner, which keeps the memory and the dims.
        let tensor = unsafe { outliving(tensor) };
        let guard = match tensor.device().device_type().is_host_accessible() {
            true => {
                let type_info = type_info::of(object)?;
                Guard::acquire(&type_info.borrowed, object, &tensor, self.mode)?
            }
            false => Guard::NONE,
        };
        let owner = Some(MemoryOwner::Tensor(imported.tensor));
        let mut argument = BorrowedArgument::put(Box::new_uninit(), tensor, guard, owner, object);
        argument.stream = stream;
        Ok(argument)
    }

    /// The exception for a NumPy array whose elements the argument cannot accept, as an import makes it.
    #[cold]
    pub(super) fn refusal_of_elements(&'static self, object: &Bound<'_, PyAny>) -> Refusal {
        let imported = type_info::of(object).and_then(|type_info| {
            import::import_as_it_is(object, &type_info, &self.import_options())
        });
        // Python code may have changed the array's dtype meanwhile.
        imported.map_or_else(Refusal::from, |_| Refusal::Object(self))
    }

    /// Borrows an imported tensor, or a copy of it that fits.
    fn borrow_imported<'py>(
        &'static self,
        mut imported: Imported,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let compare = |imported: &Imported| {
            let tensor = TensorRef::from(&imported.tensor);
            self.compare(&tensor, Access::of(imported), imported.reason)
        };
        let mut mismatch = compare(&imported);
        if !mismatch.is_empty()
            && let Some(copies) = self.copies
            && !mismatch.has(Difference::Extents)
            && let Some(copy) =
                self.unless_unfit((copies.of_tensor)(self, &imported.tensor, type_info, object))?
        {
            imported = copied(imported, copy);
            mismatch = compare(&imported);
        }
        let Imported { tensor: owner, reason, .. } = imported;
        if !mismatch.is_empty() {
            return Err(Refusal::of(self, &TensorRef::from(&owner), mismatch, reason));
        }
        // SAFETY: `owner` keeps the memory and the dims alive, and is stored beside the tensor.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        // The memory of a copy that the package made is not exclusive.
        let is_copy = owner.access() == TensorAccess::Exclusive
            || imported.reason.is_some_and(|reason| reason != CopyReason::Producer);
        let memory_owner = match is_copy && self.copies.is_some() {
            true => MemoryOwner::Copy(owner),
            false => MemoryOwner::Tensor(owner),
        };
        self.borrow(tensor, Some(memory_owner), type_info, object)
    }

    /// Borrows a tensor that fits, except a copy of our own, and checks its elements.
    #[inline]
    fn borrow<'py>(
        &self,
        tensor: TensorRef<'static>,
        memory_owner: Option<MemoryOwner<'py>>,
        type_info: &TypeInfo,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        let guard = match &memory_owner {
            // The memory of a copy that the package reports is borrowed: only exclusive access shows that nothing has it.
            Some(MemoryOwner::Copy(copy)) if copy.access() == TensorAccess::Exclusive => {
                Guard::NONE
            }
            _ => Guard::acquire(&type_info.borrowed, object, &tensor, self.mode)?,
        };
        self.check_elements(&tensor)?;
        if let Some(check) = self.exclusive {
            check(&tensor).map_err(not_borrowed)?;
        }
        Ok(BorrowedArgument::put(Box::new_uninit(), tensor, guard, memory_owner, object))
    }
}

/// An imported tensor that was replaced by a copy.
fn copied(imported: Imported, copy: Tensor) -> Imported {
    let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
    Imported { reason, ..Imported::new(copy, imported.protocol) }
}
