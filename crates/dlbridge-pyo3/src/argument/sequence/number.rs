//! Python's numbers as elements: the dtypes that a number can become, and its value there.

use dlbridge::bits::{Bfloat16, Complex, Float16};
use dlbridge::{DataType, DataTypeCode, Element};
use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyType};

use super::super::fault::Fault;
use super::value::{self, Read, Value};
use crate::classes;
use crate::numpy::scalar::NumpyScalar;
use crate::protocol::type_info;

/// The kinds of numbers, in NumPy's order: a number may become an element of its own kind or of a later kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::argument) enum NumberKind {
    Bool,
    Integer,
    Float,
    Complex,
}

/// An element type that Python's numbers can become. The methods are inline, so only extensions that call one compile
/// it.
pub(super) trait Number: Copy + Send + 'static {
    /// The last kind of numbers that this type accepts.
    const KIND: NumberKind;

    fn from_bool(value: bool) -> Self;

    /// `None` if the number is out of range. Called if this type accepts integers.
    fn from_i64(value: i64) -> Option<Self>;

    /// As `from_i64`, for integers of any size.
    fn from_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>>;

    /// Called if this type accepts floats.
    fn from_float(value: f64) -> Self;

    /// Called if this type accepts complex numbers.
    fn from_complex(re: f64, im: f64) -> Self;
}

/// The kind and the dtype of a number.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) kind: NumberKind,
    /// The dtype of NumPy's scalars; `None` for Python's numbers and for NumPy's scalars that derive from them.
    pub(super) dtype: Option<DataType>,
}

impl From<NumberKind> for Known {
    #[inline(always)]
    fn from(kind: NumberKind) -> Self {
        Self { kind, dtype: None }
    }
}

/// Cached facts about the type of the last number that is neither `float` nor `int`: most lists have one type.
#[derive(Default)]
pub(super) struct Kinds<'py> {
    last: Option<(Bound<'py, PyType>, Known, Option<Scalar>)>,
}

impl<'py> Kinds<'py> {
    /// The kind of a number; `None` for objects that are not numbers of Python or NumPy.
    pub(super) fn of(&mut self, item: &Bound<'py, PyAny>) -> PyResult<Option<Known>> {
        if item.is_exact_instance_of::<PyFloat>() {
            return Ok(Some(NumberKind::Float.into()));
        }
        if item.is_exact_instance_of::<PyInt>() {
            return Ok(Some(NumberKind::Integer.into()));
        }
        if let Some((last, known, _)) = &self.last
            && item.get_type_ptr() == last.as_type_ptr()
        {
            return Ok(Some(*known));
        }
        let known = known(item)?;
        self.last = known.map(|(known, scalar)| (item.get_type(), known, scalar));
        Ok(known.map(|(known, _)| known))
    }

    /// The value of a NumPy scalar of the cached type; `None` for other numbers, and for those that only Python's
    /// methods can read.
    #[inline]
    pub(super) fn value(&self, item: &Bound<'py, PyAny>) -> Option<Value> {
        let (_, _, scalar) = self.last.as_ref()?;
        scalar.as_ref()?.value(item)
    }
}

/// Reads the scalars of one type.
#[derive(Clone, Copy)]
struct Scalar {
    object_type: NumpyScalar,
    read: Read,
}

impl Scalar {
    /// `None` for types whose scalars only Python's methods can read.
    fn of(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(object_type) = NumpyScalar::of(item)? else { return Ok(None) };
        Ok(value::reader(object_type.dtype()).map(|read| Self { object_type, read }))
    }

    /// The number; `None` for one of another type, or one that needs more than 64 signed bits.
    #[inline]
    fn value(&self, item: &Bound<'_, PyAny>) -> Option<Value> {
        (self.read)(self.object_type.bytes(item)?)
    }
}

/// The kind of a number, and how to read numbers of its type without a Python call; `None` for objects that are not
/// numbers.
#[cold]
fn known(item: &Bound<'_, PyAny>) -> PyResult<Option<(Known, Option<Scalar>)>> {
    if item.is_instance_of::<PyBool>() {
        return Ok(Some((NumberKind::Bool.into(), None)));
    }
    if item.is_instance_of::<PyInt>() {
        return Ok(Some((NumberKind::Integer.into(), None)));
    }
    if type_info::array_of(item).is_some() {
        return Ok(None);
    }
    let scalar = Scalar::of(item)?;
    if item.is_instance_of::<PyFloat>() {
        return Ok(Some((NumberKind::Float.into(), scalar)));
    }
    if item.is_instance_of::<PyComplex>() {
        return Ok(Some((NumberKind::Complex.into(), scalar)));
    }
    if let Some(scalar) = scalar
        && let dtype = scalar.object_type.dtype()
        && let Some(kind) = kind_of(dtype)
    {
        return Ok(Some((Known { kind, dtype: Some(dtype) }, Some(scalar))));
    }
    Ok(known_by_name(item)?.map(|known| (known, None)))
}

