//! How an argument is taken: imported, compared with what was asked for, converted where that is
//! allowed, and borrowed.

use std::ffi::c_void;
use std::{mem, ptr};

use dlbridge::{Access, DataType, DeviceType, Error, Tensor, TensorRef, TensorRefMut};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::accepts::Accepts;
use super::cast::Cast;
use super::checked::{OutOfRange, Rescale};
use super::constraint::{Adjacent, Casting, Requirement};
use super::refusal::{Found, Refusal, Unmet, Unwritable};
use super::sequence;
#[cfg(feature = "tensor-class")]
use crate::PyTensor;
use crate::borrow::{AttachedGuard, Bytes, Guard};
use crate::copies;
use crate::error::to_py_err;
use crate::protocol::numpy_array::{Described, NumpyArray};
use crate::protocol::time::Times;
use crate::protocol::{self, ByTable, Imported, Kind, Lender, Protocol, StreamOf};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// What an argument must be.
pub(super) struct Expected {
    /// Any of these; any at all if there are none.
    pub(super) dtypes: &'static [DataType],
    /// What the address of an element of a dtype must be a multiple of, in bytes.
    pub(super) alignment: fn(DataType) -> usize,
    pub(super) ndim: Option<usize>,
    pub(super) place: Place,
    pub(super) requirement: Requirement,
    pub(super) mode: Mode,
    /// Whether a tensor that fits otherwise can be viewed as such elements.
    pub(super) check: fn(&TensorRef<'_>) -> Result<(), Error>,
    /// Whether that depends on more than the dtype.
    pub(super) checks: fn(DataType) -> bool,
    /// How elements of another dtype are converted, if they may be. A function here is linked only into extensions whose
    /// arguments ask for it.
    pub(super) cast: Cast,
    /// NumPy's names for elements that are counts of a unit of time; none for other elements.
    pub(super) times: &'static [&'static str],
    /// How times of another unit are converted, if they may be.
    pub(super) rescale: Rescale,
}

/// Where the data of an argument may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where the CPU reads it.
    Host,
    /// On any device.
    Anywhere,
}

impl Place {
    pub(super) fn has(self, device_type: DeviceType) -> bool {
        self == Self::Anywhere || device_type.is_host_accessible()
    }
}

/// An argument that is as it must be.
///
/// - **Taken.** The tensor is of one of the dtypes. If its place is the host it is readable by the CPU, and
///   valid as such elements; while the guard is alive no other borrow overlaps it, unless both read; and if it is
///   to be written, nobody else may write it and no two indices lead to one element. Its memory, and what it
///   says of itself, is there as long as the lender and the object are.
///
/// Arguments keep it in a box. An argument is moved on its way to the caller's function, and to move these fields takes longer
/// than to allocate memory: the processor waits where it reads several of them at once that were just written one by one.
pub(super) struct Taken<'py> {
    /// Never handed out but for as long as this is borrowed.
    tensor: TensorRef<'static>,
    /// The stream that the data is in order with; NULL on the CPU.
    pub(super) stream: *mut c_void,
    // Dropped in this order: the borrow ends before the memory may.
    _guard: AttachedGuard<'py>,
    /// What keeps the memory, if it is not the object itself.
    lender: Option<Lender<'py>>,
    pub(super) object: Bound<'py, PyAny>,
}

impl Taken<'_> {
    /// Whether the elements are the argument's own, and no copy of them.
    pub(super) fn is_borrowed(&self) -> bool {
        !self.lender.as_ref().is_some_and(Lender::is_copy)
    }

    /// NumPy's name for the elements, if they are times.
    pub(super) fn time(&self) -> Option<&'static str> {
        match &self.lender {
            Some(Lender::Times(times)) => Some(times.1),
            _ => None,
        }
    }

    pub(super) fn tensor(&self) -> &TensorRef<'_> {
        &self.tensor
    }

    /// The tensor, to write.
    ///
    /// # Safety
    /// It was taken to be written.
    pub(super) unsafe fn tensor_mut(&mut self) -> TensorRefMut<'_> {
        // SAFETY: Taken; nobody else who asks has a view of these bytes while the guard is alive, and
        // this is borrowed mutably. Who does not ask is the program's race (see the crate documentation).
        let exclusive = unsafe { self.tensor.clone().assume_exclusive() };
        exclusive.expect("it was looked for indices that lead to one element")
    }
}

