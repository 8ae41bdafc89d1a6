//! How an argument is taken: imported, compared with what was asked for, converted where that is
//! allowed, and borrowed.

use std::ffi::c_void;
use std::fmt::Write;
use std::{mem, ptr};

use dlbridge::{Access, DataType, DeviceType, Error, Tensor, TensorRef, TensorRefMut};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::constraint::{Adjacent, Requirement};
use super::convert;
use crate::PyTensor;
use crate::borrow::{Bytes, Guard};
use crate::error::{ArgumentError, to_py_err, type_name};
use crate::protocol::{self, Imported, Kind, StreamOf};
use crate::receipt::CopyReason;
use crate::wanted::Wanted;

/// How differences begin that the sentence comes back to.
const ALIGNED: &str = "aligned to ";
const COPIED: &str = "copied, since ";

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
    fn has(self, device_type: DeviceType) -> bool {
        self == Self::Anywhere || device_type.is_host_accessible()
    }
}

/// An argument that is as it must be.
///
/// - **Taken.** The tensor is of one of the dtypes. If its place is the host it is readable by the CPU, and
///   valid as such elements; while the guard is alive no other borrow overlaps it, unless both read; and if it is
///   to be written, nobody else may write it and no two indices lead to one element. Its memory, and what it
///   says of itself, is there as long as the owner and the object are.
pub(super) struct Taken<'py> {
    // Dropped in this order: the borrow ends before the memory may.
    _guard: Guard,
    /// Whether the elements are a copy that nobody else has.
    own: bool,
    /// Never handed out but for as long as this is borrowed.
    tensor: TensorRef<'static>,
    /// What owns the memory, if it is not the object itself.
    _owner: Option<Tensor>,
    pub(super) object: Bound<'py, PyAny>,
    /// The stream that the data is in order with; NULL on the CPU.
    pub(super) stream: *mut c_void,
}

