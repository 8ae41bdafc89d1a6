//! Tensors that the function fills.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use dlbridge::{Element, TensorViewMut};

use super::array::{DYNAMIC, dims, form};
use super::{Argument, refused, unexpected};
use crate::error::Result;
use crate::outputs::Slot;
use crate::parameter::Kind;
use crate::value::Value;

/// An output with its shape: a [`TensorViewMut`] of `N` dimensions, or of any number, in C order. Its elements begin as
/// zeros.
///
/// ```
/// use dlbridge_ops::{Out, View, op};
///
/// #[op(shape(out = [x[1], x[0]]))]
/// fn transpose(x: View<'_, f32, 2>, mut out: Out<'_, f32, 2>) {
///     let [rows, columns] = x.dims();
///     for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
///         out[[column, row]] = x[[row, column]];
///     }
/// }
/// ```
pub struct Out<'a, T, const N: usize = DYNAMIC> {
    view: TensorViewMut<'a, T>,
}

impl<'a, T, const N: usize> Out<'a, T, N> {
    /// The extents, in elements.
    ///
    /// # Panics
    /// If the type has no number of dimensions, because `N` is [`DYNAMIC`]; use `shape()` then.
    ///
    /// ```
    /// # use dlbridge_ops::{Out, op};
    /// #[op]
    /// fn lengths(x: &[f32], mut out: Out<'_, f32, 2>) {
    ///     let [_, columns] = out.dims();
    ///     out.elements_mut().fill(columns as f32);
    /// }
    /// ```
    pub fn dims(&self) -> [usize; N] {
        dims(self.view.shape())
    }

    /// All elements, in C order.
    ///
    /// ```
    /// # use dlbridge_ops::{Out, op};
    /// #[op]
    /// fn ones(x: &[f32], mut out: Out<'_, f32>) {
    ///     out.elements_mut().fill(1.0);
    /// }
    /// ```
    pub fn elements_mut(&mut self) -> &mut [T] {
        self.view.as_mut_slice().unwrap_or_default()
    }

    /// The output without its type of output, for as long as the call.
    ///
    /// ```
    /// # use dlbridge_ops::{Out, op};
    /// #[op]
    /// fn ones(x: &[f32], out: Out<'_, f32>) {
    ///     out.into_view_mut().iter_mut().for_each(|out| *out = 1.0);
    /// }
    /// ```
    pub fn into_view_mut(self) -> TensorViewMut<'a, T> {
        self.view
    }
}

impl<'a, T, const N: usize> Deref for Out<'a, T, N> {
    type Target = TensorViewMut<'a, T>;

    fn deref(&self) -> &TensorViewMut<'a, T> {
        &self.view
    }
}

impl<'a, T, const N: usize> DerefMut for Out<'a, T, N> {
    fn deref_mut(&mut self) -> &mut TensorViewMut<'a, T> {
        &mut self.view
    }
}

impl<'a, T: Element, const N: usize> Argument<'a> for Out<'a, T, N> {
    const KIND: Kind = Kind::Output(form::<T, N>(true));

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        match std::mem::take(value).into_tensor_ref_mut()? {
            Some(tensor) => Ok(Self { view: tensor.into_view_mut().map_err(refused)? }),
            None => unexpected(Self::KIND),
        }
    }
}

/// An output whose shape the function decides. PyTorch, TVM and NumPy take it; JAX refuses the operator, because XLA
/// allocates results before it calls an operator.
///
/// ```
/// use dlbridge_ops::{Dynamic, Error, op};
///
/// /// The indices of the elements that are not zero.
/// #[op]
/// fn nonzero(x: &[f32], indices: Dynamic<'_, i64, 1>) -> Result<(), Error> {
///     let found: Vec<i64> = (0..x.len()).filter(|i| x[*i] != 0.0).map(|i| i as i64).collect();
///     let mut indices = indices.allocate([found.len()])?;
///     indices.iter_mut().zip(found).for_each(|(index, found)| *index = found);
///     Ok(())
/// }
/// ```
pub struct Dynamic<'a, T, const N: usize> {
    slot: Slot<'a>,
    element: PhantomData<T>,
}

impl<'a, T: Element, const N: usize> Dynamic<'a, T, N> {
    /// Makes the output, of zeros. Each output must be made once.
    ///
    /// # Errors
    /// Returns an error if the framework does not provide the memory.
    ///
    /// ```
    /// # use dlbridge_ops::{Dynamic, Error, op};
    /// #[op]
    /// fn empty(x: &[f32], out: Dynamic<'_, f32, 2>) -> Result<(), Error> {
    ///     out.allocate([0, 3])?;
    ///     Ok(())
    /// }
    /// ```
    pub fn allocate(self, shape: [usize; N]) -> Result<TensorViewMut<'a, T>> {
        let shape = shape.map(|extent| i64::try_from(extent).unwrap_or(i64::MAX));
        let memory = self.slot.allocate(T::DATA_TYPE, &shape)?;
        memory.into_view_mut().map_err(refused)
    }
}

impl<'a, T: Element, const N: usize> Argument<'a> for Dynamic<'a, T, N> {
    const KIND: Kind = Kind::Dynamic(form::<T, N>(true));

    fn from_value(value: &mut Value<'a>) -> Result<Self> {
        match std::mem::take(value) {
            Value::Slot(slot) => Ok(Self { slot, element: PhantomData }),
            _ => unexpected(Self::KIND),
        }
    }
}
