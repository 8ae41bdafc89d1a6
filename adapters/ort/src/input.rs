//! Values that sessions read and nothing writes, and the list of their memory.

use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::session::SessionInputValue;
use ort::value::{DynTensor, Shape, TensorElementType};

/// A tensor as a read-only value for sessions.
///
/// The unsafe [`TensorExt::into_input`](crate::TensorExt::into_input) makes it. Pass it to [`ort::inputs!`] by
/// reference, and the value that [`as_value`](Self::as_value) derefs to, to
/// [`IoBinding::bind_input`](ort::session::IoBinding::bind_input).
///
/// ```no_run
/// use dlbridge_ort::{Input, Result};
/// use ort::session::{Session, SessionOutputs};
///
/// fn run<'a>(session: &'a mut Session, input: &Input) -> ort::Result<SessionOutputs<'a>> {
///     session.run(ort::inputs!["x" => input])
/// }
/// ```
pub struct Input {
    value: DynTensor,
    /// Set for memory that was an input before; the deleter of a new input holds the protection.
    _protection: Option<Protection>,
}

impl Input {
    pub(crate) fn new(value: DynTensor, protection: Option<Protection>) -> Self {
        Self { value, _protection: protection }
    }

    /// Returns the value for sessions to read.
    ///
    /// ort's types let safe code extract slices from the value that this derefs to, and from every
    /// [`SessionInputValue`] made of an input. Such a slice borrows the input, and is a view of the tensor: as for
    /// [`Tensor::view`](dlbridge::Tensor::view), the producer of a [shared](dlbridge::Access::Shared) or
    /// [read-only](dlbridge::Access::ReadOnly) tensor does not write while the slice is alive. The tensor was
    /// imported under this contract.
    ///
    /// ```no_run
    /// fn bind(binding: &mut ort::session::IoBinding, input: &dlbridge_ort::Input) -> ort::Result<()> {
    ///     binding.bind_input("x", &*input.as_value())
    /// }
    /// ```
    pub fn as_value(&self) -> SessionInputValue<'_> {
        (&self.value).into()
    }

    /// The extents, in elements.
    ///
    /// ```no_run
    /// fn is_matrix(input: &dlbridge_ort::Input) -> bool {
    ///     input.shape().len() == 2
    /// }
    /// ```
    pub fn shape(&self) -> &Shape {
        self.value.shape()
    }

    /// The type of the elements.
    ///
    /// ```no_run
    /// use ort::value::TensorElementType;
    ///
    /// fn is_float(input: &dlbridge_ort::Input) -> bool {
    ///     input.element_type() == TensorElementType::Float32
    /// }
    /// ```
    pub fn element_type(&self) -> TensorElementType {
        *self.value.data_type()
    }
}

impl<'a> From<&'a Input> for SessionInputValue<'a> {
    fn from(input: &'a Input) -> Self {
        input.as_value()
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("element_type", &self.element_type())
            .field("shape", self.shape())
            .finish_non_exhaustive()
    }
}

/// The memory of all inputs. If a model's output is its input, ONNX Runtime returns that memory, and only this list
/// shows that it belongs to an input.
static PROTECTED: Mutex<Vec<Protected>> = Mutex::new(Vec::new());

/// The memory of an input.
#[derive(Clone, PartialEq)]
struct Protected {
    bytes: Range<usize>,
    read_only: bool,
}

/// Protects memory for as long as it lives.
pub(crate) struct Protection(Protected);

impl Protection {
    pub(crate) fn new(bytes: Range<usize>, read_only: bool) -> Self {
        let memory = Protected { bytes, read_only };
        protected().push(memory.clone());
        Self(memory)
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        let mut all = protected();
        if let Some(place) = all.iter().position(|memory| *memory == self.0) {
            all.swap_remove(place);
        }
    }
}

/// Returns the addresses of the elements of a value on the host.
pub(crate) fn bytes_of(value: &DynTensor) -> Range<usize> {
    let start = value.data_ptr().addr();
    start..start + value.size().unwrap_or(0)
}

/// Returns whether an input has exactly these bytes, with at least this protection.
pub(crate) fn covers(bytes: &Range<usize>, read_only: bool) -> bool {
    protected().iter().any(|memory| memory.bytes == *bytes && (memory.read_only || !read_only))
}

/// Returns whether an input overlaps the bytes.
pub(crate) fn is_protected(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| overlap(&memory.bytes, bytes))
}

/// Returns whether a read-only input overlaps the bytes.
pub(crate) fn is_read_only(bytes: &Range<usize>) -> bool {
    protected().iter().any(|memory| memory.read_only && overlap(&memory.bytes, bytes))
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

fn protected() -> MutexGuard<'static, Vec<Protected>> {
    PROTECTED.lock().unwrap_or_else(PoisonError::into_inner)
}
