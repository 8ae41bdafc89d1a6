//! The heap block behind every tensor: one allocation with the managed tensor, the owner, the
//! extents and the strides; and the deleter that frees it.
//!
//! ```text
//! +---------------------------+--------------+---------+----------------+-----------------+
//! | DLManagedTensorVersioned  | VTable, dims | owner   | ndim extents   | ndim strides    |
//! +---------------------------+--------------+---------+----------------+-----------------+
//! ^ what C sees                                         ^ t.shape        ^ t.strides
//! ```

use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use core::alloc::Layout;
use core::any::TypeId;
use core::ffi::c_void;
use core::mem::{self, MaybeUninit};
use core::ptr::{self, NonNull};
use core::slice;

use dlbridge_sys::{
    DLManagedTensorVersioned, DLManagedTensorVersionedDeleter, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY, DLPackVersion,
    DLTensor,
};

use crate::layout::{self, MAX_NDIM};
use crate::{DataType, Device, Error, Result};

/// Who may read and write the data of a tensor.
///
/// ```
/// use dlbridge::{Access, Tensor};
///
/// assert_eq!(Tensor::from(vec![1.0_f32]).access(), Access::Exclusive);
/// assert_eq!(Tensor::from(&[1.0_f32][..]).access(), Access::ReadOnly);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The holder of the tensor alone, for reading and writing. DLPack: `IS_COPIED`.
    Exclusive,
    /// The holder, and others too. DLPack: no flag.
    Shared,
    /// Reading only. DLPack: `READ_ONLY`.
    ReadOnly,
}

impl Access {
    pub(crate) const fn flags(self) -> u64 {
        match self {
            Self::Exclusive => DLPACK_FLAG_BITMASK_IS_COPIED,
            Self::Shared => 0,
            Self::ReadOnly => DLPACK_FLAG_BITMASK_READ_ONLY,
        }
    }

    /// Whether the flags say that sub-byte elements are padded.
    pub(crate) const fn subbyte_padded(flags: u64) -> bool {
        flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0
    }

    pub(crate) const fn of(flags: u64) -> Self {
        if flags & DLPACK_FLAG_BITMASK_READ_ONLY != 0 {
            Self::ReadOnly
        } else if flags & DLPACK_FLAG_BITMASK_IS_COPIED != 0 {
            Self::Exclusive
        } else {
            Self::Shared
        }
    }
}

/// Where the elements of a tensor are and what they are, for
/// [`Tensor::from_raw_parts`](crate::Tensor::from_raw_parts).
///
/// ```
/// use dlbridge::{Access, DataType, Device, RawParts};
///
/// let parts = RawParts::new(std::ptr::null_mut(), DataType::FLOAT32);
/// assert_eq!((parts.device, parts.byte_offset), (Device::CPU, 0));
/// assert_eq!(parts.access, Access::Shared);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RawParts {
    /// The address of the first element, or a handle on devices that have handles.
    pub data: *mut c_void,
    /// The type of the elements.
    pub dtype: DataType,
    /// The device that holds the data.
    pub device: Device,
    /// The distance from `data` to the first element in bytes.
    pub byte_offset: u64,
    /// Who may use the data.
    pub access: Access,
    /// Whether elements narrower than a byte take a whole byte each.
    pub subbyte_padded: bool,
}

impl RawParts {
    /// Data in main memory, shared, without an offset.
    ///
    /// ```
    /// use dlbridge::{DataType, RawParts};
    ///
    /// let mut values = [1_i32, 2, 3];
    /// let parts = RawParts::new(values.as_mut_ptr().cast(), DataType::INT32);
    /// assert!(!parts.subbyte_padded);
    /// ```
    pub const fn new(data: *mut c_void, dtype: DataType) -> Self {
        Self {
            data,
            dtype,
            device: Device::CPU,
            byte_offset: 0,
            access: Access::Shared,
            subbyte_padded: false,
        }
    }

    fn flags(&self) -> u64 {
        let padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED * u64::from(self.subbyte_padded);
        self.access.flags() | padded
    }
}

/// What the deleter knows of an owner whose type it does not know.
struct VTable {
    /// The type of the owner. A function, because `TypeId::of` is no constant yet.
    type_id: fn() -> TypeId,
    /// Drops the owner in place.
    drop_owner: unsafe fn(NonNull<Header>),
    /// The layout of the block without the dims.
    layout: Layout,
}

#[repr(C)]
struct Header {
    managed: DLManagedTensorVersioned,
    vtable: &'static VTable,
    /// The number of `i64` at the end of the block.
    dims: usize,
}

#[repr(C)]
struct Block<O> {
    header: Header,
    owner: MaybeUninit<O>,
}

