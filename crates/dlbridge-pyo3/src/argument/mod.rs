//! Typed arguments: tensors of any framework as parameters of functions in Rust.

mod accepts;
mod borrowed;
#[doc(hidden)]
pub mod cast;
mod constraint;
mod copy;
mod described;
mod device;
mod each;
mod host;
mod message;
mod mismatch;
#[cfg(feature = "ndarray")]
mod ndarray;
mod refusal;
mod routes;
mod sequence;
mod spec;

#[cfg(feature = "ndarray")]
pub use self::ndarray::{NdarrayDim, Ndim};
pub use accepts::{Accepts, AnyDataType, OneOf};
pub use constraint::{
    ANY, Aligned, AllowCast, AllowCopy, AllowSequence, COrder, Constraint, Contiguous, Dims,
    FortranOrder, InCOrder, OnCuda, OnDevice, Writable,
};
pub use device::{DefaultStream, PyDeviceTensor, Stream, WorkStream};
pub use each::{Each, Entries};
pub use host::{PyReadonlyTensor, PyReadwriteTensor};
pub use refusal::ArgumentError;
pub use spec::DYNAMIC;
