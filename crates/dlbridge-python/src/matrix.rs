//! `dlbridge.matrix`: the columns of a table as one tensor of (rows, columns).
//!
//! `read` makes [`Column`]s of every source: the children of a struct of Arrow, read from one stream, the rows of the blocks
//! of a pandas frame, or columns that are each imported by their own protocol. Columns that lie side by side are shared, all
//! others are copied in one pass, by blocks of rows.

mod copy;
mod read;

use dlbridge::{Access, CopyReason, DataType, RawParts, Tensor, TensorRef};
use dlbridge_pyo3::argument::cast::{
    converted, counts_in, is_converted, is_safe, is_same_kind, kind,
};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::import::Depth;
use dlbridge_pyo3::import_options::{expect_bool, wrong_type};
use dlbridge_pyo3::imported::Imported;
use dlbridge_pyo3::protocol::time::{self, Times};
use dlbridge_pyo3::python::error::{repr_in_message, to_py_err, type_name};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use self::copy::{copied, filled};
use self::read::{Column, named, read, read_block};
use crate::arrow::Part;
use crate::class::dtype::{DtypeName, parse};
use crate::import::options::wrong_value;
use crate::memory::access;
use crate::tensor::TensorObject;

/// Make a tensor of (rows, columns) from a table.
///
/// frame is any table of Arrow, such as a DataFrame of polars or a Table of pyarrow, a pandas.DataFrame, or a mapping of
/// names to columns of one length. columns selects columns by name, in this order.
/// dtype is the dtype to convert to, by NumPy's rule 'same_kind'; by default the one that NumPy promotes the dtypes of the
/// columns to. Columns of times become their counts: int64, in the finest of their units, or in that of dtype.
/// nulls is 'raise', or the number that replaces nulls.
/// order is the order of a copy, 'C' or 'F'. Columns that lie side by side in memory are shared, and keep their strides;
/// copy=True copies them, copy=False makes every copy an error.
///
/// Raises TypeError for an object that is not a table, ValueError for an unknown or ambiguous column, and BufferError,
/// with the name of the column, for one that a matrix cannot express.
#[pyfunction]
#[pyo3(
    signature = (frame, columns=None, *, dtype=None, nulls=None, order=None, copy=None),
    text_signature = "(frame, columns=None, *, dtype=None, nulls='raise', order='C', copy=None)"
)]
pub(crate) fn matrix<'py>(
    frame: &Bound<'py, PyAny>,
    columns: Option<&Bound<'py, PyAny>>,
    dtype: Option<DtypeName>,
    nulls: Option<&Bound<'py, PyAny>>,
    order: Option<&Bound<'py, PyAny>>,
    copy: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, TensorObject>> {
    let _depth = Depth::enter()?;
    let columns = columns.map(expect_names).transpose()?;
    let (unit, dtype) = match dtype {
        Some(name) => match time::named(&name.0) {
            None => (None, Some(name.expect()?)),
            unit => (unit, None),
        },
        None => (None, None),
    };
    let order = match order.map(|order| order.extract::<String>()).transpose() {
        Ok(order) if matches!(order.as_deref(), None | Some("C" | "F")) => order,
        _ => return Err(wrong_value("order", "'C' or 'F'", order.unwrap_or(frame))),
    };
    let options = Options {
        dtype,
        unit,
        nulls: nulls.map(expect_fill).transpose()?.flatten(),
        fortran: order.as_deref() == Some("F"),
        copy: copy.map(|copy| expect_bool("copy", copy)).transpose()?,
        is_argument: false,
    };
    let matrix = of_table(frame, columns.as_deref(), &options)?.ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{} is not a table: expected one of Arrow (polars, pyarrow, DuckDB), a pandas.DataFrame, or a dict of \
             columns; dlbridge.asdlpack imports arrays and single columns",
            type_name(frame)
        ))
    })?;
    TensorObject::new(frame.py(), matrix)
}

