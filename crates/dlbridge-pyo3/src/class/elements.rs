//! Elements as Python numbers, and as text.

use dlbridge::{DataType, SubbyteView, Tensor, TensorRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyList, PyTuple};

use super::value::Value;
use crate::PyTensor;
use crate::borrow::Guard;
use crate::copies;
use crate::error::to_py_err;

/// The elements of a tensor in C order, each in as many bytes as a single element takes.
struct Elements {
    copy: Tensor,
    dtype: DataType,
}

impl Elements {
    fn of(tensor: &Tensor) -> PyResult<Self> {
        let (dtype, device) = (tensor.dtype(), tensor.device());
        if !device.device_type().is_host_accessible() {
            return Err(PyBufferError::new_err(format!(
                "the data is on {device}, where its elements cannot be read; copy it to the CPU with \
                 asdlpack(t, device='cpu') first"
            )));
        }
        if !Value::exists(dtype) {
            return Err(PyTypeError::new_err(format!(
                "Python cannot represent elements of {dtype}; call .numpy() or .torch()"
            )));
        }
        let _reading = Guard::reading(tensor, "tensor whose elements are read")?;
        let copy = match dtype.is_subbyte() && !tensor.is_subbyte_padded() {
            true => copies::unpacked(tensor)?,
            false => copies::copied(&TensorRef::from(tensor), 1)?,
        };
        Ok(Self { copy, dtype })
    }

    fn iter(&self) -> PyResult<impl Iterator<Item = &[u8]>> {
        let bytes = TensorRef::from(&self.copy).as_bytes().map_err(to_py_err)?;
        Ok(bytes.chunks_exact(self.dtype.itemsize()))
    }
}

/// The number of list items made between two checks for signals; a million take about 50 ms.
const ASKED_EVERY: i64 = 1 << 20;

/// The most lists of a tensor without elements, which could ask for any number of them.
const MOST_EMPTY_LISTS: i64 = 1 << 20;

/// All elements as nested lists.
pub(super) fn to_list<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let (shape, mut lists) = (tensor.shape(), 1_i64);
    for &extent in shape.iter().take_while(|&&extent| extent > 0) {
        lists = lists.saturating_mul(extent);
    }
    if tensor.is_empty() && lists > MOST_EMPTY_LISTS {
        return Err(PyMemoryError::new_err(format!(
            "tolist() of the shape {shape:?} would make {lists} lists for no element; call t.shape"
        )));
    }
    let elements = Elements::of(tensor)?;
    let mut bytes = elements.iter()?;
    nested(py, tensor.shape(), elements.dtype, &mut bytes)
}

fn nested<'py, 'a>(
    py: Python<'py>,
    shape: &[i64],
    dtype: DataType,
    elements: &mut impl Iterator<Item = &'a [u8]>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((&extent, inner)) = shape.split_first() else {
        // There are as many elements as the shape has.
        return object(py, dtype, elements.next().unwrap_or_default());
    };
    // The many lists make Python collect garbage, and an exception that is raised during a collection is lost.
    py.check_signals()?;
    let list = PyList::empty(py);
    for nth in 0..extent {
        if nth % ASKED_EVERY == ASKED_EVERY - 1 {
            py.check_signals()?;
        }
        list.append(nested(py, inner, dtype, elements)?)?;
    }
    Ok(list.into_any())
}

/// The element of a tensor with exactly one; `None` for other tensors.
pub(super) fn only<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Option<Bound<'py, PyAny>>> {
    if tensor.len() != 1 {
        return Ok(None);
    }
    let elements = Elements::of(tensor)?;
    let bytes = elements.iter()?.next().unwrap_or_default();
    object(py, elements.dtype, bytes).map(Some)
}

/// The value of `item()`.
pub(super) fn item<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    only(py, tensor)?.ok_or_else(|| {
        PyValueError::new_err(format!(
            "item() needs a tensor of one element, and this one has {}; call t.tolist() or t[index].item()",
            tensor.len()
        ))
    })
}

/// An element as a Python number; one with several lanes as a tuple of numbers.
fn object<'py>(py: Python<'py>, dtype: DataType, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let number = |value| match value {
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Uint(value) => value.into_bound_py_any(py),
        Value::Float(value, _) => value.into_bound_py_any(py),
        Value::Complex(real, imaginary, _) => {
            Ok(PyComplex::from_doubles(py, real, imaginary).into_any())
        }
    };
    let lane = |lane| number(Value::of_lane(dtype, bytes, lane));
    match dtype.lanes() {
        1 => lane(0),
        lanes => {
            let lanes = (0..usize::from(lanes)).map(lane).collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, lanes)?.into_any())
        }
    }
}

