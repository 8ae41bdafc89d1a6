//! What is said to an argument that is another one than was expected.

use std::fmt::{Display, Write};

use dlbridge::{DataType, Device, DeviceType};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::constraint::Adjacent;
use super::refusal::{Found, Mismatch, ObjectMismatch, Refusal, Unmet, Unwritable};
use super::take::{Expected, Place};
use crate::error::{name_of, type_name};
use crate::protocol;
use crate::protocol::buffer_abi;

/// The bytes of most messages, at most.
const ROOM: usize = 224;

impl ObjectMismatch {
    /// What was expected, and what came.
    pub(super) fn words(&self, py: Python<'_>) -> String {
        let (expected, object) = (self.expected, self.object.bind(py));
        let plain = protocol::plain_python(object);
        if plain.is_none()
            && let Ok(kind) = protocol::kind_of(object)
            && let Some(found) = expected.unfit_array(&kind, object)
        {
            return Mismatch { expected, found }.words(py);
        }
        let mut text = String::with_capacity(ROOM);
        text += "expected ";
        expected.write(&mut text, None, None);
        text += "; got a ";
        match plain {
            Some(plain) => text += plain.name,
            None => text += &type_name(object),
        }
        text += ", which speaks no exchange protocol";
        let has_elements = || match plain {
            Some(plain) => plain.has_elements,
            None => {
                let is_text =
                    object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
                !is_text && object.hasattr(intern!(py, "__iter__")).unwrap_or(false)
            }
        };
        if buffer_abi::is_missing(py) {
            text += "; ";
            text += buffer_abi::MISSING;
        } else if has_elements() {
            text += match expected.requirement.allow_sequence {
                true => "; pass list(x)",
                false => "; pass an array of its elements",
            };
        }
        text
    }
}

impl Mismatch {
    /// What was expected, and what came.
    pub(super) fn words(&self, py: Python<'_>) -> String {
        let expected = self.expected;
        let mut text = String::with_capacity(ROOM);
        text += "expected ";
        match &self.found {
            Found::Tensor { dtype, device, dims, unmet, out_of_range, time } => {
                let (shape, strides) = dims.split_at(dims.len() / 2);
                expected.write(&mut text, Some(*dtype), Some(unmet));
                text += "; got ";
                match time {
                    Some(name) => text += name,
                    None => push(&mut text, dtype),
                }
                push_numbers(&mut text, shape);
                text += " on ";
                push_device(&mut text, *device);
                if unmet.order {
                    text += ", strides ";
                    push_numbers(&mut text, strides);
                }
                if let Some(aligned) = unmet.aligned {
                    let _ = write!(text, ", aligned to {aligned} bytes");
                }
                text += match unmet.unwritable {
                    Some(Unwritable::ReadOnly) => ", read-only",
                    Some(Unwritable::Unknown) => {
                        ", from a producer that cannot say whether it may be written"
                    }
                    None => "",
                };
                if let Some(reason) = unmet.copied {
                    let _ = write!(text, ", copied, since {reason}");
                }
                if let Some(misfit) = out_of_range {
                    let _ = write!(text, ", but {misfit}");
                }
            }
            Found::Other(found) => {
                expected.write(&mut text, None, None);
                text += "; got ";
                text += found;
            }
            Found::Sequence { object_type, misfit } => {
                expected.write(&mut text, None, None);
                text += "; got a ";
                text += &name_of(object_type.bind(py));
                text += &misfit.words(py);
            }
        }
        text
    }
}

fn push(text: &mut String, shown: &impl Display) {
    // A `String` never fails.
    let _ = write!(text, "{shown}");
}

/// Numbers in brackets.
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

impl Expected {
    /// The refusal of an object that is not a tensor, with what was expected; another error as it is.
    pub(super) fn no_tensor(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let py = object.py();
        if protocol::is_left_out(&error) {
            return self.left_out(object, error);
        }
        if !error.is_instance_of::<PyTypeError>(py) || protocol::has_a_door(object).unwrap_or(true)
        {
            return Refusal::Raised(error);
        }
        Refusal::object(self, object)
    }

    /// The refusal of an object that has a protocol that the extension is built without. It does not name the feature if
    /// an extension with the feature would refuse the object too.
    #[cold]
    fn left_out(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let (dtype, shape, is_read_only) = match protocol::scalar_or_bytes(object) {
            Ok(Some(found)) => found,
            Ok(None) => return Refusal::LeftOut(error),
            Err(error) => return Refusal::Raised(error),
        };
        let fits_dtype = self.fits_dtype(dtype) || self.requirement.allow_copy;
        let plain = !fits_dtype || !self.fits_extents(&shape) || !self.fits_device(DeviceType::CPU);
        let unwritable = (is_read_only && self.mode == Mode::Write).then_some(Unwritable::ReadOnly);
        let unmet = Unmet { plain, unwritable, ..Unmet::default() };
        if unmet.is_empty() {
            return Refusal::LeftOut(error);
        }
        // The strides are not part of the message.
        let dims = shape.repeat(2);
        let (device, out_of_range, time) = (Device::CPU, None, None);
        Refusal::new(self, Found::Tensor { dtype, device, dims, unmet, out_of_range, time })
    }

    /// Adds what was expected, for a tensor of a dtype that differs so.
    fn write(&self, text: &mut String, dtype: Option<DataType>, unmet: Option<&Unmet>) {
        self.write_dtypes(text);
        self.write_shape(text);
        self.write_devices(text);
        *text += match self.requirement.order {
            Adjacent::Strided => "",
            Adjacent::C => ", C order",
            Adjacent::Fortran => ", Fortran order",
            Adjacent::Either => ", C or Fortran order",
        };
        let align = match unmet.and_then(|unmet| unmet.aligned) {
            Some(_) => self.requirement.align.max(dtype.map_or(1, self.alignment)),
            None => self.requirement.align,
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
            ([], dtypes) => push_all(text, dtypes, " or "),
            (times, _) => push_all(text, times, " or "),
        }
    }

    fn write_devices(&self, text: &mut String) {
        match (self.requirement.devices, self.place) {
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
        let dims = self.requirement.dims;
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

/// Adds names with commas, and another word before the last one.
fn push_all(text: &mut String, shown: &[impl Display], before_last: &str) {
    for (index, one) in shown.iter().enumerate() {
        *text += match index {
            0 => "",
            _ if index + 1 == shown.len() => before_last,
            _ => ", ",
        };
        push(text, one);
    }
}
