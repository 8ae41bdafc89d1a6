//! Matrices that own their elements: to tensors, and back.

use dlbridge::{Access, Element, Tensor, TensorRef, TensorRefMut};
use nalgebra::{
    ArrayStorage, Const, Dim, IsContiguous, Matrix, RawStorageMut, Scalar, U1, VecStorage,
};

use crate::sealed::Sealed;

/// Matrices and vectors that own their elements, as tensors.
///
/// A type with one column, such as [`DVector`](nalgebra::DVector), becomes one dimension. Every other becomes two:
/// rows, then columns, in Fortran order.
pub trait MatrixExt: Sealed + Sized {
    /// Turns the matrix into a tensor that owns it. [`Access::Exclusive`](dlbridge::Access::Exclusive).
    ///
    /// Elements on the heap stay in place; those of a static matrix move to the heap. The owner is the storage of the
    /// matrix: `Vec<T>`, or `Box<[[T; R]; C]>`.
    ///
    /// # Panics
    /// Panics for a matrix without elements that has an extent larger than `isize::MAX`.
    ///
    /// ```
    /// use dlbridge_nalgebra::MatrixExt;
    /// use nalgebra::{DVector, dmatrix};
    ///
    /// let tensor = dmatrix![1, 2, 3; 4, 5, 6].into_tensor();
    /// assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[1, 2][..]));
    /// assert_eq!(tensor.try_into_owner::<Vec<i32>>().unwrap(), [1, 4, 2, 5, 3, 6]);
    ///
    /// assert_eq!(DVector::<f32>::zeros(5).into_tensor().shape(), [5]);
    /// ```
    fn into_tensor(self) -> Tensor;

    /// Makes the matrix of the elements that the tensor owns, without a copy, or returns the tensor if it does not
    /// fit.
    ///
    /// The tensor may have been made of a matrix, a vector or a nested array. Its owner must have the type of the
    /// matrix's storage, and the tensor must show all of it, in the shape of the matrix and in Fortran order. A
    /// tensor that [`Tensor::try_into_owner`] refuses does not fit.
    ///
    /// # Panics
    /// Panics if the tensor was made by [`Tensor::from_raw_parts`] with such an owner, but of elements elsewhere, which
    /// the owner only keeps alive.
    ///
    /// ```
    /// use dlbridge::Tensor;
    /// use dlbridge_nalgebra::MatrixExt;
    /// use nalgebra::{DMatrix, Matrix2, dmatrix, matrix};
    ///
    /// let tensor = Tensor::from_parts(vec![1, 2, 3, 4, 5, 6], [3, 2])?;
    /// let tensor = DMatrix::<i32>::try_from_tensor(tensor).unwrap_err(); // it is in C order
    /// let matrix = DMatrix::<i32>::try_from_tensor(tensor.transpose()).unwrap();
    /// assert_eq!(matrix, dmatrix![1, 3, 5; 2, 4, 6]);
    ///
    /// let tensor = matrix![1.0, 2.0; 3.0, 4.0].into_tensor();
    /// assert_eq!(Matrix2::<f64>::try_from_tensor(tensor).unwrap().trace(), 5.0);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn try_from_tensor(tensor: Tensor) -> Result<Self, Tensor>;

    /// Borrows the matrix as a read-only tensor.
    ///
    /// # Panics
    /// As [`into_tensor`](MatrixExt::into_tensor).
    ///
    /// ```
    /// use dlbridge_nalgebra::MatrixExt;
    ///
    /// let matrix = nalgebra::dmatrix![1, 2; 3, 4];
    /// let tensor = matrix.as_tensor_ref();
    /// assert_eq!(tensor.strides(), [1, 2]);
    /// assert_eq!(tensor.data().addr(), matrix.as_ptr().addr());
    /// ```
    fn as_tensor_ref(&self) -> TensorRef<'_>;

    /// Borrows the matrix as a mutable tensor, for C kernels that write it.
    ///
    /// # Panics
    /// As [`into_tensor`](MatrixExt::into_tensor).
    ///
    /// ```
    /// use dlbridge_nalgebra::MatrixExt;
    ///
    /// let mut matrix = nalgebra::dmatrix![1, 2; 3, 4];
    /// matrix.as_tensor_ref_mut().into_view_mut::<i32>()?[[1, 0]] = 30;
    /// assert_eq!(matrix[(1, 0)], 30);
    /// # Ok::<(), dlbridge::Error>(())
    /// ```
    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_>;
}

impl<T, R: Dim, C: Dim> Sealed for Matrix<T, R, C, VecStorage<T, R, C>> {}

