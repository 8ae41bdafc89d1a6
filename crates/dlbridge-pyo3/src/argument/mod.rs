//! Typed arguments: tensors of any framework as parameters of functions in Rust.

mod accepts;
mod axis_order;
mod borrowed;
mod cast;
mod checked;
mod constraint;
mod convert;
mod copy;
mod described;
mod device;
mod dispatch;
mod each;
mod fault;
mod fits;
mod host;
mod imported;
mod in_storage;
mod message;
#[cfg(feature = "ndarray")]
mod ndarray;
mod numpy;
mod refusal;
mod routes;
mod sequence;
mod spec;
mod stream;
mod times;
mod unmet;

#[cfg(feature = "ndarray")]
pub use self::ndarray::{NdarrayDim, Ndim};
pub use accepts::{Accepts, AnyDataType, OneOf};
pub use constraint::{
    ANY, Aligned, AllowCast, AllowCheckedCast, AllowCopy, AllowSafeCast, AllowSequence, COrder,
    Constraint, Contiguous, Dims, FortranOrder, InCOrder, OnCuda, OnDevice, OnRocm, Writable,
};
pub use device::PyDeviceTensor;
pub use each::{Each, Entries, FromItem, Item, Tree};
pub use host::{PyReadonlyTensor, PyReadwriteTensor};
pub use refusal::ArgumentError;
pub use stream::{DefaultStream, Stream, WorkStream};

/// The number of dimensions of an argument that accepts any.
///
/// ```no_run
/// use dlbridge_pyo3::{DYNAMIC, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, DYNAMIC>) -> f64 {
///     x.iter().sum()
/// }
/// ```
pub const DYNAMIC: usize = usize::MAX;
