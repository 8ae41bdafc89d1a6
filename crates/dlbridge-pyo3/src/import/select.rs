//! Select: the object to import, and the protocols to try.

use dlbridge::CopyReason;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::no_protocol;
use super::protocols::{self, ORDER};
use crate::capsule;
use crate::import_options::ImportOptions;
use crate::imported::Protocol;
use crate::protocol::type_info::Known;
use crate::protocol::{framework_checks, type_info};

/// The protocols that an import chooses from.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    /// The protocol in the options, or else the first that the object has. A capsule is a tensor itself.
    Options,
    /// The method `__dlpack__`.
    Method,
    /// The first that the object has, except its table of C functions, which was tried before.
    PastTable,
}

/// The source of the tensor.
pub(super) enum Selected<'a, 'py> {
    /// A capsule, which holds one tensor.
    Capsule(&'a Bound<'py, PyCapsule>),
    Producer(Producer<'py>),
}

/// An object that exports a tensor.
pub(super) struct Producer<'py> {
    pub(super) object: Bound<'py, PyAny>,
    pub(super) type_info: Known,
    pub(super) protocols: Protocols,
    /// The NumPy array of a column, which may have been made for this import.
    pub(super) column: Option<Column>,
}

/// The array that holds the values of a column.
pub(super) struct Column {
    /// Why the array is a copy, if it is one.
    pub(super) reason: Option<CopyReason>,
}

/// The protocols to try.
#[derive(Clone, Copy)]
pub(super) enum Protocols {
    /// Only this one.
    One(Protocol),
    /// The first of these that the object has.
    First(&'static [Protocol]),
}

impl<'a, 'py> Selected<'a, 'py> {
    /// Selects, and refuses objects in a state that no protocol reports.
    pub(super) fn of(
        object: &'a Bound<'py, PyAny>,
        choice: Choice,
        options: &ImportOptions,
    ) -> PyResult<Self> {
        let protocols = match (choice, options.protocol) {
            (Choice::PastTable, _) => Protocols::First(&ORDER[1..]),
            (Choice::Method, _) => Protocols::One(Protocol::Dlpack),
            (Choice::Options, Some(protocol)) => Protocols::One(protocol),
            (Choice::Options, None) => Protocols::First(&ORDER),
        };
        if matches!(choice, Choice::Options)
            && let Ok(capsule) = object.cast::<PyCapsule>()
            && let None | Some(Protocol::Dlpack | Protocol::LegacyDlpack) = options.protocol
        {
            if options.protocol == Some(Protocol::LegacyDlpack) {
                capsule::expect_legacy(capsule)?;
            }
            return Ok(Self::Capsule(capsule));
        }
        Producer::of(object, protocols, options).map(Self::Producer)
    }
}

impl<'py> Producer<'py> {
    fn of(
        object: &Bound<'py, PyAny>,
        protocols: Protocols,
        options: &ImportOptions,
    ) -> PyResult<Self> {
        let type_info = type_info::of(object)?;
        let checked = framework_checks::check_before(object, &type_info.checks);
        match protocols {
            Protocols::One(protocol) if checked.is_err() => {
                let lacking = type_info.lacking.now(object.py())?;
                if !protocols::has(protocol, object, &type_info, lacking)? {
                    return Err(no_protocol::refusal(object, &[protocol]));
                }
            }
            Protocols::First(_) if checked.is_ok() => {
                let Some(array_of) = type_info.checks.array_of() else {
                    return Ok(Self { object: object.clone(), type_info, protocols, column: None });
                };
                let array = array_of(object, options, is_numpy_array).map_err(|error| {
                    framework_checks::explained(object, &type_info.checks, error)
                })?;
                if let Some((array, reason)) = array {
                    let type_info = type_info::of(&array)?;
                    framework_checks::check_before(&array, &type_info.checks)?;
                    return Ok(Self {
                        object: array,
                        type_info,
                        protocols,
                        column: Some(Column { reason }),
                    });
                }
            }
            _ => {}
        }
        checked?;
        Ok(Self { object: object.clone(), type_info, protocols, column: None })
    }
}

fn is_numpy_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(type_info::of(object)?.borrowed.numpy_array)
}
