//! What is said to an argument that is another one than was expected.

use std::fmt::Write;

use dlbridge::{DataType, DeviceType};
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

impl ObjectMismatch {
    /// What was expected, and what came.
    pub(super) fn words(&self, py: Python<'_>) -> String {
        let (expected, object) = (self.expected, self.object.bind(py));
        if let Ok(kind) = protocol::kind_of(object)
            && let Some(found) = expected.unfit_array(&kind, object)
        {
            return Mismatch { expected, found }.words(py);
        }
        let (expected_words, found) = (expected.words(None, None), type_name(object));
        let mut text =
            format!("expected {expected_words}; got a {found}, which speaks no exchange protocol");
        let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
        if buffer_abi::is_missing(py) {
            text += "; ";
            text += buffer_abi::MISSING;
        } else if !is_text && object.hasattr(intern!(py, "__iter__")).unwrap_or(false) {
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
        match &self.found {
            Found::Tensor { dtype, device, dims, unmet, out_of_range, time } => {
                let (shape, strides) = dims.split_at(dims.len() / 2);
                let mut text = format!("expected {}", expected.words(Some(*dtype), Some(unmet)));
                let dtype = time.clone().unwrap_or_else(|| dtype.to_string());
                let _ = write!(text, "; got {dtype}{shape:?} on {device}");
                if unmet.order {
                    let _ = write!(text, ", strides {strides:?}");
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
                text
            }
            Found::Other(found) => format!("expected {}; got {found}", expected.words(None, None)),
            Found::Sequence { object_type, misfit } => {
                let (expected, found) = (expected.words(None, None), name_of(object_type.bind(py)));
                format!("expected {expected}; got a {found}{}", misfit.words(py))
            }
        }
    }
}

impl Expected {
    /// The refusal of an object that is not a tensor, with what was expected; another error as it is.
    pub(super) fn no_tensor(&'static self, object: &Bound<'_, PyAny>, error: PyErr) -> Refusal {
        let py = object.py();
        if !error.is_instance_of::<PyTypeError>(py) || protocol::has_a_door(object).unwrap_or(true)
        {
            return Refusal::Raised(error);
        }
        Refusal::object(self, object)
    }

    /// What was expected, for a tensor of a dtype that differs so.
    fn words(&self, dtype: Option<DataType>, unmet: Option<&Unmet>) -> String {
        let mut text = self.dtype_words();
        text += &self.shape_words();
        text += &self.device_words();
        text += match self.requirement.order {
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
            text += ", writable";
        }
        if unmet.is_some_and(|unmet| unmet.copied.is_some()) {
            text += ", without a copy";
        }
        text
    }

    fn dtype_words(&self) -> String {
        let mut names: Vec<_> = match self.times {
            [] => self.dtypes.iter().map(DataType::to_string).collect(),
            times => times.iter().map(|&name| name.to_owned()).collect(),
        };
        let Some(last) = names.pop() else { return "any dtype".to_owned() };
        if names.is_empty() { last } else { format!("{} or {last}", names.join(", ")) }
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
