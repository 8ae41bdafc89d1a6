//! Write an operator once in Rust; call it from PyTorch, JAX, TVM and NumPy, compiled and differentiated.
//!
//! The attribute [`op`] makes an operator of a function, the macro [`library`] exports operators, and
//! [`python::add`] makes a Python function of each.
//!
//! ```
//! use dlbridge_ops::{Define, op};
//!
//! /// The sum of each row.
//! #[op(shape(out = [x[0]]))]
//! fn row_sums(x: dlbridge_ops::View<'_, f32, 2>, out: &mut [f32]) {
//!     let [rows, columns] = x.dims();
//!     for row in 0..rows {
//!         out[row] = (0..columns).map(|column| x[[row, column]]).sum();
//!     }
//! }
//!
//! assert_eq!(row_sums::Operator::OPERATOR.schema(), "row_sums(Tensor x) -> Tensor");
//! ```
//!
//! A call goes through these modules, from the framework to the function:
//!
//! | module | |
//! | --- | --- |
//! | `python`, `torch`, `xla`, `tvm` | the arguments of a framework, as [`Value`](private::Value)s; the memory of outputs |
//! | `call` | chooses the kernel for the dtypes, computes the shapes, copies what is not contiguous, runs the function |
//! | `arguments` | the types that the function takes |
//! | `operator`, `parameter`, `shape` | the description of the operator |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(panic = "abort")]
compile_error!(
    "dlbridge-ops needs `panic = \"unwind\"`, because errors in PyTorch are exceptions that unwind"
);

#[forbid(unsafe_code)]
mod arguments;
#[forbid(unsafe_code)]
mod call;
mod contiguous;
mod define;
#[forbid(unsafe_code)]
mod device;
#[forbid(unsafe_code)]
mod error;
mod exclusive;
mod extension;
#[forbid(unsafe_code)]
mod library;
mod memory;
#[cfg(doctest)]
mod must_not_compile;
mod new_tensors;
mod on_cuda;
#[forbid(unsafe_code)]
mod operator;
mod out_arguments;
#[forbid(unsafe_code)]
mod outputs;
#[forbid(unsafe_code)]
mod parameter;
#[doc(hidden)]
#[forbid(unsafe_code)]
pub mod private;
#[cfg(feature = "python")]
pub mod python;
#[forbid(unsafe_code)]
mod shape;
#[doc(hidden)]
pub mod torch;
#[doc(hidden)]
pub mod tvm;
mod uninit;
#[forbid(unsafe_code)]
mod value;
#[forbid(unsafe_code)]
mod vjp;
#[doc(hidden)]
pub mod xla;

/// The name that the code of the macros uses, for operators in this crate's own tests.
#[cfg(test)]
extern crate self as dlbridge_ops;

/// The core: tensors, views and dtypes.
#[doc(no_inline)]
pub use dlbridge;

pub use arguments::{
    Argument, Array, CudaArray, CudaInPlace, CudaOut, CudaView, DYNAMIC, Dynamic, Floats, InPlace,
    Ints, Out, View,
};
pub use define::Define;
/// Exports operators from an extension: `library!("namespace": first, second)`, once in a crate that is a `cdylib`.
///
/// It defines the static `LIBRARY` for [`python::add`], and these symbols, so that frameworks can load the file without
/// Python:
///
/// | symbol | for |
/// | --- | --- |
/// | a function that the loader calls | PyTorch, if it is loaded: `torch.ops.load_library(path)` |
/// | `__tvm_ffi_NAME` | `tvm_ffi.load_module(path)` |
/// | `NAMESPACE_NAME_xla` | `jax.ffi.pycapsule(ctypes.CDLL(path).NAMESPACE_NAME_xla)` |
///
/// ```no_run
/// use dlbridge_ops::{library, op};
///
/// #[op]
/// fn double(x: &[f32], out: &mut [f32]) {
///     out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
/// }
///
/// library!("doubles": double);
///
/// fn main() {
///     assert_eq!(LIBRARY.namespace(), "doubles");
/// }
/// ```
pub use dlbridge_ops_macros::library;
/// Makes an operator of a function. The function stays as it is. Its parameters are of the types of [`Argument`]; outputs
/// are parameters too. It returns nothing, or a `Result` (see [`Outcome`]).
///
/// | argument | meaning |
/// | --- | --- |
/// | `vjp = name` | the operator that computes gradients; see below |
/// | `elementwise` | all inputs have one shape, and each output has its leading dimensions, however many, so `vmap` needs one call |
/// | `T in [f32, f64]` | the types that the generic parameter `T` stands for; the dtypes of the inputs choose |
/// | `shape(out = [x[0], n], low = like(x))` | the shapes of outputs; without one, that of the first tensor |
/// | `require(x[0] == ids[0])` | extents that must be equal, checked while a framework traces |
/// | `default(n = 1)` | the values of attributes that the caller omits |
///
/// A shape is `like(x)`, or a list of extents, or the name of a function from [`Shapes`] to a `Vec<i64>`. An extent is a
/// number, `x[0]`, an integer attribute, or a calculation with `+`, `-`, `*` and `/`, which rounds down. `x[1..]` stands
/// for several extents. A negative axis counts from the end; with `elementwise` all axes do.
///
/// Names are ASCII, and not keywords of Rust or Python. Signatures have default values only behind the last parameter
/// without one. A default before it applies if Python code passes the later arguments by name.
///
/// # Gradients
/// A *vjp* (vector-Jacobian product) is an operator too. Its parameters are matched by name: inputs and attributes of the
/// operator, its outputs, and `grad_NAME` for the gradient of the output `NAME`. Attributes keep their types, and an
/// optional input is optional in the vjp too. Its outputs are `grad_NAME` for the input
/// `NAME`; an input without one has no gradient. It may have a vjp of its own, for second derivatives.
///
/// ```
/// use dlbridge_ops::op;
///
/// /// x²
/// #[op(vjp = square_vjp, elementwise, T in [f32, f64])]
/// fn square<T: dlbridge_ops::dlbridge::Element + Copy + std::ops::Mul<Output = T>>(x: &[T], out: &mut [T]) {
///     out.iter_mut().zip(x).for_each(|(out, x)| *out = *x * *x);
/// }
///
/// #[op(elementwise, T in [f32, f64])]
/// fn square_vjp<T>(x: &[T], grad_out: &[T], grad_x: &mut [T])
/// where
///     T: dlbridge_ops::dlbridge::Element + Copy + std::ops::Mul<Output = T> + std::ops::Add<Output = T>,
/// {
///     for ((grad_x, x), grad_out) in grad_x.iter_mut().zip(x).zip(grad_out) {
///         *grad_x = (*x + *x) * *grad_out;
///     }
/// }
/// ```
pub use dlbridge_ops_macros::op;
pub use error::{Error, ErrorKind, Outcome, Result};
pub use library::Library;
pub use on_cuda::OnCuda;
pub use operator::Operator;
pub use shape::Shapes;
pub use uninit::Uninit;

#[cfg(all(doctest, feature = "python"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "python"))]
#[doc = include_str!("../../../docs/operators.md")]
struct Chapter;
