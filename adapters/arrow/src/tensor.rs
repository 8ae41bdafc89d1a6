//! Tensors into buffers and arrays.

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, ScalarBuffer};
use arrow_schema::Field;
use dlbridge::{DataType, Element, Error as TensorError, Tensor};

use crate::dtype::with_array_type;
use crate::sealed::Sealed;
use crate::{Result, batch, list, memory};

/// Tensors as buffers, arrays and batches of Arrow.
///
/// The result of an `into_` method keeps the tensor alive and reads its elements in place; a tensor made of a buffer
/// gives the same buffer back. A tensor that other code may write is refused as [`Unstable`](TensorError::Unstable).
/// An error drops the tensor.
pub trait TensorExt: Sealed {
    /// The bytes of the elements, of any dtype, contiguous in C order.
    ///
    /// # Errors
    /// [`Unstable`](TensorError::Unstable); [`NotContiguous`](TensorError::NotContiguous);
    /// [`NotHostAccessible`](TensorError::NotHostAccessible).
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let buffer = Tensor::from([[1_u8, 2], [3, 4]]).into_buffer()?;
    /// assert_eq!(buffer.as_slice(), [1, 2, 3, 4]);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_buffer(self) -> Result<Buffer>;

    /// The elements, with any number of dimensions, contiguous in C order.
    ///
    /// # Errors
    /// Those of [`into_buffer`](Self::into_buffer); [`DataType`](TensorError::DataType) unless the dtype is that of `T`;
    /// [`Misaligned`](TensorError::Misaligned).
    ///
    /// ```
    /// use arrow_buffer::ScalarBuffer;
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let tensor = Tensor::from(vec![1.0_f32, 2.0]);
    /// let address = tensor.data().addr();
    /// let buffer: ScalarBuffer<f32> = tensor.into_scalar_buffer()?;
    /// assert_eq!((buffer.as_ptr().addr(), &buffer[..]), (address, &[1.0, 2.0][..]));
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_scalar_buffer<T: ArrowNativeType + Element>(self) -> Result<ScalarBuffer<T>>;

    /// One dimension as an array without nulls. The caller chooses the array type, and so what the elements mean; it
    /// must store elements of the tensor's dtype.
    ///
    /// # Errors
    /// Those of [`into_scalar_buffer`](Self::into_scalar_buffer); [`Ndim`](TensorError::Ndim) unless there is one
    /// dimension.
    ///
    /// ```
    /// use arrow_array::types::Date32Type;
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let days = Tensor::from(vec![0, 365]).into_primitive_array::<Date32Type>()?;
    /// assert_eq!(format!("{:?}", days.data_type()), "Date32");
    /// # use arrow_array::Array;
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_primitive_array<P: ArrowPrimitiveType<Native: Element>>(
        self,
    ) -> Result<PrimitiveArray<P>>;

    /// The elements, in C order, as an array of the type for the dtype, in nested lists of a fixed size for two or
    /// more dimensions.
    ///
    /// # Errors
    /// Those of [`into_scalar_buffer`](Self::into_scalar_buffer); [`Error::Bits`](crate::Error::Bits) for booleans;
    /// [`Error::NoArrowType`](crate::Error::NoArrowType) for dtypes that Arrow lacks;
    /// [`ExtentLimit`](TensorError::ExtentLimit) for lists of more than 2³¹ − 1 values; [`Ndim`](TensorError::Ndim)
    /// for a 0-d tensor.
    ///
    /// ```
    /// use arrow_array::cast::AsArray;
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let rows = Tensor::from([[1, 2, 3], [4, 5, 6]]).into_array()?;
    /// assert_eq!(rows.as_fixed_size_list().value_length(), 3);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_array(self) -> Result<ArrayRef>;

    /// Two dimensions or more as lists of a fixed size, as [`into_array`](Self::into_array) makes them.
    ///
    /// # Errors
    /// Those of [`into_array`](Self::into_array); [`Ndim`](TensorError::Ndim) for fewer dimensions.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let rows = Tensor::from([[1, 2, 3], [4, 5, 6]]).into_fixed_size_list()?;
    /// assert_eq!(rows.value_length(), 3);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_fixed_size_list(self) -> Result<FixedSizeListArray>;