/// A tensor with more elements than this shows only those at both ends of each dimension.
const ALL: usize = 100;
/// A tensor that would still show more than this shows none.
const MOST: usize = 256;

/// The elements as text, without those in the middle if there are many. `None` for memory that the CPU cannot read or
/// that is borrowed for writing, and for elements without a value.
pub(super) fn text(tensor: &PyTensor, indent: usize) -> Option<String> {
    let tensor = tensor.tensor();
    let on_cpu = tensor.device().device_type().is_host_accessible();
    if !on_cpu || !Value::exists(tensor.dtype()) {
        return None;
    }
    if tensor.is_empty() {
        return Some("[]".to_owned());
    }
    // The number of elements at each end of a dimension.
    let ends = match tensor.ndim() {
        _ if tensor.len() <= ALL => usize::MAX / 2,
        ..=2 => 3,
        _ => 1,
    };
    let shown = tensor
        .shape()
        .iter()
        .try_fold(1_usize, |product, &extent| product.checked_mul((extent as usize).min(2 * ends)));
    shown.filter(|&shown| shown <= MOST)?;
    let _reading = Guard::reading(tensor, "tensor that is shown").ok()?;
    let source = TensorRef::from(&**tensor);
    let packed = match tensor.dtype().is_subbyte() {
        true => Some(source.view_subbyte().ok()?),
        false => None,
    };
    let mut text = Text { source, packed, ends, indent, index: Vec::new(), written: String::new() };
    text.write(0)?;
    Some(text.written)
}

struct Text<'a> {
    source: TensorRef<'a>,
    packed: Option<SubbyteView<'a>>,
    ends: usize,
    indent: usize,
    index: Vec<usize>,
    written: String,
}

impl Text<'_> {
    /// Writes the dimensions that do not have an index yet.
    fn write(&mut self, axis: usize) -> Option<()> {
        let ndim = self.source.ndim();
        if axis == ndim {
            let element = self.element()?;
            self.written.push_str(&element);
            return Some(());
        }
        let extent = self.source.shape()[axis] as usize;
        let gap = Some(self.ends).filter(|ends| extent > 2 * ends);
        let between = match axis + 1 == ndim {
            true => ", ".to_owned(),
            false => format!(",\n{}", " ".repeat(self.indent + axis + 1)),
        };
        self.written.push('[');
        let mut nth = 0;
        while nth < extent {
            if nth != 0 {
                self.written.push_str(&between);
            }
            if gap == Some(nth) {
                self.written.push_str("...");
                nth = extent - self.ends;
                continue;
            }
            self.index.push(nth);
            self.write(axis + 1)?;
            self.index.pop();
            nth += 1;
        }
        self.written.push(']');
        Some(())
    }

    fn element(&self) -> Option<String> {
        let dtype = self.source.dtype();
        if let Some(packed) = &self.packed {
            let bits = packed.get(&self.index)?;
            return Some(shown(dtype, &bits.to_le_bytes()));
        }
        let mut element = self.source.clone();
        for &index in &self.index {
            element = element.index_axis(0, index).ok()?;
        }
        let copy = element.to_copy().ok()?;
        let bytes = TensorRef::from(&copy).as_bytes().ok()?;
        Some(shown(dtype, bytes))
    }
}

fn shown(dtype: DataType, bytes: &[u8]) -> String {
    let lanes = 0..usize::from(dtype.lanes());
    let mut lanes = lanes.map(|lane| Value::of_lane(dtype, bytes, lane).to_string());
    match lanes.len() {
        1 => lanes.next().unwrap_or_default(),
        _ => format!("({})", lanes.collect::<Vec<_>>().join(", ")),
    }
}

/// The text of `repr`: the first elements, and the layout.
pub(super) fn repr(this: &PyTensor) -> String {
    let tuple = |numbers: &[i64]| match numbers {
        [one] => format!("({one},)"),
        _ => format!("({})", numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let bool = |value| if value { "True" } else { "False" };
    let protocol =
        this.imported_by().map_or("None".to_owned(), |protocol| format!("'{}'", protocol.name()));
    let elements = text(this, "dlbridge.Tensor(".len());
    let elements = elements.map(|text| text + ", ").unwrap_or_default();
    format!(
        "dlbridge.Tensor({elements}shape={}, strides={}, dtype='{}', device='{}', readonly={}, \
         protocol={protocol}, copied={})",
        tuple(this.tensor.shape()),
        tuple(this.tensor.strides()),
        this.tensor.dtype(),
        this.tensor.device(),
        bool(this.is_read_only()),
        bool(this.record().reason.is_some()),
    )
}
