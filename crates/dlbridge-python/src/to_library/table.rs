//! Matrices as tables of pandas, polars and pyarrow, with names for the columns.

use std::ptr;

use dlbridge_pyo3::import_options::{ImportOptions, Order, expect_bool, wrong_type};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::profiles::{PANDAS, POLARS, PYARROW};
use super::{Framework, to};
use crate::class::index::sub_tensor;
use crate::matrix::expect_names;
use crate::tensor::TensorObject;

/// The tensor as a table with these names for its columns.
pub(crate) fn to_table<'py>(
    tensor: &Bound<'py, TensorObject>,
    framework: &'static Framework,
    copy: Option<&Bound<'py, PyAny>>,
    columns: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let names = expect_names(columns)?;
    let mut copy = copy.map(|copy| expect_bool("copy", copy)).transpose()?;
    let is = |known| ptr::eq(framework, known);
    if !(is(&PANDAS) || is(&POLARS) || is(&PYARROW)) {
        return Err(PyValueError::new_err(format!(
            "columns names the columns of a table, which {} lacks; 'pandas', 'polars' and 'pyarrow' have tables",
            framework.name
        )));
    }
    let &[rows, count] = tensor.get().tensor().shape() else {
        return Err(PyBufferError::new_err(format!(
            "a table is made of a tensor of (rows, columns), not of one of the shape {:?}; reshape it first, or leave \
             out columns=",
            tensor.get().tensor().shape()
        )));
    };
    if names.len() as i64 != count {
        let found = names.len();
        return Err(PyValueError::new_err(format!(
            "columns has {found} names, and the tensor has {count} columns; pass a name for each"
        )));
    }
    if !is(&PANDAS)
        && let Some(other) = names.iter().find(|name| !name.is_instance_of::<PyString>())
    {
        return Err(wrong_type("columns", "a list of strings", other));
    }
    if is(&PANDAS) {
        let frame = to(tensor, framework, copy)?;
        frame.setattr(intern!(py, "columns"), names)?;
        return Ok(frame);
    }
    let mut tensor = tensor.clone();
    let has_gaps = rows > 1 && tensor.get().tensor().strides()[0] != 1;
    if has_gaps || copy == Some(true) {
        // One transposing copy, after which every column is contiguous.
        let options = ImportOptions { copy, order: Order::Fortran, ..ImportOptions::default() };
        tensor = TensorObject::import(tensor.as_any(), &options)?;
        copy = None;
    }
    let module = py.import(framework.module)?;
    let make = |name| module.getattr(name);
    let column = |nth| {
        let column = sub_tensor(tensor.get(), |tensor| tensor.index_axis(1, nth))?;
        let column = Bound::new(py, column)?;
        // `to` makes tensors of pyarrow.
        if is(&POLARS) { to(&column, framework, copy) } else { make("array")?.call1((column,)) }
    };
    let columns = (0..names.len()).map(column).collect::<PyResult<Vec<_>>>()?;
    let (class, argument) = if is(&POLARS) { ("DataFrame", "schema") } else { ("table", "names") };
    let options = PyDict::new(py);
    options.set_item(argument, names)?;
    make(class)?.call((columns,), Some(&options))
}
