//! What an argument must be beside its dtype and its number of dimensions.

use std::marker::PhantomData;

/// What a typed argument must be, as a type: `()` for nothing more, or any of [`COrder`],
/// [`FortranOrder`], [`Contiguous`], [`Aligned`], [`Dims`], [`AllowCopy`]; several as a tuple of up to
/// six.
///
/// ```
/// use dlbridge_pyo3::{Aligned, COrder, Constraint, dims};
///
/// type Picture = (dims!(_, _, 3), COrder, Aligned<16>);
/// assert_eq!(Picture::REQUIREMENT.dims, [None, None, Some(3)]);
/// assert_eq!(Picture::REQUIREMENT.align, 16);
/// ```
pub trait Constraint: 'static {
    /// The same as a value.
    ///
    /// ```
    /// use dlbridge_pyo3::Constraint;
    ///
    /// assert_eq!(<()>::REQUIREMENT.align, 1);
    /// ```
    const REQUIREMENT: Requirement;
}

/// What a [`Constraint`] demands.
///
/// ```
/// use dlbridge_pyo3::{AllowCopy, Constraint};
///
/// assert!(AllowCopy::REQUIREMENT.allow_copy);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// The extents that are fixed, one for each axis; empty if none is.
    pub dims: &'static [Option<usize>],
    /// The order of the elements.
    pub order: Adjacent,
    /// What the address of the first element must be a multiple of, in bytes.
    pub align: usize,
    /// Whether what does not fit may be copied.
    pub allow_copy: bool,
}

/// In which order elements must be adjacent.
///
/// ```
/// use dlbridge_pyo3::{Adjacent, COrder, Constraint};
///
/// assert_eq!(COrder::REQUIREMENT.order, Adjacent::C);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjacent {
    /// They need not be.
    Strided,
    /// The last index fastest.
    C,
    /// The first index fastest.
    Fortran,
    /// One of the two.
    Either,
}

impl Requirement {
    const NONE: Self = Self { dims: &[], order: Adjacent::Strided, align: 1, allow_copy: false };

    /// Both.
    const fn and(self, other: Self) -> Self {
        let dims = match (self.dims, other.dims) {
            ([], dims) | (dims, []) => dims,
            _ => panic!("the extents are given twice"),
        };
        let order = match (self.order, other.order) {
            (Adjacent::Strided, order) | (order, Adjacent::Strided) => order,
            _ => panic!("two orders are asked for"),
        };
        let align = if self.align > other.align { self.align } else { other.align };
        Self { dims, order, align, allow_copy: self.allow_copy || other.allow_copy }
    }
}

impl Constraint for () {
    const REQUIREMENT: Requirement = Requirement::NONE;
}

/// Elements that are adjacent in C order, the last index fastest: `as_slice` is always there.
///
/// ```no_run
/// use dlbridge_pyo3::{COrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f32, 2, COrder>) -> f32 {
///     x.slice().iter().sum()
/// }
/// ```
pub struct COrder;

impl Constraint for COrder {
    const REQUIREMENT: Requirement = Requirement { order: Adjacent::C, ..Requirement::NONE };
}

/// Elements that are adjacent in Fortran order, the first index fastest.
///
/// ```no_run
/// use dlbridge_pyo3::{FortranOrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn columns(x: PyReadonlyTensor<'_, f64, 2, FortranOrder>) -> i64 {
///     x.shape()[1]
/// }
/// ```
pub struct FortranOrder;

impl Constraint for FortranOrder {
    const REQUIREMENT: Requirement = Requirement { order: Adjacent::Fortran, ..Requirement::NONE };
}

/// Elements that are adjacent in C or in Fortran order.
///
/// ```no_run
/// use dlbridge_pyo3::{Contiguous, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// #[pyfunction]
/// fn elements(x: PyReadonlyTensor<'_, u8, 3, Contiguous>) -> usize {
///     x.len()
/// }
/// ```
pub struct Contiguous;

impl Constraint for Contiguous {
    const REQUIREMENT: Requirement = Requirement { order: Adjacent::Either, ..Requirement::NONE };
}

/// A first element at an address that is a multiple of `N` bytes, a power of two.
///
/// ```
/// use dlbridge_pyo3::{Aligned, Constraint};
///
/// assert_eq!(Aligned::<64>::REQUIREMENT.align, 64);
/// ```
pub struct Aligned<const N: usize>;