/// The kind of a NumPy scalar, or of a subclass's instance, by the name of its dtype.
fn known_by_name(item: &Bound<'_, PyAny>) -> PyResult<Option<Known>> {
    let py = item.py();
    if !classes::is_instance(item, intern!(py, "numpy"), intern!(py, "generic"))? {
        return Ok(None);
    }
    let dtype = item.getattr(intern!(py, "dtype"))?;
    let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
    let bytes: u8 = dtype.getattr(intern!(py, "itemsize"))?.extract().unwrap_or(u8::MAX);
    // No DLPack dtype has the 256 bits of `numpy.clongdouble`.
    let of = |kind, code| {
        let dtype = bytes.checked_mul(8).map(|bits| DataType::new(code, bits, 1));
        Some(Known { kind, dtype })
    };
    Ok(match kind {
        'b' => of(NumberKind::Bool, DataTypeCode::BOOL),
        'i' => of(NumberKind::Integer, DataTypeCode::INT),
        'u' => of(NumberKind::Integer, DataTypeCode::UINT),
        'f' => of(NumberKind::Float, DataTypeCode::FLOAT),
        'c' => of(NumberKind::Complex, DataTypeCode::COMPLEX),
        // The numbers of ml_dtypes have this kind, and so do structures, which are not numbers.
        'V' if classes::package_of(item.get_type().as_any())? == "ml_dtypes" => {
            let is_bfloat16 = dtype.getattr(intern!(py, "name"))?.eq("bfloat16")?;
            let dtype = is_bfloat16.then_some(DataType::BFLOAT16);
            Some(Known { kind: NumberKind::Float, dtype })
        }
        _ => None,
    })
}

/// Converts an item of a list to an element.
#[inline(always)]
pub(super) fn element<'py, T: Number>(
    item: &Bound<'py, PyAny>,
    kinds: &mut Kinds<'py>,
) -> Result<T, Fault> {
    // Almost all lists hold `float` or `int`. A failed cast makes an error, which takes longer than this comparison.
    if T::KIND >= NumberKind::Float
        && item.is_exact_instance_of::<PyFloat>()
        && let Ok(float) = item.cast_exact::<PyFloat>()
    {
        return Ok(T::from_float(float.value()));
    }
    if T::KIND >= NumberKind::Integer
        && item.is_exact_instance_of::<PyInt>()
        && let Ok(integer) = item.cast_exact::<PyInt>()
        && let Some(value) = small(integer)
    {
        return T::from_i64(value).ok_or_else(|| Fault::out_of_range(item));
    }
    other_element(item, kinds)
}

/// The value of an integer that fits 64 bits. PyO3's conversion also returns exceptions, and takes a third longer.
#[inline(always)]
fn small(integer: &Bound<'_, PyInt>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the thread is attached, and the object is an `int`, so this call cannot fail and does not run Python
    // code.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(integer.as_ptr(), &mut overflow) };
    (overflow == 0).then_some(value)
}

#[inline(never)]
fn other_element<'py, T: Number>(
    item: &Bound<'py, PyAny>,
    kinds: &mut Kinds<'py>,
) -> Result<T, Fault> {
    // Most lists hold scalars of one type, which the first item has shown.
    if let Some((_, known, Some(scalar))) = &kinds.last
        && known.kind <= T::KIND
        && let Some(element) = scalar.value(item).and_then(element_of)
    {
        return Ok(element);
    }
    let Some(Known { kind, .. }) = kinds.of(item)? else { return Err(Fault::not_a_number(item)) };
    if kind > T::KIND {
        return Err(Fault::wrong_kind(item));
    }
    if let Some(value) = kinds.value(item) {
        return element_of(value).ok_or_else(|| Fault::out_of_range(item));
    }
    match kind {
        NumberKind::Bool => Ok(T::from_bool(item.is_truthy()?)),
        NumberKind::Integer => T::from_integer(item)?.ok_or_else(|| Fault::out_of_range(item)),
        NumberKind::Float => Ok(T::from_float(item.extract()?)),
        NumberKind::Complex => {
            let number = match item.cast::<PyComplex>() {
                Ok(number) => number.clone(),
                Err(_) => {
                    let number = item.py().get_type::<PyComplex>().call1((item,))?;
                    number.cast_into().map_err(PyErr::from)?
                }
            };
            Ok(T::from_complex(number.real(), number.imag()))
        }
    }
}

/// Converts a number whose kind the type accepts; `None` if it is out of range.
#[inline]
pub(super) fn element_of<T: Number>(value: Value) -> Option<T> {
    match value {
        Value::Bool(value) => Some(T::from_bool(value)),
        Value::Integer(value) => T::from_i64(value),
        Value::Float(value) => Some(T::from_float(value)),
        Value::Complex(re, im) => Some(T::from_complex(re, im)),
    }
}

