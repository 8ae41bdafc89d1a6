//! The columns of all sources of tables.

use dlbridge::{DataType, Tensor};
use dlbridge_pyo3::import::has;
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::Protocol;
use dlbridge_pyo3::protocol::{time, type_info};
use dlbridge_pyo3::python::error::repr_in_message;
use dlbridge_pyo3::python::objects::is_instance;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};

use super::Options;
use crate::arrow::{Part, Parts, Table};
use crate::columns::selected;
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
        let (arrays, iloc) = (column_arrays(frame)?, frame.getattr("iloc")?);
        let column = |nth: usize| {
            let (name, array) = (names.get_item(nth)?, arrays.get_item(nth).ok());
            let Some(array) = array.filter(is_numpy_array) else {
                return read_column(name, iloc.get_item((py.Ellipsis(), nth)), &options);
            };
            let block = array.getattr("base")?;
            let source = (!block.is_none()).then(|| block.as_ptr().addr());
            // pandas shares the memory of a frame as read-only.
            let mut column = read_column(name, Ok(array), &options)?;
            let parts = column.parts.into_iter();
            let read_only =
                |part: Part| Part { tensor: part.tensor.into_read_only(), source, ..part };
            column.parts = parts.map(read_only).collect();
            Ok(column)
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
    let py = names.py();
    let Some(wanted) = wanted else { return Ok((0..names.len()).collect()) };
    let known = PyDict::new(py);
    for (nth, name) in names.iter().enumerate() {
        let count = known
            .get_item(&name)?
            .map_or(Ok(0), |known| known.extract::<(usize, usize)>().map(|(_, n)| n))?;
        known.set_item(name, (nth, count + 1))?;
    }
    let place = |name: &Bound<'_, PyAny>| match known.get_item(name)?.map(|it| it.extract()) {
        Some(Ok((nth, 1))) => Ok(nth),
        Some(Ok::<(usize, usize), _>((_, count))) => Err(PyValueError::new_err(format!(
            "{count} columns have the name {}; rename them, or leave out columns=",
            repr_in_message(name)
        ))),
        Some(Err(error)) => Err(error),
        None => {
            let texts = names.iter().map(|name| name.str()).collect::<PyResult<Vec<_>>>()?;
            let difflib = py.import(intern!(py, "difflib"))?;
            let close = difflib.call_method1("get_close_matches", (name.str()?, texts, 1))?;
            let close = match close.get_item(0) {
                Ok(close) => {
                    let is_it = |known: &Bound<'_, PyAny>| {
                        known.str().is_ok_and(|text| text.as_any().eq(&close).unwrap_or(false))
                    };
                    let known = names.iter().find(is_it).unwrap_or(close.clone());
                    format!("; the nearest name is {}", repr_in_message(&known))
                }
                Err(_) => String::new(),
            };
            Err(PyValueError::new_err(format!(
                "no column has the name {}{close}",
                repr_in_message(name)
            )))
        }
    };
    wanted.iter().map(place).collect()
}

/// The arrays of the columns of a pandas frame, by the function of pandas that makes no Series: that takes ten times as
/// long as an import. Empty if a release of pandas lacks it.
fn column_arrays<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let empty = PyList::empty(frame.py());
    let Some(arrays) = frame.getattr_opt("_iter_column_arrays")? else { return Ok(empty) };
    for array in arrays.call0()?.try_iter()? {
        empty.append(array?)?;
    }
    Ok(empty)
}

fn is_numpy_array(object: &Bound<'_, PyAny>) -> bool {
    type_info::of(object).is_ok_and(|type_info| type_info.borrowed.numpy_array)
}

/// The array of a pandas frame that is one block of NumPy's memory; `None` for all other objects.
pub(super) fn read_block<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Option<(Tensor, Protocol)>> {
    if !is_instance(frame, "pandas", "DataFrame")? {
        return Ok(None);
    }
    let mut base: Option<Bound<'py, PyAny>> = None;
    let arrays = column_arrays(frame)?;
    for array in arrays.iter() {
        let found = if is_numpy_array(&array) { array.getattr("base")? } else { return Ok(None) };
        if found.is_none() || base.as_ref().is_some_and(|base| !base.is(&found)) {
            return Ok(None);
        }
        base = Some(found);
    }
    let Ok(first) = arrays.get_item(0) else { return Ok(None) };
    let import = |array: &Bound<'py, PyAny>| TensorObject::import(array, &ImportOptions::default());
    let Ok(first) = import(&first) else { return Ok(None) };
    let block = import(&frame.call_method0("to_numpy")?)?;
    let (tensor, address) = (block.get().tensor(), first.get().tensor().data().addr());
    let is_shared = tensor.ndim() == 2 && tensor.data().addr() == address && !tensor.is_empty();
    let protocol = block.get().record().protocol.unwrap_or(Protocol::Dlpack);
    is_shared.then(|| Ok((block.get().alias()?.into_read_only(), protocol))).transpose()
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
        if matches!(dtype.getattr("kind")?.extract()?, 'M' | 'm')
            && dtype.getattr("isnative")?.is_truthy()?
        {
            unit = Some(dtype.getattr("name")?.extract::<String>()?)
                .filter(|name| time::named(name).is_some());
        }
        if unit.is_some() {
            array = array.call_method1("view", ("int64",))?;
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
