//! The loop for lists of real numbers of Python and NumPy. A test compares it with NumPy.

use dlbridge::{DataType, Element, Tensor};
use dlbridge_borrow::Mode;
use pyo3::ffi;
use pyo3::prelude::*;

use super::{ARRAY, Items, Kind, Kinds, changed, count, extents};
use crate::argument::accepts::Accepts;
use crate::argument::spec::ArgumentSpec;
use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::protocol::type_info;

/// An element that Python's numbers become. A number for which NumPy would round twice, warn or raise is left to it.
trait Number: Element + Copy {
    fn of_float(value: f64) -> Option<Self>;
    fn of_integer(value: i64) -> Option<Self>;
}

macro_rules! numbers {
    ($($float:ty)+; $($integer:ty)+) => {
        $(impl Number for $float {
            fn of_float(value: f64) -> Option<Self> {
                Some(value as Self).filter(|element| element.is_finite() || !value.is_finite())
            }

            fn of_integer(value: i64) -> Option<Self> {
                (value.unsigned_abs() <= 1 << 53).then_some(value as Self)
            }
        })+
        $(impl Number for $integer {
            fn of_float(_: f64) -> Option<Self> {
                None
            }

            fn of_integer(value: i64) -> Option<Self> {
                value.try_into().ok()
            }
        })+

        /// A tensor of nested lists of floats and integers; `None` for all other lists, and for arguments of several
        /// dtypes.
        pub(super) fn read<A: Accepts>(
            spec: &ArgumentSpec,
            items: &Items<'_>,
        ) -> PyResult<Option<Tensor>> {
            $(if const { is_only::<A>(<$float>::DATA_TYPE) } {
                return read_as::<$float>(spec, items);
            })+
            $(if const { is_only::<A>(<$integer>::DATA_TYPE) } {
                return read_as::<$integer>(spec, items);
            })+
            Ok(None)
        }
    };
}

numbers! { f64 f32; i64 i32 i16 i8 u64 u32 u16 u8 }

/// Returns true if an argument accepts only this dtype.
const fn is_only<A: Accepts>(dtype: DataType) -> bool {
    let [only] = A::DTYPES else { return false };
    only.bits() == dtype.bits() && only.code().code() == dtype.code().code() && only.lanes() == 1
}

fn read_as<T: Number>(spec: &ArgumentSpec, items: &Items<'_>) -> PyResult<Option<Tensor>> {
    let (shape, _) = items.lengths()?;
    let room = shape.iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent as usize));
    let mut numbers: Numbers<'_, T> =
        Numbers { elements: Vec::new(), kinds: Kinds::default(), unasked: 0 };
    if !spec.fits_extents(&shape)
        || room.is_none_or(|room| numbers.elements.try_reserve_exact(room).is_err())
        || !numbers.append(items, &shape)?
    {
        return Ok(None);
    }
    Tensor::from_parts(numbers.elements, extents(&shape)).map(Some).map_err(to_py_err)
}

struct Numbers<'py, T> {
    elements: Vec<T>,
    kinds: Kinds<'py>,
    unasked: usize,
}

impl<'py, T: Number> Numbers<'py, T> {
    /// Appends the numbers of nested lists; false for another shape, and for other items.
    fn append(&mut self, items: &Items<'py>, shape: &[i64]) -> PyResult<bool> {
        let Some((&extent, inner)) = shape.split_first() else { return Ok(false) };
        if items.len() as i64 != extent {
            return Ok(false);
        }
        for index in 0..extent as usize {
            let Some(item) = items.get(index) else { return Err(changed(&[])) };
            if inner.is_empty() {
                let Some(element) = self.element(&item)? else { return Ok(false) };
                self.elements.push(element);
            } else if let Some(items) = Items::of(&item)? {
                if !self.append(&items, inner)? {
                    return Ok(false);
                }
            } else {
                return Ok(false);
            }
        }
        count(items.py(), 1 + extent as usize, &mut self.unasked)?;
        if items.len() as i64 == extent { Ok(true) } else { Err(changed(&[])) }
    }

    #[inline(always)]
    fn element(&mut self, item: &Bound<'py, PyAny>) -> PyResult<Option<T>> {
        Ok(match self.kinds.of(item)? {
            Some(Kind::Float) => T::of_float(item.extract()?),
            Some(Kind::Integer) => {
                let mut overflow = 0;
                // SAFETY: attached, and any object: the call converts those that are not an `int`.
                let value =
                    unsafe { ffi::PyLong_AsLongLongAndOverflow(item.as_ptr(), &mut overflow) };
                if value == -1
                    && let Some(error) = PyErr::take(item.py())
                {
                    return Err(error);
                }
                if overflow == 0 { T::of_integer(value) } else { None }
            }
            Some(_) => None,
            None => {
                count(item.py(), ARRAY, &mut self.unasked)?;
                element_of_array(item)?.and_then(T::of_float)
            }
        })
    }
}

/// The element of an array of float64 without dimensions; `None` for other objects.
fn element_of_array(item: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if let Some(info) = type_info::array_of(item)
        && let Some(run) = info.head.and_then(|head| head.run(item, Some(0), &[DataType::FLOAT64]))
        && let Some(_reading) =
            Guard::of_run(&info.borrowed, item, run.address(), run.bytes(), Mode::Read)
    {
        return item.extract().map(Some);
    }
    Ok(None)
}
