//! The columns of all sources of tables.

use dlbridge::DataType;
use dlbridge_pyo3::import::has;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol, Record};
use dlbridge_pyo3::protocol::{time, type_info};
use dlbridge_pyo3::python::copies::must_be_raised;
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::objects::is_instance;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyMapping};

use super::Options;
use crate::arrow::{Part, Parts, Table};
use crate::columns::selected;
use crate::frameworks::call;
use crate::frameworks::explain::explained;
use crate::tensor::TensorObject;

pub(super) struct Column<'py> {
    pub(super) name: Bound<'py, PyAny>,
    /// One or more; in several each has elements.
    pub(super) parts: Vec<Part>,
    /// NumPy's name for its times, whose counts are the elements.
    pub(super) unit: Option<String>,
    pub(super) protocol: Protocol,
}

impl<'py> Column<'py> {
    fn new(name: Bound<'py, PyAny>, Parts { mut parts, unit }: Parts, protocol: Protocol) -> Self {
        let with_elements = parts.iter().filter(|part| !part.tensor.is_empty()).count();
        if with_elements > 0 {
            parts.retain(|part| !part.tensor.is_empty());
        }
        parts.truncate(with_elements.max(1));
        Self { name, parts, unit, protocol }
    }

    pub(super) fn dtype(&self) -> DataType {
        self.parts[0].tensor.dtype()
    }

    pub(super) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.tensor.len()).sum()
    }

    pub(super) fn nulls(&self) -> usize {
        self.parts.iter().map(|part| part.nulls.len()).sum()
    }

    pub(super) fn refusal(&self, text: String) -> PyErr {
        named(&self.name, PyBufferError::new_err(text))
    }
}

/// An error with the name of its column in front. Other exceptions than refusals are passed on.
pub(super) fn named(name: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = name.py();
    let text = format!("column {}: {}", repr_in_message(name), error.value(py));
    let refusal = match error.get_type(py) {
        class if class.is(py.get_type::<PyBufferError>()) => PyBufferError::new_err(text),
        class if class.is(py.get_type::<PyTypeError>()) => PyTypeError::new_err(text),
        _ => return error,
    };
    refusal.set_cause(py, error.cause(py));
    refusal
}

/// The columns of a table, in the selected order; `None` for an object that is not a table.
pub(super) fn read<'py>(
    frame: &Bound<'py, PyAny>,
    wanted: Option<&[Bound<'py, PyAny>]>,
    options: &Options<'py>,
) -> PyResult<Option<Vec<Column<'py>>>> {
    let py = frame.py();
    let options = ImportOptions { copy: options.copy.filter(|&copy| !copy), ..Default::default() };
    if is_instance(frame, "pandas", "DataFrame")? {
        let names = frame.getattr("columns")?.call_method0("tolist")?.cast_into::<PyList>()?;
        let (mut rows, iloc) = (vec![None; names.len()], frame.getattr("iloc")?);
        for block in blocks(frame)? {
            let Some(tensor) = import_block(&block, &options)? else { continue };
            let numbers = block.getattr("mgr_locs")?.getattr("as_array")?.call_method0("tolist")?;
            for (row, nth) in numbers.extract::<Vec<usize>>()?.into_iter().enumerate() {
                let place = rows.get_mut(nth).ok_or_else(|| {
                    PyBufferError::new_err("the DataFrame changed while its columns were read")
                })?;
                *place = Some((tensor.clone(), row));
            }
        }
        let column = |nth: usize| {
            let name = names.get_item(nth)?;
            let Some((block, row)) = &rows[nth] else {
                return read_column(name, iloc.get_item((py.Ellipsis(), nth)), &options);
            };
            let Record { reason, protocol, .. } = block.get().record();
            let tensor = block.get().tensor().share().index_axis(0, *row)?;
            let source = Some(block.as_ptr().addr());
            let parts = Parts {
                parts: vec![Part { tensor, reason, nulls: Vec::new(), source }],
                unit: None,
            };
            Ok(Column::new(name, parts, protocol.unwrap_or(Protocol::Dlpack)))
        };
        return places(&names, wanted)?.into_iter().map(column).collect::<PyResult<_>>().map(Some);
    }
    if TensorObject::of(frame).is_none() && has(frame, Protocol::Arrow)? {
        let type_info = type_info::of(frame)?;
        let explained = |error| explained(frame, &type_info.checks, error);
        let table = Table::of(frame, &type_info, &options).map_err(explained)?;
        let Some(table) = table else { return Ok(None) };
        let Some(names) = table.names()? else { return Ok(None) };
        let names = PyList::new(py, names)?;
        let places = places(&names, wanted)?;
        let names = places.iter().map(|&nth| names.get_item(nth)).collect::<PyResult<Vec<_>>>()?;
        let refusal = |place: usize, error| named(&names[place], error);
        let read = table.read(frame, Some(&places), &options, refusal)?;
        let column = |(name, parts)| Column::new(name, parts, Protocol::Arrow);
        return Ok(Some(names.clone().into_iter().zip(read).map(column).collect()));
    }
    let Ok(mapping) = frame.cast::<PyMapping>() else { return Ok(None) };
    let names = mapping.keys()?;
    let column = |nth| {
        let name = names.get_item(nth)?;
        let value = mapping.get_item(&name);
        read_column(name, value, &options)
    };
    places(&names, wanted)?.into_iter().map(column).collect::<PyResult<_>>().map(Some)
}