/// The value of an argument `columns`: the names of columns, in a list, an index of pandas or another iterable.
pub(crate) fn expect_names<'py>(columns: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match columns.try_iter() {
        Ok(names) if !columns.is_instance_of::<PyString>() => names.collect(),
        _ => Err(wrong_type("columns", "a list of names", columns)),
    }
}

/// The matrix of a table, for an argument of an extension; None for an object that is not a table.
#[pyfunction]
#[pyo3(name = "_matrix", signature = (obj, order=None))]
pub(crate) fn matrix_of_argument<'py>(
    obj: &Bound<'py, PyAny>,
    order: Option<&str>,
) -> PyResult<Option<Bound<'py, TensorObject>>> {
    let _depth = Depth::enter()?;
    let options = Options { fortran: order == Some("F"), is_argument: true, ..Options::default() };
    let matrix = of_table(obj, None, &options)?;
    matrix.map(|matrix| TensorObject::new(obj.py(), matrix)).transpose()
}

#[derive(Default)]
struct Options<'py> {
    dtype: Option<DataType>,
    /// NumPy's name for the times to convert to.
    unit: Option<&'static str>,
    /// The number that replaces nulls.
    nulls: Option<Bound<'py, PyAny>>,
    fortran: bool,
    copy: Option<bool>,
    /// True for an argument of an extension, which would take counts of a unit for numbers.
    is_argument: bool,
}

/// The value of an argument `nulls`: a number, or `None` for `'raise'`.
fn expect_fill<'py>(nulls: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    match (nulls.extract::<f64>(), nulls.cast::<PyString>()) {
        (_, Ok(text)) if text.to_cow()? == "raise" => Ok(None),
        (Ok(_), Err(_)) => Ok(Some(nulls.clone())),
        _ => Err(wrong_type("nulls", "'raise' or a number", nulls)),
    }
}

/// The tensor of a table, and why its elements were copied; `None` for an object that is not a table.
fn of_table<'py>(
    frame: &Bound<'py, PyAny>,
    selected: Option<&[Bound<'py, PyAny>]>,
    options: &Options<'py>,
) -> PyResult<Option<Imported>> {
    // The most frequent frame, which is not split into its columns.
    if selected.is_none()
        && options.copy != Some(true)
        && options.unit.is_none()
        && let Some(block) = read_block(frame)?
        && is_converted(block.tensor.dtype())
        && options.dtype.is_none_or(|dtype| dtype == block.tensor.dtype())
    {
        return Ok(Some(block));
    }
    let Some(mut columns) = read(frame, selected, options)? else { return Ok(None) };
    let Some(first) = columns.first() else {
        return Err(PyValueError::new_err(
            "a matrix has one or more columns, and none is selected",
        ));
    };
    let (rows, protocol) = (first.rows(), first.protocol);
    for column in &columns {
        let (count, nulls) = (column.rows(), column.nulls());
        if count != rows {
            let first = repr_in_message(&first.name);
            return Err(column.refusal(format!(
                "it has {count} rows, and column {first} has {rows}; make them equal"
            )));
        }
        if nulls > 0 && options.nulls.is_none() {
            let noun = if nulls == 1 { "null" } else { "nulls" };
            return Err(column.refusal(format!(
                "it has {nulls} {noun}, which a tensor cannot express; dlbridge.matrix(table, nulls=float('nan')), or \
                 another number, replaces them; or drop the rows first"
            )));
        }
    }
    in_one_unit(&mut columns, options)?;
    let dtype = common_dtype(&columns, options)?;
    // The reason of an import of a column comes before that of the matrix.
    let of_column = columns.iter().find_map(|column| column.parts[0].reason);
    let needed = needed_copy(&columns, dtype);
    if let (Some(reason), Some(false)) = (of_column.or(needed), options.copy) {
        return Err(PyBufferError::new_err(format!(
            "a copy would be needed, since {reason}, and copy=False forbids it; leave copy=False out"
        )));
    }
    let requested = (options.copy == Some(true)).then_some(CopyReason::Requested);
    let tensor = match needed.or(requested.filter(|_| of_column.is_none())) {
        None => shared(columns, dtype)?,
        Some(_) => copied(&columns, dtype, rows, options)?,
    };
    let reason = of_column.or(needed).or(requested);
    Ok(Some(Imported { reason, ..Imported::new(tensor, protocol) }))
}