impl<const N: usize> Constraint for Aligned<N> {
    const REQUIREMENT: Requirement = {
        assert!(N.is_power_of_two() && N <= 256, "an alignment is a power of two, at most 256");
        Requirement { align: N, ..Requirement::NONE }
    };
}

/// What does not fit is converted, by a copy: order, alignment, byte order, memory of another device
/// that its producer can move to the CPU, and a dtype all of whose values the wanted one has. Only for
/// arguments that are read.
///
/// ```no_run
/// use dlbridge_pyo3::{AllowCopy, COrder, PyReadonlyTensor};
/// use pyo3::prelude::*;
///
/// /// Takes integers of 32 bits and transposed matrices too.
/// #[pyfunction]
/// fn total(x: PyReadonlyTensor<'_, f64, 2, (COrder, AllowCopy)>) -> f64 {
///     x.slice().iter().sum()
/// }
/// ```
pub struct AllowCopy;

impl Constraint for AllowCopy {
    const REQUIREMENT: Requirement = Requirement { allow_copy: true, ..Requirement::NONE };
}

/// Extents, some of them fixed: a tuple with [`Any`] or [`Is`] for each axis, up to six. The macro
/// [`dims!`](crate::dims) writes it.
///
/// ```
/// use dlbridge_pyo3::{Any, Constraint, Dims, Is};
///
/// assert_eq!(Dims::<(Any, Is<3>)>::REQUIREMENT.dims, [None, Some(3)]);
/// ```
pub struct Dims<T>(PhantomData<T>);

/// An extent that may be anything.
///
/// ```
/// use dlbridge_pyo3::{Any, Extent};
///
/// assert_eq!(Any::EXTENT, None);
/// ```
pub struct Any;

/// An extent that must be `N`.
///
/// ```
/// use dlbridge_pyo3::{Extent, Is};
///
/// assert_eq!(Is::<3>::EXTENT, Some(3));
/// ```
pub struct Is<const N: usize>;

/// The extent of an axis, as a type.
///
/// ```
/// use dlbridge_pyo3::{Extent, Is};
///
/// assert_eq!(<Is<4> as Extent>::EXTENT, Some(4));
/// ```
pub trait Extent: 'static {
    /// What it must be, if anything.
    ///
    /// ```
    /// use dlbridge_pyo3::{Any, Extent};
    ///
    /// assert!(Any::EXTENT.is_none());
    /// ```
    const EXTENT: Option<usize>;
}

impl Extent for Any {
    const EXTENT: Option<usize> = None;
}

impl<const N: usize> Extent for Is<N> {
    const EXTENT: Option<usize> = Some(N);
}

/// The type of extents, with `_` for those that may be anything.
///
/// ```
/// use dlbridge_pyo3::{Constraint, dims};
///
/// const CHANNELS: usize = 4;
/// assert_eq!(<dims!(_, 2, { CHANNELS })>::REQUIREMENT.dims, [None, Some(2), Some(4)]);
/// ```
#[macro_export]
macro_rules! dims {
    (@one _) => { $crate::Any };
    (@one $extent:tt) => { $crate::Is<$extent> };
    ($($extent:tt),+ $(,)?) => { $crate::Dims<($($crate::dims!(@one $extent),)+)> };
}

macro_rules! tuples {
    ($($name:ident),+) => {
        impl<$($name: Extent),+> Constraint for Dims<($($name,)+)> {
            const REQUIREMENT: Requirement =
                Requirement { dims: &[$($name::EXTENT),+], ..Requirement::NONE };
        }

        impl<$($name: Constraint),+> Constraint for ($($name,)+) {
            const REQUIREMENT: Requirement = Requirement::NONE$(.and($name::REQUIREMENT))+;
        }
    };
}

tuples!(A);
tuples!(A, B);
tuples!(A, B, C);
tuples!(A, B, C, D);
tuples!(A, B, C, D, E);
tuples!(A, B, C, D, E, F);

/// A constraint under which the elements are adjacent in C order.
///
/// ```
/// fn is_adjacent<C: dlbridge_pyo3::InCOrder>() {}
///
/// is_adjacent::<dlbridge_pyo3::COrder>();
/// ```
pub trait InCOrder: Constraint {}

impl InCOrder for COrder {}
impl<B: Constraint> InCOrder for (COrder, B) {}
impl<B: Constraint, C: Constraint> InCOrder for (COrder, B, C) {}
