//! Batches with columns of one type as tensors of rows and columns, and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, ScalarBuffer};
use arrow_schema::{Field, Schema};
use dlbridge::{Access, DataType, Element, Error as TensorError, RawParts, Tensor, TensorRef};

use crate::dtype::{Elements, Take, Values, values, with_array_type};
use crate::memory::{self, Source};
use crate::{Error, Result};

/// The owner of a tensor that was made of a batch.
struct Columns {
    batch: RecordBatch,
    /// The buffers of the batch, which keep the memory whatever types its arrays have.
    _buffers: Vec<Buffer>,
    /// The tensor as it was first made.
    tensor: Description,
}

/// The fields that distinguish two tensors over the same memory.
#[derive(PartialEq)]
struct Description {
    data: usize,
    shape: [i64; 2],
    strides: [i64; 2],
    dtype: DataType,
}

impl Description {
    fn of(tensor: &Tensor) -> Option<Self> {
        let (data, dtype) = (tensor.data().addr(), tensor.dtype());
        let shape = tensor.shape().try_into().ok()?;
        Some(Self { data, shape, strides: tensor.strides().try_into().ok()?, dtype })
    }
}

/// The buffers of the columns, all of one dtype.
fn columns(batch: &RecordBatch, take: Take) -> Result<(Vec<Buffer>, DataType)> {
    let first = batch.columns().first().ok_or(Error::NoColumns)?.data_type();
    let (mut buffers, mut dtype) = (Vec::with_capacity(batch.num_columns()), DataType::BOOL);
    for (column, array) in batch.columns().iter().enumerate() {
        if array.data_type() != first {
            let (first, found) = (first.clone(), array.data_type().clone());
            return Err(Error::ColumnTypes { column, first, found });
        }
        let Values { shape, elements } = values(array, take)?;
        // A list is not a column, whatever its values.
        if shape.len() != 1 {
            return Err(Error::Unsupported { data_type: first.clone() });
        }
        let Elements::Numbers(buffer, found) = elements else { return Err(Error::Bits) };
        (dtype, _) = (found, buffers.push(buffer));
    }
    Ok((buffers, dtype))
}

/// The distance in bytes between neighbouring columns, two or more, which must be in one allocation.
fn distance(buffers: &[Buffer], itemsize: usize) -> Result<isize> {
    let between =
        |a: &Buffer, b: &Buffer| b.as_ptr().addr().wrapping_sub(a.as_ptr().addr()) as isize;
    let (first, expected) = (&buffers[0], between(&buffers[0], &buffers[1]));
    for (column, pair) in (1..).zip(buffers.windows(2)) {
        if pair[1].data_ptr() != first.data_ptr() {
            return Err(Error::OtherAllocation { column });
        }
        let found = between(&pair[0], &pair[1]);
        if found != expected || found % itemsize as isize != 0 {
            return Err(Error::UnevenColumns { column, expected, found });
        }
    }
    Ok(expected)
}

pub(crate) fn into_tensor(batch: RecordBatch, take: Take) -> Result<Tensor> {
    let (buffers, dtype) = columns(&batch, take)?;
    let (rows, count) = (batch.num_rows(), buffers.len());
    let itemsize = dtype.itemsize();
    // Without rows there are no elements, so the stride is arbitrary.
    let distance = match (rows, count) {
        (0, _) => 0,
        (_, 1) => (rows * itemsize) as isize,
        _ => distance(&buffers, itemsize)?,
    };
    // The handle that reaches furthest into the allocation: its pointer covers all columns.
    let furthest = if distance < 0 { &buffers[0] } else { &buffers[count - 1] };
    let base = furthest.data_ptr().as_ptr();
    let data = base.wrapping_add(buffers[0].as_ptr().addr() - buffers[0].data_ptr().addr().get());
    let strides = [1, distance as i64 / itemsize as i64];
    let shape = [rows as i64, count as i64];
    let tensor =
        Description { data: if rows == 0 { 0 } else { data.addr() }, shape, strides, dtype };
    let parts = RawParts { access: Access::Immutable, ..RawParts::new(data.cast(), dtype) };
    let owner = Columns { batch, _buffers: buffers, tensor };
    // SAFETY: each column is a buffer of `rows` elements at the address that the strides give. All columns are in one
    // allocation, which the buffers keep alive and in place. Nothing writes the memory of a buffer (Immutable).
    Ok(unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) }?)
}

pub(crate) fn to_tensor(batch: &RecordBatch) -> Result<Tensor> {
    let (rows, count) = (batch.num_rows(), batch.num_columns());
    if batch
        .columns()
        .first()
        .is_some_and(|first| *first.data_type() == arrow_schema::DataType::Boolean)
    {
        return booleans(batch);
    }
    let (buffers, dtype) = columns(batch, Take::Numbers)?;
    let mut copy = MutableBuffer::with_capacity(buffers.iter().map(Buffer::len).sum());
    for buffer in &buffers {
        copy.extend_from_slice(buffer);
    }
    Ok(memory::to_tensor(copy.into(), dtype, &[count, rows])?.transpose())
}

