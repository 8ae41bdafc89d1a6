//! The words of refused arguments.
//!
//! Every message has the demands first, and then what was found: `expected float32[_, 3] on cpu; got float64[2, 3] on
//! cpu`. It is made when a [`Refusal`](super::refusal::Refusal) becomes an exception.

use std::fmt::{Display, Write};

use dlbridge::{CopyReason, DataType, Device};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use super::mismatch::{Access, Difference, Mismatch};
use super::refusal::RefusedTensor;
use super::spec::ArgumentSpec;
use crate::import::hub;
use crate::import_options::Order;
use crate::protocol::{TypeInfo, type_info};
use crate::python::error::{type_name, with_article};
use crate::python::objects::{self, attr};

/// The capacity that most messages need, in bytes.
const ROOM: usize = 224;

impl RefusedTensor {
    /// The message for a tensor.
    pub(super) fn message(&self) -> String {
        self.spec.demands(Some(self)) + "; got " + &self.found()
    }

    /// What was found, without the demands.
    pub(super) fn found(&self) -> String {
        let (shape, strides) = self.dims.split_at(self.dims.len() / 2);
        let mut text = String::with_capacity(ROOM);
        match &self.time {
            Some(name) => text += name,
            None => push_dtype(&mut text, self.dtype),
        }
        push_numbers(&mut text, shape);
        text += " on ";
        push_device(&mut text, self.device);
        if self.mismatch.has(Difference::Order) {
            text += ", strides ";
            push_numbers(&mut text, strides);
        }
        if let Some(bytes) = self.mismatch.alignment() {
            push_pieces(
                &mut text,
                &[&", aligned to ", &bytes, if bytes == 1 { &" byte" } else { &" bytes" }],
            );
        }
        if self.mismatch.has(Difference::ReadOnly) {
            text += ", read-only";
        }
        if self.mismatch.has(Difference::UnknownAccess) {
            text += ", from a producer that cannot say whether it may be written";
        }
        if let (true, Some(reason)) = (self.mismatch.has(Difference::Copied), self.reason) {
            push_pieces(&mut text, &[&", which needs a copy, since ", &reason]);
        }
        if let Some(misfit) = &self.element {
            push_pieces(&mut text, &[&", but ", misfit]);
        }
        text + self.remedy()
    }

    /// The remedy for a tensor that would fit after a copy.
    fn remedy(&self) -> &'static str {
        let needs_copy = self.mismatch.is_only(Difference::Copied);
        match self.spec.order {
            Order::Fortran if self.mismatch.is_only(Difference::Order) => {
                "; copy it first, with numpy.asfortranarray(x)"
            }
            _ if self.mismatch.is_only(Difference::Order) => {
                "; copy it first, with numpy.ascontiguousarray(x)"
            }
            _ if needs_copy && self.reason == Some(CopyReason::ByteOrder) => {
                "; convert it first, with x.astype(x.dtype.newbyteorder('='))"
            }
            _ => "",
        }
    }
}

