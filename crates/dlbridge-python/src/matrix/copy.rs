//! The copy of columns, in one pass.

use dlbridge::{DataType, Element, Error, Result, Tensor, TensorRef, TensorRefMut, Unaligned};
use dlbridge_pyo3::argument::cast::{converted, has_integer, kind};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::{repr_in_message, to_py_err};
use pyo3::prelude::*;

use super::Options;
use super::read::Column;
use crate::memory::with_dtype;

/// The bytes of the rows that are copied at once in C order: they and their source fit the second-level cache.
const BLOCK: usize = 1 << 18;

/// The elements of a column between two checks for signals.
const PIECE: usize = 1 << 22;

/// A copy of columns, each converted to the dtype, with another value in place of nulls.
pub(super) fn copied(
    columns: &[Column<'_>],
    dtype: DataType,
    rows: usize,
    options: &Options<'_>,
) -> PyResult<Tensor> {
    let count = columns.len();
    let is_fast = |from| from == dtype || is_converted_here(from, dtype);
    let parts = || columns.iter().flat_map(|column| &column.parts);
    let _reading =
        parts().map(|part| Guard::for_copy(&part.tensor)).collect::<PyResult<Vec<_>>>()?;
    let convert = |part: &crate::arrow::Part| match is_fast(part.tensor.dtype()) {
        true => Ok(None),
        false => converted(&TensorRef::from(&part.tensor), dtype).map(Some),
    };
    let rare = parts().map(convert).collect::<PyResult<Vec<_>>>()?;
    let mut sources = parts()
        .zip(&rare)
        .map(|(part, rare)| TensorRef::from(rare.as_ref().unwrap_or(&part.tensor)));
    let sources: Vec<Vec<_>> =
        columns.iter().map(|column| sources.by_ref().take(column.parts.len()).collect()).collect();
    let bytes = rows.saturating_mul(count).saturating_mul(dtype.itemsize());
    let is_one_dtype = sources.iter().flatten().all(|source| source.dtype() == dtype);
    let in_order = options.fortran || count == 1;
    let mut copy = copies::detached(bytes, |go_on| match in_order {
        true if is_one_dtype => TensorRef::concatenate_while(&sources.concat(), 1, go_on),
        true => one_by_one(&sources, dtype, rows, go_on),
        false => by_rows(&sources, dtype, rows, go_on),
    })?;
    let place = |column: usize, row: usize| match options.fortran {
        true => column * rows + row,
        false => row * count + column,
    };
    if let Some(fill) = &options.nulls {
        let mut places = Vec::new();
        for (nth, column) in columns.iter().enumerate().filter(|(_, column)| column.nulls() > 0) {
            let mut row = 0;
            for part in &column.parts {
                places.extend(part.nulls.iter().map(|null| place(nth, row + null)));
                row += part.tensor.len();
            }
        }
        if let Some(column) = columns.iter().find(|column| column.nulls() > 0) {
            copy = filled(copy, &places, filler(column, fill, dtype)?)?;
        }
    }
    Ok(match options.fortran {
        true => copy.reshape([count, rows]).map_err(to_py_err)?.transpose(),
        false => copy.reshape([rows, count]).map_err(to_py_err)?,
    })
}

/// Copies each column behind the one before, in one dimension.
fn one_by_one(
    sources: &[Vec<TensorRef<'_>>],
    dtype: DataType,
    rows: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Tensor>> {
    let total = rows.checked_mul(sources.len()).ok_or(Error::TooLarge)?;
    let mut copy = Tensor::zeroed(dtype, [total])?;
    let mut begin = 0;
    for source in sources.iter().flatten() {
        for first in (0..source.len()).step_by(PIECE) {
            let piece = source.slice(0, first..source.len().min(first + PIECE))?;
            let end = begin + piece.len();
            convert(&piece, TensorRefMut::try_from(&mut copy)?.slice(0, begin..end)?)?;
            begin = end;
            if !go_on() {
                return Ok(None);
            }
        }
    }
    Ok(Some(copy))
}

/// Copies blocks of rows: each column of a block to a row of a scratch tensor, which is then transposed.
fn by_rows(
    sources: &[Vec<TensorRef<'_>>],
    dtype: DataType,
    rows: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Tensor>> {
    let count = sources.len();
    let mut copy = Tensor::zeroed(dtype, [rows, count])?;
    let block = (BLOCK / (count * dtype.itemsize())).max(64).min(rows.max(1));
    let mut scratch = Tensor::zeroed(dtype, [count, block])?;
    // For each column the chunk to read from, and the elements of it that were read.
    let mut cursors = vec![(0, 0); count];
    for begin in (0..rows).step_by(block) {
        if begin > 0 && !go_on() {
            return Ok(None);
        }
        let height = block.min(rows - begin);
        for (nth, (chunks, (chunk, read))) in sources.iter().zip(&mut cursors).enumerate() {
            let mut done = 0;
            while done < height {
                let source = &chunks[*chunk];
                let more = (height - done).min(source.len() - *read);
                let to = TensorRefMut::try_from(&mut scratch)?.index_axis(0, nth)?;
                convert(&source.slice(0, *read..*read + more)?, to.slice(0, done..done + more)?)?;
                (done, *read) = (done + more, *read + more);
                if *read == source.len() {
                    (*chunk, *read) = (*chunk + 1, 0);
                }
            }
        }
        let to = TensorRefMut::try_from(&mut copy)?.slice(0, begin..begin + height)?;
        to.copy_from(&TensorRef::from(&scratch).slice(1, 0..height)?.transpose())?;
    }
    Ok(Some(copy))
}

/// Defines the conversions that this file makes itself, to the most frequent dtypes.
macro_rules! conversions {
    ($($to:ty: $to_dtype:ident [$($from:ty: $dtype:ident),+];)+) => {
        /// Returns true for elements of another dtype that [`convert`] accepts.
        fn is_converted_here(from: DataType, to: DataType) -> bool {
            from == DataType::BOOL && [$(DataType::$to_dtype),+].contains(&to)
                || matches!((from, to), $($((DataType::$dtype, DataType::$to_dtype))|+)|+)
        }

        /// Writes the elements of a tensor in one dimension, converted, to contiguous memory.
        fn convert(source: &TensorRef<'_>, to: TensorRefMut<'_>) -> Result<()> {
            match (source.dtype(), to.dtype()) {
                (from, dtype) if from == dtype => to.copy_from(source),
                // Any byte except 0 is true, as for NumPy.
                $((DataType::BOOL, DataType::$to_dtype) => {
                    let bytes = TensorRef::from(source.view_bool_as_u8()?);
                    mapped(&bytes, to, |byte: u8| <$to>::from(u8::from(byte != 0)))
                })+
                $($((DataType::$dtype, DataType::$to_dtype) => {
                    mapped(source, to, |value: $from| value as $to)
                })+)+
                (from, dtype) => unreachable!("{from} was converted to {dtype} before"),
            }
        }
    };
}

conversions! {
    f64: FLOAT64 [f32: FLOAT32, i64: INT64, u64: UINT64, i32: INT32, u32: UINT32, i16: INT16, u16: UINT16, i8: INT8, u8: UINT8];
    f32: FLOAT32 [f64: FLOAT64, i64: INT64, u64: UINT64, i32: INT32, u32: UINT32, i16: INT16, u16: UINT16, i8: INT8, u8: UINT8];
    i64: INT64 [i32: INT32, u32: UINT32, i16: INT16, u16: UINT16, i8: INT8, u8: UINT8];
}

fn mapped<S: Element + Copy, T: Element>(
    source: &TensorRef<'_>,
    to: TensorRefMut<'_>,
    convert: impl Fn(S) -> T,
) -> Result<()> {
    let view = source.view::<Unaligned<S>>()?;
    let room = to.into_view_mut::<T>()?.into_mut_slice().expect("the memory is contiguous");
    match view.as_slice() {
        Some(elements) => {
            room.iter_mut().zip(elements).for_each(|(to, from)| *to = convert(from.get()));
        }
        None => room.iter_mut().zip(view.iter()).for_each(|(to, from)| *to = convert(from.get())),
    }
    Ok(())
}

/// The number in place of nulls, as the only element of a tensor.
fn filler(column: &Column<'_>, number: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<Tensor> {
    let (float, given): (f64, _) = (number.extract()?, number);
    let number = match float.fract() == 0.0 {
        true => &number.call_method0("__int__")?,
        false => number,
    };
    let fits = match kind(dtype) {
        0 => float == 0.0 || float == 1.0,
        1 => float.fract() == 0.0 && has_integer(dtype, number)?,
        _ => !float.is_finite() || has_integer(dtype, number)?,
    };
    let made = match (number.extract::<i64>(), number.extract::<u64>()) {
        _ if float.is_nan() && column.unit.is_some() => Tensor::from(vec![i64::MIN]),
        _ if !fits => {
            return Err(column.refusal(format!(
                "it has nulls, and {dtype} lacks the number {}; pass another number, or dtype='float64'",
                repr_in_message(given)
            )));
        }
        (Ok(integer), _) => Tensor::from(vec![integer]),
        (_, Ok(integer)) => Tensor::from(vec![integer]),
        _ => Tensor::from(vec![float]),
    };
    match made.dtype() == dtype {
        true => Ok(made),
        false => converted(&TensorRef::from(&made), dtype),
    }
}

/// Writes the only element of a tensor to some places of contiguous memory.
pub(super) fn filled(copy: Tensor, places: &[usize], filler: Tensor) -> PyResult<Tensor> {
    let (dtype, len) = (copy.dtype(), copy.len());
    let size = dtype.itemsize();
    let mut bytes = with_dtype(copy, DataType::UINT8, &[len * size])?;
    let filler = with_dtype(filler, DataType::UINT8, &[size])?;
    let filler = TensorRef::from(&filler).to_vec::<u8>().map_err(to_py_err)?;
    let elements = bytes.view_mut::<u8>().map_err(to_py_err)?.into_mut_slice();
    let elements = elements.expect("new memory is contiguous");
    for &place in places {
        elements[place * size..][..size].copy_from_slice(&filler);
    }
    with_dtype(bytes, dtype, &[len])
}
