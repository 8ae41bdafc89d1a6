//! Which dtypes an argument may have.

use std::marker::PhantomData;

use dlbridge::{DataType, Element, Error, TensorRef};

/// The dtypes that a typed argument takes: a type of elements, [`OneOf`] several, or
/// [`AnyDataType`].
///
/// ```
/// use dlbridge::DataType;
/// use dlbridge_pyo3::{Accepts, OneOf};
///
/// assert_eq!(f32::DTYPES, [DataType::FLOAT32]);
/// assert_eq!(OneOf::<(f32, f64)>::DTYPES, [DataType::FLOAT32, DataType::FLOAT64]);
/// ```
///
/// There are no others: the trait cannot be implemented outside of this crate.
pub trait Accepts: Checked {
    /// The dtypes; none of them for any.
    ///
    /// ```
    /// use dlbridge_pyo3::Accepts;
    ///
    /// assert!(dlbridge_pyo3::AnyDataType::DTYPES.is_empty());
    /// ```
    const DTYPES: &'static [DataType];
}

/// How elements are checked. Nobody else can implement it: what is to be written is given to it, alone.
pub trait Checked: 'static {
    /// What the address of an element of a dtype must be a multiple of, in bytes.
    fn alignment(dtype: DataType) -> usize;

    /// Whether a tensor of one of the dtypes, on the host and aligned, can be viewed as such, which for
    /// `bool` depends on what is in it.
    fn check(tensor: &TensorRef<'_>) -> Result<(), Error>;

    /// Whether that depends on more than the dtype, which is one of the dtypes.
    fn checks(dtype: DataType) -> bool;

    /// NumPy's names for elements that are counts of a unit of time; none for other elements.
    const TIMES: &'static [&'static str];
}

impl<T: Element> Accepts for T {
    const DTYPES: &'static [DataType] = &[T::DTYPE];
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
        tensor.view::<T>().map(drop)
    }

    #[inline(always)]
    fn checks(_: DataType) -> bool {
        T::CHECK.is_some() || T::DTYPE.is_subbyte()
    }
}

/// One of several types of elements, up to eight, as a tuple. [`dispatch!`](crate::dispatch) tells
/// which it is.
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

/// Any dtype, also those that no type in Rust has.
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
            const DTYPES: &'static [DataType] = &[$($element::DTYPE),+];
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
                    "a OneOf has times or numbers, not both; extract one type after the other by try_extract"
                );
                if times == 0 { &[] } else { Self::NAMES }
            };

            fn alignment(dtype: DataType) -> usize {
                $(if dtype == $element::DTYPE {
                    return align_of::<$element>();
                })+
                1
            }

            fn check(tensor: &TensorRef<'_>) -> Result<(), Error> {
                $(if tensor.dtype() == $element::DTYPE {
                    return $element::check(tensor);
                })+
                Ok(())
            }

            #[inline(always)]
            fn checks(dtype: DataType) -> bool {
                $((dtype == $element::DTYPE && $element::checks(dtype)))||+
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
