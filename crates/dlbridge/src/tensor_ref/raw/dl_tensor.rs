//! The C description of a borrowed tensor, which borrows that tensor.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use dlbridge_sys::DLTensor;

/// A `DLTensor` for a C kernel. It points into the [`TensorRef`](crate::TensorRef) or
/// [`TensorRefMut`](crate::TensorRefMut) that made it, so it cannot outlive that tensor.
///
/// ```
/// use dlbridge::{TensorRef, sys::DLTensor};
///
/// unsafe extern "C" fn kernel(t: *const DLTensor) -> i64 {
///     // SAFETY: the caller passes a tensor of one dimension.
///     unsafe { *(*t).shape }
/// }
///
/// let values = TensorRef::from(&[1.0_f32, 2.0, 3.0]);
/// // SAFETY: the kernel writes nothing and keeps nothing.
/// assert_eq!(unsafe { kernel(&*values.dl_tensor()) }, 3);
/// ```
pub struct DLTensorRef<'t> {
    description: DLTensor,
    tensor: PhantomData<&'t DLTensor>,
}

impl DLTensorRef<'_> {
    /// Takes the description of a tensor that is borrowed for the lifetime.
    pub(super) fn new(description: DLTensor) -> Self {
        Self { description, tensor: PhantomData }
    }
}

impl Deref for DLTensorRef<'_> {
    type Target = DLTensor;

    fn deref(&self) -> &DLTensor {
        &self.description
    }
}

impl DerefMut for DLTensorRef<'_> {
    fn deref_mut(&mut self) -> &mut DLTensor {
        &mut self.description
    }
}

impl fmt::Debug for DLTensorRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.description.fmt(f)
    }
}
