//! How an argument is taken: imported, compared with what was asked for, converted where that is
//! allowed, and borrowed.

use std::ffi::c_void;
use std::{mem, ptr};

use dlbridge::{Access, DataType, DeviceType, Error, Tensor, TensorRef, TensorRefMut};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::constraint::{Adjacent, Requirement};
use super::convert;
use super::words::{ALIGNED, COPIED};
use crate::PyTensor;
use crate::borrow::{Bytes, Guard};
use crate::error::{ArgumentError, to_py_err};
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
#[repr(C)]
pub(super) struct Taken<'py> {
    // Laid out as declared: it is moved on its way to the caller's function, in pieces of 16 bytes, and where such a
    // piece is of two fields that were just written apart the processor waits. In this order none is.
    /// Never handed out but for as long as this is borrowed.
    tensor: TensorRef<'static>,
    /// The stream that the data is in order with; NULL on the CPU.
    pub(super) stream: *mut c_void,
    // Dropped in this order: the borrow ends before the memory may.
    _guard: Guard,
    /// What keeps the memory, if it is not the object itself.
    lender: Option<Lender<'py>>,
    pub(super) object: Bound<'py, PyAny>,
}

impl Taken<'_> {
    /// Whether the elements are the argument's own, and no copy of them.
    pub(super) fn is_borrowed(&self) -> bool {
        !matches!(self.lender, Some(Lender::Copy(_)))
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
    /// Takes an array of NumPy that fits, where it is read in its place; `None` for all else.
    ///
    /// Inlined where what is expected is known, so that little is left to compare; and without a reference
    /// to the tensor, so that it is written once, where the argument is to be.
    #[inline(always)]
    pub(super) fn take_array<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Taken<'py>> {
        let kind = protocol::array_of(object)?;
        let array = kind.head?.describe(object, self.ndim)?;
        let (tensor, dtype) = (array.tensor, array.dtype);
        let written = self.mode == Mode::Write;
        let fits = self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(DeviceType::CPU)
            && self.fits_order(&tensor)
            && (tensor.is_empty() || self.misaligned(tensor.data().addr(), dtype).is_none())
            && !(written && array.read_only);
        if !fits {
            return None;
        }
        let guard = if tensor.is_empty() {
            Guard::NONE
        } else if tensor.is_c_contiguous() && !(self.checks)(dtype) {
            Guard::of_array(kind, object, &Bytes::run(&tensor, dtype), self.mode)?
        } else {
            self.borrow_and_check(kind, object, tensor.clone())?
        };
        // SAFETY: the object keeps the array, and the dims are the tensor's own.
        let tensor = unsafe { outliving(tensor) };
        let (object, stream) = (object.clone(), ptr::null_mut());
        Some(Taken { _guard: guard, tensor, lender: None, object, stream })
    }

    /// Borrows an array whose elements are to be checked or are not adjacent, which takes a reference to the
    /// tensor; `None` if something is wrong with them.
    #[inline(never)]
    fn borrow_and_check(
        &self,
        kind: &'static Kind,
        object: &Bound<'_, PyAny>,
        tensor: TensorRef<'_>,
    ) -> Option<Guard> {
        let guard = Guard::of_array(kind, object, &Bytes::of(&tensor), self.mode)?;
        (self.check)(&tensor).ok()?;
        // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
        let distinct = || unsafe { tensor.clone().assume_exclusive() }.is_ok();
        (self.mode == Mode::Read || distinct()).then_some(guard)
    }

    /// Takes an argument.
    #[inline(never)]
    pub(super) fn take<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Taken<'py>> {
        let kind = protocol::kind_of(object)?;
        // Nothing is derived from our class.
        if let Ok(ours) = object.cast_exact::<PyTensor>() {
            let (tensor, ours) = (TensorRef::from(&**ours.get().tensor()), ours.get());
            if self.fits(&tensor, ours.is_read_only()) {
                // SAFETY: the object keeps its tensor, which nobody can exchange for another.
                let tensor = unsafe { outliving(tensor) };
                return self.taken(tensor, None, &kind, object);
            }
        } else if let Some(buffer) = protocol::same_buffer(object, &kind)?
            && let Some(tensor) = buffer.describe()
            && self.fits(&tensor, buffer.is_read_only())
        {
            // SAFETY: the buffer keeps the memory, and the dims are the tensor's own.
            let tensor = unsafe { outliving(tensor) };
            return self.taken(tensor, Some(Lender::Buffer(buffer)), &kind, object);
        }
        let ours = object.is_exact_instance_of::<PyTensor>();
        let answer = match ours || self.requirement.allow_copy {
            true => ByTable::None,
            false => protocol::by_table(object, &kind)?,
        };
        let imported = match answer {
            ByTable::Tensor(tensor) => {
                // What is written to a copy would be lost.
                let lent = self.mode == Mode::Read || !protocol::is_copied(&tensor);
                if lent && self.fits(&TensorRef::from(&tensor), tensor.is_read_only()) {
                    return self.taken_from(tensor, &kind, object);
                }
                let imported = Imported::new(tensor, Protocol::ExchangeApi);
                protocol::told_copied(imported, &Wanted::default())
            }
            ByTable::OnDevice => protocol::past_table(object, &self.wanted()),
            ByTable::None => protocol::imported(object, &self.wanted()),
        };
        let imported = imported.map_err(|error| self.no_tensor(object, error))?;
        self.take_imported(imported, &kind, object)
    }

    /// Takes what was imported, or a copy of it, or says why not.
    fn take_imported<'py>(
        &self,
        mut imported: Imported,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Taken<'py>> {
        let py = object.py();
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty()
            && self.requirement.allow_copy
            && self.fits_extents(imported.tensor.shape())
        {
            // The copy is read under a borrow, as everything is.
            let lent = TensorRef::from(&imported.tensor);
            let _reading = Guard::acquire(kind, object, &lent, Mode::Read)?;
            if let Some(converted) = self.convert(&imported)? {
                unmet = self.compare(&converted);
                imported = converted;
            }
        }
        if !unmet.is_empty() {
            return Err(ArgumentError::Mismatch.new_err(py, &self.sentence(&imported, &unmet)));
        }
        self.taken_from(imported.tensor, kind, object)
    }

    /// Borrows an imported tensor that fits.
    fn taken_from<'py>(
        &self,
        owner: Tensor,
        kind: &Kind,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Taken<'py>> {
        let own = owner.access() == Access::Exclusive && self.requirement.allow_copy;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let lender = if own { Lender::Copy(owner) } else { Lender::Tensor(owner) };
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
    ) -> PyResult<Taken<'py>> {
        let guard = match lender {
            Some(Lender::Copy(_)) => Guard::NONE,
            _ => Guard::acquire(kind, object, &tensor, self.mode)?,
        };
        let (object, stream) = (object.clone(), ptr::null_mut());
        let taken = Taken { _guard: guard, tensor, lender, object, stream };
        if (self.checks)(taken.tensor.dtype()) {
            (self.check)(&taken.tensor).map_err(to_py_err)?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { taken.tensor.clone().assume_exclusive() }.map_err(to_py_err)?;
        }
        Ok(taken)
    }

    /// Takes an argument for who works on the device where it is, with the stream that it is in order with.
    /// What is on the CPU is borrowed; on a device the order of its streams does that office.
    pub(super) fn take_on_device<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        choice: Option<StreamOf>,
    ) -> PyResult<Taken<'py>> {
        let (imported, stream) =
            protocol::on_device(object, choice).map_err(|error| self.no_tensor(object, error))?;
        let unmet = self.compare(&imported);
        if !unmet.is_empty() {
            let text = self.sentence(&imported, &unmet);
            return Err(ArgumentError::Mismatch.new_err(object.py(), &text));
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
        Ok(Taken { _guard: guard, tensor, lender, object, stream })
    }

    fn wanted(&self) -> Wanted {
        let device = self.requirement.allow_copy.then_some(dlbridge::Device::CPU);
        Wanted { device, ..Wanted::default() }
    }

    /// What is different from what was asked for, in words.
    fn compare(&self, imported: &Imported) -> Vec<String> {
        let tensor = &TensorRef::from(&imported.tensor);
        let device_type = tensor.device().device_type();
        let mut unmet = Vec::new();
        if !self.fits_dtype(tensor.dtype()) {
            unmet.push(String::new());
        }
        if !self.fits_extents(tensor.shape()) {
            unmet.push(String::new());
        }
        if !self.fits_device(device_type) {
            unmet.push(String::new());
        }
        if !self.fits_order(tensor) {
            unmet.push(format!("strides {:?}", tensor.strides()));
        }
        if !tensor.is_empty()
            && device_type.is_addressable()
            && let Some(aligned) = self.misaligned(tensor.data().addr(), tensor.dtype())
        {
            unmet.push(format!("{ALIGNED}{aligned} bytes"));
        }
        match (self.mode, imported.reason) {
            (Mode::Write, _) if imported.is_read_only() => {
                unmet.push(match imported.tensor.is_read_only() {
                    true => "read-only".to_owned(),
                    false => "from a producer that cannot say whether it may be written".to_owned(),
                });
            }
            // What is written would be lost.
            (Mode::Write, Some(reason)) => unmet.push(format!("{COPIED}{reason}")),
            // That a producer makes its data only when asked is its own affair.
            (Mode::Read, Some(reason))
                if !self.requirement.allow_copy && reason != CopyReason::Producer =>
            {
                unmet.push(format!("{COPIED}{reason}"));
            }
            _ => {}
        }
        unmet
    }

    /// A copy that fits where this does not; `None` if no copy would.
    fn convert(&self, imported: &Imported) -> PyResult<Option<Imported>> {
        let tensor = &imported.tensor;
        if !tensor.device().device_type().is_host_accessible() {
            return Ok(None);
        }
        let known = self.dtypes.is_empty() || self.dtypes.contains(&tensor.dtype());
        let source = TensorRef::from(tensor);
        let source = match self.requirement.order {
            Adjacent::Fortran => source.transpose(),
            _ => source,
        };
        let copy = match known {
            true => source.to_copy().map(Some),
            false => convert::lossless(&source, self.dtypes),
        };
        let Some(copy) = copy.map_err(to_py_err)? else { return Ok(None) };
        let copy = match self.requirement.order {
            Adjacent::Fortran => copy.transpose(),
            _ => copy,
        };
        let reason = Some(imported.reason.unwrap_or(CopyReason::Requested));
        Ok(Some(Imported { reason, ..Imported::new(copy, imported.protocol) }))
    }
}

/// A borrowed tensor for longer than it was borrowed.
///
/// # Safety
/// What it was borrowed from outlives it all the same, and stays where it is.
unsafe fn outliving(tensor: TensorRef<'_>) -> TensorRef<'static> {
    // SAFETY: the same type; by contract.
    unsafe { mem::transmute::<TensorRef<'_>, TensorRef<'static>>(tensor) }
}
