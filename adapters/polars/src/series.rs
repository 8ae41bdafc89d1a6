//! Series and chunked arrays to tensors.

use dlbridge::Tensor;
use polars_arrow::array::PrimitiveArray;
use polars_arrow::datatypes::ArrowDataType;
use polars_arrow::types::NativeType;
use polars_buffer::Buffer;
use polars_core::chunked_array::ChunkedArray;
use polars_core::datatypes::{PolarsDataType, PolarsNumericType};
use polars_core::series::{IntoSeries, Series};
use polars_utils::pl_str::PlSmallStr;

use crate::memory;
use crate::number::{Number, Take, of_series, stored, with_number};
use crate::sealed::Sealed;
use crate::{Error, Result};

/// Series as tensors of one dimension.
///
/// Implemented for [`Series`] and for [`ChunkedArray`].
pub trait SeriesExt: Sealed + Sized {
    /// The values of a series of one chunk as a tensor, without a copy. Drops the name of the series.
    ///
    /// The tensor is [`Access::Exclusive`](dlbridge::Access::Exclusive) if it covers all memory of the chunk and no
    /// other handle has that memory, and [`Access::Immutable`](dlbridge::Access::Immutable) otherwise.
    ///
    /// # Errors
    /// [`Error::Chunks`] for several chunks; [`Error::Nulls`]; [`Error::Bits`] for booleans; [`Error::Meaning`] for
    /// dates, times, durations and decimals; [`Error::Unsupported`] for other types.
    ///
    /// ```
    /// use dlbridge_polars::SeriesExt;
    /// use polars_core::prelude::*;
    ///
    /// let series = Series::new("a".into(), [1.0, 2.0, 3.0]);
    /// let address = series.f64()?.cont_slice()?.as_ptr().addr();
    /// let tensor = series.into_tensor()?;
    /// assert_eq!(tensor.data().addr(), address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_tensor(self) -> Result<Tensor> {
        one(self.into_tensors()?)
    }

    /// The values of each chunk as a tensor, without a copy. Skips empty chunks.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), except [`Error::Chunks`].
    ///
    /// ```
    /// use dlbridge_polars::SeriesExt;
    /// use polars_core::prelude::*;
    ///
    /// let mut series = Series::new("a".into(), [1, 2, 3]);
    /// series.append(&Series::new("b".into(), [4, 5]))?;
    /// let tensors = series.into_tensors()?;
    /// assert_eq!((tensors[0].shape(), tensors[1].shape()), (&[3][..], &[2][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_tensors(self) -> Result<Vec<Tensor>>;

    /// As [`into_tensor`](Self::into_tensor), with dates, times, durations and decimals as the integers that Polars
    /// stores. The caller must know what the integers mean.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), except [`Error::Meaning`].
    ///
    /// ```
    /// use dlbridge_polars::SeriesExt;
    /// use polars_core::prelude::*;
    ///
    /// let numbers = Series::new("a".into(), [1, 2]).into_storage_tensor()?;
    /// assert_eq!(numbers.view::<i32>()?.to_vec(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_storage_tensor(self) -> Result<Tensor>;

    /// Copies the values of all chunks into an exclusive tensor. Booleans take one byte each.
    ///
    /// # Errors
    /// As [`into_tensor`](Self::into_tensor), except for chunks and booleans.
    ///
    /// ```
    /// use dlbridge_polars::SeriesExt;
    /// use polars_core::prelude::*;
    ///
    /// let tensor = Series::new("a".into(), [true, false]).to_tensor()?;
    /// assert_eq!(tensor.view::<bool>()?.to_vec(), [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_tensor(&self) -> Result<Tensor>;
}

impl Sealed for Series {}

impl SeriesExt for Series {
    fn into_tensors(self) -> Result<Vec<Tensor>> {
        tensors(self, Take::Numbers)
    }

