//! The message for an argument that does not meet the demands.

use std::fmt::{Display, Write};

use dlbridge::{DataType, Device, DeviceType};
use dlbridge_borrow::Mode;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use super::convert::OutOfRange;
use super::refusal::{Found, Refusal, Refused};
use super::spec::{ArgumentSpec, Place};
use super::unmet::Unmet;
use crate::classes;
use crate::error::{name_of, type_name, with_article};
use crate::frameworks;
use crate::import;
use crate::mismatch::Mismatch;
use crate::order::Order;
use crate::protocol::left_out::Described;
use crate::protocol::{TypeInfo, left_out, type_info};

/// The capacity that most messages need, in bytes.
const ROOM: usize = 224;

/// A tensor that does not meet the demands.
pub(super) struct Shown<'a> {
    pub(super) dtype: DataType,
    pub(super) device: Device,
    pub(super) shape: &'a [i64],
    pub(super) strides: &'a [i64],
    pub(super) unmet: &'a Unmet,
    pub(super) out_of_range: Option<&'a OutOfRange>,
    pub(super) time: Option<&'a str>,
}

/// Returns the result of a lookup; `None` if the object raised an ordinary exception, which must not replace the
/// refusal. Exceptions that end the program, such as `KeyboardInterrupt`, are raised.
fn unless_refused<T>(py: Python<'_>, found: PyResult<T>) -> PyResult<Option<T>> {
    match found {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        found => Ok(found.ok()),
    }
}

impl ArgumentSpec {
    /// The message for an object.
    pub(super) fn words_of(&self, object: &Bound<'_, PyAny>) -> PyResult<String> {
        if let Some(type_info) = type_info::array_of(object)
            && let Some(text) = self.words_of_array(type_info, object)
        {
            return Ok(text);
        }
        let plain = classes::plain_python(object);
        if plain.is_none() {
            let known = unless_refused(object.py(), type_info::of(object))?;
            if let Some(text) = known.and_then(|kind| self.words_of_array(&kind, object)) {
                return Ok(text);
            }
        }
        let mut text = self.words();
        text += "; got ";
        text += &match plain {
            Some(plain) => with_article(plain.name),
            None => with_article(&type_name(object)),
        };
        text += ", which supports no exchange protocol";
        let has_elements = || -> PyResult<bool> {
            match plain {
                Some(plain) => Ok(plain.has_elements),
                None if object.is_instance_of::<PyString>()
                    || object.is_instance_of::<PyDict>() =>
                {
                    Ok(false)
                }
                None => {
                    let found = object.hasattr(intern!(object.py(), "__iter__"));
                    Ok(unless_refused(object.py(), found)?.unwrap_or(false))
                }
            }
        };
        if let Some(remedy) = frameworks::remedy(object) {
            text += "; ";
            text += &remedy;
        } else if object.is_instance_of::<PyType>() {
            text += "; pass an object, not a class";
        } else if has_elements()? {
            text += match self.allow_sequence {
                true => "; pass list(x)",
                false => "; pass an array of its elements",
            };
        }
        Ok(text)
    }

    /// The message for a NumPy array; `None` if it fits, or if only an import can decide.
    fn words_of_array(&self, type_info: &TypeInfo, object: &Bound<'_, PyAny>) -> Option<String> {
        let head = type_info.head?;
        let Some((array, unmet)) = self.unfit(head, object) else {
            // Some arrays can only be described by an import, for instance those with strides that are not multiples
            // of the element size.
            let (dtype, ndim) = head.dtype_and_ndim(object)?;
            let other = !self.fits_dtype(dtype) || self.ndim.is_some_and(|asked| asked != ndim);
            let shape = object.getattr(intern!(object.py(), "shape")).ok()?;
            let shape: Vec<i64> = shape.extract().ok().filter(|_| other)?;
            return Some(self.words_of_tensor(&Shown {
                dtype,
                device: Device::CPU,
                shape: &shape,
                strides: &[],
                unmet: &Unmet { plain: true, ..Unmet::default() },
                out_of_range: None,
                time: None,
            }));
        };
        let tensor = &array.tensor;
        Some(self.words_of_tensor(&Shown {
            dtype: array.dtype,
            device: Device::CPU,
            shape: tensor.shape(),
            strides: tensor.strides(),
            unmet: &unmet,
            out_of_range: None,
            time: None,
        }))
    }

