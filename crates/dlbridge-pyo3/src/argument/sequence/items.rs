//! Lists and tuples, read while Python code may change them.

use dlbridge::{DataTypeCode, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyRange, PyString, PyTuple};

use super::super::fault::{Fault, MAX_DEPTH};
use super::number::Kinds;
use super::sink::Sink;
use crate::borrow::Guard;
use crate::classes;
use crate::copies;
use crate::error::ErrorClass;
use crate::import;
use crate::import_options::ImportOptions;
use crate::imported::Imported;
use crate::numpy::array::Described;
use crate::protocol::{TypeInfo, type_info};

/// The number of items that are read between two checks for signals.
const UNINTERRUPTED: usize = 1 << 20;

/// Reading this many items takes at least as long as importing a tensor.
const TENSOR: usize = 1 << 8;

/// Reading this many items takes at least as long as reading a NumPy array in place.
const ARRAY: usize = 1 << 4;

/// Counts items, and checks for signals if many were read since the last check.
#[inline(always)]
fn count(py: Python<'_>, items: usize, unasked: &mut usize) -> PyResult<()> {
    *unasked += items;
    if *unasked > UNINTERRUPTED {
        *unasked = 0;
        py.check_signals()?;
    }
    Ok(())
}

/// A list or a tuple, or an instance of a subclass, which is read as its base class.
///
/// Converting an item may run Python code, which may change the list. So each item is looked up by a checked index,
/// and held while it is read.
pub(super) enum Items<'py> {
    List(Bound<'py, PyList>),
    Tuple(Bound<'py, PyTuple>),
}

impl<'py> Items<'py> {
    /// The items of an object; `None` if it is neither a list nor a tuple nor a range.
    pub(super) fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Some(Self::List(list.clone())));
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(Some(Self::Tuple(tuple.clone())));
        }
        if object.is_exact_instance_of::<PyRange>() {
            let list = object.py().get_type::<PyList>().call1((object,))?;
            return Ok(Some(Self::List(list.cast_into()?)));
        }
        Ok(None)
    }

    fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Tuple(tuple) => tuple.len(),
        }
    }

    /// Calls a function with each item.
    #[inline(always)]
    fn each(
        &self,
        extent: usize,
        mut read: impl FnMut(&Bound<'py, PyAny>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::List(list) => in_blocks(list.py(), extent, |index| match list.get_item(index) {
                Ok(item) => read(&item).map_err(|fault| fault.within(index)),
                Err(_) => Err(Fault::changed()),
            }),
            Self::Tuple(tuple) => in_blocks(tuple.py(), extent, |index| {
                let item = tuple.get_borrowed_item(index)?;
                read(&item).map_err(|fault| fault.within(index))
            }),
        }?;
        if self.len() == extent { Ok(()) } else { Err(Fault::changed()) }
    }
}

/// Calls a function with each index, and checks for signals between blocks of them.
#[inline(always)]
fn in_blocks(
    py: Python<'_>,
    extent: usize,
    mut read: impl FnMut(usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for begin in (0..extent).step_by(UNINTERRUPTED) {
        for index in begin..extent.min(begin + UNINTERRUPTED) {
            read(index)?;
        }
        if extent - begin > UNINTERRUPTED {
            py.check_signals()?;
        }
    }
    Ok(())
}

/// The extents along the first items, which all others must match. `None` if there are more than `MAX_DEPTH`.
pub(super) fn shape_of(items: &Items<'_>) -> Result<Option<Vec<usize>>, Fault> {
    let mut shape = vec![items.len()];
    let mut first = first_of(items);
    while let Some(item) = first {
        let Some(items) = Items::of(&item)? else {
            if let Some(array) = array_of(&item) {
                shape.extend(array.tensor.shape().iter().map(|&extent| extent as usize));
            } else if Kinds::default().of(&item)?.is_none() && is_tensor(&item)? {
                let within = |fault| shape.iter().fold(fault, |fault: Fault, _| fault.within(0));
                let tensor = imported(&item).map_err(within)?.tensor;
                if !has_lengths(items, &shape) {
                    return Err(Fault::changed());
                }
                shape.extend(tensor.shape().iter().map(|&extent| extent as usize));
            }
            return Ok((shape.len() <= MAX_DEPTH).then_some(shape));
        };
        if shape.len() == MAX_DEPTH {
            return Ok(None);
        }
        shape.push(items.len());
        first = first_of(&items);
    }
    Ok(Some(shape))
}

/// Returns true if the first lists still have these lengths after Python code ran.
fn has_lengths(items: &Items<'_>, lengths: &[usize]) -> bool {
    let Some((&length, inner)) = lengths.split_first() else { return true };
    let first = || first_of(items).and_then(|item| Items::of(&item).ok()?);
    items.len() == length
        && (inner.is_empty() || first().is_some_and(|items| has_lengths(&items, inner)))
}

fn first_of<'py>(items: &Items<'py>) -> Option<Bound<'py, PyAny>> {
    match items {
        Items::List(list) => list.get_item(0).ok(),
        Items::Tuple(tuple) => tuple.get_item(0).ok(),
    }
}

