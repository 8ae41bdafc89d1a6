//! Tensors into series and data frames.

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
/// What `into_` makes keeps the tensor alive, and reads its elements where they are; the memory of a series that a
/// tensor was made of comes back as the same one. A tensor that others may write is refused: [`Unstable`](TensorError::Unstable).
/// The tensor is dropped on an error.
pub trait TensorExt: Sealed {
    /// One dimension, whose elements are adjacent, as a series of one chunk, without a copy.
    ///
    /// # Errors
    /// [`Unstable`](TensorError::Unstable); [`Error::RowStride`]; [`Error::Bits`] for booleans; [`Error::NoPolarsType`] for dtypes that Polars does
    /// not have; [`Ndim`](TensorError::Ndim) unless there is one dimension;
    /// [`NotHostAccessible`](TensorError::NotHostAccessible); [`Misaligned`](TensorError::Misaligned).
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

    /// A copy of one dimension as a series: with any stride and access, and also of booleans.
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

    /// Rows and columns as a data frame with these columns, without a copy. The elements of each column must be adjacent;
    /// how far one column is from the next does not matter.
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

    /// A copy of rows and columns as a data frame: with any strides and access, and also of booleans.
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

    /// The very data frame that the tensor was made of, if the tensor is all of it; gives the tensor back if not.
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
        // The copy says so if there is no room, also for the bits, which are fewer.
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
