//! Tensors with their shape and strides.

use std::ops::{Deref, DerefMut};

use dlbridge::{Element, TensorView, TensorViewMut};

use super::{Argument, refused, unexpected};
use crate::error::Result;
use crate::parameter::{Form, Kind};
use crate::value::Value;

/// Any number of dimensions.
///
/// ```
/// use dlbridge_ops::{DYNAMIC, View, op};
///
/// #[op]
/// fn count(x: View<'_, f32, DYNAMIC>, out: &mut [f32]) {}
/// ```
pub const DYNAMIC: usize = usize::MAX;

/// What a kernel demands of tensors of a Rust type.
pub(super) const fn form<T: Element, const N: usize>(contiguous: bool) -> Form {
    Form {
        dtype: T::DATA_TYPE,
        align: align_of::<T>(),
        ndim: if N == DYNAMIC { None } else { Some(N) },
        contiguous,
        flat: false,
        on_cuda: false,
    }
}

/// The extents of a tensor that the call has found to have `N` dimensions.
pub(super) fn dims<const N: usize>(shape: &[i64]) -> [usize; N] {
    assert_eq!(shape.len(), N, "the number of dimensions is known only with `N`");
    std::array::from_fn(|axis| shape[axis] as usize)
}

/// An input with its shape and strides: a [`TensorView`] of `N` dimensions, or of any number.
///
/// ```
/// use dlbridge_ops::{View, op};
///
/// /// The sum of each row.
/// #[op(shape(out = [x[0]]))]
/// fn row_sums(x: View<'_, f32, 2>, out: &mut [f32]) {
///     let [rows, columns] = x.dims();
///     for row in 0..rows {
///         out[row] = (0..columns).map(|column| x[[row, column]]).sum();
///     }
/// }
/// ```
pub struct View<'a, T, const N: usize = DYNAMIC> {
    view: TensorView<'a, T>,
}

impl<T, const N: usize> View<'_, T, N> {
    /// The extents, in elements.
    ///
    /// # Panics
    /// If the type has no number of dimensions, because `N` is [`DYNAMIC`]; use `shape()` then.
    ///
    /// ```
    /// # use dlbridge_ops::{View, op};
    /// #[op(shape(out = [x[0]]))]
    /// fn lengths(x: View<'_, f32, 2>, out: &mut [i64]) {
    ///     let [_, columns] = x.dims();
    ///     out.fill(columns as i64);
    /// }
    /// ```
    pub fn dims(&self) -> [usize; N] {
        dims(self.view.shape())
    }
}

impl<'a, T, const N: usize> Deref for View<'a, T, N> {
    type Target = TensorView<'a, T>;

    fn deref(&self) -> &TensorView<'a, T> {
        &self.view
    }
}

impl<'a, T: Element, const N: usize> Argument<'a> for View<'a, T, N> {
    const KIND: Kind = Kind::Input(form::<T, N>(false));

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        let view = match value {
            Value::Contiguous(tensor) => tensor.to_tensor_ref()?.view(),
            Value::Tensor(tensor) => tensor.view(),
            _ => return unexpected(Self::KIND),
        };
        Ok(Self { view: view.map_err(refused)? })
    }
}

/// An input with its shape, as its elements in C order: a slice of `N` dimensions, or of any number. A tensor with gaps
/// is copied first, as for `&[T]`.
///
/// ```
/// use dlbridge_ops::{Array, op};
///
/// /// The largest element of each row.
/// #[op(shape(out = [x[0]]))]
/// fn row_maxima(x: Array<'_, f32, 2>, out: &mut [f32]) {
///     let [_, columns] = x.dims();
///     for (out, row) in out.iter_mut().zip(x.chunks(columns.max(1))) {
///         *out = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
///     }
/// }
/// ```
pub struct Array<'a, T, const N: usize = DYNAMIC> {
    view: TensorView<'a, T>,
    elements: &'a [T],
}

impl<T, const N: usize> Array<'_, T, N> {
    /// The extents, in elements.
    ///
    /// # Panics
    /// If the type has no number of dimensions, because `N` is [`DYNAMIC`]; use `shape()` then.
    ///
    /// ```
    /// # use dlbridge_ops::{Array, op};
    /// #[op(shape(out = [x[0]]))]
    /// fn lengths(x: Array<'_, f32, 2>, out: &mut [i64]) {
    ///     let [_, columns] = x.dims();
    ///     out.fill(columns as i64);
    /// }
    /// ```
    pub fn dims(&self) -> [usize; N] {
        dims(self.view.shape())
    }

    /// The extents, in elements.
    ///
    /// ```
    /// # use dlbridge_ops::{Array, op};
    /// #[op(shape(out = []))]
    /// fn rank(x: Array<'_, f32>, out: &mut [i64]) {
    ///     out[0] = x.shape().len() as i64;
    /// }
    /// ```
    pub fn shape(&self) -> &[i64] {
        self.view.shape()
    }
}

impl<T, const N: usize> Deref for Array<'_, T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

/// The call has copied inputs that are not contiguous.
impl<'a, T: Element, const N: usize> Argument<'a> for Array<'a, T, N> {
    const KIND: Kind = Kind::Input(form::<T, N>(true));

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        let View { view } = View::<'a, T, N>::from_value(value)?;
        match view.as_slice() {
            Some(elements) => Ok(Self { view, elements }),
            None => unexpected(Self::KIND),
        }
    }
}

/// A tensor that the function changes: a [`TensorViewMut`] of `N` dimensions, or of any number.
///
/// PyTorch, TVM and NumPy pass the caller's own memory. JAX's arrays never change, so there the changed tensor is a
/// result: in the memory of the argument if XLA no longer needs it, in a copy otherwise.
///
/// ```
/// use dlbridge_ops::{InPlace, op};
///
/// /// Replaces negative elements by zero.
/// #[op]
/// fn relu_(mut x: InPlace<'_, f32>) {
///     x.iter_mut().for_each(|x| *x = x.max(0.0));
/// }
/// ```
pub struct InPlace<'a, T, const N: usize = DYNAMIC> {
    view: TensorViewMut<'a, T>,
}

impl<T, const N: usize> InPlace<'_, T, N> {
    /// The extents, in elements.
    ///
    /// # Panics
    /// If the type has no number of dimensions, because `N` is [`DYNAMIC`]; use `shape()` then.
    ///
    /// ```
    /// # use dlbridge_ops::{InPlace, op};
    /// #[op]
    /// fn clear(mut x: InPlace<'_, f32, 1>) {
    ///     let [count] = x.dims();
    ///     (0..count).for_each(|i| x[[i]] = 0.0);
    /// }
    /// ```
    pub fn dims(&self) -> [usize; N] {
        dims(self.view.shape())
    }
}

impl<'a, T, const N: usize> Deref for InPlace<'a, T, N> {
    type Target = TensorViewMut<'a, T>;

    fn deref(&self) -> &TensorViewMut<'a, T> {
        &self.view
    }
}

impl<'a, T, const N: usize> DerefMut for InPlace<'a, T, N> {
    fn deref_mut(&mut self) -> &mut TensorViewMut<'a, T> {
        &mut self.view
    }
}

impl<'a, T: Element, const N: usize> Argument<'a> for InPlace<'a, T, N> {
    const KIND: Kind = Kind::InPlace(form::<T, N>(false));

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        match std::mem::take(value).into_tensor_ref_mut()? {
            Some(tensor) => Ok(Self { view: tensor.into_view_mut().map_err(refused)? }),
            None => unexpected(Self::KIND),
        }
    }
}
