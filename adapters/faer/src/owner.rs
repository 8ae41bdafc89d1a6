//! Matrices that own their elements, to tensors.

use dlbridge::{Access, Element, RawParts, Tensor, TensorRef, TensorRefMut};
use faer::{Col, Mat};

use crate::sealed::Sealed;

/// Matrices and columns as tensors.
///
/// A [`Mat`] has two dimensions, rows and columns, and the strides of the matrix: 1, and at least
/// the number of rows. A [`Col`] has one dimension.
pub trait MatrixExt: Sealed + Sized {
    /// Turns the matrix into a tensor that owns it. [`Access::Exclusive`].
    ///
    /// The elements stay in place. [`Tensor::try_into_owner`] returns the matrix.
    ///
    /// Elements with an [`Element::CHECK`], such as `bool`, do not compile: a consumer could write bytes to the
    /// matrix that are not values of the type.
    ///
    /// ```compile_fail,E0080
    /// use dlbridge_faer::MatrixExt;
    ///
    /// let tensor = faer::Mat::from_fn(2, 2, |i, j| i == j).into_tensor();
    /// ```
    /// ```
    /// use dlbridge_faer::MatrixExt;
    /// use faer::{Col, Mat};
    ///
    /// let tensor = Mat::<f64>::identity(4, 2).into_tensor();
    /// assert_eq!((tensor.shape(), tensor.strides()[0]), (&[4, 2][..], 1));
    /// assert_eq!(tensor.try_into_owner::<Mat<f64>>().unwrap(), Mat::<f64>::identity(4, 2));
    ///
    /// assert_eq!(Col::<f32>::zeros(5).into_tensor().shape(), [5]);
    /// ```
    fn into_tensor(self) -> Tensor;

    /// Borrows the matrix as a read-only tensor.
    ///
    /// ```
    /// use dlbridge_faer::MatrixExt;
    ///
    /// let matrix = faer::mat![[1.0, 2.0], [3.0, 4.0_f32]];
    /// let tensor = matrix.as_tensor_ref();
    /// assert_eq!(tensor.view::<f32>()?[[1, 0]], 3.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_tensor_ref(&self) -> TensorRef<'_>;

    /// Borrows the matrix as a mutable tensor, for C kernels that write it.
    ///
    /// ```
    /// use dlbridge_faer::MatrixExt;
    ///
    /// let mut matrix = faer::mat![[1.0, 2.0], [3.0, 4.0_f32]];
    /// matrix.as_tensor_ref_mut().into_view_mut::<f32>()?[[1, 0]] = 30.0;
    /// assert_eq!(matrix[(1, 0)], 30.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_>;
}

impl<T> Sealed for Mat<T> {}
impl<T> Sealed for Col<T> {}

impl<T: Element> MatrixExt for Mat<T> {
    fn into_tensor(mut self) -> Tensor {
        const { refuse_checked::<T>() };
        let parts = RawParts::of_elements(self.as_ptr_mut(), Access::Exclusive);
        let (shape, strides) = ([self.nrows(), self.ncols()], [1, self.col_stride()]);
        // SAFETY: the contract of `Tensor::from_raw_parts`: the matrix owns these elements, on the heap, where they
        // stay when it moves; no other code has them. It can be sent to another thread because `T: Send`. Any bytes
        // that a consumer may write are values of `T`.
        let tensor = unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&strides)) };
        tensor.expect(FITS)
    }

    fn as_tensor_ref(&self) -> TensorRef<'_> {
        let parts = RawParts::of_elements(self.as_ptr().cast_mut(), Access::ReadOnly);
        let (shape, strides) = ([self.nrows(), self.ncols()], [1, self.col_stride()]);
        // SAFETY: the contract of `TensorRef::from_raw_parts`: the elements belong to the matrix, which is borrowed
        // for as long as the tensor.
        unsafe { TensorRef::from_raw_parts(&parts, &shape, Some(&strides)) }.expect(FITS)
    }

    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        const { refuse_checked::<T>() };
        let parts = RawParts::of_elements(self.as_ptr_mut(), Access::Exclusive);
        let (shape, strides) = ([self.nrows(), self.ncols()], [1, self.col_stride()]);
        // SAFETY: the contract of `TensorRefMut::from_raw_parts`: the elements belong to the matrix, which is
        // borrowed mutably for as long as the tensor; columns do not overlap; any bytes are values.
        unsafe { TensorRefMut::from_raw_parts(&parts, &shape, Some(&strides)) }.expect(FITS)
    }
}

impl<T: Element> MatrixExt for Col<T> {
    fn into_tensor(mut self) -> Tensor {
        const { refuse_checked::<T>() };
        let parts = RawParts::of_elements(self.as_ptr_mut(), Access::Exclusive);
        let shape = [self.nrows()];
        // SAFETY: the contract of `Tensor::from_raw_parts`: the column owns these contiguous elements, on the heap,
        // where they stay when it moves; no other code has them. It can be sent to another thread because `T: Send`.
        // Any bytes that a consumer may write are values of `T`.
        let tensor = unsafe { Tensor::from_raw_parts(self, parts, &shape, Some(&[1])) };
        tensor.expect(FITS)
    }

    fn as_tensor_ref(&self) -> TensorRef<'_> {
        let parts = RawParts::of_elements(self.as_ptr().cast_mut(), Access::ReadOnly);
        // SAFETY: the contract of `TensorRef::from_raw_parts`: the contiguous elements belong to the column, which is
        // borrowed for as long as the tensor.
        unsafe { TensorRef::from_raw_parts(&parts, &[self.nrows()], Some(&[1])) }.expect(FITS)
    }

    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        const { refuse_checked::<T>() };
        let parts = RawParts::of_elements(self.as_ptr_mut(), Access::Exclusive);
        // SAFETY: the contract of `TensorRefMut::from_raw_parts`: the contiguous elements belong to the column, which
        // is borrowed mutably for as long as the tensor; any bytes are values.
        unsafe { TensorRefMut::from_raw_parts(&parts, &[self.nrows()], Some(&[1])) }.expect(FITS)
    }
}

const FITS: &str = "the extents of a matrix fit an isize";

/// Fails to compile for element types with invalid bytes.
const fn refuse_checked<T: Element>() {
    assert!(T::CHECK.is_none(), "not every bit pattern is an element: make a matrix of bytes");
}
