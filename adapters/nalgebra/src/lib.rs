//! [nalgebra] 0.35: matrices to tensors and back, without a copy and without `unsafe`.
//!
//! ```
//! use dlbridge_nalgebra::{MatrixExt, TensorViewExt};
//! use nalgebra::{DMatrix, dmatrix};
//!
//! let tensor = dmatrix![1.0, 2.0; 3.0, 4.0].into_tensor();       // for any DLPack consumer
//! let trace = tensor.view::<f64>()?.as_matrix()?.trace();        // read in place
//! let matrix = DMatrix::<f64>::try_from_tensor(tensor).unwrap(); // the same memory again
//! assert_eq!(trace, matrix.trace());
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`MatrixExt`] | matrices and vectors that own their elements: to tensors, and back |
//! | [`TensorViewExt`] | views as [`DMatrixView`] and [`DVectorView`], or copied |
//! | [`TensorViewMutExt`] | mutable views as [`DMatrixViewMut`] and [`DVectorViewMut`] |
//!
//! # Order
//!
//! nalgebra stores matrices in Fortran order, one column after the other, and their tensors have that order too. A
//! tensor in C order, as NumPy and PyTorch make them, is not a matrix of nalgebra, but its transpose is: the same
//! memory, read by columns.
//!
//! ```
//! use dlbridge::{Error, Tensor};
//! use dlbridge_nalgebra::TensorViewExt;
//! use nalgebra::dmatrix;
//!
//! let tensor = Tensor::from([[1, 2, 3], [4, 5, 6]]);
//! let view = tensor.view::<i32>()?;
//! assert_eq!(view.as_matrix(), Err(Error::NotFortranContiguous));
//! assert_eq!(view.transpose().as_matrix()?, dmatrix![1, 4; 2, 5; 3, 6]);
//! assert_eq!(view.to_matrix()?, dmatrix![1, 2, 3; 4, 5, 6]); // a copy
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! Other strides are refused, although a view of nalgebra can have them, because safe code in nalgebra 0.35.0 can
//! access memory outside of such a view:
//!
//! - A row stride other than 1: products and `axpy` read and write beyond the last element ([issue
//!   1616](https://github.com/dimforge/nalgebra/issues/1616)).
//! - A column stride other than the number of rows: `reshape_generic` assumes that the columns touch, and reaches
//!   memory between and after them.
//!
//! [`to_matrix`](TensorViewExt::to_matrix) copies from any strides.
//!
//! [`DMatrixView`]: nalgebra::DMatrixView
//! [`DVectorView`]: nalgebra::DVectorView
//! [`DMatrixViewMut`]: nalgebra::DMatrixViewMut
//! [`DVectorViewMut`]: nalgebra::DVectorViewMut
#![forbid(unsafe_code)]

mod owner;
mod view;

pub use owner::MatrixExt;
pub use view::{TensorViewExt, TensorViewMutExt};

/// Keeps the extension traits closed, so that methods can be added.
mod sealed {
    pub trait Sealed {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
