//! Data frames with columns of one type as tensors of rows and columns, and back.

use dlbridge::{Access, DataType, Error as TensorError, RawParts, Tensor, TensorRef};
use polars_buffer::Buffer;
use polars_core::chunked_array::builder::NewChunkedArray;
use polars_core::datatypes::{BooleanChunked, DataType as Type, PolarsNumericType};
use polars_core::frame::DataFrame;
use polars_core::frame::column::IntoColumn;
use polars_core::series::{IntoSeries, Series};
use polars_utils::pl_str::PlSmallStr;

use crate::number::{Number, Take, of_series, of_tensor, stored, with_number};
use crate::sealed::Sealed;
use crate::series::{booleans, buffers, chunked, copied};
use crate::{Error, Result, memory};

/// Data frames with columns of one type as tensors of rows and columns.
pub trait DataFrameExt: Sealed + Sized {
    /// The columns as a tensor, without a copy, if they lie at equal distances in one allocation.
    ///
    /// The tensor is in Fortran order, or has another stride from column to column. It is
    /// [`Access::Immutable`](dlbridge::Access::Immutable).
    ///
    /// # Errors
    /// [`Error::OtherAllocation`], [`Error::UnevenColumns`], [`Error::ColumnTypes`] or [`Error::NoColumns`] for other
    /// columns; those of [`SeriesExt::into_tensor`](crate::SeriesExt::into_tensor) for each column.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::{DataFrameExt, TensorExt};
    ///
    /// let frame = Tensor::from([[1, 2, 3], [4, 5, 6]]).transpose().into_data_frame(["x", "y"])?;
    /// let tensor = frame.into_tensor()?;
    /// assert_eq!((tensor.shape(), tensor.strides()), (&[3, 2][..], &[1, 3][..]));
    /// # Ok::<(), dlbridge_polars::Error>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor>;

    /// Copies the columns, one after the other, into an exclusive tensor. Accepts booleans, and columns of several
    /// chunks.
    ///
    /// # Errors
    /// [`Error::ColumnTypes`] or [`Error::NoColumns`]; those of
    /// [`SeriesExt::to_tensor`](crate::SeriesExt::to_tensor) for each column.
    ///
    /// ```
    /// use dlbridge_polars::DataFrameExt;
    /// use polars_core::df;
    ///
    /// let tensor = df!("x" => [1, 2, 3], "y" => [4, 5, 6])?.to_tensor()?;
    /// assert_eq!(tensor.view::<i32>()?.to_vec(), [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_tensor(&self) -> Result<Tensor>;
}

impl Sealed for DataFrame {}

impl DataFrameExt for DataFrame {
    fn into_tensor(self) -> Result<Tensor> {
        let (columns, first) = columns(&self)?;
        let stored = stored(&first, Take::Numbers)?;
        with_number!(stored, of_series, P => {
            let buffers = single::<P>(&columns)?;
            strided(self, buffers)
        }, data_type => {
            Err(Error::Unsupported { data_type })
        })
    }

    fn to_tensor(&self) -> Result<Tensor> {
        let (columns, first) = columns(self)?;
        let mut copy = match first {
            Type::Boolean => Tensor::from(joined(&columns, booleans)?),
            _ => with_number!(stored(&first, Take::Numbers)?, of_series, P => {
                memory::from_vec(joined(&columns, copied::<P>)?)
            }, data_type => return Err(Error::Unsupported { data_type })),
        };
        copy = copy.reshape([columns.len(), self.height()])?;
        Ok(copy.transpose())
    }
}

/// Returns the columns, all of one type, and that type.
fn columns(frame: &DataFrame) -> Result<(Vec<&Series>, Type)> {
    let columns: Vec<&Series> =
        frame.columns().iter().map(|column| column.as_materialized_series()).collect();
    let first = columns.first().ok_or(Error::NoColumns)?.dtype().clone();
    match columns.iter().position(|column| *column.dtype() != first) {
        None => Ok((columns, first)),
        Some(column) => {
            let found = columns[column].dtype().clone();
            Err(Error::ColumnTypes { column, first, found })
        }
    }
}

/// Joins the values of all columns, one column after the other.
fn joined<T>(columns: &[&Series], values: impl Fn(&Series) -> Result<Vec<T>>) -> Result<Vec<T>> {
    let columns: Result<Vec<Vec<T>>> = columns.iter().map(|column| values(column)).collect();
    Ok(columns?.into_iter().flatten().collect())
}

