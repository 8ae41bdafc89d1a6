//! Tensors to series and data frames.

use dlbridge::{DataType, Error as TensorError, Tensor};
use polars_core::chunked_array::builder::NewChunkedArray;
use polars_core::datatypes::BooleanChunked;
use polars_core::frame::DataFrame;
use polars_core::series::{IntoSeries, Series};
use polars_utils::pl_str::PlSmallStr;

use crate::number::{of_tensor, with_number};
use crate::sealed::Sealed;
use crate::series::chunked;
use crate::{Error, Result, frame, memory};

/// Tensors as series and data frames of Polars.
///
/// The result of an `into_` method keeps the tensor alive and reads its elements in place; a tensor made of a series
/// gives the same memory back. A tensor that other code may write is refused as [`Unstable`](TensorError::Unstable).
/// An error drops the tensor.
pub trait TensorExt: Sealed {
    /// One contiguous dimension as a series of one chunk, without a copy.
    ///
    /// # Errors
    /// [`Unstable`](TensorError::Unstable); [`Error::RowStride`]; [`Error::Bits`] for booleans;
    /// [`Error::NoPolarsType`] for dtypes that Polars lacks; [`Ndim`](TensorError::Ndim) unless there is one
    /// dimension; [`NotHostAccessible`](TensorError::NotHostAccessible); [`Misaligned`](TensorError::Misaligned).
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::TensorExt;
    ///
    /// let tensor = Tensor::from(vec![1.0_f32, 2.0]);
    /// let address = tensor.data().addr();
    /// let series = tensor.into_series("a")?;
    /// assert_eq!(series.f32()?.cont_slice()?.as_ptr().addr(), address);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_series(self, name: impl Into<PlSmallStr>) -> Result<Series>;

    /// Copies one dimension into a series, from any stride and access, booleans included.
    ///
    /// # Errors
    /// Those of [`into_series`](Self::into_series) for dtype, dimensions and device, and of [`Tensor::to_copy`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::TensorExt;
    ///
    /// let series = Tensor::from(vec![1, 2, 3]).flip(0)?.to_series("a")?;
    /// assert_eq!(series.i32()?.cont_slice()?, [3, 2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_series(&self, name: impl Into<PlSmallStr>) -> Result<Series>;

    /// Rows and columns as a data frame with these columns, without a copy. The elements of each column must be
    /// contiguous; the stride between columns does not matter.
    ///
    /// # Errors
    /// Those of [`into_series`](Self::into_series); [`Error::NameCount`] unless each column has a name;
    /// [`Error::Polars`] if two have the same; [`Ndim`](TensorError::Ndim) unless there are two dimensions.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::TensorExt;
    ///
    /// let frame = Tensor::from([[1, 2, 3], [4, 5, 6]]).transpose().into_data_frame(["x", "y"])?;
    /// assert_eq!(frame.shape(), (3, 2));
    /// assert_eq!(frame.column("y")?.i32()?.cont_slice()?, [4, 5, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn into_data_frame(self, names: impl IntoIterator<Item: Into<PlSmallStr>>)
    -> Result<DataFrame>;

    /// Copies rows and columns into a data frame, from any strides and access, booleans included.
    ///
    /// # Errors
    /// Those of [`into_data_frame`](Self::into_data_frame) for dtype, dimensions, device and names, and of
    /// [`Tensor::to_copy`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::TensorExt;
    ///
    /// let frame = Tensor::from([[1, 2], [3, 4]]).to_data_frame(["x", "y"])?;
    /// assert_eq!(frame.column("y")?.i32()?.cont_slice()?, [2, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn to_data_frame(&self, names: impl IntoIterator<Item: Into<PlSmallStr>>) -> Result<DataFrame>;

    /// Returns the data frame that the tensor was made of if the tensor is all of it, else the tensor.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_polars::{DataFrameExt, TensorExt};
    ///
    /// let frame = Tensor::from([[1, 2, 3]]).transpose().into_data_frame(["x"])?;
    /// let tensor = frame.clone().into_tensor()?;
    /// assert!(tensor.try_into_data_frame().unwrap().equals(&frame));
    /// # Ok::<(), dlbridge_polars::Error>(())
    /// ```
    fn try_into_data_frame(self) -> std::result::Result<DataFrame, Tensor>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_series(self, name: impl Into<PlSmallStr>) -> Result<Series> {
        let [len, stride] = axis(&self)?;
        with_number!(self.dtype(), of_tensor, P => {
            if len > 1 && stride != 1 {
                return Err(Error::RowStride { stride });
            }
            Ok(chunked::<P>(name.into(), memory::to_buffer(self)?).into_series())
        }, dtype => Err(frame::no_type(dtype)))
    }

    fn to_series(&self, name: impl Into<PlSmallStr>) -> Result<Series> {
        axis(self)?;
        // The copy returns an error if its allocation fails. Bits need less memory, so this covers them too.
        let copy = self.to_copy()?;
        if copy.dtype() != DataType::BOOL {
            return copy.into_series(name);
        }
        let view = copy.view::<bool>()?;
        let bools = view.as_slice().ok_or(TensorError::NotContiguous)?;
        Ok(BooleanChunked::from_slice(name.into(), bools).into_series())
    }

    fn into_data_frame(
        self,
        names: impl IntoIterator<Item: Into<PlSmallStr>>,
    ) -> Result<DataFrame> {
        frame::from_tensor(self, names.into_iter().map(Into::into).collect())
    }

    fn to_data_frame(&self, names: impl IntoIterator<Item: Into<PlSmallStr>>) -> Result<DataFrame> {
        frame::copied_from(self, names.into_iter().map(Into::into).collect())
    }

    fn try_into_data_frame(self) -> std::result::Result<DataFrame, Tensor> {
        frame::taken_back(self)
    }
}

/// The extent and the stride of the one dimension.
fn axis(tensor: &Tensor) -> Result<[i64; 2]> {
    match (tensor.shape(), tensor.strides()) {
        ([len], [stride]) => Ok([*len, *stride]),
        _ => Err(TensorError::Ndim { expected: 1, found: tensor.ndim() }.into()),
    }
}