/// Converts an integer to a Rust type; `None` if it is out of range.
fn integer<'py, T: for<'a> FromPyObject<'a, 'py, Error = PyErr>>(
    item: &Bound<'py, PyAny>,
) -> PyResult<Option<T>> {
    match item.extract() {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_instance_of::<PyOverflowError>(item.py()) => {
            if !item.is_instance_of::<PyInt>() {
                // Raises an error of the object's own `__index__`.
                item.call_method0(intern!(item.py(), "__index__"))?;
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The nearest float to an integer; `None` if that is infinite.
fn integer_as_float<F>(
    item: &Bound<'_, PyAny>,
    from_i64: impl Fn(i64) -> F,
    from_u64: impl Fn(u64) -> F,
    from_f64: impl Fn(f64) -> F,
    is_finite: impl Fn(&F) -> bool,
) -> PyResult<Option<F>> {
    let nearest = if let Some(value) = integer(item)? {
        Some(from_i64(value))
    } else if let Some(value) = integer(item)? {
        Some(from_u64(value))
    } else {
        integer(item)?.map(from_f64)
    };
    Ok(nearest.filter(is_finite))
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Number for $type {
            const KIND: NumberKind = NumberKind::Integer;

            #[inline]
            fn from_bool(value: bool) -> Self {
                Self::from(value)
            }

            #[inline]
            fn from_i64(value: i64) -> Option<Self> {
                Self::try_from(value).ok()
            }

            #[inline]
            fn from_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
                integer(item)
            }

            fn from_float(value: f64) -> Self {
                value as Self
            }

            #[inline]
            fn from_complex(re: f64, _: f64) -> Self {
                re as Self
            }
        }
    )+};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

impl Number for bool {
    const KIND: NumberKind = NumberKind::Bool;

    fn from_bool(value: bool) -> Self {
        value
    }

    fn from_i64(value: i64) -> Option<Self> {
        Some(value != 0)
    }

    #[inline]
    fn from_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        item.is_truthy().map(Some)
    }

    fn from_float(value: f64) -> Self {
        value != 0.0
    }

    fn from_complex(re: f64, im: f64) -> Self {
        re != 0.0 || im != 0.0
    }
}

macro_rules! floats {
    // The conversion of a float, and of an integer of any type, to an element, and of an element to a float.
    ($($type:ty, $value:ident => $from:expr, $integer:ident => $from_integer:expr, $to_float:expr;)+) => {$(
        impl Number for $type {
            const KIND: NumberKind = NumberKind::Float;

            #[inline]
            fn from_bool(value: bool) -> Self {
                Self::from_float(f64::from(u8::from(value)))
            }

            #[inline]
            fn from_i64($integer: i64) -> Option<Self> {
                Some($from_integer).filter(|&value| $to_float(value).is_finite())
            }

            #[inline]
            fn from_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
                let from_u64 = |$integer: u64| $from_integer;
                let is_finite = |&value: &Self| $to_float(value).is_finite();
                integer_as_float(item, |$integer| $from_integer, from_u64, Self::from_float, is_finite)
            }

            #[inline]
            fn from_float($value: f64) -> Self {
                $from
            }

            #[inline]
            fn from_complex(re: f64, _: f64) -> Self {
                Self::from_float(re)
            }
        }
    )+};
}

floats! {
    f64, value => value, integer => integer as f64, |value| value;
    // A conversion through f64 would round twice.
    f32, value => value as f32, integer => integer as f32, |value| value;
    Float16, value => Self::from_f64(value), integer => Self::from_f64(integer as f64), Self::to_f32;
    Bfloat16, value => Self::from_f64(value), integer => Self::from_f64(integer as f64), Self::to_f32;
}

macro_rules! complex {
    ($($type:ty),+) => {$(
        impl Number for Complex<$type> {
            const KIND: NumberKind = NumberKind::Complex;

            #[inline]
            fn from_bool(value: bool) -> Self {
                Self::from_float(f64::from(u8::from(value)))
            }

            #[inline]
            fn from_i64(value: i64) -> Option<Self> {
                Some(Self { re: value as $type, im: 0.0 })
            }

            #[inline]
            fn from_integer(item: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
                let from_i64 = |value: i64| Self { re: value as $type, im: 0.0 };
                let from_u64 = |value: u64| Self { re: value as $type, im: 0.0 };
                integer_as_float(item, from_i64, from_u64, Self::from_float, |value| value.re.is_finite())
            }

            fn from_float(value: f64) -> Self {
                Self::from_complex(value, 0.0)
            }

            #[inline]
            fn from_complex(re: f64, im: f64) -> Self {
                Self { re: re as $type, im: im as $type }
            }
        }
    )+};
}

complex!(f32, f64);

/// Calls a macro with all element types that lists can become.
macro_rules! each_type {
    ($call:ident) => {
        $call! {
            f64, f32, i64, i32, u8, bool, i8, i16, u16, u32, u64, Float16, Bfloat16, Complex<f32>, Complex<f64>
        }
    };
}

pub(super) use each_type;

/// The kind of the elements of a dtype; `None` for dtypes that lists cannot become.
pub(super) fn kind_of(dtype: DataType) -> Option<NumberKind> {
    macro_rules! kinds {
        ($($type:ty),+) => {
            $(if dtype == <$type>::DTYPE {
                return Some(<$type as Number>::KIND);
            })+
        };
    }
    each_type!(kinds);
    None
}
