//! Pillow: images.

use dlbridge::{DataType, Tensor};
use pyo3::exceptions::{PyBufferError, PyException};
use pyo3::prelude::*;

use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, Need, Offer, ReadOnly};
use super::import_rules::{ArrowRules, ImportRules, NO_RULES};
use crate::error::str_in_message;
use crate::import_options::ImportOptions;

pub(super) static PILLOW: Framework = Framework {
    name: "pillow",
    aliases: &["PIL"],
    module: "PIL.Image",
    function: "fromarray",
    argument: Argument::Image,
    enter,
    measured: false,
    stated: Behaviour { read_only: ReadOnly::Immutable, layout: Layout::C, ..Behaviour::FREE },
    immutable: true,
    cpu_only: true,
    min_ndim: 2,
    max_ndim: 3,
    takes: |dtype| {
        let modes = [DataType::UINT8, DataType::UINT16, DataType::INT32, DataType::FLOAT32];
        modes.contains(&dtype) || dtype == DataType::BOOL
    },
    counts_bytes: false,
    refuses,
    needs_copy: |tensor| {
        has_another_layout(tensor).then(|| {
            Need::new(
                "pillow keeps such an image in another layout",
                "make an image of the mode L, F, I, I;16 or RGBA",
            )
        })
    },
    copies_itself: has_another_layout,
    ..FRAMEWORK
};

/// Returns true if none of Pillow's modes has this memory layout.
fn has_another_layout(tensor: &Tensor) -> bool {
    let bands = tensor.shape().get(2).is_some_and(|&bands| bands != 4);
    bands || tensor.dtype() == DataType::BOOL
}

fn refuses(tensor: &Tensor) -> Option<String> {
    let (dtype, bands) = (tensor.dtype(), *tensor.shape().get(2)?);
    let fits = dtype == DataType::UINT8 && (2..=4).contains(&bands);
    (!fits).then(|| {
        format!(
            "pillow takes images of the shape (height, width), or (height, width, bands) of uint8 with 2 \
             to 4 bands, not {:?} of {dtype}; reshape or slice the tensor first",
            tensor.shape()
        )
    })
}

/// An image. `fromarray` copies the modes F and I, which `fromarrow` shares; for `I;16` it is the reverse.
fn enter<'py>(
    from_array: &Bound<'py, PyAny>,
    offer: &dyn Offer<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, tensor) = (from_array.py(), offer.tensor());
    let mode = match (tensor.shape(), tensor.dtype()) {
        ([_, _], DataType::FLOAT32) => Some("F"),
        ([_, _], DataType::INT32) => Some("I"),
        _ => None,
    };
    let module = py.import(intern!(py, "PIL.Image"))?;
    let from_arrow = module.getattr_opt(intern!(py, "fromarrow"))?;
    if let (Some(mode), &[height, width, ..], false) = (mode, tensor.shape(), tensor.is_empty()) {
        if let Some(from_arrow) = from_arrow {
            let pixels = offer.object().call_method1(intern!(py, "reshape"), (-1,))?;
            return from_arrow.call1((pixels, mode, (width, height)));
        }
        if !offer.may_copy() {
            return Err(PyBufferError::new_err(format!(
                "this release of pillow copies images of the mode {mode}, and copy=False forbids it; \
                 install one that has PIL.Image.fromarrow"
            )));
        }
    }
    from_array.call1((offer.array()?,))
}

pub(super) static RULES: ImportRules = ImportRules {
    class: Some(("PIL.Image", "Image")),
    arrow: Some(ArrowRules { check: check_arrow, explain: explain_arrow, nulls: None }),
    ..NO_RULES
};

/// Refuses an image whose pixels differ from its Arrow type: Pillow exports 16-bit unsigned integers as signed ones,
/// even in the other byte order.
fn check_arrow(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<()> {
    let mode = object.getattr(intern!(object.py(), "mode"))?;
    if mode.extract::<String>().is_ok_and(|mode| mode.starts_with("I;16")) {
        return Err(PyBufferError::new_err(format!(
            "Pillow exports the unsigned pixels of the mode {mode} to Arrow as signed integers; leave out \
             {}, and they are copied",
            arguments(options)
        )));
    }
    Ok(())
}

/// Converts an exception that Pillow raised instead of exporting an Arrow array to a refusal with that cause.
fn explain_arrow(object: &Bound<'_, PyAny>, options: &ImportOptions, error: PyErr) -> PyErr {
    let py = object.py();
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let refusal = PyBufferError::new_err(format!(
        "Pillow cannot share the pixels of this image: {}; leave out {}, and they are copied",
        str_in_message(error.value(py)).trim_end_matches('.'),
        arguments(options)
    ));
    refusal.set_cause(py, Some(error));
    refusal
}

/// The arguments that forbid the copy.
fn arguments(options: &ImportOptions) -> &'static str {
    match options.copy {
        Some(false) => "protocol='arrow' and copy=False",
        _ => "protocol='arrow'",
    }
}
