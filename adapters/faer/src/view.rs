//! Views of tensors as matrices and columns.

use dlbridge::{Element, Error, Result, TensorView, TensorViewMut};
use faer::{Col, ColMut, ColRef, Mat, MatMut, MatRef};

use crate::sealed::Sealed;

/// Views of tensors as matrices and columns, for reading.
pub trait TensorViewExt<'a, T>: Sealed {
    /// Two dimensions, rows and columns, with any strides, as a matrix. No element is copied.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there are two dimensions.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewExt;
    ///
    /// let tensor = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(tensor.view::<f64>()?.as_matrix()?, faer::mat![[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_matrix(&self) -> Result<MatRef<'a, T>>;

    /// One dimension, with any stride, as a column. No element is copied.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there is one dimension.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewExt;
    ///
    /// let tensor = Tensor::from(vec![3.0, 4.0]);
    /// assert_eq!(tensor.view::<f64>()?.as_vector()?.norm_l2(), 5.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_vector(&self) -> Result<ColRef<'a, T>>;

    /// Two dimensions copied into a matrix.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there are two dimensions.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewExt;
    ///
    /// let tensor = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(tensor.view::<i32>()?.flip(0)?.to_matrix()?, faer::mat![[3, 4], [1, 2]]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_matrix(&self) -> Result<Mat<T>>;

    /// One dimension copied into a column.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there is one dimension.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewExt;
    ///
    /// let tensor = Tensor::from(vec![1, 2, 3, 4]);
    /// assert_eq!(tensor.view::<i32>()?.step_by(0, 2)?.to_vector()?, faer::col![1, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_vector(&self) -> Result<Col<T>>;
}

/// Views of tensors as matrices and columns, for reading and writing.
pub trait TensorViewMutExt<'a, T>: Sealed {
    /// Two dimensions, rows and columns, as a mutable matrix.
    ///
    /// # Errors
    /// As [`TensorViewExt::as_matrix`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewMutExt;
    ///
    /// let mut tensor = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// tensor.view_mut::<f64>()?.into_matrix_mut()?.fill(7.0);
    /// assert_eq!(tensor.view::<f64>()?.to_vec(), [7.0; 4]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_matrix_mut(self) -> Result<MatMut<'a, T>>;

    /// One dimension as a mutable column.
    ///
    /// # Errors
    /// As [`TensorViewExt::as_vector`].
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_faer::TensorViewMutExt;
    ///
    /// let mut tensor = Tensor::from(vec![1.0, 2.0]);
    /// tensor.view_mut::<f64>()?.into_vector_mut()?[1] = 5.0;
    /// assert_eq!(tensor.view::<f64>()?.to_vec(), [1.0, 5.0]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_vector_mut(self) -> Result<ColMut<'a, T>>;
}

impl<T> Sealed for TensorView<'_, T> {}
impl<T> Sealed for TensorViewMut<'_, T> {}

impl<'a, T: Element> TensorViewExt<'a, T> for TensorView<'a, T> {
    fn as_matrix(&self) -> Result<MatRef<'a, T>> {
        let ([rows, columns], [down, right]) = layout(self.shape(), self.strides())?;
        // SAFETY: View: for every index within the shape the element is aligned, initialised and within one
        // allocation, and no code writes it for `'a`.
        Ok(unsafe { MatRef::from_raw_parts(self.as_ptr(), rows, columns, down, right) })
    }

    fn as_vector(&self) -> Result<ColRef<'a, T>> {
        let ([rows], [down]) = layout(self.shape(), self.strides())?;
        // SAFETY: View: for every index within the shape the element is aligned, initialised and within one allocation,
        // and no code writes it for `'a`.
        Ok(unsafe { ColRef::from_raw_parts(self.as_ptr(), rows, down) })
    }

    fn to_matrix(&self) -> Result<Mat<T>> {
        Ok(self.as_matrix()?.cloned())
    }

    fn to_vector(&self) -> Result<Col<T>> {
        Ok(self.as_vector()?.cloned())
    }
}

impl<'a, T: Element> TensorViewMutExt<'a, T> for TensorViewMut<'a, T> {
    fn into_matrix_mut(mut self) -> Result<MatMut<'a, T>> {
        let ([rows, columns], [down, right]) = layout(self.shape(), self.strides())?;
        let first = self.as_mut_ptr();
        // SAFETY: View: for every index within the shape the element is aligned, initialised and within one allocation.
        // No other code reads or writes it for `'a`, because this consumes the view; no two indices lead to the same
        // one.
        Ok(unsafe { MatMut::from_raw_parts_mut(first, rows, columns, down, right) })
    }

    fn into_vector_mut(mut self) -> Result<ColMut<'a, T>> {
        let ([rows], [down]) = layout(self.shape(), self.strides())?;
        // SAFETY: View: for every index within the shape the element is aligned, initialised and within one allocation.
        // No other code reads or writes it for `'a`, because this consumes the view; no two indices lead to the same
        // one.
        Ok(unsafe { ColMut::from_raw_parts_mut(self.as_mut_ptr(), rows, down) })
    }
}

/// The extents and strides of a layout; an error for another number of dimensions. A dimension of extent 1, or of an
/// empty view, gets the stride of Fortran order, which faer recognises.
fn layout<const N: usize>(shape: &[i64], strides: &[i64]) -> Result<([usize; N], [isize; N])> {
    let extents: &[i64; N] =
        shape.try_into().map_err(|_| Error::Ndim { expected: N, found: shape.len() })?;
    let mut steps = [1; N];
    let empty = shape.contains(&0);
    for axis in 0..N {
        if !empty && shape[axis] > 1 {
            steps[axis] = strides[axis] as isize;
        } else if axis == 1 {
            steps[axis] = shape[0] as isize;
        }
    }
    Ok((extents.map(|extent| extent as usize), steps))
}
