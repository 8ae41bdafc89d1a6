//! Lists and tuples of numbers as arguments: `AllowSequence`.
//!
//! The rule follows NumPy: a list has the dtype that `numpy.asarray` gives it, and that dtype must convert to the
//! demanded one by the casting rule `same_kind`. So integers become floats, and floats do not become integers. A
//! Python integer does not have a size, so its value decides. NumPy's scalars and arrays keep a dtype that all of
//! them share; if their dtypes differ, they count as Python's numbers, so they may become a wider dtype than in
//! NumPy.

mod items;
mod number;
mod sink;
mod value;

use dlbridge::bits::{Bfloat16, Complex, Float16};
use dlbridge::{DataType, Element, Tensor};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use self::items::{Items, check_lengths, read, shape_of};
pub(super) use self::number::NumberKind;
use self::number::{Number, each_type, kind_of};
use self::sink::{Dtypes, Elements, Natural};
use super::accepts::Accepts;
use super::convert::accepts;
use super::fault::{Fault, Misfit, is_list};
use super::refusal::{Found, Refusal};
use super::spec::ArgumentSpec;
use crate::error::to_py_err;
use crate::import;

/// A tensor of one of the expected dtypes, from the numbers of a list, tuple or range; `None` for other objects.
pub(super) fn tensor_of<A: Accepts>(
    spec: &'static ArgumentSpec,
    object: &Bound<'_, PyAny>,
) -> Result<Option<Tensor>, Refusal> {
    let is_plain =
        object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
    // A subclass may export a tensor itself.
    if !is_plain && (!is_list(object) || import::has_protocol(object)?) {
        return Ok(None);
    }
    let Some(items) = Items::of(object)? else { return Ok(None) };
    let refusal = |misfit| {
        let object_type = object.get_type().unbind();
        Err(Refusal::new(spec, Found::Sequence { object_type, misfit }))
    };
    let shape = match shape_of(&items) {
        Ok(Some(shape)) if spec.fits_lengths(&shape) => Ok(shape),
        Ok(Some(shape)) => match check_lengths(&items, &shape) {
            Ok(()) => return refusal(Misfit::Shape(shape)),
            Err(fault) => Err(fault),
        },
        Ok(None) => return refusal(Misfit::TooDeep),
        Err(fault) => Err(fault),
    };
    let (dtype, made) = match (shape, spec.dtypes) {
        (Err(fault), _) => (natural_dtype(None, false), Err(fault)),
        (Ok(shape), [dtype]) => (*dtype, filled::<A>(*dtype, &items, &shape)),
        (Ok(shape), dtypes) => match natural(&items, &shape) {
            Ok(natural) => {
                let dtype = chosen(dtypes, &natural);
                let fits = kind_of(dtype) >= natural.kind();
                let made = filled::<A>(dtype, &items, &shape);
                (dtype, made.map_err(|fault| fault.in_second_pass(fits)))
            }
            Err(fault) => (natural_dtype(None, false), Err(fault)),
        },
    };
    match made {
        Ok(Some(tensor)) => Ok(Some(tensor)),
        Ok(None) => refusal(Misfit::NoElements(dtype)),
        Err(Fault::Raised(error)) => Err((*error).into()),
        Err(Fault::Item(item)) if item.is_change() => {
            Err(PyRuntimeError::new_err(item.words(object.py(), "")?).into())
        }
        Err(Fault::Item(item)) => refusal(Misfit::Item(dtype, item)),
    }
}

/// The kind that all numbers can be converted to, and whether some integers need 64 unsigned bits.
fn natural<'py>(items: &Items<'py>, shape: &[usize]) -> Result<Natural<'py>, Fault> {
    let mut natural = Natural::new();
    read(items, shape, &mut natural)?;
    Ok(natural)
}

/// The dtype that NumPy gives numbers of a kind.
fn natural_dtype(kind: Option<NumberKind>, large: bool) -> DataType {
    match kind {
        Some(NumberKind::Bool) => DataType::BOOL,
        Some(NumberKind::Integer) if large => DataType::UINT64,
        Some(NumberKind::Integer) => DataType::INT64,
        Some(NumberKind::Float) | None => DataType::FLOAT64,
        Some(NumberKind::Complex) => DataType::COMPLEX128,
    }
}

/// Chooses among several dtypes: NumPy's, or the first one of the nearest kind.
fn chosen(dtypes: &[DataType], natural: &Natural<'_>) -> DataType {
    if let Dtypes::One(dtype) = natural.dtypes
        && kind_of(dtype).is_some()
        && (dtypes.is_empty() || dtypes.contains(&dtype))
    {
        return dtype;
    }
    let kind = natural.kind();
    let natural = natural_dtype(kind, natural.is_large());
    if dtypes.is_empty() || dtypes.contains(&natural) {
        return natural;
    }
    // NumPy makes an empty list float64.
    let kind = Some(kind.unwrap_or(NumberKind::Float));
    let fits = |dtype: &DataType| kind_of(*dtype).filter(|of_dtype| Some(*of_dtype) >= kind);
    let nearest =
        dtypes.iter().filter(|dtype| fits(dtype).is_some()).min_by_key(|dtype| fits(dtype));
    // If this dtype does not fit, the error names an element.
    *nearest.unwrap_or(&dtypes[0])
}

/// A tensor of a dtype; `None` if lists cannot be converted to it.
fn filled<A: Accepts>(
    dtype: DataType,
    items: &Items<'_>,
    shape: &[usize],
) -> Result<Option<Tensor>, Fault> {
    macro_rules! fill {
        ($($type:ty),+) => {
            $(if const { accepts::<A>(<$type>::DTYPE) } && dtype == <$type>::DTYPE {
                return filled_with::<$type>(items, shape).map(Some);
            })+
        };
    }
    each_type!(fill);
    Ok(None)
}

fn filled_with<T: Number + Element>(items: &Items<'_>, shape: &[usize]) -> Result<Tensor, Fault> {
    let count = shape.iter().try_fold(1_usize, |count, &extent| count.checked_mul(extent));
    let Some(mut elements) = count.and_then(Elements::<T>::with_capacity) else {
        let text = format!("no memory for a tensor of shape {shape:?}");
        return Err(PyMemoryError::new_err(text).into());
    };
    read(items, shape, &mut elements)?;
    Ok(Tensor::from_parts(elements.into_vec(), shape).map_err(to_py_err)?)
}
