//! Pillow: images.

use dlbridge::{DataType, Tensor};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::framework::{Argument, Behaviour, FRAMEWORK, Framework, Layout, Need, Offer, ReadOnly};

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

/// An image. `fromarray` copies the modes F and I, which `fromarrow` shares; `I;16` is the other way round.
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