    /// The message for a tensor.
    fn words_of_tensor(&self, found: &Shown<'_>) -> String {
        let mut text = String::with_capacity(ROOM);
        text += "expected ";
        self.write(&mut text, Some(found.unmet));
        text += "; got ";
        match found.time {
            Some(name) => text += name,
            None => push_dtype(&mut text, found.dtype),
        }
        push_numbers(&mut text, found.shape);
        text += " on ";
        push_device(&mut text, found.device);
        for mismatch in found.unmet.mismatches() {
            match mismatch {
                Mismatch::Order(_) => {
                    text += ", strides ";
                    push_numbers(&mut text, found.strides);
                }
                Mismatch::ReadOnly => text += ", read-only",
                mismatch => {
                    let _ = write!(text, ", {mismatch}");
                }
            }
        }
        if let Some(misfit) = found.out_of_range {
            let _ = write!(text, ", but {misfit}");
        }
        text
    }

    /// The beginning of every message: the demands.
    fn words(&self) -> String {
        let mut text = String::with_capacity(ROOM);
        text += "expected ";
        self.write(&mut text, None);
        text
    }
}

impl Refused {
    /// The message.
    pub(super) fn words(&self, py: Python<'_>) -> PyResult<String> {
        let spec = self.spec;
        Ok(match &self.found {
            Found::Tensor { dtype, device, dims, unmet, out_of_range, time } => {
                let (shape, strides) = dims.split_at(dims.len() / 2);
                spec.words_of_tensor(&Shown {
                    dtype: *dtype,
                    device: *device,
                    shape,
                    strides,
                    unmet,
                    out_of_range: out_of_range.as_ref(),
                    time: time.as_deref(),
                })
            }
            Found::Other(found) => spec.words() + "; got " + found,
            Found::Sequence { object_type, misfit } => {
                let name = name_of(object_type.bind(py));
                spec.words() + "; got " + &with_article(&name) + &misfit.words(py)?
            }
        })
    }
}

/// Appends the name of a dtype. A few comparisons find the most common ones.
fn push_dtype(text: &mut String, dtype: DataType) {
    *text += match dtype {
        DataType::FLOAT64 => "float64",
        DataType::FLOAT32 => "float32",
        DataType::INT64 => "int64",
        DataType::INT32 => "int32",
        DataType::UINT8 => "uint8",
        _ => return push(text, &dtype),
    };
}

fn push(text: &mut String, shown: &impl Display) {
    // Writing to a `String` never fails.
    let _ = write!(text, "{shown}");
}

/// Appends numbers in brackets.
fn push_numbers(text: &mut String, numbers: &[i64]) {
    text.push('[');
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            *text += ", ";
        }
        match number {
            0..=9 => text.push(char::from(b'0' + *number as u8)),
            _ => push(text, number),
        }
    }
    text.push(']');
}

fn push_device(text: &mut String, device: Device) {
    match device {
        Device::CPU => *text += "cpu",
        _ => push(text, &device),
    }
}

impl ArgumentSpec {
    /// The refusal of an object that is not a tensor, with the demands; returns other errors unchanged.
    pub(super) fn no_tensor(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let py = object.py();
        if left_out::is_left_out(&error) {
            return self.left_out(object, error);
        }
        if !error.is_instance_of::<PyTypeError>(py) {
            return Refusal::from(error);
        }
        match import::has_protocol(object) {
            Ok(true) => Refusal::from(error),
            Ok(false) => Refusal::Object(self),
            Err(raised) if !raised.is_instance_of::<PyException>(py) => Refusal::from(raised),
            Err(_) => Refusal::from(error),
        }
    }

