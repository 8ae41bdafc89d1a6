//! The heap block behind every tensor: one allocation with the managed tensor, the owner, the
//! extents and the strides.
//!
//! ```text
//! +---------------------------+--------------+---------+----------------+-----------------+
//! | DLManagedTensorVersioned  | VTable, dims | owner   | ndim extents   | ndim strides    |
//! +---------------------------+--------------+---------+----------------+-----------------+
//! ^ what C sees                                         ^ t.shape        ^ t.strides
//! ```

mod delete;
mod draft;
mod part;
mod take;

use alloc::alloc::dealloc;
use core::alloc::Layout;
use core::any::TypeId;
use core::ffi::c_void;
use core::mem::{self, MaybeUninit};
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU8;

use dlbridge_sys::{
    DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLTensor,
};

pub(super) use self::delete::no_unwind;
use self::delete::{DELETER, delete};
#[cfg(feature = "ndarray")]
pub(crate) use self::draft::DimsOut;
pub(super) use self::draft::Draft;
use super::parts::{Marks, RawParts};
use crate::{Access, DataType, Device, Error, MAX_NDIM, Result, Tensor, layout};

/// Tells from the bytes of an element whether they are a value; see
/// [`Element::CHECK`](crate::Element::CHECK).
pub(crate) type Check = fn(&[u8]) -> bool;

/// What the deleter knows of an owner whose type it does not know.
struct VTable {
    /// The type of the owner. A function, because `TypeId::of` is no constant yet.
    type_id: fn() -> TypeId,
    /// Drops the owner in place and frees the block.
    destroy: unsafe extern "C" fn(NonNull<Header>),
    /// The layout of the block without the dims.
    layout: Layout,
}

#[repr(C)]
struct Header {
    managed: DLManagedTensorVersioned,
    vtable: &'static VTable,
    /// The number of `i64` at the end of the block.
    dims: u32,
    /// True if nothing writes the data until the owner is dropped (Immutable).
    immutable: bool,
    /// The check that the elements must pass before the owner may be returned.
    check: Option<Check>,
}

#[repr(C)]
struct Block<O> {
    header: Header,
    owner: MaybeUninit<O>,
}

impl<O: 'static> Block<O> {
    const VTABLE: VTable =
        VTable { type_id: TypeId::of::<O>, destroy: Self::destroy, layout: Layout::new::<Self>() };

    /// Drops the owner and frees the block. Here the owner's type is known: where its drop cannot
    /// panic, the compiler leaves out what catches a panic.
    ///
    /// # Safety
    /// `header` begins a `Block<O>` whose owner is initialised; it is not used afterwards.
    unsafe extern "C" fn destroy(header: NonNull<Header>) {
        let block = header.cast::<Self>().as_ptr();
        // SAFETY: Block: the header is initialised and the block is ours alone.
        let layout = Self::VTABLE.layout(unsafe { (*block).header.dims } as usize);
        let free = Free { header, layout };
        // SAFETY: by contract initialised, and the block is freed right behind. Send: any thread may
        // do this.
        no_unwind(|| unsafe { (*block).owner.assume_init_drop() });
        drop(free);
    }
}

impl VTable {
    /// The layout of a block. The dims follow the fixed part, whose size is a multiple of its
    /// alignment, which is at least that of an `i64`.
    fn layout(&self, dims: usize) -> Layout {
        let size = self.layout.size() + dims * size_of::<i64>();
        debug_assert!(Layout::from_size_align(size, self.layout.align()).is_ok());
        // SAFETY: the alignment is that of a layout. At most 2 * MAX_NDIM dims (Dims) behind the size of
        // a type, which is at most half of the address space but for them.
        unsafe { Layout::from_size_align_unchecked(size, self.layout.align()) }
    }
}

/// Marks a managed tensor as made here. Its address stands in `manager_ctx`, which must not be
/// NULL and which only the deleter's side ever reads. Writable, so that no linker folds it with
/// another.
static BRAND: AtomicU8 = AtomicU8::new(0);

fn brand() -> *mut c_void {
    BRAND.as_ptr().cast()
}

/// Frees a block when dropped.
struct Free {
    header: NonNull<Header>,
    layout: Layout,
}