/// The places of the wanted columns among all; of all columns if none are named.
fn places(names: &Bound<'_, PyList>, wanted: Option<&[Bound<'_, PyAny>]>) -> PyResult<Vec<usize>> {
    match wanted {
        None => Ok((0..names.len()).collect()),
        Some(wanted) => call(names.py(), "_tables", "places", (names, wanted))?.extract(),
    }
}

/// The blocks of a pandas frame, each with some of its columns. A Series of each column would take ten times as long as an
/// import. Empty if a release of pandas lacks these attributes.
fn blocks<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = frame.py();
    let Some(manager) = frame.getattr_opt(intern!(py, "_mgr"))? else { return Ok(Vec::new()) };
    let blocks = manager.getattr_opt(intern!(py, "blocks"))?;
    blocks.map_or(Ok(Vec::new()), |blocks| blocks.try_iter()?.collect())
}

/// A block in NumPy's memory, of (columns, rows); `None` for others, and for one that cannot be imported: the import of its
/// first column fails too, and that error gets a name.
fn import_block<'py>(
    block: &Bound<'py, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Bound<'py, TensorObject>>> {
    let py = block.py();
    let values = block.getattr(intern!(py, "values"))?;
    if !type_info::of(&values)?.borrowed.numpy_array {
        return Ok(None);
    }
    match TensorObject::import(&values, options) {
        Err(error) if must_be_raised(py, &error) => Err(error),
        imported => Ok(imported.ok()),
    }
}

/// The matrix of a pandas frame that is one block of NumPy's memory, which pandas shares as read-only; `None` for all other
/// objects.
pub(super) fn read_block(frame: &Bound<'_, PyAny>) -> PyResult<Option<Imported>> {
    if !is_instance(frame, "pandas", "DataFrame")? {
        return Ok(None);
    }
    let [block] = &blocks(frame)?[..] else { return Ok(None) };
    let Some(block) = import_block(block, &ImportOptions::default())? else { return Ok(None) };
    let (tensor, Record { reason, protocol, .. }) = (block.get().tensor(), block.get().record());
    let matrix = || Imported::new(tensor.share().transpose(), protocol.unwrap_or(Protocol::Dlpack));
    Ok((!tensor.is_empty() && reason.is_none()).then(matrix))
}

/// Imports the column of a name.
fn read_column<'py>(
    name: Bound<'py, PyAny>,
    object: PyResult<Bound<'py, PyAny>>,
    options: &ImportOptions,
) -> PyResult<Column<'py>> {
    match read_object(&object?, options) {
        Ok((parts, protocol)) => Ok(Column::new(name, parts, protocol)),
        Err(error) => Err(named(&name, error)),
    }
}

fn read_object(object: &Bound<'_, PyAny>, options: &ImportOptions) -> PyResult<(Parts, Protocol)> {
    let (mut array, mut reason) = (object.clone(), None);
    if let Some((type_info, numpy)) = selected(object, options)? {
        match numpy {
            Some((values, copied)) => (array, reason) = (values, copied),
            None => {
                let explained = |error| explained(object, &type_info.checks, error);
                if let Some(column) = Table::of(object, &type_info, options).map_err(explained)? {
                    let read = column.read(object, None, options, |_, error| error);
                    let column = read.map_err(explained)?.pop().unwrap_or_default();
                    return Ok((column, Protocol::Arrow));
                }
            }
        }
    }
    let mut unit = None;
    if type_info::of(&array)?.borrowed.numpy_array {
        let dtype = array.getattr("dtype")?;
        let name = dtype.getattr("name")?.extract::<String>()?;
        if time::named(&name).is_some() && dtype.getattr("isnative")?.is_truthy()? {
            (array, unit) = (array.call_method1("view", ("int64",))?, Some(name));
        }
    }
    let imported = TensorObject::import(&array, options)?;
    let this = imported.get();
    let tensor = match this.is_read_only() {
        true => this.for_consumer()?.share(),
        false => this.alias()?,
    };
    if tensor.ndim() != 1 || !tensor.device().device_type().is_host_accessible() {
        return Err(PyBufferError::new_err(format!(
            "expected one dimension on the CPU, got the shape {:?} on {}; pass a column of numbers",
            tensor.shape(),
            tensor.device()
        )));
    }
    let record = this.record();
    let reason = reason.or(record.reason);
    let part = Part { tensor, reason, nulls: Vec::new(), source: None };
    Ok((Parts { parts: vec![part], unit }, record.protocol.unwrap_or(Protocol::Dlpack)))
}
