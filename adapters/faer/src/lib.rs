//! [faer] 0.24: matrices as tensors, and tensors as matrices, without a copy and without `unsafe`.
//!
//! ```
//! use dlbridge_faer::{MatrixExt, TensorViewExt};
//! use faer::{Mat, mat};
//!
//! let tensor = mat![[1.0, 2.0], [3.0, 4.0]].into_tensor();    // for any DLPack consumer
//! let matrix = tensor.view::<f64>()?.as_matrix()?;            // read in place
//! let square = matrix * matrix;
//! let matrix = tensor.try_into_owner::<Mat<f64>>().unwrap();  // the same memory again
//! # assert_eq!(square, &matrix * &matrix);
//! # Ok::<(), dlbridge::Error>(())
//! ```
//!
//! | | |
//! | --- | --- |
//! | [`MatrixExt`] | [`Mat`] and [`Col`] to tensors |
//! | [`TensorViewExt`] | views as [`MatRef`] and [`ColRef`], or copied |
//! | [`TensorViewMutExt`] | mutable views as [`MatMut`] and [`ColMut`] |
//!
//! Views may have any strides: C order, Fortran order, negative, zero. A `Mat` is in Fortran order, and pads its
//! columns to align each; so its tensor is not contiguous in general.
//!
//! The crate uses faer without features. A program enables the features that it needs, such as `rayon`.
//!
//! [`Mat`]: faer::Mat
//! [`Col`]: faer::Col
//! [`MatRef`]: faer::MatRef
//! [`ColRef`]: faer::ColRef
//! [`MatMut`]: faer::MatMut
//! [`ColMut`]: faer::ColMut

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