impl Drop for Free {
    fn drop(&mut self) {
        // SAFETY: made by those who give up the block, whether they have dropped its owner or moved
        // it; the layout is the one it was allocated with.
        unsafe { dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// The handle on a block. Dropping it runs the deleter.
pub(crate) struct Managed(NonNull<DLManagedTensorVersioned>);

// SAFETY: Send: the owner may be dropped on any thread; the rest is plain data.
unsafe impl Send for Managed {}
// SAFETY: Shared access reads dims and description, which nobody writes (Dims), and the owner only
// where that is `Sync` itself (`owner`).
unsafe impl Sync for Managed {}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: Block: the only handle, which ends here.
        unsafe { delete(self.0.as_ptr()) }
    }
}

impl Managed {
    /// Moves an owner into a new block with room for the dims of `ndim` dimensions, and describes
    /// an empty CPU tensor of no dimensions.
    pub(super) fn new<O: Send + 'static>(owner: O, ndim: usize) -> Self {
        let nothing = DLTensor {
            data: ptr::null_mut(),
            device: Device::CPU.into(),
            ndim: 0,
            dtype: DataType::UINT8.into(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        // SAFETY: no dimensions, and no data.
        unsafe { Draft::new(owner, ndim).finish(nothing, Marks::NONE, None) }
    }

    /// Takes over a pointer that [`Managed::into_raw`] gave out, if it is one.
    ///
    /// # Safety
    /// `managed` points at a managed tensor of this major version. If it is one of ours, the
    /// handle is given up.
    pub(super) unsafe fn recognise(managed: NonNull<DLManagedTensorVersioned>) -> Option<Self> {
        // SAFETY: by contract readable; the fields before `flags` are the same in all versions.
        let (ctx, deleter) =
            unsafe { ((*managed.as_ptr()).manager_ctx, (*managed.as_ptr()).deleter) };
        // The brand's address is unique where a linker may have merged the deleters of two
        // versions of this crate.
        let ours = deleter.is_some_and(|f| ptr::fn_addr_eq(f, DELETER)) && ctx == brand();
        // Not `then_some`: it would make the handle in any case, and drop it.
        ours.then(|| Self(managed))
    }

    /// Gives up the handle for the pointer.
    pub(crate) fn into_raw(self) -> NonNull<DLManagedTensorVersioned> {
        mem::ManuallyDrop::new(self).0
    }

    pub(crate) fn as_ptr(&self) -> *const DLManagedTensorVersioned {
        self.0.as_ptr()
    }

    pub(crate) fn tensor(&self) -> &DLTensor {
        // SAFETY: Block: initialised, and written through `&mut self` only.
        unsafe { &(*self.0.as_ptr()).dl_tensor }
    }

    pub(super) fn tensor_mut(&mut self) -> &mut DLTensor {
        // SAFETY: Block: initialised, and `&mut self` is the only access.
        unsafe { &mut (*self.0.as_ptr()).dl_tensor }
    }

    pub(crate) fn flags(&self) -> u64 {
        // SAFETY: as in `tensor`.
        unsafe { (*self.0.as_ptr()).flags }
    }

    /// The flags, and whether the data is immutable.
    pub(super) fn marks(&self) -> Marks {
        Marks { flags: self.flags(), immutable: self.header().immutable }
    }

    pub(crate) fn access(&self) -> Access {
        self.marks().access()
    }

    fn set_flags(&mut self, flags: u64) {
        // SAFETY: as in `tensor_mut`.
        unsafe { (*self.0.as_ptr()).flags = flags }
    }

    fn set_immutable_bit(&mut self, immutable: bool) {
        // SAFETY: Block: initialised, and `&mut self` is the only access.
        unsafe { (*self.0.cast::<Header>().as_ptr()).immutable = immutable }
    }

    /// Says that the data is the holder's alone.
    ///
    /// # Safety
    /// It is (Exclusive).
    pub(super) unsafe fn set_exclusive(&mut self) {
        self.set_flags(self.flags() | DLPACK_FLAG_BITMASK_IS_COPIED);
    }

    /// Tells consumers not to write the data. This promises nothing about the producer.
    pub(crate) fn set_read_only(&mut self) {
        self.set_flags(self.flags() | DLPACK_FLAG_BITMASK_READ_ONLY);
    }

    /// Marks the data as not written until the owner is dropped.
    ///
    /// # Safety
    /// Nothing writes the data until then (Immutable).
    pub(super) unsafe fn set_immutable(&mut self) {
        self.set_read_only();
        self.set_immutable_bit(true);
    }

    /// Makes exclusive data immutable: the data of this block, or of the tensor that it shares, if this is
    /// the last handle on that tensor. Returns whether the data is immutable now.
    pub(crate) fn freeze(&mut self) -> bool {
        let exclusive = match self.access() {
            Access::Immutable => return true,
            Access::Exclusive => true,
            Access::Shared | Access::ReadOnly => self.sole_source().is_some_and(Tensor::freeze),
        };
        if exclusive {
            // SAFETY: Exclusive: only the holder of this block, or of its source, could write the data, and `&mut
            // self` is the only access to it. From now on the access is Immutable, which allows no writes.
            unsafe { self.set_immutable() };
        }
        exclusive
    }

    pub(crate) fn shape(&self) -> &[i64] {
        let tensor = self.tensor();
        // SAFETY: Dims.
        unsafe { slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
    }

    pub(crate) fn strides(&self) -> &[i64] {
        let tensor = self.tensor();
        // SAFETY: Dims.
        unsafe { slice::from_raw_parts(tensor.strides, tensor.ndim as usize) }
    }

    /// The owner, in its place in the block.
    ///
    /// # Safety
    /// The owner is an `O`.
    pub(super) unsafe fn owner_mut<O: 'static>(&mut self) -> &mut O {
        // SAFETY: by contract a `Block<O>`, whose owner is initialised (Block); `&mut self` is the
        // only access.
        unsafe { (*self.0.cast::<Block<O>>().as_ptr()).owner.assume_init_mut() }
    }

    /// Writes shape and strides into the block; strides of C order where none are given. Returns the
    /// number of elements.
    ///
    /// The block must have room for them: `Managed::new` with the length of the shape.
    pub(super) fn set_dims<S, T>(&mut self, shape: &[S], strides: Option<&[T]>) -> Result<usize>
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
            // SAFETY: `axis < ndim`, and the block has room for as many.
            unsafe { tensor.shape.add(axis).write(extent) };
        }
        // SAFETY: all extents were just written, and nobody else knows of them.
        let extents = unsafe { slice::from_raw_parts(tensor.shape, ndim) };
        let elements = layout::element_count(extents)?;
        match strides {
            Some(strides) => {
                for (axis, &stride) in strides.iter().enumerate() {
                    let stride = stride.try_into().map_err(|_| Error::TooLarge)?;
                    // SAFETY: as above, behind the extents.
                    unsafe { tensor.strides.add(axis).write(stride) };
                }
            }
            None => layout::c_strides(extents, |axis, stride| {
                // SAFETY: as above, behind the extents.
                unsafe { tensor.strides.add(axis).write(stride) };
            }),
        }
        tensor.ndim = ndim as i32;
        Ok(elements)
    }

