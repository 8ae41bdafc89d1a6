//! Typed arguments whose memory the CPU reads and writes.

use std::marker::PhantomData;

use dlbridge::{
    DataType, Device, Element, Iter, IterMut, TensorRef, TensorRefMut, TensorView, TensorViewMut,
};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::accepts::Accepts;
use super::borrowed::BorrowedArgument;
use super::constraint::{Constraint, InCOrder};
use super::described::described;
use super::refusal::{ArgumentError, Refusal, not_borrowed};
use super::spec::ArgumentSpec;

/// Refuses types with invalid bit patterns: Python code could write such bytes after the check.
const fn assert_any_bits<T: Element>() {
    assert!(
        T::CHECK.is_none(),
        "Python code may write bytes that are not values of this type; use try_view()? or try_view_mut()?, and for ndarray try_as_array()? or try_as_array_mut()?"
    );
}

macro_rules! argument {
    ($(#[$doc:meta])* $name:ident, $mode:expr) => {
        $(#[$doc])*
        pub struct $name<'py, A, const N: usize, C = ()> {
            argument: Box<BorrowedArgument<'py>>,
            marker: PhantomData<(A, C)>,
        }

        impl<'py, A: Accepts, const N: usize, C: Constraint> $name<'py, A, N, C> {
            const SPEC: &'static ArgumentSpec = &C::SPEC.on_host::<A, N>($mode);
        }

        impl<'a, 'py, A: Accepts, const N: usize, C: Constraint> FromPyObject<'a, 'py>
            for $name<'py, A, N, C>
        {
            type Error = ArgumentError<'a, 'py>;

            #[cfg(feature = "experimental-inspect")]
            const INPUT_TYPE: pyo3::inspect::PyStaticExpr = if C::SPEC.allow_sequence {
                pyo3::type_hint_identifier!("dlbridge.typing", "TensorOrSequence")
            } else {
                pyo3::type_hint_identifier!("dlbridge.typing", "TensorLike")
            };

            fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
                if let Some(argument) = Self::SPEC.borrow_run(&object) {
                    return Ok(Self { argument, marker: PhantomData });
                }
                Self::other(&object).map_err(|refusal| ArgumentError::new(refusal, object))
            }
        }

        impl<'py, A: Accepts, const N: usize, C: Constraint> $name<'py, A, N, C> {
            /// Extraction for code that tries several types: `Ok(None)` for an object that does not fit, without the
            /// cost of an exception.
            ///
            /// Returns `None` where extraction would raise `dlbridge.TensorMismatchError`: for objects that are not
            /// tensors or not sequences that fit, and for tensors with another dtype, shape, order or device, or that
            /// are read-only. Also returns `None` where extraction raises a `BufferError` because a tensor cannot
            /// hold the elements (text, Python objects, records, lists in columns, and times unless `A` is a type of
            /// times), and for objects that only the Python package `dlbridge` imports if it is not installed. So code
            /// may try types in any order.
            ///
            /// # Errors
            /// Raises everything else, because another type of argument would not help: an exception of the producer,
            /// such as `KeyboardInterrupt` or `MemoryError`; a tensor that its producer cannot export; and a
            /// `BufferError` for memory that is borrowed, for invalid elements, and for nulls and masked elements.
            ///
            /// ```no_run
            #[doc = concat!("use dlbridge_pyo3::", stringify!($name), ";")]
            /// use pyo3::prelude::*;
            ///
            /// #[pyfunction]
            /// fn dimensions(x: &Bound<'_, PyAny>) -> PyResult<usize> {
            #[doc = concat!("    if ", stringify!($name), "::<f64, 1>::try_extract(x)?.is_some() {")]
            ///         return Ok(1);
            ///     }
            #[doc = concat!("    Ok(x.extract::<", stringify!($name), "<'_, f64, 2>>().map(|_| 2)?)")]
            /// }
            /// ```
            pub fn try_extract(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
                if let Some(argument) = Self::SPEC.borrow_run(object) {
                    return Ok(Some(Self { argument, marker: PhantomData }));
                }
                match Self::other(object) {
                    Ok(argument) => Ok(Some(argument)),
                    Err(refusal) => refusal.raised().map(|()| None),
                }
            }

            /// Extracts an object that `borrow_run` leaves.
            #[inline]
            fn other(object: &Bound<'py, PyAny>) -> Result<Self, Refusal> {
                if C::SPEC.allow_sequence
                    && let Some(argument) = Self::SPEC.copy_sequence(object)?
                {
                    return Ok(Self { argument, marker: PhantomData });
                }
                let argument = match A::TIMES.is_empty() {
                    true => Self::SPEC.extract(object)?,
                    false => Self::SPEC.import_times(object)?,
                };
                Ok(Self { argument, marker: PhantomData })
            }
        }

        described!($name, C);

        impl<A, const N: usize, C> $name<'_, A, N, C> {
            /// Returns true for the argument's own elements, and false for a copy that
            /// [`AllowCopy`](crate::AllowCopy) allowed.
            ///
            /// ```no_run
            /// use dlbridge_pyo3::{AllowCopy, PyReadonlyTensor};
            ///
            /// fn is_not_copied(x: PyReadonlyTensor<'_, f32, 1, AllowCopy>) -> bool {
            ///     x.is_borrowed()
            /// }
            /// ```
            pub fn is_borrowed(&self) -> bool {
                self.argument.is_borrowed()
            }
        }

        impl<T: Element, const N: usize, C> $name<'_, T, N, C> {
            /// A view of the elements, with any strides.
            ///
            /// Types with invalid bit patterns, like `bool`, do not compile here: Python code can write other bytes
            /// at any time, even while later arguments are extracted. [`try_view`](Self::try_view) checks them.
            ///
            /// ```no_run
            #[doc = concat!("fn corner(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 2>) -> f32 {")]
            ///     x.view()[[0, 0]]
            /// }
            /// ```
            #[inline]
            pub fn view(&self) -> TensorView<'_, T> {
                const { assert_any_bits::<T>() };
                // Extraction checked dtype, device and alignment, which cannot change; any bits are a valid element.
                let view = self.argument.tensor().as_view();
                view.unwrap_or_else(|_| unreachable!("dtype, place and alignment were checked"))
            }

            /// Checks that the bytes are values of the type, and returns a view of the elements.
            ///
            /// The check is for types with invalid bit patterns, like `bool`, and reads every element; for other
            /// types it does nothing. Make the view once and use it: no Python code runs while it exists, unless the
            /// function calls some.
            ///
            /// # Errors
            /// `BufferError` if Python code wrote other bytes since the argument was extracted.
            ///
            /// ```no_run
            /// use pyo3::prelude::*;
            ///
            /// #[pyfunction]
            #[doc = concat!("fn any(x: dlbridge_pyo3::", stringify!($name), "<'_, bool, 2>) -> PyResult<bool> {")]
            ///     Ok(x.try_view()?.iter().any(|&flag| flag))
            /// }
            /// ```
            pub fn try_view(&self) -> PyResult<TensorView<'_, T>> {
                self.argument.tensor().as_view().map_err(not_borrowed)
            }

            /// The elements as a slice, if they are contiguous in C order.
            ///
            /// ```no_run
            #[doc = concat!("fn last(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 1>) -> Option<f32> {")]
            ///     x.as_slice()?.last().copied()
            /// }
            /// ```
            pub fn as_slice(&self) -> Option<&[T]> {
                self.view().as_slice()
            }

            /// Iterates over the elements in C order.
            ///
            /// ```no_run
            #[doc = concat!("fn largest(x: dlbridge_pyo3::", stringify!($name), "<'_, u8, 3>) -> Option<u8> {")]
            ///     x.iter().copied().max()
            /// }
            /// ```
            pub fn iter(&self) -> Iter<'_, T> {
                self.view().iter()
            }
        }

        impl<T: Element, const N: usize, C: Constraint> $name<'_, T, N, C> {
            /// The elements as a slice; the constraint requires C order.
            ///
            /// ```no_run
            /// use dlbridge_pyo3::COrder;
            ///
            #[doc = concat!("fn total(x: dlbridge_pyo3::", stringify!($name), "<'_, f32, 2, COrder>) -> f32 {")]
            ///     x.slice().iter().sum()
            /// }
            /// ```
            pub fn slice(&self) -> &[T]
            where
                C: InCOrder,
            {
                self.as_slice().expect("the order was checked")
            }
        }
    };
}

