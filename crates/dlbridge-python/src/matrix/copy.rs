//! The copy of columns, in one pass.

use std::sync::{Mutex, PoisonError};

use dlbridge::{DataType, Element, Result, Tensor, TensorRef, TensorRefMut, Unaligned};
use dlbridge_pyo3::argument::cast::{converted, has_integer, kind};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::{repr_in_message, to_py_err};
use pyo3::prelude::*;

use super::Options;
use super::read::Column;
use crate::arrow::Part;
use crate::memory::with_dtype;

/// The bytes of a tile in C order, which fits the second-level cache, and the most columns of it.
const TILE: (usize, usize) = (1 << 18, 32);

/// The least rows and the most elements of a block in Fortran order.
const BLOCK: (usize, usize) = (1 << 10, 1 << 22);

/// Copies of at least this number of bytes use threads, as those of the core do.
const LARGE: usize = 1 << 24;

/// The bytes between two checks for signals.
const BATCH: usize = 1 << 26;

/// The chunks of a column, each with the row that it begins at.
type Chunks<'a> = Vec<(usize, TensorRef<'a>)>;

/// A copy of columns, each converted to the dtype, with another value in place of nulls.
pub(super) fn copied(
    columns: &[Column<'_>],
    dtype: DataType,
    rows: usize,
    options: &Options<'_>,
) -> PyResult<Tensor> {
    let (count, fortran) = (columns.len(), options.fortran);
    let parts = || columns.iter().flat_map(|column| &column.parts);
    let _reading =
        parts().map(|part| Guard::for_copy(&part.tensor)).collect::<PyResult<Vec<_>>>()?;
    let rare = |part: &Part| match is_converted_here(part.tensor.dtype(), dtype) {
        true => Ok(None),
        false => converted(&TensorRef::from(&part.tensor), dtype).map(Some),
    };
    let rare = parts().map(rare).collect::<PyResult<Vec<_>>>()?;
    let (mut rare, mut places) = (rare.iter(), Vec::new());
    let mut sources: Vec<Chunks<'_>> = Vec::with_capacity(count);
    for (nth, column) in columns.iter().enumerate() {
        let (mut chunks, mut row) = (Vec::with_capacity(column.parts.len()), 0);
        for (part, rare) in column.parts.iter().zip(&mut rare) {
            let place = |null: &usize| match fortran {
                true => nth * rows + row + null,
                false => (row + null) * count + nth,
            };
            places.extend(part.nulls.iter().map(place));
            chunks.push((row, TensorRef::from(rare.as_ref().unwrap_or(&part.tensor))));
            row += part.tensor.len();
        }
        sources.push(chunks);
    }
    let bytes = rows.saturating_mul(count).saturating_mul(dtype.itemsize());
    // One column is in both orders.
    let in_turn = !fortran && count > 1;
    let mut copy = copies::detached(bytes, |go_on| joined(&sources, dtype, rows, !in_turn, go_on))?;
    if let Some(fill) = &options.nulls
        && let Some(column) = columns.iter().find(|column| column.nulls() > 0)
    {
        copy = filled(copy, &places, filler(column, fill, dtype)?)?;
    }
    Ok(if fortran { copy.transpose() } else { copy.reshape([rows, count])? })
}

/// Copies blocks of rows, on several threads: in Fortran order each column of a block to its place, in C order some columns
/// to the rows of a tile, which is then transposed.
fn joined(
    sources: &[Chunks<'_>],
    dtype: DataType,
    rows: usize,
    fortran: bool,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Tensor>> {
    let (count, size) = (sources.len(), dtype.itemsize());
    let (shape, block) = match fortran {
        true => ([count, rows], (rows / 4).min(BLOCK.1 / count).max(BLOCK.0)),
        false => ([rows, count], TILE.0 / (count.min(TILE.1) * size)),
    };
    // SAFETY: the loop below writes all blocks, and each of them as a whole; otherwise the tensor is dropped.
    let mut copy = unsafe { Tensor::uninit(dtype, shape) }?;
    let (mut blocks, mut rest) = (Vec::new(), TensorRefMut::try_from(&mut copy)?);
    for begin in (0..rows).step_by(block) {
        let (head, tail) = rest.split_at(usize::from(fortran), block.min(rows - begin))?;
        blocks.push(Mutex::new(Some((begin, head))));
        rest = tail;
    }
    let threads = if rows * count * size < LARGE { 1 } else { dlbridge::num_threads() };
    let failed = Mutex::new(Ok(()));
    for batch in blocks.chunks((BATCH / (block * count * size)).max(threads)) {
        dlbridge::run(threads, batch.len(), &|nth| {
            let taken = batch[nth].lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some((begin, to)) = taken else { return };
            let done = match fortran {
                true => read_rows(sources, begin, to),
                false => transpose_rows(sources, begin, to),
            };
            if done.is_err() {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = done;
            }
        });
        if !go_on() {
            return Ok(None);
        }
    }
    drop(blocks);
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map(|()| Some(copy))
}

/// Copies some rows of all columns, from `begin` on, each column to a column of `to`.
fn transpose_rows(sources: &[Chunks<'_>], begin: usize, mut to: TensorRefMut<'_>) -> Result<()> {
    let height = to.shape()[0] as usize;
    // SAFETY: `read_rows` writes all elements that are read.
    let mut tile = unsafe { Tensor::uninit(to.dtype(), [sources.len().min(TILE.1), height]) }?;
    for (nth, sources) in sources.chunks(TILE.1).enumerate() {
        let (first, width) = (nth * TILE.1, sources.len());
        read_rows(sources, begin, TensorRefMut::try_from(&mut tile)?.slice(0, ..width)?)?;
        let tile = TensorRef::from(&tile).slice(0, ..width)?;
        to.as_tensor_ref_mut().slice(1, first..first + width)?.copy_from(&tile.transpose())?;
    }
    Ok(())
}

/// Copies some rows of all columns, from `begin` on, each column to a row of `to`.
fn read_rows(sources: &[Chunks<'_>], begin: usize, mut to: TensorRefMut<'_>) -> Result<()> {
    let height = to.shape()[1] as usize;
    for (nth, chunks) in sources.iter().enumerate() {
        let mut place = chunks.partition_point(|(row, _)| *row <= begin) - 1;
        let mut done = 0;
        while done < height {
            let (row, source) = &chunks[place];
            let first = begin + done - row;
            let more = (height - done).min(source.len() - first);
            let room = to.as_tensor_ref_mut().index_axis(0, nth)?.slice(0, done..done + more)?;
            convert(&source.slice(0, first..first + more)?, room)?;
            (done, place) = (done + more, place + 1);
        }
    }
    Ok(())
}

/// Defines the conversions that this file makes itself, to the most frequent dtypes.
macro_rules! conversions {
    ($($to:ty: $to_dtype:ident [$($from:ty: $dtype:ident),+];)+) => {
        /// Returns true for elements that [`convert`] accepts.
        fn is_converted_here(from: DataType, to: DataType) -> bool {
            from == to
                || from == DataType::BOOL && [$(DataType::$to_dtype),+].contains(&to)
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
    // `Unaligned` accepts any address.
    source.view::<Unaligned<S>>()?.copy_mapped(to, |value| convert(value.get()))
}

/// The number in place of nulls, as the only element of a tensor.
fn filler(column: &Column<'_>, number: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<Tensor> {
    let float: f64 = number.extract()?;
    if float.is_nan() && column.unit.is_some() {
        return Ok(Tensor::from(vec![i64::MIN]));
    }
    let whole = match float.fract() == 0.0 {
        true => &number.call_method0("__int__")?,
        false => number,
    };
    let fits = match kind(dtype) {
        0 => float == 0.0 || float == 1.0,
        1 => float.fract() == 0.0 && has_integer(dtype, whole)?,
        _ => !float.is_finite() || has_integer(dtype, whole)?,
    };
    if !fits {
        return Err(column.refusal(format!(
            "it has nulls, and {dtype} lacks the number {}; pass another number, or dtype='float64'",
            repr_in_message(number)
        )));
    }
    let made = match (whole.extract::<i64>(), whole.extract::<u64>()) {
        (Ok(integer), _) => Tensor::from(vec![integer]),
        (_, Ok(integer)) => Tensor::from(vec![integer]),
        _ => Tensor::from(vec![float]),
    };
    converted(&TensorRef::from(&made), dtype)
}

/// Writes the only element of a tensor to some places of contiguous memory.
pub(super) fn filled(copy: Tensor, places: &[usize], filler: Tensor) -> PyResult<Tensor> {
    let (dtype, shape, size) = (copy.dtype(), copy.shape().to_vec(), copy.dtype().itemsize());
    let count = copy.len() * size;
    let mut bytes = with_dtype(copy, DataType::UINT8, &[count])?;
    let filler = with_dtype(filler, DataType::UINT8, &[size])?;
    let filler = TensorRef::from(&filler).to_vec::<u8>().map_err(to_py_err)?;
    let elements = bytes.view_mut::<u8>().map_err(to_py_err)?.into_mut_slice();
    let elements = elements.expect("new memory is contiguous");
    for &place in places {
        elements[place * size..][..size].copy_from_slice(&filler);
    }
    with_dtype(bytes, dtype, &shape)
}