impl Taken<'_> {
    /// Whether the elements are the argument's own, and no copy of them.
    pub(super) fn is_borrowed(&self) -> bool {
        !self.own
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
        let kind = protocol::kept_of(object)?;
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
        Some(Taken { _guard: guard, own: false, tensor, _owner: None, object, stream })
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
        if let Some(taken) = self.take_at_once(object)? {
            return Ok(taken);
        }
        self.take_imported(object)
    }

    /// Takes an argument that fits, of our own class or of one that tells what it is by a function of C;
    /// `None` for all else.
    fn take_at_once<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Taken<'py>>> {
        let (tensor, owner, read_only) = match object.cast::<PyTensor>() {
            Ok(ours) => (TensorRef::from(&**ours.get().tensor()), None, ours.get().is_read_only()),
            Err(_) => {
                let Some(imported) = protocol::at_once(object)? else { return Ok(None) };
                let read_only = imported.is_read_only();
                // SAFETY: the owner keeps the memory and the dims.
                let tensor = unsafe { outliving(TensorRef::from(&imported.tensor)) };
                (tensor, Some(imported.tensor), read_only)
            }
        };
        if !self.fits(&tensor, read_only) {
            return Ok(None);
        }
        // SAFETY: the owner keeps the memory and the dims, or else the object its tensor, which nobody can
        // exchange for another.
        let tensor = unsafe { outliving(tensor) };
        let guard = Guard::acquire(object, &tensor, self.mode)?;
        self.taken(guard, tensor, owner, object).map(Some)
    }

    /// Whether there is nothing to say against a tensor that is no copy.
    fn fits(&self, tensor: &TensorRef<'_>, read_only: bool) -> bool {
        let (dtype, device_type) = (tensor.dtype(), tensor.device().device_type());
        self.fits_dtype(dtype)
            && self.fits_extents(tensor.shape())
            && self.fits_device(device_type)
            && self.fits_order(tensor)
            && (tensor.is_empty() || self.misaligned(tensor.data().addr(), dtype).is_none())
            && !(self.mode == Mode::Write && read_only)
    }

    /// What is borrowed, if its elements are such as were asked for.
    fn taken<'py>(
        &self,
        guard: Guard,
        tensor: TensorRef<'static>,
        owner: Option<Tensor>,
        object: &Bound<'py, PyAny>,
    ) -> PyResult<Taken<'py>> {
        if (self.checks)(tensor.dtype()) {
            (self.check)(&tensor).map_err(to_py_err)?;
        }
        if self.mode == Mode::Write {
            // SAFETY: only to find out whether it can be done; see `Taken::tensor_mut`.
            unsafe { tensor.clone().assume_exclusive() }.map_err(to_py_err)?;
        }
        let (object, stream) = (object.clone(), ptr::null_mut());
        Ok(Taken { _guard: guard, own: false, tensor, _owner: owner, object, stream })
    }

    /// Takes an argument through its first door.
    fn take_imported<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Taken<'py>> {
        let py = object.py();
        let mut imported = protocol::imported(object, &self.wanted())
            .map_err(|error| self.no_tensor(object, error))?;
        let mut unmet = self.compare(&imported);
        if !unmet.is_empty()
            && self.requirement.allow_copy
            && self.fits_extents(imported.tensor.shape())
        {
            // The copy is read under a borrow, as everything is.
            let _reading = Guard::acquire(object, &TensorRef::from(&imported.tensor), Mode::Read)?;
            if let Some(converted) = self.convert(&imported)? {
                unmet = self.compare(&converted);
                imported = converted;
            }
        }
        if !unmet.is_empty() {
            return Err(ArgumentError::Mismatch.new_err(py, &self.sentence(&imported, &unmet)));
        }
        let owner = imported.tensor;
        let own = owner.access() == Access::Exclusive && self.requirement.allow_copy;
        // SAFETY: the owner keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let guard = match own {
            true => Guard::NONE,
            false => Guard::acquire(object, &tensor, self.mode)?,
        };
        let taken = self.taken(guard, tensor, Some(owner), object)?;
        Ok(Taken { own, ..taken })
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
            true => Guard::acquire(object, &tensor, self.mode)?,
            false => Guard::NONE,
        };
        let (owner, object) = (Some(owner), object.clone());
        Ok(Taken { _guard: guard, own: false, tensor, _owner: owner, object, stream })
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

    #[inline(always)]
    fn fits_dtype(&self, dtype: DataType) -> bool {
        self.dtypes.is_empty() || self.dtypes.contains(&dtype)
    }

    #[inline(always)]
    fn fits_device(&self, device_type: DeviceType) -> bool {
        let devices = self.requirement.devices;
        self.place.has(device_type) && (devices.is_empty() || devices.contains(&device_type))
    }

    #[inline(always)]
    fn fits_order(&self, tensor: &TensorRef<'_>) -> bool {
        match self.requirement.order {
            Adjacent::Strided => true,
            Adjacent::C => tensor.is_c_contiguous(),
            Adjacent::Fortran => tensor.is_f_contiguous(),
            Adjacent::Either => tensor.is_c_contiguous() || tensor.is_f_contiguous(),
        }
    }

    /// What the address of an element is a multiple of, in bytes, if that is not enough.
    #[inline(always)]
    fn misaligned(&self, address: usize, dtype: DataType) -> Option<usize> {
        // A power of two.
        let align = self.requirement.align.max((self.alignment)(dtype));
        (address & (align - 1) != 0).then_some(address & address.wrapping_neg())
    }

    /// Whether the number of dimensions and the extents are those asked for.
    #[inline(always)]
    fn fits_extents(&self, shape: &[i64]) -> bool {
        let dims = self.requirement.dims;
        let fits = |(&extent, dim): (&i64, &Option<usize>)| {
            dim.is_none_or(|dim| usize::try_from(extent) == Ok(dim))
        };
        self.ndim.is_none_or(|ndim| ndim == shape.len())
            && (dims.is_empty() || dims.len() == shape.len())
            && shape.iter().zip(dims).all(fits)
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

    /// The refusal of an object that is no tensor, with what was expected; another error as it is.
    fn no_tensor(&self, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let py = object.py();
        if !error.is_instance_of::<PyTypeError>(py) || protocol::has_a_door(object).unwrap_or(true)
        {
            return error;
        }
        let (expected, found) = (self.expected(None, &[]), type_name(object));
        let text = format!("expected {expected}; got a {found}, which speaks no exchange protocol");
        let refusal = ArgumentError::Mismatch.new_err(py, &text);
        refusal.set_cause(py, Some(error));
        refusal
    }

    /// What was expected, and what came.
    fn sentence(&self, imported: &Imported, unmet: &[String]) -> String {
        let tensor = &imported.tensor;
        let mut text = format!("expected {}", self.expected(Some(tensor.dtype()), unmet));
        let device = tensor.device();
        let _ = write!(text, "; got {}{:?} on {device}", tensor.dtype(), tensor.shape());
        for words in unmet.iter().filter(|words| !words.is_empty()) {
            let _ = write!(text, ", {words}");
        }
        text
    }

    /// What was expected, for a tensor of a dtype that differs so.
    fn expected(&self, dtype: Option<DataType>, unmet: &[String]) -> String {
        let mut text = self.dtype_words();
        text += &self.shape_words();
        text += &self.device_words();
        text += match self.requirement.order {
            Adjacent::Strided => "",
            Adjacent::C => ", C order",
            Adjacent::Fortran => ", Fortran order",
            Adjacent::Either => ", C or Fortran order",
        };
        let misaligned = unmet.iter().any(|words| words.starts_with(ALIGNED));
        let align = match misaligned {
            true => self.requirement.align.max(dtype.map_or(1, self.alignment)),
            false => self.requirement.align,
        };
        if align > 1 {
            let _ = write!(text, ", {ALIGNED}{align} bytes");
        }
        if self.mode == Mode::Write {
            text += ", writable";
        }
        if unmet.iter().any(|words| words.starts_with(COPIED)) {
            text += ", without a copy";
        }
        text
    }

    fn dtype_words(&self) -> String {
        match self.dtypes {
            [] => "any dtype".to_owned(),
            [one] => one.to_string(),
            [first @ .., last] => {
                let first: Vec<_> = first.iter().map(DataType::to_string).collect();
                format!("{} or {last}", first.join(", "))
            }
        }
    }

    fn device_words(&self) -> String {
        match (self.requirement.devices, self.place) {
            ([], Place::Host) => " on cpu".to_owned(),
            ([], Place::Anywhere) => " on any device".to_owned(),
            (devices, _) => {
                let names: Vec<_> = devices.iter().map(DeviceType::to_string).collect();
                format!(" on {}", names.join(" or "))
            }
        }
    }

    fn shape_words(&self) -> String {
        let dims = self.requirement.dims;
        let ndim = self.ndim.or((!dims.is_empty()).then_some(dims.len()));
        let Some(ndim) = ndim else { return "[...]".to_owned() };
        let extent = |axis: usize| match dims.get(axis) {
            Some(Some(extent)) => extent.to_string(),
            _ => "_".to_owned(),
        };
        format!("[{}]", (0..ndim).map(extent).collect::<Vec<_>>().join(", "))
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