impl ArgumentSpec {
    /// The message for an object that is not a tensor, or is a NumPy array.
    pub(super) fn message_of(&'static self, object: &Bound<'_, PyAny>) -> PyResult<String> {
        let py = object.py();
        if let Some(type_info) = type_info::array_of(object)
            && let Some(text) = self.message_of_array(type_info, object)
        {
            return Ok(text);
        }
        let plain = objects::plain_python(object);
        if plain.is_none() {
            let known = unless_refused(py, type_info::of(object))?;
            if let Some(text) = known.and_then(|known| self.message_of_array(&known, object)) {
                return Ok(text);
            }
        }
        let name = plain.map_or_else(|| type_name(object), str::to_owned);
        let mut text = self.demands(None) + "; got " + &with_article(&name);
        text += ", which supports no exchange protocol";
        let has_elements = || match plain {
            Some(name) => Ok(matches!(name, "list" | "tuple")),
            None if object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>() => {
                Ok(false)
            }
            None => {
                let found = object.hasattr(intern!(py, "__iter__"));
                Ok::<_, PyErr>(unless_refused(py, found)?.unwrap_or(false))
            }
        };
        if plain.is_none()
            && let Some(remedy) = hub::remedy(object)
        {
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
    fn message_of_array(
        &'static self,
        type_info: &TypeInfo,
        object: &Bound<'_, PyAny>,
    ) -> Option<String> {
        let head = type_info.head?;
        if let Some(array) = head.describe(object) {
            let mismatch = self.compare(&array.tensor, Access::new(array.read_only), None);
            let found = RefusedTensor::of(self, &array.tensor, mismatch);
            return (!mismatch.is_empty()).then(|| found.message());
        }
        // Some arrays can only be described by an import, for instance those with strides that are not multiples of
        // the element size.
        let (dtype, ndim) = head.dtype_and_ndim(object)?;
        let differs = !self.fits_dtype(dtype) || self.ndim.is_some_and(|asked| asked != ndim);
        let shape = attr(object, "shape").ok()?;
        let shape: Vec<i64> = shape.extract().ok().filter(|_| differs)?;
        let found =
            RefusedTensor::new(self, dtype, Device::CPU, shape.repeat(2), Mismatch::default());
        Some(found.message())
    }

    /// The message with a description of what was found.
    pub(super) fn message_with(&self, found: &str) -> String {
        self.demands(None) + "; got " + found
    }

    /// The beginning of every message: the demands that matter for what was found.
    fn demands(&self, found: Option<&RefusedTensor>) -> String {
        let mut text = String::with_capacity(ROOM);
        text += "expected ";
        self.push_dtypes(&mut text);
        self.push_shape(&mut text);
        self.push_devices(&mut text);
        text += match self.order {
            Order::Strided => "",
            Order::C => ", C order",
            Order::Fortran => ", Fortran order",
            Order::Either => ", C or Fortran order",
        };
        let align = match found {
            Some(found) if found.mismatch.has(Difference::Alignment) => self.align(found.dtype),
            _ => self.align,
        };
        if align > 1 {
            push_pieces(&mut text, &[&", aligned to ", &align, &" bytes"]);
        }
        if self.mode == Mode::Write {
            text += ", writable";
        }
        if found.is_some_and(|found| found.mismatch.has(Difference::Copied)) {
            text += ", without a copy";
        }
        text
    }

    fn push_dtypes(&self, text: &mut String) {
        match (self.times, self.dtypes) {
            ([], []) => *text += "any dtype",
            ([], dtypes) => push_all(text, dtypes.len(), |text, nth| push_dtype(text, dtypes[nth])),
            (times, _) => push_all(text, times.len(), |text, nth| *text += times[nth]),
        }
    }

    fn push_devices(&self, text: &mut String) {
        match (self.devices, self.on_host) {
            ([], true) => *text += " on cpu",
            ([], false) => *text += " on any device",
            (devices, _) => {
                for (index, device_type) in devices.iter().enumerate() {
                    push_pieces(text, &[if index > 0 { &" or " } else { &" on " }, device_type]);
                }
            }
        }
    }

    fn push_shape(&self, text: &mut String) {
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
                Some(Some(extent)) => push_pieces(text, &[extent]),
                _ => text.push('_'),
            }
        }
        text.push(']');
    }
}

/// Returns the result of a lookup; `None` if the object raised an ordinary exception, which must not replace the
/// refusal. Exceptions that end the program, such as `KeyboardInterrupt`, are raised.
fn unless_refused<T>(py: Python<'_>, found: PyResult<T>) -> PyResult<Option<T>> {
    match found {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        found => Ok(found.ok()),
    }
}

/// Appends values one after the other. One function for all types keeps the code of a message short.
fn push_pieces(text: &mut String, pieces: &[&dyn Display]) {
    for piece in pieces {
        // Writing to a `String` never fails.
        let _ = write!(text, "{piece}");
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
        _ => return push_pieces(text, &[&dtype]),
    };
}

/// Appends numbers in brackets.
fn push_numbers(text: &mut String, numbers: &[i64]) {
    text.push('[');
    for (index, number) in numbers.iter().enumerate() {
        *text += if index > 0 { ", " } else { "" };
        match number {
            0..=9 => text.push(char::from(b'0' + *number as u8)),
            _ => push_pieces(text, &[number]),
        }
    }
    text.push(']');
}

fn push_device(text: &mut String, device: Device) {
    match device {
        Device::CPU => *text += "cpu",
        _ => push_pieces(text, &[&device]),
    }
}

/// Appends names with commas, and another word before the last one.
fn push_all(text: &mut String, count: usize, push: impl Fn(&mut String, usize)) {
    for nth in 0..count {
        *text += match nth {
            0 => "",
            _ if nth + 1 == count => " or ",
            _ => ", ",
        };
        push(text, nth);
    }
}