argument! {
    /// A tensor of any framework, to read.
    ///
    /// `A` is its element type, [`OneOf`](crate::OneOf) several, or [`AnyDataType`](crate::AnyDataType). `N` is its
    /// number of dimensions, or [`DYNAMIC`](crate::DYNAMIC). `C` is a [`Constraint`](crate::Constraint) with further
    /// demands. The CPU can read the data. Nothing is copied, unless `C` includes [`AllowCopy`](crate::AllowCopy).
    ///
    /// The argument borrows the memory while it exists: other arguments may read it, but no argument of an extension
    /// built on dlbridge or rust-numpy may write it.
    ///
    /// # Errors
    /// Extraction raises one `TypeError` that names all differences from the demands; `BufferError` if the memory is
    /// borrowed for writing; and the errors of [`import`](crate::import).
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{COrder, PyReadonlyTensor, dims};
    /// use pyo3::prelude::*;
    ///
    /// /// Any framework's float32 matrix.
    /// #[pyfunction]
    /// fn mean(x: PyReadonlyTensor<'_, f32, 2>) -> f32 {
    ///     x.iter().sum::<f32>() / x.len() as f32
    /// }
    ///
    /// /// A picture with three channels, in C order, or nothing.
    /// #[pyfunction]
    /// #[pyo3(signature = (picture=None))]
    /// fn grey(picture: Option<PyReadonlyTensor<'_, u8, 3, (COrder, dims!(_, _, 3))>>) -> usize {
    ///     picture.map_or(0, |picture| picture.slice().len() / 3)
    /// }
    /// ```
    PyReadonlyTensor, Mode::Read
}

