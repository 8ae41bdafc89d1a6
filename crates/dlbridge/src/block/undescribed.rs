//! A block that holds its owner and dims, but no description of the data yet.
//!
//! [`Managed`] has no safe function that changes dims or check, because a view trusts them.

use core::marker::PhantomData;
use core::ptr;
use core::slice;

use dlbridge_sys::DLTensor;

use super::header::Header;
use super::{Builder, Check, Managed, Marks, RawParts};
use crate::{DataType, Device, Error, MAX_NDIM, Result, layout};

/// A block with an owner `O` whose dims may still be written. It becomes a [`Managed`] in
/// [`describe`](Self::describe) only.
///
/// Unlike a [`Builder`] it gives read access to its dims, for a copy or a bounds check.
pub(crate) struct Undescribed<O: Send + 'static> {
    managed: Managed,
    owner: PhantomData<O>,
}

impl<O: Send + 'static> Undescribed<O> {
    /// Moves an owner into a new block with room for `ndim` dimensions.
    pub(crate) fn new(owner: O, ndim: usize) -> Self {
        let nothing = DLTensor {
            data: ptr::null_mut(),
            device: Device::CPU.into(),
            ndim: 0,
            dtype: DataType::UINT8.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        // SAFETY: no dimensions, and no data that anything reads before `describe`.
        let managed =
            unsafe { Builder::new(owner, ndim).finish(nothing, Marks::NONE, None, false) };
        Self { managed, owner: PhantomData }
    }

    /// The owner, in its place in the block.
    pub(crate) fn owner_mut(&mut self) -> &mut O {
        // SAFETY: `new` moved an `O` into the block, and `&mut self` is the only access.
        unsafe { self.managed.owner_mut() }
    }

    /// Writes shape and strides into the block; strides of C order if `strides` is `None`. Returns the number of
    /// elements.
    ///
    /// The block must have room for them: `new` with the length of the shape.
    pub(crate) fn set_dims<S, T>(&mut self, shape: &[S], strides: Option<&[T]>) -> Result<usize>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        // SAFETY: only `describe` returns the block, after it has made the description fit the dims.
        unsafe { self.managed.set_dims(shape, strides) }
    }

    pub(crate) fn shape(&self) -> &[i64] {
        self.managed.shape()
    }

    pub(crate) fn strides(&self) -> &[i64] {
        self.managed.strides()
    }

    /// Checks the layout and the dtype (Layout, Dtype), then describes the data. On addressable devices the byte offset
    /// is folded into the address; the address of a tensor without elements becomes NULL. The elements must pass
    /// `check` before the owner may be returned.
    ///
    /// # Safety
    /// The dims are set, and have `elements` elements. Data, Calm, Exclusive, Immutable and Send hold for `parts`, the
    /// dims and the owner. A `check` is that of the owner's element type, which `parts` describes.
    pub(crate) unsafe fn describe(
        self,
        parts: &RawParts,
        elements: usize,
        check: Option<Check>,
    ) -> Result<Managed> {
        parts.dtype.check()?;
        let (data, byte_offset) = match elements {
            0 => (ptr::null_mut(), 0),
            _ => parts.locate(layout::element_extent(self.shape(), self.strides())?)?,
        };
        let Marks { flags, immutable } = parts.marks();
        let mut managed = self.managed;
        let tensor = managed.tensor_mut();
        tensor.data = data;
        tensor.byte_offset = byte_offset;
        tensor.dtype = parts.dtype.into();
        tensor.device = parts.device.into();
        // SAFETY: Exclusive, Immutable and the check hold for the parts (the caller).
        unsafe {
            managed.set_flags(flags);
            managed.set_immutable_bit(immutable);
            managed.set_check(check);
        }
        Ok(managed)
    }
}

impl Managed {
    /// Writes shape and strides into the block; strides of C order if `strides` is `None`. Returns the number of
    /// elements.
    ///
    /// The block must have room for them.
    ///
    /// # Safety
    /// Before other code reads the block, also after an error, the caller makes the description fit the dims (Layout,
    /// Data), or drops the block.
    pub(super) unsafe fn set_dims<S, T>(
        &mut self,
        shape: &[S],
        strides: Option<&[T]>,
    ) -> Result<usize>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        let ndim = shape.len();
        if let Some(strides) = strides.filter(|strides| strides.len() != ndim) {
            return Err(Error::StridesLength { ndim, strides: strides.len() });
        }
        let room = self.header().dims as usize;
        assert!(ndim <= MAX_NDIM && 2 * ndim <= room, "the block was made for fewer dimensions");
        let tensor = self.tensor_mut();
        for (axis, &extent) in shape.iter().enumerate() {
            let extent = extent.try_into().map_err(|_| Error::TooLarge)?;
            // SAFETY: `axis < ndim`, and the block has room for `ndim` extents.
            unsafe { tensor.shape.add(axis).write(extent) };
        }
        // SAFETY: all extents were just written, and no other code has their address.
        let extents = unsafe { slice::from_raw_parts(tensor.shape, ndim) };
        let elements = layout::element_count(extents)?;
        match strides {
            Some(strides) => {
                for (axis, &stride) in strides.iter().enumerate() {
                    let stride = stride.try_into().map_err(|_| Error::TooLarge)?;
                    // SAFETY: `axis < ndim`, because there are as many strides as extents, and the block has room for
                    // `ndim` strides.
                    unsafe { tensor.strides.add(axis).write(stride) };
                }
            }
            None => layout::c_strides(extents, |axis, stride| {
                // SAFETY: `c_strides` passes each axis of the extents, so `axis < ndim`, and the block has room for
                // `ndim` strides.
                unsafe { tensor.strides.add(axis).write(stride) };
            }),
        }
        tensor.ndim = ndim as i32;
        Ok(elements)
    }

    /// # Safety
    /// The check is that of the owner's element type.
    unsafe fn set_check(&mut self, check: Option<Check>) {
        // SAFETY: Block: initialised, and `&mut self` is the only access.
        unsafe { (*self.0.cast::<Header>().as_ptr()).check = check }
    }
}
