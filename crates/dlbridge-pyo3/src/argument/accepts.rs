//! The dtypes that an argument may have.

use std::marker::PhantomData;

use dlbridge::{DataType, Element, Error, TensorRef};

/// The dtypes of a typed argument: an element type, [`OneOf`] several, or [`AnyDataType`].
///
/// ```
/// use dlbridge::DataType;
/// use dlbridge_pyo3::{Accepts, OneOf};
///
/// assert_eq!(f32::DTYPES, [DataType::FLOAT32]);
/// assert_eq!(OneOf::<(f32, f64)>::DTYPES, [DataType::FLOAT32, DataType::FLOAT64]);
/// ```
///
/// Other crates cannot implement this trait.
pub trait Accepts: Checked {
    /// The accepted dtypes; empty if the argument accepts any dtype.
    ///
    /// ```
    /// use dlbridge_pyo3::Accepts;
    ///
    /// assert!(dlbridge_pyo3::AnyDataType::DTYPES.is_empty());
    /// ```
    const DTYPES: &'static [DataType];
}

/// The check of elements. Other crates cannot implement it, because it gets tensors that are about to be written.
pub trait Checked: 'static {
    /// Alignment of an element of a dtype, in bytes.
    fn alignment(dtype: DataType) -> usize;

    /// Checks that a view of a tensor of an accepted dtype is valid, if [`checks`](Self::checks) says so. The tensor is
    /// aligned and on the host. For `bool` the check reads the elements.
    fn check(tensor: &TensorRef<'_>) -> Result<(), Error>;

    /// Returns true if the check reads more than the dtype, which is an accepted one.
    fn checks(dtype: DataType) -> bool;

    /// NumPy's names for elements that are counts of a unit of time; empty for other elements.
    const TIMES: &'static [&'static str];
}

impl<T: Element> Accepts for T {
    const DTYPES: &'static [DataType] = &[T::DATA_TYPE];
}

impl<T: Element> Checked for T {
    const TIMES: &'static [&'static str] = match T::TIME {
        Some(name) => &[name],
        None => &[],
    };

    fn alignment(_: DataType) -> usize {
        align_of::<T>()
    }

    fn check(tensor: &TensorRef<'_>) -> Result<(), Error> {
        match Self::checks(T::DATA_TYPE) {
            true => tensor.as_view::<T>().map(drop),
            false => Ok(()),
        }
    }

    #[inline(always)]
    fn checks(_: DataType) -> bool {
        T::CHECK.is_some() || T::DATA_TYPE.is_subbyte()
    }
}

/// One of up to eight element types, as a tuple. [`dispatch!`](crate::dispatch) selects the code for the actual type.
///
/// ```no_run
/// use dlbridge_pyo3::{OneOf, PyReadonlyTensor, dispatch};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn norm(x: PyReadonlyTensor<'_, OneOf<(f32, f64)>, 1>) -> f64 {
///     dispatch!(T in (f32, f64), x => x.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt())
/// }
/// ```
pub struct OneOf<T>(PhantomData<T>);

/// Any dtype, including those without a Rust type.
///
/// ```no_run
/// use dlbridge_pyo3::{AnyDataType, DYNAMIC, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn dtype(x: PyReadonlyTensor<'_, AnyDataType, DYNAMIC>) -> String {
///     x.dtype().to_string()
/// }
/// ```
pub struct AnyDataType;

impl Accepts for AnyDataType {
    const DTYPES: &'static [DataType] = &[];
}

impl Checked for AnyDataType {
    const TIMES: &'static [&'static str] = &[];

    fn alignment(_: DataType) -> usize {
        1
    }

    fn check(_: &TensorRef<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn checks(_: DataType) -> bool {
        false
    }
}

macro_rules! one_of {
    ($($element:ident),+) => {
        impl<$($element: Element),+> Accepts for OneOf<($($element,)+)> {
            const DTYPES: &'static [DataType] = &[$($element::DATA_TYPE),+];
        }

        impl<$($element: Element),+> OneOf<($($element,)+)> {
            /// NumPy's names for times, empty for other elements.
            const NAMES: &'static [&'static str] = &[$(match $element::TIME {
                Some(name) => name,
                None => "",
            }),+];
        }

        impl<$($element: Element),+> Checked for OneOf<($($element,)+)> {
            const TIMES: &'static [&'static str] = {
                let times = 0 $(+ $element::TIME.is_some() as usize)+;
                assert!(
                    times == 0 || times == Self::NAMES.len(),
                    "a OneOf has times or numbers, not both; extract one type after the other with try_extract"
                );
                if times == 0 { &[] } else { Self::NAMES }
            };

            fn alignment(dtype: DataType) -> usize {
                $(if dtype == $element::DATA_TYPE {
                    return align_of::<$element>();
                })+
                1
            }

            fn check(tensor: &TensorRef<'_>) -> Result<(), Error> {
                $(if tensor.dtype() == $element::DATA_TYPE {
                    return $element::check(tensor);
                })+
                Ok(())
            }

            #[inline(always)]
            fn checks(dtype: DataType) -> bool {
                $((dtype == $element::DATA_TYPE && $element::checks(dtype)))||+
            }
        }
    };
}

one_of!(A);
one_of!(A, B);
one_of!(A, B, C);
one_of!(A, B, C, D);
one_of!(A, B, C, D, E);
one_of!(A, B, C, D, E, F);
one_of!(A, B, C, D, E, F, G);
one_of!(A, B, C, D, E, F, G, H);
