//! Lists that NumPy reads: a copy for NumPy, and the conversion of the array that NumPy makes.
//!
//! The copy holds only numbers and arrays. So NumPy never calls `__array__` of an item, which would hide masks and
//! nulls, and no Python code changes the list while NumPy reads it.

use dlbridge::bits::{Bfloat16, Float16};
use dlbridge::{DataType, DataTypeCode as Code, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::{PyBufferError, PyException, PyMemoryError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyString};

use super::{ARRAY, Items, Kind, Kinds, MAX_DEPTH, TENSOR, changed, count, extents, place};
use crate::argument::cast::{self, OutOfRange, Source, is_integer};
use crate::argument::spec::{ArgumentSpec, Casting};
use crate::borrow::{AttachedGuard, Bytes, Guard};
use crate::classes;
use crate::copies;
use crate::error::{ErrorClass, str_in_message, to_py_err, type_name, with_article};
use crate::import;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::numpy::api::NumpyApi;
use crate::numpy::array::{Described, NumpyArray};
use crate::protocol::{TypeInfo, type_info};

/// The rule for the dtype that NumPy gives a list.
const RULE: ArgumentSpec =
    ArgumentSpec { casting: Some(Casting::SameKind), check_integers: true, ..ArgumentSpec::ANY };

/// Why a list does not become a tensor.
pub(super) enum Stop {
    /// The words for the message, after the type of the list.
    Misfit(String),
    Raised(PyErr),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<OutOfRange> for Stop {
    fn from(item: OutOfRange) -> Self {
        Self::Misfit(format!(", but {item}"))
    }
}

/// A tensor of a list that NumPy reads.
#[inline(never)]
pub(super) fn read(spec: &ArgumentSpec, items: &Items<'_>) -> Result<Tensor, Stop> {
    let widest = match spec.dtypes {
        [] => (Kind::Complex, DataType::COMPLEX128),
        [first, ..] => {
            let kinds = spec.dtypes.iter().filter_map(|&dtype| Some((Kind::of(dtype)?, dtype)));
            let first_widest = kinds.reduce(|a, b| if b.0 > a.0 { b } else { a });
            let text = || format!(", and lists do not become tensors of {first}");
            first_widest.ok_or_else(|| Stop::Misfit(text()))?
        }
    };
    let mut snapshot = Snapshot::new(items, widest)?;
    snapshot.only_lengths = !spec.fits_extents(&snapshot.shape);
    let elements = snapshot.shape.iter().try_fold(1_usize, |n, &extent| {
        n.checked_mul(extent as usize).filter(|&n| n <= isize::MAX as usize / 16)
    });
    if elements.is_none() && !snapshot.only_lengths {
        let text = format!("no memory for a tensor of shape {:?}", snapshot.shape);
        return Err(PyMemoryError::new_err(text).into());
    }
    let list = snapshot.items(items)?;
    if snapshot.only_lengths {
        return Err(Stop::Misfit(format!(" of shape {:?}", snapshot.shape)));
    }
    if elements == Some(0) {
        let dtype = chosen(spec.dtypes, DataType::FLOAT64);
        return Ok(Tensor::zeroed(dtype, extents(&snapshot.shape)).map_err(to_py_err)?);
    }
    snapshot.tensor(&list, spec.dtypes)
}

/// A copy of nested lists in exact lists, for NumPy. Numbers are kept, and items that only a protocol can read become
/// arrays.
struct Snapshot<'py> {
    /// The extents along the first items, which all others must match.
    shape: Vec<i64>,
    /// True if the shape does not fit the argument. Then only the lengths of lists are checked.
    only_lengths: bool,
    /// The last kind that the argument accepts, and its dtype.
    widest: (Kind, DataType),
    /// The last kind of any number so far.
    kind: Kind,
    has_integers: bool,
    /// The indices of the item that is being read.
    index: Vec<usize>,
    kinds: Kinds<'py>,
    /// The borrows of the arrays, which NumPy reads later.
    reading: Vec<AttachedGuard<'py>>,
    unasked: usize,
}

impl<'py> Snapshot<'py> {
    /// Without the items, and with the shape of the first ones.
    fn new(items: &Items<'py>, widest: (Kind, DataType)) -> Result<Self, Stop> {
        let (shape, first) = items.lengths()?;
        let mut snapshot = Self {
            index: vec![0; shape.len()],
            shape,
            only_lengths: false,
            widest,
            kind: Kind::Bool,
            has_integers: false,
            kinds: Kinds::default(),
            reading: Vec::new(),
            unasked: 0,
        };
        if let Some(first) = first
            && snapshot.kinds.of(&first)?.is_none()
            && snapshot.shape.len() <= MAX_DEPTH
            && is_tensor(&first)?
        {
            match array_of(&first) {
                Some((_, found)) => snapshot.shape.extend(found.tensor.shape()),
                None => snapshot.shape.extend(snapshot.imported(&first)?.tensor.shape()),
            }
        }
        snapshot.index.clear();
        if snapshot.shape.len() > MAX_DEPTH {
            return Err(Stop::Misfit(format!(" that is nested more than {MAX_DEPTH} deep")));
        }
        Ok(snapshot)
    }

    /// An error about the item that is being read.
    fn misfit(&self, text: &str) -> Stop {
        Stop::Misfit(format!(", but {} {text}", place(&self.index)))
    }

    fn items(&mut self, items: &Items<'py>) -> Result<Bound<'py, PyAny>, Stop> {
        let (depth, found) = (self.index.len(), items.len());
        let extent = self.shape[depth] as usize;
        if found != extent {
            let first = "[0]".repeat(depth);
            // The first lists can only differ from their own earlier lengths.
            return Err(match self.index.iter().all(|&index| index == 0) {
                true => changed(&self.index).into(),
                false => self.misfit(&format!(
                    "has length {found}, but element {first} has length {extent}; give both the same length"
                )),
            });
        }
        let copy = PyList::empty(items.py());
        for index in 0..extent {
            let Some(item) = items.get(index) else { return Err(changed(&self.index).into()) };
            self.index.push(index);
            copy.append(self.item(&item)?)?;
            self.index.pop();
        }
        count(items.py(), 1 + extent, &mut self.unasked)?;
        if items.len() == extent { Ok(copy.into_any()) } else { Err(changed(&self.index).into()) }
    }

    /// What NumPy reads instead of an item.
    fn item(&mut self, item: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Stop> {
        let extent = self.shape.get(self.index.len()).copied();
        let number = self.kinds.of(item)?;
        let items = if number.is_none() { Items::of(item)? } else { None };
        if let (Some(items), Some(_)) = (&items, extent) {
            return self.items(items);
        }
        if self.only_lengths && (number.is_none() || extent.is_none()) {
            return Ok(item.clone());
        }
        if number.is_none() && items.is_none() && is_tensor(item)? {
            return self.tensor_item(item);
        }
        let found = || with_article(&type_name(item));
        Err(match (number, extent) {
            (Some(kind), None) => {
                self.add(kind, found)?;
                return Ok(item.clone());
            }
            (_, Some(extent)) => {
                self.misfit(&format!("is {} where a list of {extent} is expected", found()))
            }
            (None, None) if items.is_some() => {
                self.misfit(&format!("is {} where a number is expected", found()))
            }
            (None, None) => {
                self.misfit(&format!("is {}, which is not a number; convert it first", found()))
            }
        })
    }

    /// Counts a number of a kind.
    fn add(&mut self, kind: Kind, found: impl FnOnce() -> String) -> Result<(), Stop> {
        let (widest, dtype) = self.widest;
        if kind > widest {
            let text = format!("is {}, which {dtype} cannot hold; convert it first", found());
            return Err(self.misfit(&text));
        }
        self.kind = self.kind.max(kind);
        self.has_integers |= kind == Kind::Integer;
        Ok(())
    }

    /// The array of an item that is a tensor.
    #[cold]
    fn tensor_item(&mut self, item: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Stop> {
        let py = item.py();
        if let Some((info, found)) = array_of(item) {
            count(py, ARRAY, &mut self.unasked)?;
            self.add_tensor(&found.tensor)?;
            let bytes = Bytes::of(&found.tensor);
            let quick = match found.tensor.is_empty() {
                true => Some(Guard::NONE),
                false => Guard::of_array(&info.borrowed, item, &bytes, Mode::Read),
            };
            self.reading.push(match quick {
                Some(guard) => guard,
                None => Guard::acquire(&info.borrowed, item, &found.tensor, Mode::Read)?,
            });
            return Ok(item.clone());
        }
        count(py, TENSOR, &mut self.unasked)?;
        let mut owner = self.imported(item)?.tensor;
        let tensor = TensorRef::from(&owner);
        self.add_tensor(&tensor)?;
        let info = type_info::of(item)?;
        self.reading.push(Guard::acquire(&info.borrowed, item, &tensor, Mode::Read)?);
        if tensor.dtype() == DataType::BFLOAT16 {
            let source = Source { tensor, byte_swapped: false };
            owner = cast::converted(&source, DataType::FLOAT32)?;
        }
        match NumpyApi::required(py)?.array(py, owner)? {
            Ok(array) => Ok(array),
            Err(tensor) => Err(self.wrong_tensor(&(&tensor).into())),
        }
    }

    /// Checks and counts the elements of a tensor.
    fn add_tensor(&mut self, tensor: &TensorRef<'_>) -> Result<(), Stop> {
        let is_host = tensor.device().device_type().is_host_accessible();
        let fits = is_host && tensor.shape() == &self.shape[self.index.len()..];
        let Some(kind) = Kind::of(tensor.dtype()).filter(|_| fits) else {
            return Err(self.wrong_tensor(tensor));
        };
        let depth = self.index.len();
        // The message names the first element.
        self.index.resize(self.shape.len(), 0);
        self.add(kind, || with_article(&tensor.dtype().to_string()))?;
        self.index.truncate(depth);
        Ok(())
    }

    #[cold]
    fn wrong_tensor(&self, tensor: &TensorRef<'_>) -> Stop {
        let (dtype, shape, device) = (tensor.dtype(), tensor.shape(), tensor.device());
        let extents = &self.shape[self.index.len()..];
        self.misfit(&format!(
            "is a tensor {dtype}{shape:?} on {device} where numbers of shape {extents:?} on cpu are expected"
        ))
    }

    /// Imports an item. The producer's refusal names the item; other exceptions are raised.
    #[cold]
    fn imported(&self, item: &Bound<'py, PyAny>) -> Result<Imported, Stop> {
        let py = item.py();
        let type_info = type_info::of(item);
        let imported =
            type_info.and_then(|known| import::required(item, &known, &ImportOptions::default()));
        imported.map_err(|error| {
            let is_refusal = error.is_instance_of::<PyBufferError>(py)
                || error.is_instance_of::<PyTypeError>(py);
            // The import may copy. A signal or a borrow of the memory can stop the copy, which is not a fault of the
            // item.
            let is_other = copies::is_interrupt(py, &error) || ErrorClass::Borrowed.is(py, &error);
            if !is_refusal || is_other {
                return error.into();
            }
            let (found, reason) = (with_article(&type_name(item)), str_in_message(error.value(py)));
            self.misfit(&format!("is {found} that cannot be imported: {reason}"))
        })
    }

    /// The tensor of one of the dtypes that NumPy makes of the list.
    fn tensor(&self, list: &Bound<'py, PyAny>, dtypes: &[DataType]) -> Result<Tensor, Stop> {
        let py = list.py();
        let api = NumpyApi::required(py)?;
        let natural = match api.array_of_list(list, None) {
            // The numbers of ml_dtypes have no common dtype with all others.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => None,
            // SAFETY: NumPy has just made the array, which is dropped here.
            array => unsafe { NumpyArray::owned(&array?)? },
        };
        let of_kind = match self.kind {
            Kind::Bool | Kind::Integer => DataType::UINT64,
            Kind::Float => DataType::FLOAT64,
            Kind::Complex => DataType::COMPLEX128,
        };
        let natural_dtype = natural.as_ref().map_or(of_kind, Tensor::dtype);
        let dtype = chosen(dtypes, natural_dtype);
        // NumPy lacks an integer dtype for these integers, or has several; or DLPack lacks NumPy's dtype.
        let natural = natural.filter(|found| {
            is_integer(found.dtype()) || found.dtype() == DataType::BOOL || !is_integer(dtype)
        });
        if self.has_integers && (natural.is_none() || dtype == DataType::FLOAT16) {
            self.check_integers(list, dtype)?;
        }
        let made = match natural {
            Some(made) => made,
            None => {
                let dtype = match self.kind {
                    _ if is_integer(dtype) => dtype,
                    Kind::Complex => DataType::COMPLEX128,
                    _ => DataType::FLOAT64,
                };
                // SAFETY: NumPy has just made the array, which is dropped here.
                let made = unsafe { NumpyArray::owned(&api.array_of_list(list, Some(dtype))?)? };
                made.ok_or_else(|| changed(&self.index))?
            }
        };
        if made.shape() != self.shape {
            return Err(changed(&self.index).into());
        }
        if made.dtype() == dtype {
            return Ok(made);
        }
        let source = Source { tensor: TensorRef::from(&made), byte_swapped: false };
        let mut misfit = None;
        let converted = cast::by_rule(&source, &RULE, &[dtype], &mut misfit)?;
        match (converted, misfit) {
            (_, Some(misfit)) => Err(misfit.into()),
            (Some(tensor), None) => Ok(tensor),
            (None, None) => Err(changed(&self.index).into()),
        }
    }

    /// Refuses the list if a dtype cannot hold one of its integers: no element becomes infinite or wraps around.
    #[cold]
    fn check_integers(&self, list: &Bound<'py, PyAny>, dtype: DataType) -> Result<(), Stop> {
        let py = list.py();
        let array = py.import("numpy")?.getattr("asarray")?.call1((list, "O"))?;
        let numbers = array.call_method0("ravel")?.call_method0("tolist")?;
        for (nth, number) in numbers.try_iter()?.enumerate() {
            let number = number?;
            if number.is_instance_of::<PyFloat>() || !number.hasattr("__index__")? {
                continue;
            }
            if !fits(&number, dtype)? {
                // More digits do not help a reader, and Python refuses to write thousands of them.
                let text = match number.str() {
                    Err(error) if !error.is_instance_of::<PyException>(py) => {
                        return Err(error.into());
                    }
                    text => text.ok().map(|text| text.to_string()).filter(|text| text.len() <= 40),
                };
                let text = text.unwrap_or_else(|| "a larger number".to_owned());
                return Err(OutOfRange::new(&self.shape, nth, text, dtype.to_string()).into());
            }
        }
        Ok(())
    }
}

/// Returns true if a dtype has a value near an integer.
fn fits(number: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<bool> {
    let bits = u32::from(dtype.bits());
    let fits = match dtype.code() {
        Code::UINT => number.extract().map(|value: i128| value >> bits == 0),
        Code::INT => number.extract().map(|value: i128| matches!(value >> (bits - 1), 0 | -1)),
        _ => number.extract().map(|value: f64| match dtype {
            DataType::FLOAT16 => Float16::from_f64(value).to_f32().is_finite(),
            DataType::BFLOAT16 => Bfloat16::from_f64(value).to_f32().is_finite(),
            DataType::FLOAT32 | DataType::COMPLEX64 => (value as f32).is_finite(),
            _ => true,
        }),
    };
    match fits {
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => Ok(false),
        fits => fits,
    }
}

/// Chooses among several dtypes: NumPy's, or the first one of the nearest kind.
fn chosen(dtypes: &[DataType], natural: DataType) -> DataType {
    if dtypes.is_empty() || dtypes.contains(&natural) {
        return natural;
    }
    let fits = |dtype: DataType| Kind::of(dtype).filter(|kind| Some(*kind) >= Kind::of(natural));
    let nearest = dtypes.iter().filter(|dtype| fits(**dtype).is_some());
    // If this dtype does not fit, the error names an element.
    *nearest.min_by_key(|dtype| fits(**dtype)).unwrap_or(&dtypes[0])
}

/// An array of NumPy that is read in place.
fn array_of<'a>(item: &'a Bound<'_, PyAny>) -> Option<(&'static TypeInfo, Described<'a>)> {
    let info = type_info::array_of(item)?;
    Some((info, info.head?.describe(item)?))
}

/// Returns true for an item that is not a number or a list, and that can be imported. `bytes` are not numbers.
#[cold]
fn is_tensor(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    if type_info::array_of(item).is_some() {
        return Ok(true);
    }
    Ok(!classes::is_plain_python(item)
        && !item.is_instance_of::<PyBytes>()
        && !item.is_instance_of::<PyString>()
        && !classes::is_instance(item, "numpy", "generic")?
        && import::has_protocol(item)?)
}
