//! The columns of tables, for `dlbridge.matrix`: the children of a struct, or one array.

use std::sync::Arc;

use dlbridge::{CopyReason, DataType, Tensor};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::protocol::TypeInfo;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::abi::{ArrowArray, ArrowSchema, Owned, broken, child_pair};
use super::array::{Elements, MOST, Span};
use super::elements::{null_places, nulls};
use super::format::{self, Level};
use super::import::{Chunks, exported};

/// A chunk of a column, in one dimension.
pub(crate) struct Part {
    pub(crate) tensor: Tensor,
    /// Why its elements were copied.
    pub(crate) reason: Option<CopyReason>,
    /// The indices of its nulls, whose elements have any value.
    pub(crate) nulls: Vec<usize>,
    /// What the memory is a piece of, as a number: columns of one source may become one tensor. `None` if it is not known.
    pub(crate) source: Option<usize>,
}

/// The chunks of a column, and NumPy's name for its times if it has times: the elements are their counts then.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) parts: Vec<Part>,
    pub(crate) unit: Option<String>,
}

/// A table, or one column, whose arrays were not read yet.
pub(crate) struct Table(Chunks);

impl Table {
    /// The table of an object that supports Arrow; `None` for other objects.
    pub(crate) fn of(
        object: &Bound<'_, PyAny>,
        type_info: &TypeInfo,
        options: &ImportOptions,
    ) -> PyResult<Option<Self>> {
        Ok(exported(object, type_info, options, false)?.map(Self))
    }

    /// The names of the columns; `None` for an array that is not a struct.
    pub(crate) fn names(&self) -> PyResult<Option<Vec<String>>> {
        let schema = self.0.schema();
        format::check_plain(schema)?;
        if schema.format()? != c"+s" {
            return Ok(None);
        }
        let count = usize::try_from(schema.n_children).unwrap_or_default();
        let name = |nth| schema.child(nth).map(ArrowSchema::name).ok_or_else(missing_child);
        (0..count).map(name).collect::<PyResult<_>>().map(Some)
    }

    /// Reads the columns with these numbers; without numbers, the array itself. `refusal` adds the name of a column,
    /// by its place among the numbers, to an error.
    pub(crate) fn read(
        mut self,
        object: &Bound<'_, PyAny>,
        columns: Option<&[usize]>,
        options: &ImportOptions,
        refusal: impl Fn(usize, PyErr) -> PyErr,
    ) -> PyResult<Vec<Parts>> {
        let mut read = Vec::new();
        // The types are checked before any array is taken.
        for place in 0..columns.map_or(1, <[usize]>::len) {
            let schema = match columns {
                Some(columns) => self.0.schema().child(columns[place]).ok_or_else(missing_child)?,
                None => self.0.schema(),
            };
            let found = storage(schema).and_then(|(schema, unit)| Ok((level(&schema)?, unit)));
            let (dtype, unit) = found.map_err(|error| refusal(place, error))?;
            read.push((dtype, Parts { parts: Vec::new(), unit }));
        }
        while let Some(chunk) = self.0.next(object.py())? {
            let (schema, chunk) = (self.0.schema(), Arc::new(chunk));
            let span = rows(object, chunk.get(), columns.is_some())?;
            for (place, (_, column)) in read.iter_mut().enumerate() {
                let (schema, array, first) = match columns {
                    Some(columns) => {
                        let (schema, array) = child_pair(schema, chunk.get(), columns[place])?;
                        // A sum that saturates is refused as too large.
                        (schema, array, span.first.saturating_add(array.offset))
                    }
                    None => (schema, chunk.get(), span.first),
                };
                let part = part(object, schema, array, Span { first, ..span }, &chunk, options);
                column.parts.push(part.map_err(|error| refusal(place, error))?);
            }
        }
        for (dtype, column) in &mut read {
            if column.parts.is_empty() {
                let tensor = Tensor::zeroed(*dtype, [0])?;
                column.parts.push(Part { tensor, reason: None, nulls: Vec::new(), source: None });
            }
        }
        Ok(read.into_iter().map(|(_, column)| column).collect())
    }
}

/// The rows of a table, or the elements of a column; all of them may be null.
fn rows(object: &Bound<'_, PyAny>, array: &ArrowArray, is_table: bool) -> PyResult<Span> {
    let &ArrowArray { offset: first, length: count, .. } = array;
    if first < 0 || count < 0 {
        return Err(broken("a negative length or offset"));
    }
    // Checked before the validity bits are read, to detect an impossible length.
    if first > MOST || count > MOST {
        return Err(broken("more rows than the address space has room for"));
    }
    if is_table {
        if array.n_buffers != 1 || !array.dictionary.is_null() {
            return Err(broken("a struct with a dictionary or a number of buffers other than one"));
        }
        // SAFETY: Range of `array.rs`, for the validity bits of the struct.
        let nulls = unsafe { nulls(object, array, first, count) }?;
        if nulls > 0 {
            let noun = if nulls == 1 { "row" } else { "rows" };
            return Err(PyBufferError::new_err(format!(
                "the table has {nulls} null {noun}, which a tensor cannot express; drop them first"
            )));
        }
    }
    Ok(Span { first, count, unused: count })
}

fn part(
    object: &Bound<'_, PyAny>,
    schema: &ArrowSchema,
    array: &ArrowArray,
    span: Span,
    owner: &Arc<Owned<ArrowArray>>,
    options: &ImportOptions,
) -> PyResult<Part> {
    let elements = Elements::of(object, &storage(schema)?.0, array, span, None)?;
    // SAFETY: `Elements::of` checked that the range is within the array (Range of `array.rs`).
    let nulls = unsafe { null_places(object, array, span.first, span.count) }?;
    let known = elements.known_source(array);
    // All other memory belongs to the library that made the table.
    let source = known.as_ref().map_or(0, |known| known.as_raw().addr());
    let (tensor, reason) = match known {
        // SAFETY: the elements lie within those of the source, which keeps them (Within of `keepalive.rs` in `dlbridge-pyo3`).
        Some(source) => unsafe { elements.into_tensor(source, options.copy) },
        // SAFETY: the elements are those of the array or of a child of it, and the last owner releases both.
        None => unsafe { elements.into_tensor(Arc::clone(owner), options.copy) },
    }?;
    Ok(Part { tensor, reason, nulls, source: Some(source) })
}

/// The dtype of the elements of a column; lists are refused.
fn level(schema: &ArrowSchema) -> PyResult<DataType> {
    match Level::of(schema, None)? {
        Level::Numbers(dtype) => Ok(dtype),
        Level::Bits => Ok(DataType::BOOL),
        Level::Lists(_) => Err(PyBufferError::new_err(
            "it has fixed-size lists, and a column of a matrix has one number in a row; dlbridge.asdlpack imports them",
        )),
    }
}

/// The type of the elements of a column, and NumPy's name for its times: their counts are the elements then.
fn storage(schema: &ArrowSchema) -> PyResult<(ArrowSchema, Option<String>)> {
    let format = schema.format()?.to_string_lossy();
    let unit = format::name_of_times(&format).map(str::to_owned);
    let format = match (&unit, &*format) {
        (None, _) => schema.format,
        // Dates count days in 32 bits, all other times in 64.
        (_, "tdD") => c"i".as_ptr(),
        _ => c"l".as_ptr(),
    };
    // A view: the fields are the pointers of the schema, and nothing releases it.
    Ok((ArrowSchema { format, ..*schema }, unit))
}

fn missing_child() -> PyErr {
    broken("a child that is NULL or not aligned")
}
