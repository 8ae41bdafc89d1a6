//! Lists and tuples of numbers as arguments: `AllowSequence`.
//!
//! A loop reads nested lists of Python's floats and integers, which NumPy reads several times more slowly. NumPy reads
//! all other lists, from a copy that holds only numbers and arrays: so NumPy never calls `__array__` of an item, which
//! would hide masks and nulls, and no Python code changes the list meanwhile.
//!
//! The rule is NumPy's: a list has the dtype that `numpy.asarray` gives it, and that dtype must convert to the
//! demanded one by the casting rule `same_kind`. A Python integer does not have a size, so its value decides.

use dlbridge::{DataType, Element, Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyRange, PyString, PyTuple, PyType,
};

use super::cast::{self, is_converted, is_integer, kind};
use super::refusal::Refusal;
use super::spec::ArgumentSpec;
use crate::borrow::Guard;
use crate::import;
use crate::import_options::ImportOptions;
use crate::numpy::api::NumpyApi;
use crate::numpy::array::NumpyArray;
use crate::protocol::type_info;
use crate::python::copies;
use crate::python::error::{ErrorClass, str_in_message, to_py_err, type_name, with_article};
use crate::python::objects;

/// The deepest nesting of lists, as in NumPy: deeper lists could overflow a thread's stack.
const MAX_DEPTH: usize = 64;

/// A tensor of one of the expected dtypes, from the numbers of a list, tuple or range; `None` for other objects.
pub(super) fn tensor_of(
    spec: &'static ArgumentSpec,
    object: &Bound<'_, PyAny>,
) -> Result<Option<Tensor>, Refusal> {
    let Some(items) = items_of(object)? else { return Ok(None) };
    // A subclass may export a tensor itself.
    let is_range = object.is_exact_instance_of::<PyRange>();
    if !is_range && !objects::is_plain_python(object) && import::has_protocol(object)? {
        return Ok(None);
    }
    // The lengths of the first lists, which all others must have.
    let (mut shape, mut first) = (vec![items.len() as i64], items.get_item(0).ok());
    while shape.len() < MAX_DEPTH
        && let Some(item) = &first
        && let Some(items) = items_of(item)?
    {
        shape.push(items.len() as i64);
        first = items.get_item(0).ok();
    }
    // Dropped after the borrows of its arrays.
    let list;
    let mut reader = Reader {
        spec,
        object,
        shape: shape.clone(),
        index: Vec::new(),
        last: None,
        kind: 0,
        has_integers: false,
        reading: Vec::new(),
        counted: 0,
    };
    let fits = spec.fits_extents(&shape);
    // A first item that is an array adds dimensions.
    if !fits
        && first.is_none_or(|it| it.is_instance_of::<PyFloat>() || it.is_instance_of::<PyInt>())
    {
        return Err(reader.refusal(&format!(" of shape {shape:?}")));
    }
    let room = shape.iter().fold(1_usize, |n, &extent| n.saturating_mul(extent as usize));
    if fits && let Some(tensor) = plain(spec.dtypes, &items, &shape, room)? {
        return Ok(Some(tensor));
    }
    // A list that contains a list many times has more numbers than objects, and its copy a list for each occurrence.
    // 128 bytes hold such a list of one number.
    if Vec::<[u128; 8]>::new().try_reserve_exact(room).is_err() {
        let text = format!("no memory for a tensor of shape {shape:?}");
        return Err(PyMemoryError::new_err(text).into());
    }
    list = reader.copy(&items)?;
    reader.tensor(&list).map(Some)
}

/// The items that a list, a tuple or a range has now; `None` for other objects. An instance of a subclass is read as
/// its base class.
#[inline]
fn items_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    // A failed cast takes longer than these comparisons.
    Ok(if object.is_instance_of::<PyList>() {
        Some(object.cast::<PyList>()?.to_tuple())
    } else if object.is_instance_of::<PyTuple>() {
        Some(object.cast::<PyTuple>()?.clone())
    } else if object.is_exact_instance_of::<PyRange>() {
        Some(object.py().get_type::<PyTuple>().call1((object,))?.cast_into()?)
    } else {
        None
    })
}

/// Counts an item, and checks for signals now and then.
#[inline(always)]
fn count(py: Python<'_>, counted: &mut u16) -> PyResult<()> {
    *counted = counted.wrapping_add(1);
    if *counted == 0 { py.check_signals() } else { Ok(()) }
}