    /// Describes the data, after checking all that can be checked (Layout, Dtype). On addressable
    /// devices the byte offset is folded into the address; the address of a tensor without elements
    /// becomes NULL.
    ///
    /// The dims are set, and have this many elements.
    ///
    /// # Safety
    /// Data, Calm, Exclusive, Immutable and Send hold for `parts`, the dims and the owner.
    pub(super) unsafe fn describe(&mut self, parts: &RawParts, elements: usize) -> Result<()> {
        parts.dtype.check()?;
        let (data, byte_offset) = match elements {
            0 => (ptr::null_mut(), 0),
            _ => parts.locate(layout::element_extent(self.shape(), self.strides())?)?,
        };
        let Marks { flags, immutable } = parts.marks();
        let tensor = self.tensor_mut();
        tensor.data = data;
        tensor.byte_offset = byte_offset;
        tensor.dtype = parts.dtype.into();
        tensor.device = parts.device.into();
        self.set_flags(flags);
        self.set_immutable_bit(immutable);
        Ok(())
    }

    /// Keeps the check that the owner's elements must pass before it may be handed out again.
    pub(super) fn set_check(&mut self, check: Option<Check>) {
        // SAFETY: Block: initialised, and `&mut self` is the only access.
        unsafe { (*self.0.cast::<Header>().as_ptr()).check = check }
    }

    fn header(&self) -> &Header {
        // SAFETY: Block: initialised, and written through `&mut self` only.
        unsafe { self.0.cast::<Header>().as_ref() }
    }

    /// Whether shape and strides are in this block, and not in one that the owner keeps alive.
    pub(super) fn has_dims(&self) -> bool {
        self.header().dims != 0
    }

    fn owner_is<O: 'static>(&self) -> bool {
        (self.header().vtable.type_id)() == TypeId::of::<O>()
    }

    /// The owner, if it is an `O`.
    pub(crate) fn owner<O: Sync + 'static>(&self) -> Option<&O> {
        self.owner_is::<O>().then(|| {
            // SAFETY: the type was compared; the owner is initialised (Block), and `Sync`, so that
            // any thread may look at it.
            unsafe { (*self.0.cast::<Block<O>>().as_ptr()).owner.assume_init_ref() }
        })
    }
}