impl<O: 'static> Block<O> {
    const VTABLE: VTable = VTable {
        type_id: TypeId::of::<O>,
        drop_owner: Self::drop_owner,
        layout: Layout::new::<Self>(),
    };

    /// # Safety
    /// `header` begins a `Block<O>` whose owner is initialised and is not used afterwards.
    unsafe fn drop_owner(header: NonNull<Header>) {
        // SAFETY: by this function's contract.
        unsafe { (*header.cast::<Self>().as_ptr()).owner.assume_init_drop() }
    }
}

impl VTable {
    /// The layout of a block, and where its dims begin.
    fn layout(&self, dims: usize) -> (Layout, usize) {
        let array = Layout::array::<i64>(dims).expect("at most 2 * MAX_NDIM dims");
        self.layout.extend(array).expect("an owner leaves room for 2 * MAX_NDIM dims")
    }
}

/// Marks a managed tensor as made here. Its address stands in `manager_ctx`, which must not be
/// NULL and which only the deleter's side ever reads.
static BRAND: u8 = 0;

/// The one deleter of every block. Not generic: the addresses of generic functions may be merged,
/// and the address is how a tensor of ours is recognised.
static DELETER: DLManagedTensorVersionedDeleter = delete;

fn brand() -> *mut c_void {
    (&raw const BRAND).cast_mut().cast()
}

/// Drops the owner and frees the block. NULL is ignored.
///
/// # Safety
/// `managed` is NULL or begins a block that is not used afterwards (Block).
#[inline(never)]
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    let Some(header) = NonNull::new(managed.cast::<Header>()) else { return };
    // SAFETY: Block: the header is initialised and the block is ours alone.
    let (vtable, dims) = unsafe { ((*header.as_ptr()).vtable, (*header.as_ptr()).dims) };
    let free = Free { header, layout: vtable.layout(dims).0 };
    // SAFETY: Block: the vtable belongs to the owner's type, the owner is initialised, and the
    // block is freed right behind. Send: any thread may do this.
    no_unwind(|| unsafe { (vtable.drop_owner)(header) });
    drop(free);
}

/// Runs the drop of an owner, whose panic must not cross the C boundary: it is reported by the
/// panic hook and ends here. Without `std` it aborts, as a panic out of `extern "C"` does.
pub(super) fn no_unwind(f: impl FnOnce()) {
    #[cfg(feature = "std")]
    if let Err(payload) = std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)) {
        // The payload's own drop may panic too.
        mem::forget(payload);
    }
    #[cfg(not(feature = "std"))]
    f();
}

/// Frees a block when dropped.
struct Free {
    header: NonNull<Header>,
    layout: Layout,
}