    /// The refusal of an object whose protocol the extension is built without. It does not name the feature if an
    /// extension with the feature would refuse the object too.
    #[cold]
    fn left_out(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let found = match left_out::described(object) {
            Ok(Some(found)) => found,
            Ok(None) => return Refusal::Unimportable(Box::new(error)),
            Err(error) => return Refusal::from(error),
        };
        let Described { dtype, shape, is_read_only, reason } = found;
        let allow_copy = self.allow_copy;
        let fits_dtype = self.fits_dtype(dtype) || allow_copy;
        let plain = !fits_dtype || !self.fits_extents(&shape) || !self.fits_device(DeviceType::CPU);
        let access = (is_read_only && self.mode == Mode::Write).then_some(Mismatch::ReadOnly);
        let copied = reason.filter(|_| !allow_copy && access.is_none()).map(Mismatch::Copied);
        let unmet = Unmet { plain, access, copied, ..Unmet::default() };
        if unmet.is_empty() {
            return Refusal::Unimportable(Box::new(error));
        }
        // The message does not show the strides.
        let dims = shape.repeat(2);
        let (device, out_of_range, time) = (Device::CPU, None, None);
        Refusal::new(self, Found::Tensor { dtype, device, dims, unmet, out_of_range, time })
    }

    /// Appends the demands that matter for these differences.
    fn write(&self, text: &mut String, unmet: Option<&Unmet>) {
        self.write_dtypes(text);
        self.write_shape(text);
        self.write_devices(text);
        *text += match self.order {
            Order::Strided => "",
            Order::C => ", C order",
            Order::Fortran => ", Fortran order",
            Order::Either => ", C or Fortran order",
        };
        let align = match unmet.and_then(|unmet| unmet.alignment) {
            Some(Mismatch::Alignment { required, .. }) => required,
            _ => self.align,
        };
        if align > 1 {
            let _ = write!(text, ", aligned to {align} bytes");
        }
        if self.mode == Mode::Write {
            *text += ", writable";
        }
        if unmet.is_some_and(|unmet| unmet.copied.is_some()) {
            *text += ", without a copy";
        }
    }

    fn write_dtypes(&self, text: &mut String) {
        match (self.times, self.dtypes) {
            ([], []) => *text += "any dtype",
            ([], dtypes) => push_all(text, dtypes, push_dtype),
            (times, _) => push_all(text, times, |text, name| *text += name),
        }
    }

    fn write_devices(&self, text: &mut String) {
        match (self.devices, self.place) {
            ([], Place::Host) => *text += " on cpu",
            ([], Place::Anywhere) => *text += " on any device",
            (devices, _) => {
                *text += " on ";
                for (index, device_type) in devices.iter().enumerate() {
                    *text += if index > 0 { " or " } else { "" };
                    push(text, device_type);
                }
            }
        }
    }

    fn write_shape(&self, text: &mut String) {
        let dims = self.dims;
        let ndim = self.ndim.or((!dims.is_empty()).then_some(dims.len()));
        let Some(ndim) = ndim else {
            *text += "[...]";
            return;
        };
        text.push('[');
        for axis in 0..ndim {
            *text += if axis > 0 { ", " } else { "" };
            match dims.get(axis) {
                Some(Some(extent)) => push(text, extent),
                _ => text.push('_'),
            }
        }
        text.push(']');
    }
}

/// Appends names with commas, and another word before the last one.
fn push_all<T: Copy>(text: &mut String, shown: &[T], push: impl Fn(&mut String, T)) {
    for (index, &one) in shown.iter().enumerate() {
        *text += match index {
            0 => "",
            _ if index + 1 == shown.len() => " or ",
            _ => ", ",
        };
        push(text, one);
    }
}