/// A tensor of nested lists of floats and integers; `None` for all other lists, for numbers that NumPy would round
/// twice, warn of or refuse, and for arguments of several dtypes. A test compares it with NumPy.
fn plain(
    dtypes: &[DataType],
    items: &Bound<'_, PyTuple>,
    shape: &[i64],
    room: usize,
) -> PyResult<Option<Tensor>> {
    macro_rules! plain {
        ($($float:ty)+; $($integer:ty)+) => {
            match *dtypes {
                $([<$float>::DATA_TYPE] => plain_of(items, shape, room, &|item| {
                    let fits = |value: &f64| (*value as $float).is_finite() || !value.is_finite();
                    Ok(float_of(item)?.filter(fits).map(|value| value as $float))
                }),)+
                $([<$integer>::DATA_TYPE] => plain_of(items, shape, room, &|item| {
                    Ok(item.cast::<PyInt>().ok().and_then(|it| it.extract::<$integer>().ok()))
                }),)+
                _ => Ok(None),
            }
        };
    }
    plain!(f64 f32; i64 i32 i16 i8 u64 u32 u16 u8)
}

/// A float, an integer that a float holds exactly, or the element of an array of float64 without dimensions.
#[inline(always)]
fn float_of(item: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    if item.is_instance_of::<PyFloat>() {
        return item.extract().map(Some);
    }
    if item.is_instance_of::<PyInt>() {
        let value = item.extract().ok().filter(|value: &i64| value.unsigned_abs() <= 1 << 53);
        return Ok(value.map(|value| value as f64));
    }
    element_of_array(item)
}

#[inline(never)]
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

