//! Lists and tuples, read while Python code may change them.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyRange, PyTuple};

use super::fault::Fault;
use super::number::{Kinds, Number, NumberKind, element};

/// Lists within lists, as NumPy has it: deeper ones would need more of the stack than a thread may have.
pub(super) const MAX_DEPTH: usize = 64;

/// Items that are read between two questions for interrupts.
const UNINTERRUPTED: usize = 1 << 20;

/// A list or a tuple, or an object of a derived class, which is read as one of these.
///
/// Converting an item may run Python code, which may change the list. So every item is looked up by a checked index and
/// held while it is read.
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

/// Calls a function with each index, and asks for interrupts between blocks of them.
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

/// The extents along the first items: all others must have the same. `None` if there are more than `MAX_DEPTH`.
pub(super) fn shape_of(items: &Items<'_>) -> PyResult<Option<Vec<usize>>> {
    let mut shape = vec![items.len()];
    let mut first = first_of(items);
    while let Some(item) = first {
        let Some(items) = Items::of(&item)? else { break };
        if shape.len() == MAX_DEPTH {
            return Ok(None);
        }
        shape.push(items.len());
        first = first_of(&items);
    }
    Ok(Some(shape))
}

fn first_of<'py>(items: &Items<'py>) -> Option<Bound<'py, PyAny>> {
    match items {
        Items::List(list) => list.get_item(0).ok(),
        Items::Tuple(tuple) => tuple.get_item(0).ok(),
    }
}

/// What is done with the numbers of a list.
pub(super) trait Sink<'py> {
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault>;
}

/// Passes all numbers of nested lists on, in C order.
pub(super) fn read<'py>(
    items: &Items<'py>,
    shape: &[usize],
    sink: &mut impl Sink<'py>,
) -> Result<(), Fault> {
    read_level(items, shape, sink, &mut 0)
}

/// The same for the items of one of those lists. `unasked` counts what was read since the last question for interrupts.
fn read_level<'py>(
    items: &Items<'py>,
    shape: &[usize],
    sink: &mut impl Sink<'py>,
    unasked: &mut usize,
) -> Result<(), Fault> {
    let Some((&extent, inner)) = shape.split_first() else { return Ok(()) };
    if items.len() != extent {
        return Err(Fault::ragged(items.len(), extent));
    }
    let Some(&expected) = inner.first() else {
        return items.each(extent, |item| sink.put(item));
    };
    items.each(extent, |item| match Items::of(item)? {
        Some(items) => {
            *unasked += 1 + items.len();
            if *unasked > UNINTERRUPTED {
                *unasked = 0;
                item.py().check_signals()?;
            }
            read_level(&items, inner, sink, unasked)
        }
        None => Err(Fault::not_a_list(item, expected)),
    })
}

/// The elements that the numbers become.
pub(super) struct Elements<'py, T> {
    elements: Vec<T>,
    kinds: Kinds<'py>,
}

impl<T> Elements<'_, T> {
    pub(super) fn with_capacity(count: usize) -> Option<Self> {
        let mut elements = Vec::new();
        elements.try_reserve_exact(count).ok()?;
        Some(Self { elements, kinds: Kinds::default() })
    }

    pub(super) fn into_vec(self) -> Vec<T> {
        self.elements
    }
}

impl<'py, T: Number> Sink<'py> for Elements<'py, T> {
    #[inline(always)]
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let element = element(item, &mut self.kinds)?;
        self.elements.push(element);
        Ok(())
    }
}

/// The kind that all numbers can become, as NumPy finds it.
pub(super) struct Natural<'py> {
    /// `None` without numbers.
    pub(super) kind: Option<NumberKind>,
    /// Whether an integer is larger than those of 64 bits with a sign.
    pub(super) large: bool,
    kinds: Kinds<'py>,
}

impl Natural<'_> {
    pub(super) fn new() -> Self {
        Self { kind: None, large: false, kinds: Kinds::default() }
    }
}

impl<'py> Sink<'py> for Natural<'py> {
    fn put(&mut self, item: &Bound<'py, PyAny>) -> Result<(), Fault> {
        let Some(kind) = self.kinds.of(item)? else { return Err(Fault::not_a_number(item)) };
        self.kind = self.kind.max(Some(kind));
        if kind == NumberKind::Integer && i64::from_integer(item)?.is_none() {
            self.large = true;
        }
        Ok(())
    }
}
