//! Type hints of results, for stubs that maturin generates.
//!
//! ```
//! use dlbridge_pyo3::Numpy;
//! use dlbridge_pyo3::dlbridge::{Datetime64, Days, Seconds, Timedelta64};
//! use pyo3::IntoPyObject;
//!
//! let hint = <Numpy<Datetime64<Days>, 1> as IntoPyObject<'_>>::OUTPUT_TYPE.to_string();
//! assert_eq!(hint, "numpy.typing.NDArray[numpy.datetime64]");
//! let hint = <Numpy<Timedelta64<Seconds>, 2> as IntoPyObject<'_>>::OUTPUT_TYPE.to_string();
//! assert_eq!(hint, "numpy.typing.NDArray[numpy.timedelta64]");
//! let hint = <Numpy<f64, 2> as IntoPyObject<'_>>::OUTPUT_TYPE.to_string();
//! assert_eq!(hint, "numpy.typing.NDArray[numpy.float64]");
//! ```

use std::marker::PhantomData;

use dlbridge::{DataType, DataTypeCode};
use pyo3::inspect::PyStaticExpr;
use pyo3::{type_hint_identifier, type_hint_subscript};

use crate::argument::Accepts;

/// The hints for NumPy arrays with the dtypes of `A`.
pub(super) struct Numpy<A>(PhantomData<A>);

impl<A: Accepts> Numpy<A> {
    /// `numpy.typing.NDArray` of the dtype, or of any.
    pub(super) const ARRAY: PyStaticExpr =
        type_hint_subscript!(type_hint_identifier!("numpy.typing", "NDArray"), Self::SCALAR);

    const SCALAR: PyStaticExpr = PyStaticExpr::Attribute {
        value: &PyStaticExpr::Name { id: "numpy" },
        attr: match A::DTYPES {
            [dtype] => scalar(*dtype, A::TIMES),
            _ => "generic",
        },
    };
}

/// The name of NumPy's scalar type for a dtype, or for times; the base class if NumPy lacks the dtype.
const fn scalar(dtype: DataType, times: &[&str]) -> &'static str {
    if let [name, ..] = times {
        return match name.as_bytes() {
            [b'd', ..] => "datetime64",
            _ => "timedelta64",
        };
    }
    const INT: u8 = DataTypeCode::INT.code();
    const UINT: u8 = DataTypeCode::UINT.code();
    const FLOAT: u8 = DataTypeCode::FLOAT.code();
    const COMPLEX: u8 = DataTypeCode::COMPLEX.code();
    const BOOL: u8 = DataTypeCode::BOOL.code();
    match (dtype.code().code(), dtype.bits(), dtype.lanes()) {
        (BOOL, 8, 1) => "bool_",
        (INT, 8, 1) => "int8",
        (INT, 16, 1) => "int16",
        (INT, 32, 1) => "int32",
        (INT, 64, 1) => "int64",
        (UINT, 8, 1) => "uint8",
        (UINT, 16, 1) => "uint16",
        (UINT, 32, 1) => "uint32",
        (UINT, 64, 1) => "uint64",
        (FLOAT, 16, 1) => "float16",
        (FLOAT, 32, 1) => "float32",
        (FLOAT, 64, 1) => "float64",
        (COMPLEX, 64, 1) => "complex64",
        (COMPLEX, 128, 1) => "complex128",
        _ => "generic",
    }
}