fn booleans(batch: &RecordBatch) -> Result<Tensor> {
    let mut copy = Vec::new();
    for (column, array) in batch.columns().iter().enumerate() {
        let Some(booleans) = array.as_boolean_opt() else {
            let (first, found) = (arrow_schema::DataType::Boolean, array.data_type().clone());
            return Err(Error::ColumnTypes { column, first, found });
        };
        if booleans.null_count() != 0 {
            return Err(Error::Nulls { count: booleans.null_count() });
        }
        copy.extend(booleans.values().iter());
    }
    Ok(Tensor::from_parts(copy, [batch.num_columns(), batch.num_rows()])?.transpose())
}

/// Returns the batch that a tensor was made of, if the tensor has all its elements in its layout.
pub(crate) fn taken_back(tensor: Tensor) -> std::result::Result<RecordBatch, Tensor> {
    let now = Description::of(&tensor);
    let (data, shape, strides) =
        (tensor.data(), tensor.shape().to_vec(), tensor.strides().to_vec());
    let dtype = tensor.dtype();
    let owner = tensor.try_into_owner::<Columns>()?;
    if now.as_ref() == Some(&owner.tensor) {
        return Ok(owner.batch);
    }
    let parts = RawParts { access: Access::Immutable, ..RawParts::new(data, dtype) };
    // SAFETY: the parts and the layout are those of the tensor, over the same owner, whose buffers nothing writes
    // (Immutable).
    let again = unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) };
    Err(again.expect("it was a tensor before"))
}

/// The columns of a tensor, without a copy.
pub(crate) fn from_tensor(tensor: Tensor, names: Vec<String>) -> Result<RecordBatch> {
    let [rows, count] = extents(&tensor)?;
    check_names(&names, count)?;
    let columns = with_array_type!(tensor.dtype(), P => numbers::<P>(tensor, rows, count)?);
    batch(columns, names, rows)
}

/// The columns of a tensor, copied.
pub(crate) fn copied(tensor: &Tensor, names: Vec<String>) -> Result<RecordBatch> {
    let [rows, count] = extents(tensor)?;
    check_names(&names, count)?;
    let columns = TensorRef::from(tensor).transpose().to_copy()?;
    if columns.dtype() != DataType::BOOL {
        return from_tensor(columns.transpose(), names);
    }
    let view = columns.view::<bool>()?;
    let booleans = view.as_slice().ok_or(TensorError::NotContiguous)?;
    let column = |nth: usize| {
        let bits = BooleanBuffer::from(&booleans[nth * rows..][..rows]);
        Arc::new(BooleanArray::new(bits, None)) as ArrayRef
    };
    batch((0..count).map(column).collect(), names, rows)
}

fn extents(tensor: &Tensor) -> Result<[usize; 2]> {
    let shape: &[i64; 2] = tensor
        .shape()
        .try_into()
        .map_err(|_| TensorError::Ndim { expected: 2, found: tensor.ndim() })?;
    Ok(shape.map(|extent| extent as usize))
}

fn numbers<P>(tensor: Tensor, rows: usize, count: usize) -> Result<Vec<ArrayRef>>
where
    P: ArrowPrimitiveType<Native: Element>,
{
    let array = |buffer: Buffer| {
        Arc::new(PrimitiveArray::<P>::new(ScalarBuffer::new(buffer, 0, rows), None)) as ArrayRef
    };
    // Checks dtype, device and alignment.
    tensor.view::<P::Native>()?;
    if tensor.is_empty() {
        return Ok((0..count).map(|_| array(memory::empty())).collect());
    }
    let (rows_apart, columns_apart) = (tensor.strides()[0], tensor.strides()[1]);
    if rows > 1 && rows_apart != 1 {
        return Err(Error::RowStride { stride: rows_apart });
    }
    let itemsize = size_of::<P::Native>();
    let (bytes, step) = (rows * itemsize, columns_apart as isize * itemsize as isize);
    let all = TensorRef::from(&tensor).byte_bounds();
    let memory = Source::of(tensor)?;
    // Columns that touch become slices of one buffer, so that they can become one tensor again. Bytes between other
    // columns may be uninitialised.
    let touch = count == 1 || columns_apart.unsigned_abs() <= rows as u64;
    // SAFETY: the columns leave no gap, so all bytes within the bounds are elements of the tensor. `view` checked
    // that the CPU can read them.
    let whole = touch.then(|| unsafe { memory.buffer(all.start, (all.end - all.start) as usize) });
    let column = |nth: usize| {
        let start = nth as isize * step;
        array(match &whole {
            Some(whole) => whole.slice_with_length((start - all.start) as usize, bytes),
            // SAFETY: the bytes are the elements of one column, which are contiguous.
            None => unsafe { memory.buffer(start, bytes) },
        })
    };
    Ok((0..count).map(column).collect())
}

/// Checks the number of names before any column is made: each column allocates, and a tensor without elements may
/// have any number of columns.
fn check_names(names: &[String], columns: usize) -> Result<()> {
    match names.len() == columns {
        true => Ok(()),
        false => Err(Error::NameCount { names: names.len(), columns }),
    }
}

/// Makes a batch of columns without nulls and as many names.
fn batch(columns: Vec<ArrayRef>, names: Vec<String>, rows: usize) -> Result<RecordBatch> {
    let field =
        |(name, column): (String, &ArrayRef)| Field::new(name, column.data_type().clone(), false);
    let schema = Schema::new(names.into_iter().zip(&columns).map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}
