//! What is said to an argument that is another one than was expected.

use std::fmt::Write;

use dlbridge::{DataType, DeviceType};
use dlbridge_borrow::Mode;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::constraint::Adjacent;
use super::take::{Expected, Place};
use crate::error::{ArgumentError, type_name};
use crate::protocol::{self, Imported};

/// How differences begin that the sentence comes back to.
pub(super) const ALIGNED: &str = "aligned to ";
pub(super) const COPIED: &str = "copied, since ";

impl Expected {
    /// The refusal of an object that is no tensor, with what was expected; another error as it is.
    pub(super) fn no_tensor(&self, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
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
    pub(super) fn sentence(&self, imported: &Imported, unmet: &[String]) -> String {
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