/// Returns true for an item that is not a number or a list, and that can be imported. `bytes` are not numbers.
#[cold]
fn is_tensor(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = item.py();
    Ok(!classes::is_plain_python(item)
        && !item.is_instance_of::<PyBytes>()
        && !item.is_instance_of::<PyString>()
        && !classes::is_instance(item, intern!(py, "numpy"), intern!(py, "generic"))?
        && import::has_protocol(item)?)
}

/// Imports an item. The producer's refusal becomes a fault of the item; other exceptions are raised.
#[cold]
fn imported(item: &Bound<'_, PyAny>) -> Result<Imported, Fault> {
    let py = item.py();
    import::imported(item, &ImportOptions::default()).map_err(|error| {
        let is_refusal =
            error.is_instance_of::<PyBufferError>(py) || error.is_instance_of::<PyTypeError>(py);
        // The import may copy. A signal or a borrow of the memory can stop the copy, which is not a fault of the
        // item.
        let is_other = copies::is_interrupt(py, &error) || ErrorClass::Borrowed.is(py, &error);
        match is_refusal && !is_other {
            true => Fault::refused(item, error),
            false => error.into(),
        }
    })
}

/// A NumPy array that is read in place.
fn array_of<'a>(item: &'a Bound<'_, PyAny>) -> Option<Described<'a>> {
    type_info::of_arrays()?.head?.describe(item)
}

fn has_extents(shape: &[i64], extents: &[usize]) -> bool {
    shape.iter().map(|&extent| extent as usize).eq(extents.iter().copied())
}

/// Adds the elements of a NumPy array of the expected extents; false for an array that only an import can read, or
/// whose elements are read as Python's numbers.
fn read_array<'py>(
    info: &'static TypeInfo,
    item: &Bound<'py, PyAny>,
    extents: &[usize],
    sink: &mut dyn Sink<'py>,
) -> Result<bool, Fault> {
    let Some(head) = info.head else { return Ok(false) };
    if let Some(run) = head.run(item, None, &[])
        && has_extents(run.shape(), extents)
        && let Some(_reading) =
            Guard::of_run(&info.borrowed, item, run.address(), run.bytes(), Mode::Read)
        && let Some(tensor) = run.tensor()
    {
        return sink.put_tensor(&tensor);
    }
    let Some(found) = head.describe(item) else { return Ok(false) };
    if !has_extents(found.tensor.shape(), extents) {
        return Err(Fault::tensor(&found.tensor, extents));
    }
    let _reading = Guard::acquire(&info.borrowed, item, &found.tensor, Mode::Read)?;
    // The first borrow may import modules, and code that runs meanwhile may replace the array's memory.
    match head.describe(item).filter(|now| now.is_as(&found)) {
        Some(now) => sink.put_tensor(&now.tensor),
        None => Ok(false),
    }
}

/// Adds the elements of an item that is a tensor of the expected extents; false for an item that is not a tensor.
#[cold]
#[inline(never)]
fn read_tensor<'py>(
    item: &Bound<'py, PyAny>,
    extents: &[usize],
    sink: &mut dyn Sink<'py>,
    unasked: &mut usize,
) -> Result<bool, Fault> {
    let py = item.py();
    if let Some(info) = type_info::array_of(item) {
        count(py, ARRAY, unasked)?;
        if read_array(info, item, extents, sink)? {
            return Ok(true);
        }
    }
    if !is_tensor(item)? {
        return Ok(false);
    }
    count(py, TENSOR, unasked)?;
    let imported = imported(item)?;
    let tensor = TensorRef::from(&imported.tensor);
    let is_host = tensor.device().device_type().is_host_accessible();
    let same = has_extents(tensor.shape(), extents);
    // As Python's numbers, a handle or a unit of time would be lost.
    let is_handle = tensor.dtype().code() == DataTypeCode::OPAQUE_HANDLE;
    if !is_host || !same || is_handle {
        return Err(Fault::tensor(&tensor, extents));
    }
    {
        let info = type_info::of(item)?;
        let _reading = Guard::acquire(&info.borrowed, item, &tensor, Mode::Read)?;
        if sink.put_tensor(&tensor)? {
            return Ok(true);
        }
    }
    // Reads Python's numbers from it, and checks each one.
    let mut method = item.getattr_opt(intern!(py, "tolist"))?;
    if method.is_none() {
        // polars has this method.
        method = item.getattr_opt(intern!(py, "to_list"))?;
    }
    let Some(method) = method else { return Err(Fault::tensor(&tensor, extents)) };
    let numbers = method.call0()?;
    match (extents, Items::of(&numbers)?) {
        ([], _) => sink.put(&numbers)?,
        (_, Some(items)) => read_level(&items, extents, sink, unasked)?,
        (&[extent, ..], None) => return Err(Fault::not_a_list(&numbers, extent)),
    }
    Ok(true)
}