/// Converts all columns of times to counts of one unit: that of the options, or the finest.
fn in_one_unit(columns: &mut [Column<'_>], options: &Options<'_>) -> PyResult<()> {
    let length = |name: &&str| time::unit(name).map(|(_, nanoseconds)| nanoseconds);
    let found = columns.iter().filter_map(|column| column.unit.as_deref()).filter_map(time::named);
    let Some(unit) = options.unit.or(found.min_by_key(length)) else { return Ok(()) };
    for column in columns {
        let Some(found) = column.unit.replace(unit.to_owned()) else {
            return Err(column.refusal(format!(
                "it has {}, and the matrix has {unit}; select columns of one kind, with columns=",
                column.dtype()
            )));
        };
        if options.is_argument {
            return Err(column.refusal(format!(
                "it has {found}, and the argument takes numbers; pass dlbridge.matrix(table), which has their counts"
            )));
        }
        if options.dtype.is_some() {
            return Err(column.refusal(format!(
                "it has {found}, which become the counts of a unit; pass that unit, for example dtype='{unit}'"
            )));
        }
        let is_done = found == unit && column.dtype() == DataType::INT64;
        for part in column.parts.iter_mut().filter(|_| !is_done) {
            let times = Times::new(vec![unit], true, Some(true));
            let _reading = Guard::for_copy(&part.tensor)?;
            let counts = converted(&TensorRef::from(&part.tensor), DataType::INT64)?;
            // The count under a null may be any number.
            let counts = filled(counts, &part.nulls, Tensor::from(vec![i64::MIN]))?;
            let counts = counts_in(counts, &found, &times);
            part.tensor = counts.map_err(|error| named(&column.name, error))?;
            part.reason = part.reason.or(Some(CopyReason::Converted));
        }
    }
    Ok(())
}

/// The dtypes from narrow to wide: NumPy promotes several to the first one that all of them convert to safely.
const PROMOTED: &str = "b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16";

/// The dtype of the matrix: that of the options, if every column is converted to it, or the promoted one.
fn common_dtype(columns: &[Column<'_>], options: &Options<'_>) -> PyResult<DataType> {
    // A fraction or NaN in place of nulls makes floats of integers.
    let is_whole = |fill: &Bound<'_, PyAny>| Ok::<_, PyErr>(fill.extract::<f64>()?.fract() == 0.0);
    let is_whole = options.nulls.as_ref().map_or(Ok(true), is_whole)?;
    let (mut found, mut common) = (Vec::new(), columns[0].dtype());
    for column in columns {
        let dtype = column.dtype();
        if !is_converted(dtype) {
            let text = format!("it has {dtype}, not numbers that convert to each other");
            return Err(column.refusal(text));
        }
        if let Some(to) = options.dtype {
            if dtype != to && !(is_converted(to) && is_same_kind(dtype, to)) {
                return Err(column.refusal(format!(
                    "NumPy's rule 'same_kind' converts no {dtype} to {to}; leave out dtype=, or convert the column first"
                )));
            }
            common = to;
            continue;
        }
        let widened = !is_whole && column.nulls() > 0 && kind(dtype) < 2 && column.unit.is_none();
        let dtype = if widened { DataType::FLOAT64 } else { dtype };
        if found.contains(&dtype) {
            continue;
        }
        found.push(dtype);
        let holds = |&to: &DataType| found.iter().all(|&from| from == to || is_safe(from, to));
        let promoted = if found.len() == 1 {
            Some(dtype)
        } else {
            PROMOTED.split(' ').filter_map(|name| parse(name).ok()).find(holds)
        };
        common = promoted.ok_or_else(|| {
            column.refusal(format!(
                "it has {dtype}, and no dtype has these and {common}; pass dtype="
            ))
        })?;
    }
    Ok(common)
}

/// Why the columns must be copied; `None` if they lie side by side in memory, or have no rows.
fn needed_copy(columns: &[Column<'_>], dtype: DataType) -> Option<CopyReason> {
    if columns[0].rows() == 0 {
        None
    } else if columns.iter().any(|column| column.nulls() > 0) {
        Some(CopyReason::Nulls)
    } else if columns.iter().any(|column| column.dtype() != dtype) {
        Some(CopyReason::Converted)
    } else {
        step(columns).is_none().then_some(CopyReason::SeveralChunks)
    }
}

/// The largest gap between columns that lie side by side: files of Arrow begin each at a multiple of 8 bytes.
const GAP: usize = 7;

/// The distance between columns of one chunk and dtype that lie side by side, in elements: one behind the other, or in turn
/// within each row.
fn step(columns: &[Column<'_>]) -> Option<i64> {
    let address = |nth: usize| columns[nth].parts[0].tensor.data().addr();
    let Part { tensor, source, .. } = &columns[0].parts[0];
    let (rows, stride, itemsize) = (tensor.len(), tensor.strides()[0], tensor.dtype().itemsize());
    let step = match columns {
        [column] => return (column.parts.len() == 1).then_some(1),
        _ => address(1).checked_sub(address(0)).filter(|step| step % itemsize == 0)?,
    };
    let is_next = |(nth, column): (usize, &Column<'_>)| {
        let part = &column.parts[0];
        column.parts.len() == 1
            && part.source.is_some()
            && part.source == *source
            && address(nth) == address(0).wrapping_add(nth.wrapping_mul(step))
            && (part.tensor.strides()[0] == stride || rows == 1)
            && part.tensor.access() != Access::Exclusive
    };
    let column = rows * itemsize;
    let is_behind = (stride == 1 || rows == 1) && (column..=column + GAP).contains(&step);
    let turn = usize::try_from(stride).ok()?.checked_mul(itemsize)?;
    let in_turn = rows > 1 && step > 0 && (columns.len() - 1).checked_mul(step)? + itemsize <= turn;
    ((is_behind || in_turn) && columns.iter().enumerate().all(is_next))
        .then_some((step / itemsize) as i64)
}

/// The tensor over columns that lie side by side, or without rows.
fn shared(mut columns: Vec<Column<'_>>, dtype: DataType) -> PyResult<Tensor> {
    let (rows, count) = (columns[0].rows(), columns.len());
    if rows == 0 {
        return Ok(Tensor::zeroed(dtype, [0, count])?);
    }
    let step = step(&columns).expect("the columns lie side by side");
    let owners = columns.iter_mut().map(|column| column.parts.swap_remove(0).tensor);
    let mut owners: Vec<_> = owners.collect();
    if count == 1 {
        return Ok(owners.swap_remove(0).insert_axis(1)?);
    }
    let access = access(owners.iter().any(Tensor::is_read_only));
    let (first, stride) = (&owners[0], owners[0].strides()[0]);
    let parts = RawParts { access, ..RawParts::new(first.data(), dtype) };
    // SAFETY: each element is one of a column, whose memory its tensor keeps, and all tensors are owners. None of them is
    // exclusive, and the memory is read-only if that of any column is. All columns are of one source (`Part::source`): one
    // array of NumPy, one tensor, or one table of another library, whose allocations Rust does not know.
    let tensor =
        unsafe { Tensor::from_raw_parts(owners, parts, &[rows, count], Some(&[stride, step])) };
    tensor.map_err(to_py_err)
}