impl Expected {
    /// Takes an array of NumPy that fits and is contiguous in C order, where it is read in its place; `None` for all else.
    ///
    /// Inlined where the expected dtype and number of dimensions are known, so that little is left to compare. No code takes a
    /// reference to the tensor, so it is written once, where the argument stays.
    #[inline(always)]
    pub(super) fn take_run<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Box<Taken<'py>>> {
        let kind = protocol::array_of(object)?;
        let run = kind.head?.run(object, self.ndim, self.dtypes)?;
        let fits = self.fits_extents(run.shape())
            && self.fits_device(DeviceType::CPU)
            && self.requirement.order != Adjacent::Fortran
            && self.misaligned(run.address(), run.dtype()).is_none()
            && !(self.mode == Mode::Write && run.is_read_only());
        if !fits {
            return None;
        }
        let guard = Guard::of_run(kind, object, run.address(), run.bytes(), self.mode)?;
        // Allocated before the argument is made, which would be written on the stack first otherwise.
        let place = Box::new_uninit();
        let tensor = run.tensor()?;
        if (self.checks)(run.dtype()) {
            (self.check)(&tensor).ok()?;
        }
        // SAFETY: the object keeps the array, and the dims are the tensor's own.
        let tensor = unsafe { outliving(tensor) };
        let (object, stream) = (object.clone(), ptr::null_mut());
        Some(Box::write(place, Taken { _guard: guard, tensor, lender: None, object, stream }))
    }

    /// Takes an array of NumPy that fits, where it is read in its place; `None` for all else.
    fn take_array<'py>(
        &self,
        kind: &'static Kind,
        object: &Bound<'py, PyAny>,
    ) -> Option<Box<Taken<'py>>> {
        let head = kind.head?;
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
            false => Guard::of_array(kind, object, &Bytes::of(&tensor), self.mode)?,
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
        let (object, stream) = (object.clone(), ptr::null_mut());
        Some(Box::new(Taken { _guard: guard, tensor, lender: None, object, stream }))
    }

    /// Takes a list or tuple of numbers, as a tensor of its own; `None` for other objects.
    #[inline(never)]
    pub(super) fn take_sequence<'py, A: Accepts>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<Taken<'py>>>, Refusal> {
        let Some(made) = sequence::tensor_of::<A>(self, object)? else { return Ok(None) };
        let tensor = TensorRef::from(&made);
        // Extents, dtype and device fit.
        let aligned = self.misaligned(tensor.data().addr(), tensor.dtype()).is_none();
        let owner = match self.fits_order(&tensor) && (tensor.is_empty() || aligned) {
            true => made,
            false => self.rearranged(&tensor)?,
        };
        Ok(Some(taken_copy(owner, object)))
    }

    /// A copy in the order that is asked for.
    fn rearranged(&self, source: &TensorRef<'_>) -> PyResult<Tensor> {
        let align = self.requirement.align.max((self.alignment)(source.dtype()));
        match self.requirement.order {
            Adjacent::Fortran => Ok(copies::copied(&source.transpose(), align)?.transpose()),
            _ => copies::copied(source, align),
        }
    }

    /// Takes an argument.
    #[inline(never)]
    pub(super) fn take<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        if let Some(kind) = protocol::array_of(object) {
            if self.times.is_empty()
                && let Some(taken) = self.take_array(kind, object)
            {
                return Ok(taken);
            }
            // Code that tries several types refuses arrays most of all.
            self.refuse_array(kind, object)?;
        }
        #[cfg(feature = "tensor-class")]
        let ours = object.cast_exact::<PyTensor>().ok();
        #[cfg(feature = "tensor-class")]
        if self.times.is_empty()
            && let Some(ours) = ours
        {
            // Nothing is derived from our class.
            let (tensor, ours) = (TensorRef::from(&**ours.get().tensor()), ours.get());
            if self.fits(&tensor, ours.is_read_only()) {
                let kind = protocol::kind_of(object)?;
                // SAFETY: the object keeps its tensor, which nobody can exchange for another.
                let tensor = unsafe { outliving(tensor) };
                return self.taken(tensor, None, &kind, object);
            }
        }
        let quick = protocol::quick_kind_of(object);
        if quick.is_none() && protocol::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        if !self.times.is_empty() {
            return self.take_times(object);
        }
        let kind = match quick {
            Some(kind) => kind,
            None => protocol::kind_of(object)?,
        };
        if protocol::never_has_a_door(object, &kind) {
            return Err(Refusal::Object(self));
        }
        self.refuse_array(&kind, object)?;
        if self.requirement.allow_copy
            && let Some(head) = kind.head
            && let Some(taken) = self.take_converted_array(head, &kind, object)?
        {
            return Ok(taken);
        }
        if let Some(buffer) = protocol::same_buffer(object, &kind)?
            && let Some(tensor) = buffer.describe()
            && self.fits(&tensor, buffer.is_read_only())
        {
            // SAFETY: the buffer keeps the memory, and the dims are the tensor's own.
            let tensor = unsafe { outliving(tensor) };
            return self.taken(tensor, Some(Lender::Buffer(buffer)), &kind, object);
        }
        #[cfg(feature = "tensor-class")]
        let is_ours = ours.is_some();
        #[cfg(not(feature = "tensor-class"))]
        let is_ours = false;
        let answer = match is_ours || self.requirement.allow_copy {
            true => ByTable::None,
            false => protocol::by_table(object, &kind)?,
        };
        let imported = match answer {
            ByTable::Tensor(tensor, storage) => {
                // What is written to a copy would be lost.
                let lent = self.mode == Mode::Read || !protocol::is_copied(&tensor);
                if lent && self.fits(&TensorRef::from(&tensor), tensor.is_read_only()) {
                    return self.taken_from(tensor, storage, &kind, object);
                }
                let imported = Imported::new(tensor, Protocol::ExchangeApi);
                let told = protocol::told_copied(imported, &Wanted::default());
                let imported = told.map_err(|error| self.no_tensor(object, error))?;
                return self.take_imported(imported, storage, &kind, object);
            }
            ByTable::OnDevice => protocol::past_table(object, &self.wanted()),
            ByTable::None => protocol::any_imported(object, &self.wanted()),
        };
        let imported = imported.map_err(|error| self.no_tensor(object, error))?;
        let imported = imported.ok_or(Refusal::Object(self))?;
        self.take_imported(imported, None, &kind, object)
    }

    /// Takes an argument whose elements are times.
    fn take_times<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let casts = self.requirement.cast.map(|cast| cast == Casting::SameKind);
        let times = Times::new(self.times, self.requirement.allow_copy, casts);
        let imported = protocol::time::import(object, &times);
        if let Some(found) = times.found() {
            return Err(Refusal::new(self, Found::Other(found)));
        }
        let Some((mut imported, source)) = imported? else {
            return Err(Refusal::Object(self));
        };
        let Some(chosen) = times.chosen() else { return Err(Refusal::Object(self)) };
        let kind = protocol::kind_of(&source)?;
        if !chosen.scale.is_one() && self.fits_extents(imported.tensor.shape()) {
            let found = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(&kind, &source, &found, Mode::Read)?;
            let tensor = match (self.rescale)(&imported.tensor, &chosen)? {
                Ok(tensor) => tensor,
                Err(misfit) => return Err(self.out_of_range(&found, misfit, Some(chosen.found))),
            };
            let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
            imported = Imported { reason, ..Imported::new(tensor, imported.protocol) };
        }
        let taken = self.take_imported(imported, None, &kind, &source);
        let mut taken = taken.map_err(|refusal| refusal.of_times(&chosen.found))?;
        let lender = taken.lender.take();
        taken.lender = lender.map(|lender| Lender::Times(Box::new((lender, chosen.name))));
        // The tensor that it holds keeps the memory.
        taken.object = object.clone();
        Ok(taken)
    }

    /// The refusal of a tensor with an element that the dtype cannot hold.
    #[cold]
    fn out_of_range(
        &'static self,
        tensor: &TensorRef<'_>,
        misfit: OutOfRange,
        time: Option<String>,
    ) -> Refusal {
        let mut found = Found::tensor(tensor, Unmet::default());
        if let Found::Tensor { out_of_range, time: unit, .. } = &mut found {
            (*out_of_range, *unit) = (Some(misfit), time);
        }
        Refusal::new(self, found)
    }

    /// Refuses an array of NumPy that does not fit, if that is found without an import.
    fn refuse_array(&'static self, kind: &Kind, object: &Bound<'_, PyAny>) -> Result<(), Refusal> {
        let Some(head) = kind.head else { return Ok(()) };
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

    /// The refusal of an array of NumPy whose elements cannot be the argument's, as an import finds it.
    #[cold]
    pub(super) fn refusal_of_elements(&'static self, object: &Bound<'_, PyAny>) -> Refusal {
        let refusal = match self.times.is_empty() {
            true => protocol::imported(object, &self.wanted()).map_err(Refusal::from).err(),
            false => self.take_times(object).err(),
        };
        match refusal {
            // Python code gave the array another dtype since.
            None | Some(Refusal::Elements(_)) => Refusal::Object(self),
            Some(refusal) => refusal,
        }
    }

    /// An array of NumPy that does not fit, and how it differs; `None` if it fits, or if only an import tells.
    pub(super) fn unfit<'a>(
        &self,
        head: NumpyArray,
        object: &'a Bound<'_, PyAny>,
    ) -> Option<(Described<'a>, Unmet)> {
        let array = head.describe(object)?;
        let unmet =
            self.unmet(&array.tensor, array.read_only.then_some(Unwritable::ReadOnly), None);
        (!unmet.is_empty()).then_some((array, unmet))
    }

    /// Takes a copy of an array of NumPy that does not fit; `None` if it fits, or if only an import tells.
    fn take_converted_array<'py>(
        &'static self,
        head: NumpyArray,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Option<Box<Taken<'py>>>, Refusal> {
        let Some(array) = head.describe(object) else { return Ok(None) };
        let unmet = self.unmet(&array.tensor, None, None);
        if unmet.is_empty() || !self.fits_extents(array.tensor.shape()) {
            return Ok(None);
        }
        let copy = {
            let _reading = Guard::acquire(kind, object, &array.tensor, Mode::Read)?;
            let mut misfit = None;
            let copy = self.convert(&array.tensor, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&array.tensor, misfit, None));
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

    /// Takes what was imported, or a copy of it, or says why not.
    fn take_imported<'py>(
        &'static self,
        mut imported: Imported,
        storage: Option<Bound<'py, PyAny>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty()
            && self.requirement.allow_copy
            && self.fits_extents(imported.tensor.shape())
        {
            // The copy is read under a borrow, as everything is.
            let lent = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(kind, object, &lent, Mode::Read)?;
            let mut misfit = None;
            let copy = self.convert(&lent, &mut misfit)?;
            if let Some(misfit) = misfit {
                return Err(self.out_of_range(&lent, misfit, None));
            }
            if let Some(copy) = copy {
                let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
                imported = Imported { reason, ..Imported::new(copy, imported.protocol) };
                unmet = self.compare(&imported);
            }
        }
        if !unmet.is_empty() {
            return Err(Refusal::new(
                self,
                Found::tensor(&TensorRef::from(&imported.tensor), unmet),
            ));
        }
        self.taken_from(imported.tensor, storage, kind, object)
    }

    /// Borrows an imported tensor that fits.
    fn taken_from<'py>(
        &self,
        owner: Tensor,
        storage: Option<Bound<'py, PyAny>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let own = owner.access() == Access::Exclusive && self.requirement.allow_copy;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let lender = match storage {
            _ if own => Lender::Copy(owner),
            None => Lender::Tensor(owner),
            Some(storage) => Lender::Stored(Box::new((owner, storage))),
        };
        self.taken(tensor, Some(lender), kind, object)
    }

    /// Whether there is nothing to say against a tensor that is no copy.
    #[inline]
    fn fits(&self, tensor: &TensorRef<'_>, read_only: bool) -> bool {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type)
            && self.fits_order(tensor)
            && (tensor.is_empty() || self.misaligned(tensor.data().addr(), dtype).is_none())
            && !(self.mode == Mode::Write && read_only)
    }

    /// Borrows what fits, unless it is a copy of our own, and checks what is in it.
    #[inline]
    fn taken<'py>(
        &self,
        tensor: TensorRef<'static>,
        lender: Option<Lender<'py>>,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        let guard = match lender {
            Some(Lender::Copy(_)) => Guard::NONE,
            _ => Guard::acquire(kind, object, &tensor, self.mode)?,
        };
        if (self.checks)(tensor.dtype()) {
            (self.check)(&tensor).map_err(to_py_err)?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.map_err(to_py_err)?;
        }
        // As in `take_run`.
        let place = Box::new_uninit();
        let (object, stream) = (object.clone(), ptr::null_mut());
        Ok(Box::write(place, Taken { _guard: guard, tensor, lender, object, stream }))
    }

    /// Takes an argument for who works on the device where it is, with the stream that it is in order with.
    /// What is on the CPU is borrowed; on a device the order of its streams does that office.
    pub(super) fn take_on_device<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
        choice: Option<StreamOf>,
    ) -> Result<Box<Taken<'py>>, Refusal> {
        if protocol::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        let (imported, stream) =
            protocol::on_device(object, choice).map_err(|error| self.no_tensor(object, error))?;
        let unmet = self.compare(&imported);
        if !unmet.is_empty() {
            return Err(Refusal::new(
                self,
                Found::tensor(&TensorRef::from(&imported.tensor), unmet),
            ));
        }
        let owner = imported.tensor;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let guard = match tensor.device().device_type().is_host_accessible() {
            true => {
                let kind = protocol::kind_of(object)?;
                Guard::acquire(&kind, object, &tensor, self.mode)?
            }
            false => Guard::NONE,
        };
        let (lender, object) = (Some(Lender::Tensor(owner)), object.clone());
        Ok(Box::new(Taken { _guard: guard, tensor, lender, object, stream }))
    }

    fn wanted(&self) -> Wanted {
        let device = self.requirement.allow_copy.then_some(dlbridge::Device::CPU);
        Wanted { device, ..Wanted::default() }
    }

    /// How an imported tensor differs from what was expected.
    fn compare(&self, imported: &Imported) -> Unmet {
        let unwritable = match imported.is_read_only() {
            true if imported.tensor.is_read_only() => Some(Unwritable::ReadOnly),
            true => Some(Unwritable::Unknown),
            false => None,
        };
        self.unmet(&TensorRef::from(&imported.tensor), unwritable, imported.reason)
    }

    /// How a tensor differs from what was expected.
    fn unmet(
        &self,
        tensor: &TensorRef<'_>,
        unwritable: Option<Unwritable>,
        reason: Option<CopyReason>,
    ) -> Unmet {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        let plain = self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type);
        let aligned = match tensor.is_empty() || !device_type.is_addressable() {
            true => None,
            false => self.misaligned(tensor.data().addr(), dtype),
        };
        let unwritable = unwritable.filter(|_| self.mode == Mode::Write);
        let copied = match self.mode {
            // What is written would be lost.
            Mode::Write => reason.filter(|_| unwritable.is_none()),
            // That a producer makes its data only when asked is its own affair.
            Mode::Read => reason
                .filter(|&reason| !self.requirement.allow_copy && reason != CopyReason::Producer),
        };
        Unmet { plain: !plain, order: !self.fits_order(tensor), aligned, unwritable, copied }
    }

    /// A copy that fits where this does not; `None` if no copy would.
    fn convert(
        &self,
        source: &TensorRef<'_>,
        misfit: &mut Option<OutOfRange>,
    ) -> PyResult<Option<Tensor>> {
        if !source.device().device_type().is_host_accessible() {
            return Ok(None);
        }
        if self.dtypes.is_empty() || self.dtypes.contains(&source.dtype()) {
            return self.rearranged(source).map(Some);
        }
        let copy = match self.requirement.order {
            Adjacent::Fortran => {
                let copy = (self.cast)(&source.transpose(), self.dtypes, misfit)?;
                if let Some(misfit) = misfit {
                    misfit.index.reverse();
                }
                copy.map(Tensor::transpose)
            }
            _ => (self.cast)(source, self.dtypes, misfit)?,
        };
        let Some(copy) = copy else { return Ok(None) };
        match self.misaligned(copy.data().addr(), copy.dtype()) {
            Some(_) if !copy.is_empty() => self.rearranged(&TensorRef::from(&copy)).map(Some),
            _ => Ok(Some(copy)),
        }
    }
}

/// An argument that is a copy, which nothing else has.
fn taken_copy<'py>(owner: Tensor, object: &Bound<'py, PyAny>) -> Box<Taken<'py>> {
    // SAFETY: the owner keeps the memory and the dims.
    let tensor = unsafe { outliving(TensorRef::from(&owner)) };
    let (lender, object) = (Some(Lender::Copy(owner)), object.clone());
    Box::new(Taken { _guard: Guard::NONE, tensor, lender, object, stream: ptr::null_mut() })
}

/// A borrowed tensor for longer than it was borrowed.
///
/// # Safety
/// What it was borrowed from outlives it all the same, and stays where it is.
unsafe fn outliving(tensor: TensorRef<'_>) -> TensorRef<'static> {
    // SAFETY: the same type; by contract.
    unsafe { mem::transmute::<TensorRef<'_>, TensorRef<'static>>(tensor) }
}