/// Adds all numbers of nested lists, in C order.
pub(super) fn read<'py>(
    items: &Items<'py>,
    shape: &[usize],
    sink: &mut impl Sink<'py>,
) -> Result<(), Fault> {
    // The list had this length before Python code computed the shape of its first item.
    if shape.first().is_some_and(|&extent| items.len() != extent) {
        return Err(Fault::changed());
    }
    read_level(items, shape, sink, &mut 0)
}

/// Checks that all lists have the lengths of a shape. Other faults are left to [`read`].
pub(super) fn check_lengths(items: &Items<'_>, shape: &[usize]) -> Result<(), Fault> {
    check_level(items, shape, &mut 0)
}

/// Checks the lengths of a list and of those in it. `unasked` counts the items since the last check for signals.
fn check_level(items: &Items<'_>, shape: &[usize], unasked: &mut usize) -> Result<(), Fault> {
    let Some((&extent, inner)) = shape.split_first() else { return Ok(()) };
    if items.len() != extent {
        return Err(Fault::ragged(items.len(), extent));
    }
    let Some(&expected) = inner.first() else { return Ok(()) };
    items.each(extent, |item| match rows_of(item)? {
        Some(rows) => {
            count(item.py(), 1, unasked)?;
            check_level(&rows, inner, unasked)
        }
        None if Kinds::default().of(item)?.is_some() => Err(Fault::not_a_list(item, expected)),
        None => Ok(()),
    })
}

/// Adds the numbers of one of those lists. `unasked` counts the items since the last check for signals.
fn read_level<'py>(
    items: &Items<'py>,
    shape: &[usize],
    sink: &mut (impl Sink<'py> + ?Sized),
    unasked: &mut usize,
) -> Result<(), Fault> {
    let Some((&extent, inner)) = shape.split_first() else { return Ok(()) };
    if items.len() != extent {
        return Err(Fault::ragged(items.len(), extent));
    }
    let Some(&expected) = inner.first() else {
        let begin = sink.len();
        return match items.each(extent, |item| sink.put(item)) {
            Err(fault) if fault.is_not_a_number() => {
                sink.truncate(begin);
                with_tensors(items, extent, sink.as_dyn(), unasked)
            }
            done => done,
        };
    };
    items.each(extent, |item| match rows_of(item)? {
        Some(items) => {
            count(item.py(), 1 + items.len(), unasked)?;
            read_level(&items, inner, sink, unasked)
        }
        None => match read_tensor(item, inner, sink.as_dyn(), unasked)? {
            true => Ok(()),
            false => Err(Fault::not_a_list(item, expected)),
        },
    })
}

/// The items of a list or tuple; `None` for other objects. NumPy arrays are recognised first.
#[inline]
fn rows_of<'py>(item: &Bound<'py, PyAny>) -> PyResult<Option<Items<'py>>> {
    if type_info::array_of(item).is_some() { Ok(None) } else { Items::of(item) }
}

/// Adds the items of a list of numbers, some of which are 0-d tensors. A separate loop reads lists of plain numbers,
/// because looking for tensors would slow it down.
#[cold]
fn with_tensors<'py>(
    items: &Items<'py>,
    extent: usize,
    sink: &mut dyn Sink<'py>,
    unasked: &mut usize,
) -> Result<(), Fault> {
    items.each(extent, |item| match type_info::array_of(item) {
        Some(info) if read_element(info, item, sink, unasked)? => Ok(()),
        Some(_) if read_tensor(item, &[], sink, unasked)? => Ok(()),
        _ => put_or_read(item, sink, unasked),
    })
}

/// Adds the element of a 0-d NumPy array; false for other arrays, and for elements that are read in another way.
fn read_element<'py>(
    info: &'static TypeInfo,
    item: &Bound<'py, PyAny>,
    sink: &mut dyn Sink<'py>,
    unasked: &mut usize,
) -> Result<bool, Fault> {
    let Some(head) = info.head else { return Ok(false) };
    let Some(found) = head.element(item) else { return Ok(false) };
    let size = found.dtype().itemsize();
    let reading = Guard::of_run(&info.borrowed, item, found.address(), size, Mode::Read);
    // The first borrow may import modules, and code that runs meanwhile may replace the array's memory.
    let borrowed = head.element(item).filter(|now| {
        reading.is_some() && now.address() == found.address() && now.dtype() == found.dtype()
    });
    let is_read = borrowed.is_some_and(|element| {
        // SAFETY: `reading` borrows the element's bytes, and the array was described again after the borrow began.
        let bytes = unsafe { element.read() };
        sink.put_element(element.dtype(), &bytes[..size])
    });
    drop(reading);
    // A signal handler may run here, which may replace the array's memory.
    count(item.py(), ARRAY, unasked)?;
    Ok(is_read)
}

/// Adds a number, or the element of a 0-d tensor.
fn put_or_read<'py>(
    item: &Bound<'py, PyAny>,
    sink: &mut dyn Sink<'py>,
    unasked: &mut usize,
) -> Result<(), Fault> {
    match sink.put(item) {
        Err(fault) if fault.is_not_a_number() => match read_tensor(item, &[], sink, unasked)? {
            true => Ok(()),
            false => Err(fault),
        },
        done => done,
    }
}