    /// The tensors along the first dimension as a column of the canonical extension type `arrow.fixed_shape_tensor`,
    /// with the field that describes it. The elements of each must be contiguous, with the dimensions in any order,
    /// which the field's `permutation` records.
    ///
    /// # Errors
    /// Those of [`into_fixed_size_list`](Self::into_fixed_size_list), with
    /// [`Error::ListSize`](crate::Error::ListSize) if one value of the column has more elements than a list of Arrow
    /// can hold.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let pictures = Tensor::zeroed(dlbridge::DataType::UINT8, [10, 48, 64, 3])?.permute([0, 3, 1, 2])?;
    /// let (field, array) = pictures.into_fixed_shape_tensor("pictures")?;
    /// assert_eq!(array.value_length(), 48 * 64 * 3);
    /// assert_eq!(field.metadata()["ARROW:extension:metadata"], r#"{"shape":[48, 64, 3],"permutation":[2, 0, 1]}"#);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_fixed_shape_tensor(
        self,
        name: impl Into<String>,
    ) -> Result<(Field, FixedSizeListArray)>;

    /// The elements as the values of lists of different lengths: list `i` has the indices from `offsets[i]` to
    /// `offsets[i + 1]` of the first dimension. The offsets are `int32` for a [`ListArray`](arrow_array::ListArray) and
    /// `int64` for a [`LargeListArray`](arrow_array::LargeListArray).
    ///
    /// # Errors
    /// [`Error::Offsets`](crate::Error::Offsets) for offsets that decrease, are negative or exceed the values; those of
    /// [`into_array`](Self::into_array) for the values; those of [`into_scalar_buffer`](Self::into_scalar_buffer) for the
    /// offsets, with [`Ndim`](TensorError::Ndim) unless they have one dimension.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let offsets = Tensor::from(vec![0_i64, 2, 3]);
    /// let lists = Tensor::from(vec![1.0_f32, 2.0, 3.0]).into_list_array::<i64>(offsets)?;
    /// assert_eq!(lists.len(), 2);
    /// # use arrow_array::Array;
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_list_array<O: OffsetSizeTrait + Element>(
        self,
        offsets: Tensor,
    ) -> Result<GenericListArray<O>>;

    /// Rows and columns as a batch with these columns. The elements of each column must be contiguous; the stride
    /// between columns does not matter.
    ///
    /// # Errors
    /// [`Error::RowStride`](crate::Error::RowStride) if a column is not contiguous, as in C order;
    /// [`Error::NameCount`](crate::Error::NameCount) unless each column has a name; [`Ndim`](TensorError::Ndim) unless there
    /// are two dimensions; those of [`into_array`](Self::into_array) for the dtype.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::{ArrayExt, TensorExt};
    ///
    /// let columns = Tensor::from([[1, 2, 3], [4, 5, 6]]).transpose();
    /// let address = columns.data().addr();
    /// let batch = columns.into_record_batch(["x", "y"])?;
    /// assert_eq!((batch.num_rows(), batch.num_columns()), (3, 2));
    /// assert_eq!(batch.into_tensor()?.data().addr(), address);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_record_batch(self, names: impl IntoIterator<Item: Into<String>>)
    -> Result<RecordBatch>;

    /// Returns the batch that the tensor was made of if the tensor is all of it, else the tensor.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::{ArrayExt, TensorExt};
    ///
    /// let batch = Tensor::from([[1, 2, 3]]).transpose().into_record_batch(["x"])?;
    /// let tensor = batch.clone().into_tensor()?;
    /// assert_eq!(tensor.try_into_record_batch().unwrap(), batch);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn try_into_record_batch(self) -> std::result::Result<RecordBatch, Tensor>;

    /// Copies the elements into an array as [`into_array`](Self::into_array) makes it, from any strides and access,
    /// booleans included.
    ///
    /// # Errors
    /// Those of [`into_array`](Self::into_array) for dtype and dimensions, and of [`Tensor::to_copy`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let array = Tensor::from(vec![1, 2, 3, 4]).flip(0)?.to_array()?;
    /// assert_eq!(&array, &Tensor::from(vec![4, 3, 2, 1]).into_array()?);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn to_array(&self) -> Result<ArrayRef>;

    /// Copies the elements into a batch as [`into_record_batch`](Self::into_record_batch) makes it, from any strides
    /// and access, booleans included.
    ///
    /// # Errors
    /// Those of [`into_record_batch`](Self::into_record_batch) for dtype, dimensions and names, and of
    /// [`Tensor::to_copy`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_arrow::TensorExt;
    ///
    /// let batch = Tensor::from([[1, 2], [3, 4]]).to_record_batch(["x", "y"])?;
    /// assert_eq!(batch.column(1), &Tensor::from(vec![2, 4]).into_array()?);
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn to_record_batch(&self, names: impl IntoIterator<Item: Into<String>>) -> Result<RecordBatch>;
}

impl Sealed for Tensor {}

impl TensorExt for Tensor {
    fn into_buffer(self) -> Result<Buffer> {
        memory::to_buffer(self)
    }

    fn into_scalar_buffer<T: ArrowNativeType + Element>(self) -> Result<ScalarBuffer<T>> {
        let len = self.view::<T>()?.len();
        // Checks the alignment; a scalar buffer panics for misaligned elements.
        Ok(ScalarBuffer::new(memory::to_buffer(self)?, 0, len))
    }

