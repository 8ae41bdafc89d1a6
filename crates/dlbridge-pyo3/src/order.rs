//! The order of elements in memory.

use dlbridge::TensorRef;

/// The memory order that elements must have.
///
/// ```
/// use dlbridge_pyo3::{ImportOptions, Order};
///
/// assert_eq!(ImportOptions::default().order, Order::Strided);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Any strides.
    #[default]
    Strided,
    /// C order, the last index fastest.
    C,
    /// Fortran order, the first index fastest.
    Fortran,
    /// C or Fortran order.
    Either,
}

impl Order {
    /// Returns true if the elements of a tensor are in this order.
    #[inline(always)]
    pub fn fits(self, tensor: &TensorRef<'_>) -> bool {
        match self {
            Self::Strided => true,
            Self::C => tensor.is_c_contiguous(),
            Self::Fortran => tensor.is_f_contiguous(),
            Self::Either => tensor.is_c_contiguous() || tensor.is_f_contiguous(),
        }
    }
}