fn plain_of<T: Element>(
    items: &Bound<'_, PyTuple>,
    shape: &[i64],
    room: usize,
    element_of: &impl Fn(&Bound<'_, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Option<Tensor>> {
    let mut elements = Vec::new();
    if elements.try_reserve_exact(room).is_err() {
        return Ok(None);
    }
    let mut add =
        |item: &Bound<'_, PyAny>| Ok(element_of(item)?.map(|it| elements.push(it)).is_some());
    if !each(items, shape, &mut add, &mut 0)? {
        return Ok(None);
    }
    let extents: Vec<_> = shape.iter().map(|&extent| extent as usize).collect();
    Tensor::from_parts(elements, extents).map(Some).map_err(to_py_err)
}

/// Calls `add` with the numbers of nested lists; false for another shape, and if `add` returns false for other items.
fn each(
    items: &Bound<'_, PyTuple>,
    shape: &[i64],
    add: &mut dyn FnMut(&Bound<'_, PyAny>) -> PyResult<bool>,
    counted: &mut u16,
) -> PyResult<bool> {
    let Some((&extent, inner)) = shape.split_first() else { return Ok(false) };
    if items.len() as i64 != extent {
        return Ok(false);
    }
    for item in items.iter_borrowed() {
        count(item.py(), counted)?;
        if inner.is_empty() {
            if !add(&item)? {
                return Ok(false);
            }
        } else if let Some(items) = items_of(&item)? {
            if !each(&items, inner, add, counted)? {
                return Ok(false);
            }
        } else {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The kinds of numbers, in NumPy's order: a number may become an element of its own kind or of a later one. An integer
/// fits each integer type that has its value.
const KINDS: [DataType; 4] =
    [DataType::BOOL, DataType::UINT64, DataType::FLOAT64, DataType::COMPLEX128];

/// A list that NumPy reads.
struct Reader<'a, 'py> {
    spec: &'static ArgumentSpec,
    object: &'a Bound<'py, PyAny>,
    /// The extents along the first items, which all others must have: the copy is then no larger than the tensor.
    shape: Vec<i64>,
    /// The indices of the item that is being read.
    index: Vec<usize>,
    /// The last type of an item, and the kind of its numbers.
    last: Option<(Bound<'py, PyType>, Option<usize>)>,
    /// The last kind of any number so far.
    kind: usize,
    has_integers: bool,
    /// The borrows of the arrays, which NumPy reads later.
    reading: Vec<Guard>,
    counted: u16,
}

impl<'py> Reader<'_, 'py> {
    /// The refusal of the list. The words follow its type.
    #[cold]
    fn refusal(&self, words: &str) -> Refusal {
        let found = with_article(&type_name(self.object)) + words;
        Refusal::Other(Box::new((self.spec, found)))
    }

    /// The refusal of the item that is being read.
    #[cold]
    fn misfit(&self, found: &str) -> Refusal {
        let place: String = self.index.iter().map(|index| format!("[{index}]")).collect();
        self.refusal(&format!(", but element {place} is {found}"))
    }

    /// A copy of nested lists in exact lists. Numbers are kept, and items that only a protocol can read become arrays.
    fn copy(&mut self, items: &Bound<'py, PyTuple>) -> Result<Bound<'py, PyAny>, Refusal> {
        let depth = self.index.len();
        match self.shape.get(depth) {
            Some(&extent) if extent == items.len() as i64 => {}
            Some(extent) => {
                let (found, first) = (items.len(), "[0]".repeat(depth));
                return Err(self.misfit(&format!(
                    "of length {found}, and element {first} of length {extent}; give both the same length"
                )));
            }
            None if depth == MAX_DEPTH => {
                return Err(self.refusal(&format!(" that is nested more than {MAX_DEPTH} deep")));
            }
            None => return Err(self.misfit("a list where a number is expected")),
        }
        let copy = PyList::empty(items.py());
        for (index, item) in items.iter().enumerate() {
            count(item.py(), &mut self.counted)?;
            self.index.push(index);
            if let Some(kind) = self.kind_of(&item)? {
                self.add(KINDS[kind], || with_article(&type_name(&item)))?;
                copy.append(item)?;
            } else if let Some(items) = items_of(&item)? {
                copy.append(self.copy(&items)?)?;
            } else {
                copy.append(self.array(&item)?)?;
            }
            self.index.pop();
        }
        Ok(copy.into_any())
    }

    /// The kind of a number; `None` for objects that are not numbers of Python or NumPy.
    fn kind_of(&mut self, item: &Bound<'py, PyAny>) -> PyResult<Option<usize>> {
        if let Some((last, kind)) = &self.last
            && item.get_type_ptr() == last.as_type_ptr()
        {
            return Ok(*kind);
        }
        let is_of_python = [
            item.is_instance_of::<PyBool>(),
            item.is_instance_of::<PyInt>(),
            item.is_instance_of::<PyFloat>(),
            item.is_instance_of::<PyComplex>(),
        ];
        let mut kind = is_of_python.iter().position(|&is| is);
        if kind.is_none() && objects::is_instance(item, "numpy", "generic")? {
            kind = match item.getattr("dtype")?.getattr("kind")?.extract()? {
                'b' => Some(0),
                'i' | 'u' => Some(1),
                'f' => Some(2),
                'c' => Some(3),
                // The numbers of ml_dtypes have this kind, and so do structures, which are not numbers.
                'V' if objects::package_of(&item.get_type())? == "ml_dtypes" => Some(2),
                _ => None,
            };
        }
        self.last = Some((item.get_type(), kind));
        Ok(kind)
    }

    /// Counts a number or a tensor, or refuses it if all expected dtypes are of earlier kinds.
    fn add(&mut self, dtype: DataType, found: impl FnOnce() -> String) -> Result<(), Refusal> {
        let (of_item, dtypes) = (kind(dtype), self.spec.dtypes);
        let holds = |to: &DataType| is_converted(*to) && of_item <= kind(*to);
        if !is_converted(dtype) || !dtypes.is_empty() && !dtypes.iter().any(holds) {
            return Err(self.misfit(&(found() + ", which does not fit; convert it first")));
        }
        self.kind = self.kind.max(of_item);
        self.has_integers |= of_item == 1;
        Ok(())
    }

    /// The array of an item that is a tensor, under a borrow.
    fn array(&mut self, item: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Refusal> {
        let (py, name) = (item.py(), || with_article(&type_name(item)));
        if let Some(info) = type_info::array_of(item)
            && let Some(found) = info.head.and_then(|head| head.describe(item))
        {
            let dtype = found.tensor.dtype();
            self.add(dtype, || format!("{} of {dtype}", name()))?;
            self.extend_shape(found.tensor.shape());
            self.reading.push(Guard::acquire(&info.borrowed, item, &found.tensor, Mode::Read)?);
            return Ok(item.clone());
        }
        // `bytes` and NumPy's text, records and times have buffers too.
        if item.is_instance_of::<PyBytes>()
            || item.is_instance_of::<PyString>()
            || objects::is_instance(item, "numpy", "generic")?
            || !import::has_protocol(item)?
        {
            return Err(self.misfit(&(name() + ", which is not a number; convert it first")));
        }
        py.check_signals()?;
        let type_info = type_info::of(item)?;
        let mut owner = match import::required(item, &type_info, &ImportOptions::default()) {
            Ok(imported) => imported.tensor,
            // The import may copy. A signal or a borrow of the memory can stop the copy, which is not a fault of the
            // item.
            Err(error)
                if copies::is_interrupt(py, &error)
                    || ErrorClass::Borrowed.is(py, &error)
                    || !error.is_instance_of::<PyBufferError>(py)
                        && !error.is_instance_of::<PyTypeError>(py) =>
            {
                return Err(error.into());
            }
            Err(error) => {
                let reason = str_in_message(error.value(py));
                return Err(self.misfit(&(name() + " that cannot be imported: " + &reason)));
            }
        };
        let tensor = TensorRef::from(&owner);
        let (dtype, device) = (tensor.dtype(), tensor.device());
        self.add(dtype, || format!("{} of {dtype}", name()))?;
        self.extend_shape(tensor.shape());
        if device.device_type().is_host_accessible() {
            self.reading.push(Guard::acquire(&type_info.borrowed, item, &tensor, Mode::Read)?);
            if dtype == DataType::BFLOAT16 {
                owner = cast::converted(&tensor, DataType::FLOAT32)?;
            }
        }
        let array = NumpyApi::required(py)?.array(py, owner)?;
        array.map_err(|_| self.misfit(&format!("{} on {device}, which NumPy cannot hold", name())))
    }

    /// Adds the extents of a tensor to those of the lists, if it is the first item.
    fn extend_shape(&mut self, extents: &[i64]) {
        if self.shape.len() == self.index.len() && self.index.iter().all(|&index| index == 0) {
            self.shape.extend(extents);
        }
    }

    /// The tensor of the array that NumPy makes of the copy.
    fn tensor(&self, list: &Bound<'py, PyAny>) -> Result<Tensor, Refusal> {
        let py = list.py();
        let api = NumpyApi::required(py)?;
        let read = |dtype| match api.array_of_list(list, dtype) {
            Err(error) if error.is_instance_of::<PyValueError>(py) => {
                Err(self.refusal(&format!(", but {}", str_in_message(error.value(py)))))
            }
            // SAFETY: NumPy has just made the array, which is dropped here.
            array => Ok(unsafe { NumpyArray::owned(&array?) }?),
        };
        let natural = match read(None) {
            // The numbers of ml_dtypes have no common dtype with all others.
            Err(Refusal::Raised(error)) if error.is_instance_of::<PyTypeError>(py) => None,
            natural => natural?,
        };
        let found = natural.as_ref().map_or(KINDS[self.kind], Tensor::dtype);
        let dtype = cast::nearest(self.spec.dtypes, found);
        // NumPy lacks an integer dtype for these integers, or has several; or DLPack lacks NumPy's dtype.
        let mut made = natural.filter(|made| kind(made.dtype()) <= kind(dtype));
        if self.has_integers && (made.is_none() || dtype == DataType::FLOAT16) {
            self.check_integers(list, dtype)?;
        }
        if made.is_none() {
            made = read(Some(if kind(dtype) < 2 { dtype } else { KINDS[self.kind.max(2)] }))?;
        }
        let Some(made) = made.filter(|_| is_converted(dtype)) else {
            return Err(self.refusal(&format!(", which does not become {dtype}")));
        };
        if !self.spec.fits_extents(made.shape()) {
            return Err(self.refusal(&format!(" of shape {:?}", made.shape())));
        }
        let source = TensorRef::from(&made);
        match source.dtype() {
            from if from == dtype => Ok(made),
            from if is_integer(from) && is_integer(dtype) => cast::integers(&source, dtype)?
                .map_err(|words| self.refusal(&format!(", but {words}"))),
            _ => Ok(cast::converted(&source, dtype)?),
        }
    }

    /// Refuses the list if a dtype cannot hold one of its integers: no element becomes infinite or wraps around.
    #[cold]
    fn check_integers(&self, list: &Bound<'py, PyAny>, dtype: DataType) -> Result<(), Refusal> {
        let array = list.py().import("numpy")?.getattr("asarray")?.call1((list, "O"))?;
        let numbers = array.call_method0("ravel")?.call_method0("tolist")?;
        for (nth, number) in numbers.try_iter()?.enumerate() {
            let number = number?;
            if number.is_instance_of::<PyFloat>()
                || !number.hasattr("__index__")?
                || cast::has_integer(dtype, &number)?
            {
                continue;
            }
            let shape: Vec<i64> = array.getattr("shape")?.extract()?;
            let value = number.extract::<i128>().map(|value| value.to_string());
            let value = value.unwrap_or_else(|_| "a larger number".to_owned());
            let words = cast::out_of_range(&shape, nth, value, dtype);
            return Err(self.refusal(&format!(", but {words}")));
        }
        Ok(())
    }
}
