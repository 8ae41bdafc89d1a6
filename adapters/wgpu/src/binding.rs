//! The range of a buffer that a shader binds.

use std::num::NonZeroU64;
use std::ops::Range;

use wgpu::{BindingResource, BufferBinding, COPY_BUFFER_ALIGNMENT};

/// The range of a buffer with all elements of a tensor, and the tensor's position in it; made by
/// [`TensorExt::binding`](crate::TensorExt::binding).
///
/// ```no_run
/// use dlbridge_wgpu::{Result, TensorExt, to_device};
///
/// fn second_half(device: &wgpu::Device) -> Result<()> {
///     let tensor = to_device(&[0.0_f32; 200], device)?.slice(0, 100..200)?;
///     let binding = tensor.binding(device)?;
///     // If bindings must begin at multiples of 256:
///     assert_eq!((binding.offset, binding.size.get(), binding.first), (256, 544, 144));
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// The beginning of the range in the buffer, in bytes; a multiple of the device's alignment.
    pub offset: u64,
    /// The size of the range in bytes, a multiple of 4.
    pub size: NonZeroU64,
    /// The distance from the beginning of the range to the element at index zero, in bytes. With negative strides that
    /// is not the lowest element.
    pub first: u64,
}

impl Binding {
    /// Returns the binding of this range in the tensor's buffer.
    ///
    /// ```no_run
    /// use dlbridge_wgpu::{Binding, Result, TensorExt};
    ///
    /// fn bind<'a>(
    ///     tensor: &dlbridge::Tensor,
    ///     buffer: &'a wgpu::Buffer,
    ///     device: &wgpu::Device,
    /// ) -> Result<wgpu::BindingResource<'a>> {
    ///     Ok(tensor.binding(device)?.resource(buffer))
    /// }
    /// ```
    pub fn resource<'a>(&self, buffer: &'a wgpu::Buffer) -> BindingResource<'a> {
        BindingResource::Buffer(BufferBinding {
            buffer,
            offset: self.offset,
            size: Some(self.size),
        })
    }
}

/// Returns the range for `bytes`, which must not be empty, with the element at index zero at byte `zero`.
pub(crate) fn of(bytes: Range<u64>, zero: u64, alignment: u32) -> Binding {
    let offset = bytes.start - bytes.start % u64::from(alignment);
    // This stays within the buffer, whose size is a multiple of 4.
    let size = (bytes.end - offset).next_multiple_of(COPY_BUFFER_ALIGNMENT);
    let size = NonZeroU64::new(size).expect("a tensor with elements has bytes");
    Binding { offset, size, first: zero - offset }
}