    fn into_primitive_array<P: ArrowPrimitiveType<Native: Element>>(
        self,
    ) -> Result<PrimitiveArray<P>> {
        if self.ndim() != 1 {
            return Err(TensorError::Ndim { expected: 1, found: self.ndim() }.into());
        }
        Ok(PrimitiveArray::new(self.into_scalar_buffer()?, None))
    }

    fn into_array(self) -> Result<ArrayRef> {
        let shape = extents(&self)?;
        match shape[..] {
            [_] => values(self),
            _ => Ok(Arc::new(nested(self, &shape)?)),
        }
    }

    fn into_fixed_size_list(self) -> Result<FixedSizeListArray> {
        let shape = extents(&self)?;
        nested(self, &shape)
    }

    fn into_fixed_shape_tensor(
        self,
        name: impl Into<String>,
    ) -> Result<(Field, FixedSizeListArray)> {
        let (rows, shape, metadata) = list::rows(self)?;
        let array = nested(rows, &shape)?;
        let field = Field::new(name, array.data_type().clone(), false);
        Ok((field.with_metadata(metadata), array))
    }

    fn into_list_array<O: OffsetSizeTrait + Element>(
        self,
        offsets: Tensor,
    ) -> Result<GenericListArray<O>> {
        if offsets.ndim() != 1 {
            return Err(TensorError::Ndim { expected: 1, found: offsets.ndim() }.into());
        }
        list::from_parts(offsets.into_scalar_buffer()?, self.into_array()?)
    }

    fn into_record_batch(
        self,
        names: impl IntoIterator<Item: Into<String>>,
    ) -> Result<RecordBatch> {
        batch::from_tensor(self, names.into_iter().map(Into::into).collect())
    }

    fn try_into_record_batch(self) -> std::result::Result<RecordBatch, Tensor> {
        batch::taken_back(self)
    }

    fn to_array(&self) -> Result<ArrayRef> {
        let shape = extents(self)?;
        // The copy returns an error if its allocation fails. Bits need less memory, so this covers them too.
        let copy = self.to_copy()?;
        if copy.dtype() != DataType::BOOL {
            return copy.into_array();
        }
        let view = copy.view::<bool>()?;
        let bits = BooleanBuffer::from(view.as_slice().ok_or(TensorError::NotContiguous)?);
        let bits: ArrayRef = Arc::new(BooleanArray::new(bits, None));
        match shape[..] {
            [_] => Ok(bits),
            _ => Ok(Arc::new(lists(bits, &shape)?)),
        }
    }

    fn to_record_batch(&self, names: impl IntoIterator<Item: Into<String>>) -> Result<RecordBatch> {
        batch::copied(self, names.into_iter().map(Into::into).collect())
    }
}

/// The extents; an error for a 0-d tensor.
fn extents(tensor: &Tensor) -> Result<Vec<usize>> {
    match tensor.shape() {
        [] => Err(TensorError::Ndim { expected: 1, found: 0 }.into()),
        shape => Ok(shape.iter().map(|&extent| extent as usize).collect()),
    }
}

/// The elements in C order, as one dimension.
fn values(tensor: Tensor) -> Result<ArrayRef> {
    with_array_type!(tensor.dtype(), P => {
        Ok(Arc::new(PrimitiveArray::<P>::new(tensor.into_scalar_buffer()?, None)))
    })
}

/// The elements in C order, in lists of a shape with as many elements.
pub(crate) fn nested(tensor: Tensor, shape: &[usize]) -> Result<FixedSizeListArray> {
    if shape.len() < 2 {
        return Err(TensorError::Ndim { expected: 2, found: shape.len() }.into());
    }
    for (axis, &extent) in shape.iter().enumerate().skip(1) {
        list_size(axis, extent)?;
    }
    lists(values(tensor)?, shape)
}

/// Checks the number of values of a list, which Arrow stores as an `i32`.
fn list_size(axis: usize, extent: usize) -> Result<i32> {
    let too_many = TensorError::ExtentLimit { axis, limit: i32::MAX as usize, found: extent };
    Ok(i32::try_from(extent).map_err(|_| too_many)?)
}

/// Values without nulls in lists of two dimensions or more.
fn lists(values: ArrayRef, shape: &[usize]) -> Result<FixedSizeListArray> {
    let list = |values: ArrayRef, axis: usize| {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), false));
        // Without values the number of lists must be given. The core keeps such products within `isize`.
        let (len, size) = (shape[..axis].iter().product(), list_size(axis, shape[axis])?);
        Ok(FixedSizeListArray::try_new_with_length(field, size, values, None, len)?)
    };
    let inner = (2..shape.len()).rev().try_fold(values, |values, axis| {
        list(values, axis).map(|list| Arc::new(list) as ArrayRef)
    })?;
    list(inner, 1)
}
