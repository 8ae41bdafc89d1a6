//! Arrays of lists: of different lengths as offsets and values, and of one shape as one tensor, which is the canonical
//! extension type `arrow.fixed_shape_tensor`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field};
use dlbridge::{Element, Error as TensorError, Tensor};
use serde_json::{Map, Value};

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

/// The name of the extension type.
const NAME: &str = "arrow.fixed_shape_tensor";

/// Arrays of equally shaped tensors as one tensor.
///
/// Implemented for [`FixedSizeListArray`] and [`ArrayRef`].
pub trait FixedShapeExt: Sealed {
    /// The array as one tensor, without a copy. Its shape is the array's length, then the shape in the field's
    /// metadata, permuted by the metadata's `permutation`. The [`Access`](dlbridge::Access) is that of
    /// [`ArrayExt::into_tensor`].
    ///
    /// Reads the key `permutation` of the format, and `permutations`, which arrow-schema 60 writes.
    ///
    /// # Errors
    /// Those of [`ArrayExt::into_tensor`]; [`Error::Metadata`] if the field is not an `arrow.fixed_shape_tensor`, or
    /// if its metadata breaks the format or does not fit the array.
    ///
    /// ```
    /// use arrow_array::{FixedSizeListArray, types::Int32Type};
    /// use arrow_schema::{DataType, Field};
    /// use dlbridge_arrow::FixedShapeExt;
    ///
    /// let array = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
    ///     [Some((0..6).map(Some).collect::<Vec<_>>())], 6,
    /// );
    /// let field = Field::new("pictures", DataType::Null, false).with_metadata([
    ///     ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
    ///     ("ARROW:extension:metadata".to_owned(), r#"{"shape":[3,2],"permutation":[1,0]}"#.to_owned()),
    /// ].into_iter().collect::<std::collections::HashMap<_, _>>());
    /// let tensor = array.into_fixed_shape_tensor(&field)?;
    /// assert_eq!((tensor.shape(), tensor.strides()), (&[1, 2, 3][..], &[6, 1, 2][..]));
    /// # Ok::<(), dlbridge_arrow::Error>(())
    /// ```
    fn into_fixed_shape_tensor(self, field: &Field) -> Result<Tensor>;
}

impl FixedShapeExt for FixedSizeListArray {
    fn into_fixed_shape_tensor(self, field: &Field) -> Result<Tensor> {
        read(self, field)
    }
}

impl FixedShapeExt for ArrayRef {
    fn into_fixed_shape_tensor(self, field: &Field) -> Result<Tensor> {
        read(self, field)
    }
}

fn read(array: impl Array + ArrayExt, field: &Field) -> Result<Tensor> {
    let metadata = field.metadata();
    match metadata.get(EXTENSION_TYPE_NAME_KEY) {
        Some(name) if name == NAME => {}
        name => return Err(wrong(format!("the extension type of the field is {name:?}"))),
    }
    let DataType::FixedSizeList(_, size) = *array.data_type() else {
        return Err(wrong(format!(
            "the array is {}, not a list of a fixed size",
            array.data_type()
        )));
    };
    let text = metadata.get(EXTENSION_TYPE_METADATA_KEY).ok_or_else(|| wrong("it is missing"))?;
    let json: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let json = json.as_object().ok_or_else(|| wrong("it is not a JSON object"))?;
    let shape = numbers(json, "shape")?.ok_or_else(|| wrong("it has no shape"))?;
    let order = match (numbers(json, "permutation")?, numbers(json, "permutations")?) {
        (Some(order), Some(other)) if order != other => {
            return Err(wrong("permutation and permutations differ"));
        }
        (order, other) => order.or(other).unwrap_or_else(|| (0..shape.len()).collect()),
    };
    check_permutation(&order, shape.len())?;
    let elements = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    if elements != Some(size as usize) {
        return Err(wrong(format!("the shape is {shape:?}, but a list has {size} values")));
    }
    let whole: Vec<usize> = [array.len()].into_iter().chain(shape).collect();
    let axes: Vec<usize> = [0].into_iter().chain(order.iter().map(|axis| axis + 1)).collect();
    Ok(array.into_tensor()?.reshape(whole)?.permute(axes)?)
}

/// Returns the array of numbers under a key; `null` counts as a missing key.
fn numbers(json: &Map<String, Value>, key: &str) -> Result<Option<Vec<usize>>> {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    match json.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let numbers = value.as_array().and_then(|values| values.iter().map(number).collect());
            numbers
                .map(Some)
                .ok_or_else(|| wrong(format!("{key} is {value}, not an array of numbers")))
        }
    }
}

/// Refuses an order that does not name each dimension once.
fn check_permutation(order: &[usize], ndim: usize) -> Result<()> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    match sorted.into_iter().eq(0..ndim) {
        true => Ok(()),
        false => Err(wrong(format!(
            "permutation {order:?} does not name each of {ndim} dimensions once"
        ))),
    }
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::Metadata { reason: reason.into() }
}

/// The tensors along the first dimension as rows in C order, the extents of an array of them, and the metadata that
/// describes their shape.
pub(crate) fn rows(tensor: Tensor) -> Result<(Tensor, [usize; 2], HashMap<String, String>)> {
    if tensor.ndim() < 2 {
        return Err(TensorError::Ndim { expected: 2, found: tensor.ndim() }.into());
    }
    // The dimensions of a value as they lie in memory; `order[n]` is the dimension of the tensor at place n.
    let order = physical_order(&tensor);
    let physical = tensor.permute(&order)?;
    let extents: Vec<usize> = physical.shape().iter().map(|&extent| extent as usize).collect();
    let shape = &extents[1..];
    // The core keeps such products within `isize`.
    let len: usize = shape.iter().product();
    i32::try_from(len).map_err(|_| Error::ListSize { len })?;
    // Rust and JSON print a list of numbers alike.
    let metadata = if order.is_sorted() {
        format!(r#"{{"shape":{shape:?}}}"#)
    } else {
        let mut permutation = vec![0; shape.len()];
        for (place, axis) in order[1..].iter().enumerate() {
            permutation[axis - 1] = place;
        }
        format!(r#"{{"shape":{shape:?},"permutation":{permutation:?}}}"#)
    };
    let metadata = [
        (EXTENSION_TYPE_NAME_KEY.to_owned(), NAME.to_owned()),
        (EXTENSION_TYPE_METADATA_KEY.to_owned(), metadata),
    ];
    Ok((physical, [extents[0], len], HashMap::from(metadata)))
}

/// The dimensions, the first one first, and the others from the largest stride to the smallest. Dimensions of extent
/// 1 keep their places.
fn physical_order(tensor: &Tensor) -> Vec<usize> {
    let (shape, strides) = (tensor.shape(), tensor.strides());
    let mut order: Vec<usize> = (0..shape.len()).collect();
    let places: Vec<usize> = (1..shape.len()).filter(|&axis| shape[axis] > 1).collect();
    let mut sorted = places.clone();
    sorted.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    for (&place, axis) in places.iter().zip(sorted) {
        order[place] = axis;
    }
    order
}