/// The owner of a tensor that was made of a data frame.
struct Columns<T> {
    frame: DataFrame,
    /// The buffers of the frame, which keep the memory if the frame's columns change.
    _buffers: Vec<Buffer<T>>,
    /// The tensor as it was first made.
    tensor: Description,
}

/// The fields that distinguish two tensors over the same memory.
#[derive(PartialEq)]
struct Description {
    data: usize,
    shape: [i64; 2],
    strides: [i64; 2],
}

impl Description {
    fn of(tensor: &Tensor) -> Option<Self> {
        let (shape, strides) = (tensor.shape().try_into().ok()?, tensor.strides().try_into().ok()?);
        Some(Self { data: tensor.data().addr(), shape, strides })
    }
}

/// Returns the one chunk of each column.
fn single<P>(columns: &[&Series]) -> Result<Vec<Buffer<P::Native>>>
where
    P: PolarsNumericType<Native: Number>,
{
    let single = |column: &&Series| {
        let mut chunks = buffers::<P>(column)?;
        match chunks.len() {
            1 => Ok(chunks.remove(0)),
            count => Err(Error::Chunks { count }),
        }
    };
    columns.iter().map(single).collect()
}

/// The distance in bytes between neighbouring columns, two or more, which must be in one allocation.
fn distance<T>(buffers: &[Buffer<T>]) -> Result<isize> {
    let between =
        |a: &Buffer<T>, b: &Buffer<T>| b.as_ptr().addr().wrapping_sub(a.as_ptr().addr()) as isize;
    let (first, expected) = (&buffers[0], between(&buffers[0], &buffers[1]));
    for (column, pair) in (1..).zip(buffers.windows(2)) {
        if pair[1].storage_ptr() != first.storage_ptr() {
            return Err(Error::OtherAllocation { column });
        }
        let found = between(&pair[0], &pair[1]);
        if found != expected || found % size_of::<T>() as isize != 0 {
            return Err(Error::UnevenColumns { column, expected, found });
        }
    }
    Ok(expected)
}

/// A tensor of columns that lie at equal distances.
fn strided<T: Number>(frame: DataFrame, buffers: Vec<Buffer<T>>) -> Result<Tensor> {
    let (rows, count) = (frame.height(), buffers.len());
    let distance = match (rows, count) {
        (0, _) => 0,
        (_, 1) => (rows * size_of::<T>()) as isize,
        _ => distance(&buffers)?,
    };
    // The handle that reaches furthest into the allocation: its pointer covers all columns.
    let furthest = if distance < 0 { &buffers[0] } else { &buffers[count - 1] };
    let data = furthest.storage_ptr().cast_mut().wrapping_add(buffers[0].offset());
    let strides = [1, distance as i64 / size_of::<T>() as i64];
    let shape = [rows as i64, count as i64];
    let parts = RawParts::of_elements::<T::Element>(data.cast(), Access::Immutable);
    let tensor = Description { data: if rows == 0 { 0 } else { data.addr() }, shape, strides };
    let owner = Columns { frame, _buffers: buffers, tensor };
    // SAFETY: each column is a buffer of `rows` elements at the address that the strides give. All columns are in one
    // allocation, which the buffers keep alive and in place. Nothing writes the memory of a buffer (Immutable).
    Ok(unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) }?)
}

/// Returns the data frame that a tensor was made of, if the tensor has all its elements in its layout.
pub(crate) fn taken_back(tensor: Tensor) -> std::result::Result<DataFrame, Tensor> {
    with_number!(tensor.dtype(), of_tensor, P => taken_back_of::<<P as PolarsNumericType>::Native>(tensor), _ => Err(tensor))
}

fn taken_back_of<T: Number>(tensor: Tensor) -> std::result::Result<DataFrame, Tensor> {
    let now = Description::of(&tensor);
    let (data, shape, strides) =
        (tensor.data(), tensor.shape().to_vec(), tensor.strides().to_vec());
    let owner = tensor.try_into_owner::<Columns<T>>()?;
    if now.as_ref() == Some(&owner.tensor) {
        return Ok(owner.frame);
    }
    let parts = RawParts::of_elements::<T::Element>(data.cast(), Access::Immutable);
    // SAFETY: the parts and the layout are those of the tensor, over the same owner, whose buffers nothing writes
    // (Immutable).
    let again = unsafe { Tensor::from_raw_parts(owner, parts, &shape, Some(&strides)) };
    Err(again.expect("it was a tensor before"))
}

