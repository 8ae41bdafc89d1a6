//! Elements copied into vectors.

use dlbridge::{Element, Error, Result, TensorRef, Unaligned};

/// The elements in C order, wherever they are.
pub(crate) fn elements<T: Element>(tensor: &TensorRef<'_>) -> Result<Vec<T>> {
    match tensor.view::<T>() {
        Ok(view) => {
            let mut elements = with_room(view.len())?;
            match view.as_slice() {
                Some(adjacent) => elements.extend_from_slice(adjacent),
                None => view.iter().for_each(|element| elements.push(*element)),
            }
            Ok(elements)
        }
        Err(Error::Misaligned { .. }) => {
            let view = tensor.view::<Unaligned<T>>()?;
            let mut elements = with_room(view.len())?;
            view.iter().for_each(|element| elements.push(element.get()));
            Ok(elements)
        }
        Err(error) => Err(error),
    }
}

/// An empty vector with room for so many elements: a tensor that repeats some may have more than memory holds.
fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    vec.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes })?;
    Ok(vec)
}
