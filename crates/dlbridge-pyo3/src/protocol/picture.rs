//! Images of Pillow, whose array interface copies the pixels and whose Arrow protocol shares them.

use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::kind::{self, Caveats};
use crate::imported::Imported;
use crate::shown::{named, shown};
use crate::wanted::Wanted;

/// Refuses an image whose pixels are not what its Arrow type says: unsigned integers of 16 bits are exported
/// as signed ones, also those in the other byte order.
pub(super) fn check_arrow(
    object: &Bound<'_, PyAny>,
    caveats: &Caveats,
    wanted: &Wanted,
) -> PyResult<()> {
    let py = object.py();
    if !caveats.picture {
        return Ok(());
    }
    let mode = object.getattr(intern!(py, "mode"))?;
    if mode.extract::<String>().is_ok_and(|mode| mode.starts_with("I;16")) {
        return Err(PyBufferError::new_err(format!(
            "Pillow exports the unsigned pixels of the mode {mode} to Arrow as signed integers; leave out \
             {}, and they are copied",
            arguments(wanted)
        )));
    }
    Ok(())
}

/// Turns an exception that Pillow raised instead of an Arrow array into a refusal with that cause. Errors of other objects stay as they are.
pub(super) fn explained(object: &Bound<'_, PyAny>, wanted: &Wanted, error: PyErr) -> PyErr {
    let py = object.py();
    let is_picture = kind::of(object).is_ok_and(|kind| kind.caveats.picture);
    if !is_picture || !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let refusal = PyBufferError::new_err(format!(
        "Pillow cannot share the pixels of this image: {}; leave out {}, and they are copied",
        named(error.value(py)).trim_end_matches('.'),
        arguments(wanted)
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// The arguments that keep Pillow from copying.
fn arguments(wanted: &Wanted) -> &'static str {
    match wanted.copy {
        Some(false) => "protocol='arrow' and copy=False",
        _ => "protocol='arrow'",
    }
}

/// The refusal of an object whose array interface is a copy, where `copy=False` forbids that. It names the Arrow
/// protocol if that shares this very object, as its import by that protocol shows.
pub(super) fn copies_always(py: Python<'_>, by_arrow: PyResult<Option<Imported>>) -> PyErr {
    let (way_out, cause) = match by_arrow {
        Ok(Some(shared)) => {
            let (dtype, shape) = (shared.tensor.dtype(), shared.tensor.shape());
            let shape =
                PyTuple::new(py, shape).map_or_else(|_| String::new(), |shape| shown(&shape));
            let way_out = format!(
                "leave it out, or share the data as {dtype} of shape {shape} with protocol='arrow'"
            );
            (way_out, None)
        }
        Ok(None) => ("leave it out".to_owned(), None),
        Err(error) if !error.is_instance_of::<PyException>(py) => return error,
        Err(error) => {
            let text = named(error.value(py));
            let reason = text.split("; ").next().unwrap_or_default();
            let way_out = format!("leave it out, since protocol='arrow' cannot share it: {reason}");
            (way_out, Some(error))
        }
    };
    let refusal = PyBufferError::new_err(format!(
        "the object copies its data whenever it is asked for its array interface, and copy=False \
         forbids that; {way_out}"
    ));
    refusal.set_cause(py, cause);
    refusal
}