impl Drop for Free {
    fn drop(&mut self) {
        // SAFETY: made by `delete` and `try_into_owner` alone, which give up the block; the layout
        // is the one it was allocated with.
        unsafe { dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// The handle on a block. Dropping it runs the deleter.
pub(crate) struct Managed(NonNull<DLManagedTensorVersioned>);

// SAFETY: Send: the owner may be dropped on any thread; the rest is plain data.
unsafe impl Send for Managed {}
// SAFETY: Shared access reads dims and description, which nobody writes (Dims), and never the owner.
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
        let vtable: &'static VTable = &Block::<O>::VTABLE;
        let dims = 2 * ndim;
        let (layout, dims_at) = vtable.layout(dims);
        // SAFETY: a header is in it, so the layout has a size.
        let memory = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(memory.cast::<Block<O>>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: `dims_at` is within the allocation, and aligned because `extend` pads to it.
        let shape = unsafe { memory.add(dims_at) }.cast::<i64>();
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion::CURRENT,
            manager_ctx: brand(),
            deleter: Some(DELETER),
            flags: 0,
            dl_tensor: DLTensor {
                data: ptr::null_mut(),
                device: Device::CPU.into(),
                ndim: 0,
                dtype: DataType::UINT8.into(),
                shape,
                // SAFETY: the dims are within the allocation, or none.
                strides: unsafe { shape.add(ndim) },
                byte_offset: 0,
            },
        };
        let header = Header { managed, vtable, dims };
        // SAFETY: allocated above with the layout of a `Block<O>`, and nobody else has it.
        unsafe { block.write(Block { header, owner: MaybeUninit::new(owner) }) };
        Self(block.cast())
    }

    /// Takes over a pointer that [`Managed::into_raw`] gave out, if it is one.
    ///
    /// # Safety
    /// `managed` points at a managed tensor of this major version. If it is one of ours, the
    /// handle is given up.
    pub(super) unsafe fn recognise(managed: NonNull<DLManagedTensorVersioned>) -> Option<Self> {
        // SAFETY: by contract readable. The field before `flags` are the same in all versions.
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

    pub(super) fn set_flags(&mut self, flags: u64) {
        // SAFETY: as in `tensor_mut`.
        unsafe { (*self.0.as_ptr()).flags = flags }
    }

    /// Says that the data is the holder's alone.
    ///
    /// # Safety
    /// It is (Exclusive).
    pub(crate) unsafe fn set_exclusive(&mut self) {
        self.set_flags(self.flags() | DLPACK_FLAG_BITMASK_IS_COPIED);
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

    /// Writes shape and strides into the block; strides of C order where none are given.
    ///
    /// The block must have room for them: `Managed::new` with the length of the shape.
    pub(super) fn set_dims<S, T>(&mut self, shape: &[S], strides: Option<&[T]>) -> Result<()>
    where
        S: Copy + TryInto<i64>,
        T: Copy + TryInto<i64>,
    {
        let ndim = shape.len();
        if let Some(strides) = strides.filter(|strides| strides.len() != ndim) {
            return Err(Error::StridesLength { ndim, strides: strides.len() });
        }
        // SAFETY: `self` is the only handle on an initialised header.
        let room = unsafe { (*self.0.cast::<Header>().as_ptr()).dims };
        assert!(ndim <= MAX_NDIM && 2 * ndim <= room, "the block was made for fewer dimensions");
        let tensor = self.tensor_mut();
        for (axis, &extent) in shape.iter().enumerate() {
            let extent = extent.try_into().map_err(|_| Error::InvalidExtent { axis })?;
            // SAFETY: `axis < ndim`, and the block has room for as many.
            unsafe { tensor.shape.add(axis).write(extent) };
        }
        for axis in 0..ndim {
            let stride = match strides {
                Some(strides) => {
                    strides[axis].try_into().map_err(|_| Error::InvalidStride { axis })?
                }
                None => 0,
            };
            // SAFETY: as above, behind the extents.
            unsafe { tensor.strides.add(axis).write(stride) };
        }
        // SAFETY: the first half of the dims was just written, and so was the second; they do not
        // overlap, and `&mut self` is the only access.
        let (shape, strides_out) = unsafe {
            (
                slice::from_raw_parts(tensor.shape, ndim),
                slice::from_raw_parts_mut(tensor.strides, ndim),
            )
        };
        layout::element_count(shape)?;
        if strides.is_none() {
            layout::write_c_strides(shape, strides_out);
        }
        tensor.ndim = ndim as i32;
        Ok(())
    }

    /// Describes the data whose dims are set, after checking all that can be checked (Layout,
    /// Dtype). On addressable devices the byte offset is folded into the address; the address of
    /// a tensor without elements becomes NULL.
    pub(super) fn describe(&mut self, parts: &RawParts) -> Result<()> {
        parts.dtype.check()?;
        let (shape, strides) = (self.shape(), self.strides());
        let (data, byte_offset) = if layout::element_count(shape)? == 0 {
            (ptr::null_mut(), 0)
        } else if parts.data.is_null() {
            return Err(Error::NullPointer { field: "the data of a tensor with elements" });
        } else {
            let elements = layout::element_extent(shape, strides)?;
            let extent = layout::byte_extent(elements, parts.dtype, parts.subbyte_padded)?;
            let addressable = parts.device.device_type().is_addressable();
            let base = if addressable { parts.data.addr() as u64 } else { 0 };
            let first = base.checked_add(parts.byte_offset).ok_or(Error::TooLarge)?;
            let end = first.checked_add(extent.end as u64).ok_or(Error::TooLarge)?;
            let fits = first.checked_add_signed(extent.start as i64).is_some()
                && (!addressable || usize::try_from(end).is_ok());
            if !fits {
                return Err(Error::TooLarge);
            }
            match addressable {
                true => (parts.data.wrapping_byte_add(parts.byte_offset as usize), 0),
                false => (parts.data, parts.byte_offset),
            }
        };
        let tensor = self.tensor_mut();
        tensor.data = data;
        tensor.byte_offset = byte_offset;
        tensor.dtype = parts.dtype.into();
        tensor.device = parts.device.into();
        self.set_flags(parts.flags());
        Ok(())
    }

    /// Moves the owner out and frees the block, if the owner is an `O`.
    pub(crate) fn try_into_owner<O: 'static>(self) -> Result<O, Self> {
        let header = self.0.cast::<Header>();
        // SAFETY: `self` is the only handle on an initialised header.
        let (vtable, dims) = unsafe { ((*header.as_ptr()).vtable, (*header.as_ptr()).dims) };
        if (vtable.type_id)() != TypeId::of::<O>() {
            return Err(self);
        }
        let _free = Free { header, layout: vtable.layout(dims).0 };
        mem::forget(self);
        // SAFETY: the type was compared; the owner is initialised (Block) and read once, because
        // the block is freed without dropping it.
        Ok(unsafe { (*header.cast::<Block<O>>().as_ptr()).owner.assume_init_read() })
    }
}
