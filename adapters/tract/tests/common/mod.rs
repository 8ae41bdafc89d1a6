//! Tensors of a producer that counts how often it is asked to free them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlbridge::{Access, Element, RawParts, Tensor};

/// How many owners were dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Counted<T> {
    _elements: Vec<T>,
    drops: Drops,
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        self.drops.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A tensor in C order of a producer other than the library.
pub(crate) fn foreign<T: Element>(
    elements: &[T],
    shape: &[usize],
    access: Access,
) -> (Tensor, Drops) {
    let mut elements = elements.to_vec();
    let drops = Drops::default();
    let parts = RawParts::of_elements(elements.as_mut_ptr(), access);
    let owner = Counted { _elements: elements, drops: drops.clone() };
    // SAFETY: the owner has the elements on the heap, and nobody else knows of them.
    let tensor = unsafe { Tensor::from_raw_parts(owner, parts, shape, None::<&[i64]>) };
    (tensor.unwrap(), drops)
}