/// The columns of a tensor, without a copy.
pub(crate) fn from_tensor(tensor: Tensor, names: Vec<PlSmallStr>) -> Result<DataFrame> {
    let [rows, count] = extents(&tensor)?;
    check_names(&names, count)?;
    let columns: Vec<Series> = with_number!(tensor.dtype(), of_tensor, P => {
        let buffers = split(tensor, rows, count)?.into_iter();
        names.into_iter().zip(buffers).map(|(name, buffer)| chunked::<P>(name, buffer).into_series()).collect()
    }, dtype => return Err(no_type(dtype)));
    frame(rows, columns)
}

/// The columns of a tensor, copied.
pub(crate) fn copied_from(tensor: &Tensor, names: Vec<PlSmallStr>) -> Result<DataFrame> {
    let [rows, count] = extents(tensor)?;
    check_names(&names, count)?;
    let columns = TensorRef::from(tensor).transpose().to_copy()?;
    if columns.dtype() != DataType::BOOL {
        return from_tensor(columns.transpose(), names);
    }
    let view = columns.view::<bool>()?;
    let bools = view.as_slice().ok_or(TensorError::NotContiguous)?;
    let column = |(nth, name): (usize, PlSmallStr)| {
        BooleanChunked::from_slice(name, &bools[nth * rows..][..rows]).into_series()
    };
    frame(rows, names.into_iter().enumerate().map(column).collect())
}

/// The error for a dtype that a series cannot have.
pub(crate) fn no_type(dtype: DataType) -> Error {
    match dtype {
        DataType::BOOL => Error::Bits,
        dtype => Error::NoPolarsType { dtype },
    }
}

fn extents(tensor: &Tensor) -> Result<[usize; 2]> {
    let shape: &[i64; 2] = tensor
        .shape()
        .try_into()
        .map_err(|_| TensorError::Ndim { expected: 2, found: tensor.ndim() })?;
    Ok(shape.map(|extent| extent as usize))
}

fn check_names(names: &[PlSmallStr], columns: usize) -> Result<()> {
    match names.len() == columns {
        true => Ok(()),
        false => Err(Error::NameCount { names: names.len(), columns }),
    }
}

fn frame(rows: usize, columns: Vec<Series>) -> Result<DataFrame> {
    Ok(DataFrame::new(rows, columns.into_iter().map(Series::into_column).collect())?)
}

/// A buffer for each column of a tensor.
fn split<T: Number>(tensor: Tensor, rows: usize, count: usize) -> Result<Vec<Buffer<T>>> {
    // Checks dtype, device and alignment.
    tensor.view::<T::Element>()?;
    if tensor.is_empty() {
        return Ok(vec![Buffer::new(); count]);
    }
    let [rows_apart, columns_apart] = [tensor.strides()[0], tensor.strides()[1]];
    if rows > 1 && rows_apart != 1 {
        return Err(Error::RowStride { stride: rows_apart });
    }
    let parts = |all: Buffer<T>, first: usize, apart: i64| {
        let part = |nth: usize| {
            let start = first.wrapping_add_signed(nth as isize * apart as isize);
            all.clone().sliced(start..start + rows)
        };
        (0..count).map(part).collect()
    };
    let address = tensor.data().addr();
    let tensor = match memory::whole::<T>(tensor) {
        Ok(whole) => {
            let first = memory::index_of(address, &whole)?;
            return Ok(parts(whole, first, columns_apart));
        }
        Err(tensor) => tensor,
    };
    tensor.check_stable()?;
    if tensor.is_f_contiguous() {
        // Slices of one buffer, so that they can become one tensor again.
        let all = memory::to_buffer(tensor.transpose().reshape([rows * count])?)?;
        return Ok(parts(all, 0, rows as i64));
    }
    let immutable = tensor.try_into_immutable().expect("what is stable is exclusive or immutable");
    let tensor = immutable.into_shared();
    (0..count).map(|nth| memory::to_buffer(tensor.share().index_axis(1, nth)?)).collect()
}
