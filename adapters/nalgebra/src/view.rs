//! Views of tensors as matrices and vectors.

use dlbridge::{Element, Error, Result, TensorView, TensorViewMut};
use nalgebra::{
    DMatrix, DMatrixView, DMatrixViewMut, DVector, DVectorView, DVectorViewMut, Scalar,
};

use crate::sealed::Sealed;

/// Views of tensors as matrices and vectors, for reading.
pub trait TensorViewExt<'a, T: Scalar>: Sealed {
    /// Two dimensions, rows and columns, as a matrix. No element is copied.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there are two dimensions; [`Error::NotFortranContiguous`] unless the elements are
    /// contiguous in Fortran order, one column after the other. Elements in C order are the matrix's transpose:
    /// `view.transpose().as_matrix()`. The reason why others are refused is [on the first page](crate#order).
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_nalgebra::TensorViewExt;
    ///
    /// let tensor = Tensor::from_parts_strided(vec![1.0, 2.0, 3.0, 4.0], [2, 2], [1, 2], 0)?;
    /// assert_eq!(tensor.view::<f64>()?.as_matrix()?.determinant(), -2.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_matrix(&self) -> Result<DMatrixView<'a, T>>;

    /// One dimension as a column vector. No element is copied.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there is one dimension; [`Error::NotContiguous`] unless its stride
    /// is 1.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_nalgebra::TensorViewExt;
    ///
    /// let tensor = Tensor::from(vec![3.0_f32, 4.0]);
    /// assert_eq!(tensor.view::<f32>()?.as_vector()?.norm(), 5.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_vector(&self) -> Result<DVectorView<'a, T>>;

    /// Two dimensions, with any strides, copied into a matrix.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there are two dimensions.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_nalgebra::TensorViewExt;
    /// use nalgebra::dmatrix;
    ///
    /// let tensor = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(tensor.view::<i32>()?.flip(0)?.to_matrix()?, dmatrix![3, 4; 1, 2]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_matrix(&self) -> Result<DMatrix<T>>;

    /// One dimension, with any stride, copied into a column vector.
    ///
    /// # Errors
    /// [`Error::Ndim`] unless there is one dimension.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_nalgebra::TensorViewExt;
    /// use nalgebra::dvector;
    ///
    /// let tensor = Tensor::from(vec![1, 2, 3, 4]);
    /// assert_eq!(tensor.view::<i32>()?.step_by(0, 2)?.to_vector()?, dvector![1, 3]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn to_vector(&self) -> Result<DVector<T>>;
}

/// Views of tensors as matrices and vectors, for reading and writing.
pub trait TensorViewMutExt<'a, T: Scalar>: Sealed {
    /// Two dimensions, rows and columns, as a mutable matrix.
    ///
    /// # Errors
    /// As [`TensorViewExt::as_matrix`].
    ///
    /// ```
    /// use dlbridge_nalgebra::{MatrixExt, TensorViewMutExt};
    /// use nalgebra::{DMatrix, dmatrix};
    ///
    /// let mut tensor = DMatrix::<f64>::zeros(2, 2).into_tensor();
    /// tensor.view_mut::<f64>()?.into_matrix_mut()?.fill_diagonal(3.0);
    /// let matrix = DMatrix::<f64>::try_from_tensor(tensor).unwrap();
    /// assert_eq!(matrix, dmatrix![3.0, 0.0; 0.0, 3.0]);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_matrix_mut(self) -> Result<DMatrixViewMut<'a, T>>;

    /// One dimension as a mutable column vector.
    ///
    /// # Errors
    /// As [`TensorViewExt::as_vector`].
    ///
    /// ```
    /// use dlbridge_nalgebra::TensorViewMutExt;
    ///
    /// let mut tensor = dlbridge::Tensor::from(vec![3.0, 4.0]);
    /// tensor.view_mut::<f64>()?.into_vector_mut()?.normalize_mut();
    /// assert_eq!(tensor.view::<f64>()?.as_slice(), Some(&[0.6, 0.8][..]));
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn into_vector_mut(self) -> Result<DVectorViewMut<'a, T>>;
}

impl<T> Sealed for TensorView<'_, T> {}
impl<T> Sealed for TensorViewMut<'_, T> {}

impl<'a, T: Element + Scalar> TensorViewExt<'a, T> for TensorView<'a, T> {
    fn as_matrix(&self) -> Result<DMatrixView<'a, T>> {
        let [rows, columns] = extents(self.shape())?;
        let elements = self.transpose().as_slice().ok_or(Error::NotFortranContiguous)?;
        Ok(DMatrixView::from_slice(elements, rows, columns))
    }

    fn as_vector(&self) -> Result<DVectorView<'a, T>> {
        let [rows] = extents(self.shape())?;
        let elements = self.as_slice().ok_or(Error::NotContiguous)?;
        Ok(DVectorView::from_slice(elements, rows))
    }

    fn to_matrix(&self) -> Result<DMatrix<T>> {
        let [rows, columns] = extents(self.shape())?;
        Ok(DMatrix::from_vec(rows, columns, self.transpose().to_vec()))
    }

    fn to_vector(&self) -> Result<DVector<T>> {
        let [_] = extents(self.shape())?;
        Ok(DVector::from_vec(self.to_vec()))
    }
}

impl<'a, T: Element + Scalar> TensorViewMutExt<'a, T> for TensorViewMut<'a, T> {
    fn into_matrix_mut(self) -> Result<DMatrixViewMut<'a, T>> {
        let [rows, columns] = extents(self.shape())?;
        let elements = self.transpose().into_mut_slice().ok_or(Error::NotFortranContiguous)?;
        Ok(DMatrixViewMut::from_slice(elements, rows, columns))
    }

    fn into_vector_mut(self) -> Result<DVectorViewMut<'a, T>> {
        let [rows] = extents(self.shape())?;
        let elements = self.into_mut_slice().ok_or(Error::NotContiguous)?;
        Ok(DVectorViewMut::from_slice(elements, rows))
    }
}

/// The extents of a shape; an error for another number of dimensions.
fn extents<const N: usize>(shape: &[i64]) -> Result<[usize; N]> {
    let shape: &[i64; N] =
        shape.try_into().map_err(|_| Error::Ndim { expected: N, found: shape.len() })?;
    Ok(shape.map(|extent| extent as usize))
}