impl<T, R: Dim, C: Dim> MatrixExt for Matrix<T, R, C, VecStorage<T, R, C>>
where
    T: Element + Scalar,
    VecStorage<T, R, C>: RawStorageMut<T, R, C> + IsContiguous,
{
    fn into_tensor(self) -> Tensor {
        let (rows, columns) = self.shape();
        of_columns::<T, C>(self.data.into(), rows, columns, 0)
    }

    fn try_from_tensor(tensor: Tensor) -> Result<Self, Tensor> {
        let (rows, columns) = match *tensor.shape() {
            [rows] if C::is::<U1>() => (rows as usize, 1),
            [rows, columns] if !C::is::<U1>() => (rows as usize, columns as usize),
            _ => return Err(tensor),
        };
        let fits = R::try_to_usize().is_none_or(|fixed| fixed == rows)
            && C::try_to_usize().is_none_or(|fixed| fixed == columns);
        if !fits || !tensor.is_f_contiguous() || tensor.dtype() != T::DATA_TYPE {
            return Err(tensor);
        }
        let (len, address) = (tensor.len(), tensor.data().addr());
        let access = tensor.access();
        let elements = tensor.try_into_owner::<Vec<T>>()?;
        let first = first_of(&elements, address, len);
        if elements.len() != len {
            // The tensor showed a slice of the vector; makes the same slice again.
            let tensor = of_columns::<T, C>(elements, rows, columns, first);
            return Err(match access {
                Access::Immutable => tensor.try_into_immutable().expect("a vector is exclusive"),
                Access::ReadOnly => tensor.into_read_only(),
                Access::Exclusive | Access::Shared => tensor,
            });
        }
        let storage = VecStorage::new(R::from_usize(rows), C::from_usize(columns), elements);
        Ok(Self::from_data(storage))
    }

    fn as_tensor_ref(&self) -> TensorRef<'_> {
        borrowed::<T, C>(self.data.as_vec(), self.shape())
    }

    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        let shape = self.shape();
        borrowed_mut::<T, C>(self.as_mut_slice(), shape)
    }
}

impl<T, const R: usize, const C: usize> Sealed
    for Matrix<T, Const<R>, Const<C>, ArrayStorage<T, R, C>>
{
}

impl<T, const R: usize, const C: usize> MatrixExt
    for Matrix<T, Const<R>, Const<C>, ArrayStorage<T, R, C>>
where
    T: Element + Scalar,
{
    fn into_tensor(self) -> Tensor {
        let columns = Tensor::from(self.data.0);
        if C == 1 { columns.reshape([R]).expect(SAME) } else { columns.transpose() }
    }

    fn try_from_tensor(tensor: Tensor) -> Result<Self, Tensor> {
        let fits = match *tensor.shape() {
            [rows] => C == 1 && rows as usize == R,
            [rows, columns] => C != 1 && rows as usize == R && columns as usize == C,
            _ => false,
        };
        if !fits || !tensor.is_f_contiguous() {
            return Err(tensor);
        }
        let (len, address) = (tensor.len(), tensor.data().addr());
        let columns = tensor.try_into_owner::<Box<[[T; R]; C]>>()?;
        // Contiguous, with as many elements as the owner has: all of them.
        first_of(columns.as_flattened(), address, len);
        Ok(Self::from_array_storage(ArrayStorage(*columns)))
    }

    fn as_tensor_ref(&self) -> TensorRef<'_> {
        borrowed::<T, Const<C>>(self.as_slice(), (R, C))
    }

    fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        borrowed_mut::<T, Const<C>>(self.as_mut_slice(), (R, C))
    }
}

const FITS: &str = "the extents of a matrix fit an isize";
const SAME: &str = "the elements are the same";

/// The index of the first of `len` elements at an address. Panics unless they are in the slice.
fn first_of<T>(elements: &[T], address: usize, len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let bytes = address.checked_sub(elements.as_ptr().addr());
    let first =
        bytes.filter(|bytes| bytes % size_of::<T>() == 0).map(|bytes| bytes / size_of::<T>());
    let is_within =
        |&first: &usize| elements.len().checked_sub(first).is_some_and(|left| left >= len);
    first.filter(is_within).expect("the owner of a tensor of a matrix has its elements")
}

/// Makes a tensor of contiguous columns, with one dimension if the type has one column.
fn of_columns<T: Element, C: Dim>(
    elements: Vec<T>,
    rows: usize,
    columns: usize,
    offset: usize,
) -> Tensor {
    if C::is::<U1>() {
        Tensor::from_parts_strided(elements, [rows], [1], offset).expect(FITS)
    } else {
        let strides = [1, rows as isize];
        Tensor::from_parts_strided(elements, [rows, columns], strides, offset).expect(FITS)
    }
}

/// As [`of_columns`], borrowed.
fn borrowed<T: Element, C: Dim>(elements: &[T], (rows, columns): (usize, usize)) -> TensorRef<'_> {
    let elements = TensorRef::from(elements);
    if C::is::<U1>() {
        elements
    } else {
        elements.reshape([columns, rows]).expect(FITS).transpose()
    }
}

/// As [`of_columns`], borrowed mutably.
fn borrowed_mut<T: Element, C: Dim>(
    elements: &mut [T],
    (rows, columns): (usize, usize),
) -> TensorRefMut<'_> {
    let elements = TensorRefMut::from(elements);
    if C::is::<U1>() {
        elements
    } else {
        elements.reshape([columns, rows]).expect(FITS).transpose()
    }
}