    fn into_storage_tensor(self) -> Result<Tensor> {
        one(tensors(self, Take::Storage)?)
    }

    fn to_tensor(&self) -> Result<Tensor> {
        if self.dtype().is_bool() {
            return Ok(Tensor::from(booleans(self)?));
        }
        let stored = stored(self.dtype(), Take::Numbers)?;
        with_number!(stored, of_series, P => Ok(memory::from_vec(copied::<P>(self)?)), data_type => {
            Err(Error::Unsupported { data_type })
        })
    }
}

impl<P: PolarsDataType> Sealed for ChunkedArray<P> {}

impl<P: PolarsDataType> SeriesExt for ChunkedArray<P>
where
    Self: IntoSeries,
{
    fn into_tensors(self) -> Result<Vec<Tensor>> {
        self.into_series().into_tensors()
    }

    fn into_storage_tensor(self) -> Result<Tensor> {
        self.into_series().into_storage_tensor()
    }

    fn to_tensor(&self) -> Result<Tensor> {
        self.clone().into_series().to_tensor()
    }
}

/// Returns the only tensor; an error if several chunks have values.
fn one(mut tensors: Vec<Tensor>) -> Result<Tensor> {
    match tensors.len() {
        1 => Ok(tensors.remove(0)),
        count => Err(Error::Chunks { count }),
    }
}

/// Makes a tensor of each chunk with values, or one empty tensor.
fn tensors(series: Series, take: Take) -> Result<Vec<Tensor>> {
    let stored = stored(series.dtype(), take)?;
    with_number!(stored, of_series, P => {
        let buffers = buffers::<P>(&series)?;
        // Drops the series' handles, so that the buffers may be the only ones.
        drop(series);
        Ok(buffers.into_iter().map(memory::to_tensor).collect())
    }, data_type => Err(Error::Unsupported { data_type }))
}

/// Returns the buffer of each chunk with values, or one empty buffer.
pub(crate) fn buffers<P>(series: &Series) -> Result<Vec<Buffer<P::Native>>>
where
    P: PolarsNumericType<Native: Number>,
{
    check_nulls(series)?;
    let mut buffers = Vec::with_capacity(series.chunks().len());
    for chunk in series.chunks().iter().filter(|chunk| !chunk.is_empty()) {
        let array: Option<&PrimitiveArray<P::Native>> = chunk.as_any().downcast_ref();
        let array =
            array.ok_or_else(|| Error::Unsupported { data_type: series.dtype().clone() })?;
        buffers.push(array.values().clone());
    }
    if buffers.is_empty() {
        buffers.push(Buffer::new());
    }
    Ok(buffers)
}

/// The numbers of all chunks.
pub(crate) fn copied<P>(series: &Series) -> Result<Vec<P::Native>>
where
    P: PolarsNumericType<Native: Number>,
{
    let mut copy = Vec::with_capacity(series.len());
    for buffer in buffers::<P>(series)? {
        copy.extend_from_slice(&buffer);
    }
    Ok(copy)
}

/// The booleans of all chunks.
pub(crate) fn booleans(series: &Series) -> Result<Vec<bool>> {
    check_nulls(series)?;
    let mut copy = Vec::with_capacity(series.len());
    for chunk in series.bool()?.downcast_iter() {
        copy.extend(chunk.values_iter());
    }
    Ok(copy)
}

fn check_nulls(series: &Series) -> Result<()> {
    match series.null_count() {
        0 => Ok(()),
        count => Err(Error::Nulls { count }),
    }
}

/// One chunk without nulls.
pub(crate) fn chunked<P>(name: PlSmallStr, buffer: Buffer<P::Native>) -> ChunkedArray<P>
where
    P: PolarsNumericType<Native: Number>,
{
    let data_type = ArrowDataType::from(<P::Native as NativeType>::PRIMITIVE);
    ChunkedArray::with_chunk(name, PrimitiveArray::new(data_type, buffer, None))
}