argument! {
    /// A tensor of any framework, to write.
    ///
    /// Like [`PyReadonlyTensor`], for writable memory. The argument borrows the memory exclusively while it exists:
    /// no other argument may read or write it.
    ///
    /// # Errors
    /// As for [`PyReadonlyTensor`]. Also `TypeError` for read-only data, and for data of producers older than
    /// versioned DLPack, which cannot report whether it is read-only; `BufferError` if the memory is borrowed at all,
    /// or if two indices lead to one element.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::PyReadwriteTensor;
    /// use pyo3::prelude::*;
    ///
    /// /// Inverts a picture in place.
    /// #[pyfunction]
    /// fn invert(mut picture: PyReadwriteTensor<'_, u8, 3>) {
    ///     picture.iter_mut().for_each(|value| *value = 255 - *value);
    /// }
    /// ```
    PyReadwriteTensor, Mode::Write
}

impl<A, const N: usize, C> PyReadwriteTensor<'_, A, N, C> {
    /// A borrowed writable tensor of any dtype over the elements.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::{AnyDataType, PyReadwriteTensor};
    ///
    /// fn other_byte_order(mut x: PyReadwriteTensor<'_, AnyDataType, 1>) -> dlbridge::Result<()> {
    ///     x.as_tensor_ref_mut().swap_bytes()
    /// }
    /// ```
    pub fn as_tensor_ref_mut(&mut self) -> TensorRefMut<'_> {
        // SAFETY: extraction of a `PyReadwriteTensor` borrowed the memory exclusively and checked that it is
        // writable.
        unsafe { self.argument.tensor_mut() }
    }
}

impl<T: Element, const N: usize, C> PyReadwriteTensor<'_, T, N, C> {
    /// A view of the elements, with any strides, to write. Types with invalid bit patterns, like `bool`, do not
    /// compile here; [`try_view_mut`](Self::try_view_mut) checks them.
    ///
    /// ```no_run
    /// fn clear(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, f32, 2>) {
    ///     x.view_mut()[[0, 0]] = 0.0;
    /// }
    /// ```
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T> {
        const { assert_any_bits::<T>() };
        // Extraction checked them, as in `view`.
        let view = self.as_tensor_ref_mut().into_view_mut();
        view.unwrap_or_else(|_| unreachable!("dtype, place and alignment were checked"))
    }

    /// Checks that the bytes are values of the type, and returns a view of the elements to write.
    ///
    /// # Errors
    /// As [`try_view`](Self::try_view).
    ///
    /// ```no_run
    /// use pyo3::prelude::*;
    ///
    /// #[pyfunction]
    /// fn clear(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, bool, 2>) -> PyResult<()> {
    ///     x.try_view_mut()?.into_iter().for_each(|flag| *flag = false);
    ///     Ok(())
    /// }
    /// ```
    pub fn try_view_mut(&mut self) -> PyResult<TensorViewMut<'_, T>> {
        self.as_tensor_ref_mut().into_view_mut().map_err(not_borrowed)
    }

    /// The elements as a slice to write, if they are contiguous in C order.
    ///
    /// ```no_run
    /// fn fill(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, f32, 1>) -> Option<()> {
    ///     Some(x.as_mut_slice()?.fill(1.0))
    /// }
    /// ```
    pub fn as_mut_slice(&mut self) -> Option<&mut [T]> {
        self.view_mut().into_mut_slice()
    }

    /// Iterates over the elements in C order, to write.
    ///
    /// ```no_run
    /// fn twice(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, f32, 2>) {
    ///     x.iter_mut().for_each(|value| *value *= 2.0);
    /// }
    /// ```
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        self.view_mut().into_iter()
    }
}

impl<T: Element, const N: usize, C: Constraint> PyReadwriteTensor<'_, T, N, C> {
    /// The elements as a slice to write; the constraint requires C order.
    ///
    /// ```no_run
    /// use dlbridge_pyo3::COrder;
    ///
    /// fn sort(mut x: dlbridge_pyo3::PyReadwriteTensor<'_, i32, 1, COrder>) {
    ///     x.mut_slice().sort();
    /// }
    /// ```
    pub fn mut_slice(&mut self) -> &mut [T]
    where
        C: InCOrder,
    {
        self.as_mut_slice().expect("the order was checked")
    }
}
