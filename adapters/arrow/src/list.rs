//! Lists of different lengths as offsets and values, and back.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;
use dlbridge::{Element, Tensor};

use crate::sealed::Sealed;
use crate::{ArrayExt, BufferExt, Error, Result};

/// Arrays of lists as two tensors.
///
/// Implemented for [`ListArray`](arrow_array::ListArray), whose offsets are `int32`, and
/// [`LargeListArray`](arrow_array::LargeListArray), whose offsets are `int64`.
pub trait ListExt: Sealed + Sized {
    /// The offsets and the values, without a copy: list `i` has the values from `offsets[i]` to `offsets[i + 1]`.
    ///
    /// The values are those of Arrow up to the end of the last list. For a slice of an array the first offset may be
    /// above 0, and the values before it belong to no list. The [`Access`](dlbridge::Access) of both tensors is that of
    /// [`ArrayExt::into_tensor`].
    ///
    /// # Errors
    /// [`Error::Nulls`] for null lists, and for nulls in these values; for the values those of
    /// [`ArrayExt::into_tensor`], with [`Error::Unsupported`] for lists of lists.
    ///
    /// ```
    /// use arrow_array::ListArray;
    /// use arrow_array::types::Float32Type;
    /// use dlbridge_arrow::{ListExt, TensorExt};
    ///
    /// let rows = [vec![1.0, 2.0], vec![], vec![3.0]].map(|row| Some(row.into_iter().map(Some)));
    /// let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(rows);
    /// let (offsets, values) = lists.clone().into_offsets_and_values()?;
    /// assert_eq!(offsets.view::<i32>()?.to_vec(), [0, 2, 2, 3]);
    /// assert_eq!(values.view::<f32>()?.to_vec(), [1.0, 2.0, 3.0]);
    /// assert_eq!(values.into_list_array::<i32>(offsets)?.value(2).len(), 1);
    /// # use arrow_array::Array;
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_offsets_and_values(self) -> Result<(Tensor, Tensor)>;
}

impl<O: OffsetSizeTrait + Element> Sealed for GenericListArray<O> {}

impl<O: OffsetSizeTrait + Element> ListExt for GenericListArray<O> {
    fn into_offsets_and_values(self) -> Result<(Tensor, Tensor)> {
        if self.null_count() != 0 {
            return Err(Error::Nulls { count: self.null_count() });
        }
        let (_, offsets, mut values, _) = self.into_parts();
        let end = offsets[offsets.len() - 1].as_usize();
        if end < values.len() {
            values = values.slice(0, end);
        }
        Ok((offsets.into_inner().into_tensor(), values.into_tensor()?))
    }
}

/// Makes an array of lists of their offsets and values.
pub(crate) fn from_parts<O: OffsetSizeTrait>(
    offsets: ScalarBuffer<O>,
    values: ArrayRef,
) -> Result<GenericListArray<O>> {
    check(&offsets, values.len())?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    Ok(GenericListArray::try_new(field, OffsetBuffer::new(offsets), values, None)?)
}

/// Checks what an [`OffsetBuffer`] would panic about, and the length of the values.
fn check<O: OffsetSizeTrait>(offsets: &[O], len: usize) -> Result<()> {
    let wrong = |reason: String| Err(Error::Offsets { reason });
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return wrong("there is none, and there must be one more than lists".to_owned());
    };
    if first < O::zero() {
        return wrong(format!("the first is {first:?}, below 0"));
    }
    if let Some(index) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
        let (before, after) = (offsets[index], offsets[index + 1]);
        return wrong(format!("they decrease from {before:?} to {after:?} at index {}", index + 1));
    }
    if last.as_usize() > len {
        return wrong(format!("the last is {last:?}, beyond the {len} values"));
    }
    Ok(())
}
