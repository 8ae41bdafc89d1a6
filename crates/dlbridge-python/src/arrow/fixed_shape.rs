//! The extension type of fixed-shape tensors.
//!
//! Source: "Fixed shape tensor" in the canonical extension types of Apache Arrow.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowSchema, broken};
use super::format::{FIXED_SHAPE, extension_name, metadata};

/// The extents of elements in C order, and the permutation of the axes.
pub(super) struct Shape {
    pub(super) extents: Vec<i64>,
    pub(super) permutation: Option<Vec<usize>>,
}

/// Returns true for the schema of fixed-shape tensors.
pub(super) fn is_one(schema: &ArrowSchema) -> PyResult<bool> {
    Ok(extension_name(schema)?.is_some_and(|name| name == FIXED_SHAPE))
}

pub(super) fn unfit(what: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the Arrow array has {what}, whose axes are not read; take the storage of the tensors first"
    ))
}

impl Shape {
    /// The shape of elements without the extension type.
    pub(super) fn plain(extents: Vec<i64>) -> Self {
        Self { extents, permutation: None }
    }

    /// The shape of an array; its lists get the shape of their extension type, if they have that one.
    pub(super) fn of(py: Python<'_>, schema: &ArrowSchema, shape: Vec<i64>) -> PyResult<Self> {
        if !is_one(schema)? {
            return Ok(Self::plain(shape));
        }
        let [length, items] = shape[..] else {
            return Err(unfit("tensors of a fixed shape whose elements are not numbers"));
        };
        let wrong = || broken("metadata that is not that of fixed-shape tensors");
        let text = metadata(schema, "ARROW:extension:metadata")?;
        let text = text.ok_or_else(wrong)?;
        let json = py.import(intern!(py, "json"))?;
        let fields = json.call_method1(intern!(py, "loads"), (text,)).map_err(|_| wrong())?;
        let extents = fields.get_item("shape").and_then(|shape| shape.extract::<Vec<i64>>());
        let mut extents = extents.map_err(|_| wrong())?;
        let product = extents.iter().try_fold(1_i64, |n, &extent| n.checked_mul(extent));
        if extents.iter().any(|&extent| extent < 0) || product != Some(items) {
            return Err(wrong());
        }
        let order = fields.call_method1(intern!(py, "get"), ("permutation",))?;
        let order = order.extract::<Option<Vec<usize>>>().map_err(|_| wrong())?;
        extents.insert(0, length);
        let permutation = match order {
            Some(order) if order.len() + 1 != extents.len() => return Err(wrong()),
            Some(order) => {
                // The addition saturates: the largest index is not an axis of the tensor either.
                let order = order.into_iter().map(|axis| axis.saturating_add(1));
                Some([0].into_iter().chain(order).collect())
            }
            None => None,
        };
        Ok(Self { extents, permutation })
    }
}
