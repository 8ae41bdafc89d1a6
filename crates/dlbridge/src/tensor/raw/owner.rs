//! Rust values that own the elements of a tensor, and the functions that make tensors of them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{mem, ptr};

use dlbridge_sys::DLTensor;

#[cfg(feature = "ndarray")]
use crate::block::Check;
#[cfg(feature = "ndarray")]
use crate::block::DimsOut;
use crate::block::RawParts;
use crate::block::{Builder, Managed, Undescribed};
use crate::element::items::{Items, whole_shape};
use crate::element::{Element, assert_layout};
use crate::{Access, DataType, Error, MAX_NDIM, Result, layout};

/// A value that owns items in one piece of memory, for [`Tensor::from_parts`].
///
/// An owner is `Send`, because a deleter may run on any thread, and `'static`, because a consumer may hold a tensor for
/// ever. So an `Rc` and a borrowed slice are not owners:
///
/// ```compile_fail,E0277
/// let shared: std::rc::Rc<[f32]> = std::rc::Rc::from([1.0]);
/// let tensor = dlbridge::Tensor::from_parts(shared, [1]);
/// ```
/// ```compile_fail,E0597
/// let values = vec![1.0_f32];
/// let tensor = dlbridge::Tensor::from_parts(values.as_slice(), [1]);
/// ```
///
/// # Safety
/// - [`items`](Owner::items) returns the same memory until the owner is dropped, also after the owner has moved, as
///   long as no other code uses the owner.
/// - That memory is valid for reads and initialised, and nothing writes it while a view of the tensor is
///   alive. [`ACCESS`](Owner::ACCESS) adds to this:
///   with [`Access::Exclusive`] only the holder of the tensor reads or writes it; with
///   [`Access::Immutable`] nothing writes it until the owner is dropped or taken out of the tensor.
/// - With [`Access::Exclusive`] and [`Access::Shared`] it is valid for writes too, and any bytes may be written there,
///   even those that [`Element::CHECK`] refuses. [`Tensor::try_into_owner`] checks for them; dropping the owner must be
///   sound with them.
///
/// [`Tensor::from_parts`]: crate::Tensor::from_parts
/// [`Tensor::try_into_owner`]: crate::Tensor::try_into_owner
///
/// ```
/// use dlbridge::{Access, Owner, Tensor};
///
/// struct Recording(Vec<i16>);
///
/// // SAFETY: forwards to the vector, which alone uses its memory, at a fixed address.
/// unsafe impl Owner for Recording {
///     type Item = i16;
///     const ACCESS: Access = Access::Exclusive;
///
///     fn items(&mut self) -> *mut [i16] {
///         self.0.items()
///     }
/// }
///
/// let stereo = Tensor::from_parts(Recording(vec![0; 88_200]), [44_100, 2])?;
/// assert_eq!(stereo.shape(), [44_100, 2]);
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot own the elements of a tensor",
    label = "not an `Owner`",
    note = "a tensor owns its elements: pass a `Vec`, a `Box`, an `Arc<[T]>` or a `'static` slice of elements",
    note = "to borrow elements for a call, make a `TensorRef` or a `TensorRefMut` of them"
)]
pub unsafe trait Owner: Send + 'static {
    /// The type of the items in the memory.
    type Item: Items;

    /// The access to the memory: [`Access::Exclusive`] if only the owner has it, [`Access::Immutable`] if all users
    /// only read it.
    ///
    /// ```
    /// use dlbridge::{Access, Owner};
    ///
    /// assert_eq!(<Vec<f32> as Owner>::ACCESS, Access::Exclusive);
    /// assert_eq!(<std::sync::Arc<[f32]> as Owner>::ACCESS, Access::Immutable);
    /// ```
    const ACCESS: Access;

    /// True if dropping the owner frees memory, and runs no code of others. Then its deleter need not expect another
    /// deleter inside.
    #[doc(hidden)]
    const IS_LEAF: bool = false;

    /// The memory.
    ///
    /// ```
    /// use dlbridge::Owner;
    ///
    /// assert_eq!(vec![1.0_f32, 2.0].items().len(), 2);
    /// ```
    fn items(&mut self) -> *mut [Self::Item];
}

// SAFETY: the heap memory of a vector does not move with it; it is unique.
unsafe impl<I: Items> Owner for Vec<I> {
    type Item = I;
    const ACCESS: Access = Access::Exclusive;
    const IS_LEAF: bool = !mem::needs_drop::<I>();

    fn items(&mut self) -> *mut [I] {
        ptr::slice_from_raw_parts_mut(self.as_mut_ptr(), self.len())
    }
}

// SAFETY: the heap memory of a box does not move with it, and is unique. The pointer is taken after the box has moved
// into the block, and the box is not touched again before it is dropped or moved out.
unsafe impl<I: Items> Owner for Box<[I]> {
    type Item = I;
    const ACCESS: Access = Access::Exclusive;
    const IS_LEAF: bool = !mem::needs_drop::<I>();

    fn items(&mut self) -> *mut [I] {
        &raw mut **self
    }
}

// SAFETY: the heap memory of a box does not move with it, and is unique. The pointer is taken after the box has moved
// into the block, and the box is not touched again before it is dropped or moved out.
unsafe impl<I: Items, const N: usize> Owner for Box<[I; N]> {
    type Item = I;
    const ACCESS: Access = Access::Exclusive;
    const IS_LEAF: bool = !mem::needs_drop::<I>();

    fn items(&mut self) -> *mut [I] {
        &raw mut **self
    }
}

// SAFETY: the memory lives as long as the handle. Nothing writes it until then: `Arc::get_mut` refuses while the
// tensor has this handle, and items do not have interior mutability (`Items`).
unsafe impl<I: Items> Owner for Arc<[I]> {
    type Item = I;
    const ACCESS: Access = Access::Immutable;
    const IS_LEAF: bool = !mem::needs_drop::<I>();

    fn items(&mut self) -> *mut [I] {
        Arc::as_ptr(self).cast_mut()
    }
}

// SAFETY: valid for ever, and never written.
unsafe impl<I: Items> Owner for &'static [I] {
    type Item = I;
    const ACCESS: Access = Access::Immutable;
    const IS_LEAF: bool = !mem::needs_drop::<I>();

    fn items(&mut self) -> *mut [I] {
        ptr::from_ref::<[I]>(self).cast_mut()
    }
}

/// Makes a tensor of all items of an owner, in their own shape: the number of items, then the
/// extents of one.
pub(crate) fn from_whole<O: Owner>(mut owner: O) -> Result<Managed> {
    let len = owner.items().len();
    if O::Item::NDIM == 0 {
        return from_adjacent(owner, &[len]);
    }
    from_adjacent(owner, &whole_shape::<O::Item>(len)[..=O::Item::NDIM])
}

/// Makes a tensor of all elements of an owner, in C order.
///
/// Needs no bounds check: the elements are all of the owner's, contiguous, and the owner promises the memory.
#[inline(always)]
pub(crate) fn from_adjacent<O: Owner>(owner: O, shape: &[usize]) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    const { assert_layout::<<O::Item as Items>::Element>() };
    let mut builder = Builder::new(owner, shape.len());
    let elements = builder.set_c_order(shape)?;
    // Called after the owner has moved into the block: moving a box would invalidate the pointer.
    let items = builder.owner_mut().items();
    let owned = items.len() * (size_of::<O::Item>() / size_of::<<O::Item as Items>::Element>());
    if elements != owned {
        return Err(Error::ElementCount { shape: elements, owner: owned });
    }
    let first = items.cast::<<O::Item as Items>::Element>();
    let parts = RawParts::of_elements(first, O::ACCESS);
    let description = description(&parts, shape.len(), elements);
    // SAFETY: the dims were just written. `Owner` promises Data, Calm, Exclusive, Immutable and Send for its items,
    // whose number was compared with the shape's.
    Ok(unsafe {
        builder.finish(description, parts.marks(), <O::Item as Items>::Element::CHECK, O::IS_LEAF)
    })
}

/// Makes a tensor of an owner and a strided layout within its elements.
pub(crate) fn from_owner<O: Owner>(
    owner: O,
    shape: &[usize],
    strides: &[isize],
    offset: usize,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    const { assert_layout::<<O::Item as Items>::Element>() };
    let mut block = Undescribed::new(owner, shape.len());
    let elements = block.set_dims(shape, Some(strides))?;
    let items = block.owner_mut().items();
    let owned = items.len() * (size_of::<O::Item>() / size_of::<<O::Item as Items>::Element>());
    let data = items.cast::<<O::Item as Items>::Element>();
    if elements != 0 {
        let extent = layout::element_extent(block.shape(), block.strides())?;
        let bound = |end: i64| end.checked_add(i64::try_from(offset).ok()?);
        let (Some(lowest), Some(highest)) = (bound(extent.lowest), bound(extent.highest)) else {
            return Err(Error::TooLarge);
        };
        if lowest < 0 || highest >= owned as i64 {
            return Err(Error::OutOfBounds { lowest, highest, owner: owned });
        }
    }
    let parts = RawParts::of_elements(data.wrapping_add(offset), O::ACCESS);
    // SAFETY: `Owner` promises Data, Calm, Exclusive, Immutable and Send for its items, and the layout was
    // compared with their number.
    unsafe { block.describe(&parts, elements, <O::Item as Items>::Element::CHECK) }
}

/// Makes a tensor of bytes that hold elements of a dtype, contiguous in C order from an offset on.
pub(crate) fn from_bytes<O: Owner<Item = u8>>(
    owner: O,
    (dtype, padded): (DataType, bool),
    shape: &[usize],
    byte_offset: usize,
) -> Result<Managed> {
    if shape.len() > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: shape.len() as i64 });
    }
    let mut block = Undescribed::new(owner, shape.len());
    let elements = block.set_dims(shape, None::<&[i64]>)?;
    let bytes = block.owner_mut().items();
    let data = within(bytes, (dtype, padded), elements, byte_offset)?;
    let subbyte_padded = padded && dtype.is_subbyte();
    let parts = RawParts { access: O::ACCESS, subbyte_padded, ..RawParts::new(data.cast(), dtype) };
    // SAFETY: `Owner` promises Data, Calm, Exclusive, Immutable and Send for its bytes, and the elements are
    // within them.
    unsafe { block.describe(&parts, elements, None) }
}

/// The address at an offset into bytes, if the elements fit behind it.
pub(crate) fn within(
    bytes: *mut [u8],
    (dtype, padded): (DataType, bool),
    elements: usize,
    byte_offset: usize,
) -> Result<*mut u8> {
    dtype.check()?;
    let needed = byte_offset as u128 + layout::byte_count(elements, dtype, padded);
    let available = bytes.len();
    if needed > available as u128 {
        return Err(Error::ByteCount { needed, available });
    }
    Ok(bytes.cast::<u8>().wrapping_add(byte_offset))
}

/// Makes a tensor over memory that any owner keeps alive.
///
/// # Safety
/// The contract of [`Tensor::from_raw_parts`](crate::Tensor::from_raw_parts).
pub(crate) unsafe fn from_raw_parts<O, S, T>(
    owner: O,
    parts: &RawParts,
    shape: &[S],
    strides: Option<&[T]>,
) -> Result<Managed>
where
    O: Send + 'static,
    S: Copy + TryInto<i64>,
    T: Copy + TryInto<i64>,
{
    let ndim = shape.len();
    if let Some(strides) = strides.filter(|strides| strides.len() != ndim) {
        return Err(Error::StridesLength { ndim, strides: strides.len() });
    }
    let mut fits = true;
    let (mut builder, extents) = (Builder::new(owner, ndim), shape.iter().copied());
    let measure = match strides {
        Some(strides) => builder.set_axes(
            extents
                .zip(strides.iter().copied())
                .map(|axis| (number(axis.0, &mut fits), number(axis.1, &mut fits))),
        ),
        None => builder.set_shape(extents.map(|extent| number(extent, &mut fits))),
    };
    if !fits {
        return Err(Error::TooLarge);
    }
    // SAFETY: Data, Calm, Exclusive, Immutable and Send are this function's contract.
    unsafe { builder.describe(parts, measure?, 0) }
}

/// Converts a number to an `i64`. If it does not fit, returns zero and sets `fits` to false.
#[inline]
fn number<N: TryInto<i64>>(number: N, fits: &mut bool) -> i64 {
    number.try_into().unwrap_or_else(|_| {
        *fits = false;
        0
    })
}

/// Makes a tensor of an owner that knows its own shape and strides. `describe` gets the owner in its final place,
/// writes the dims, and returns the parts and the number of elements. `check` is that of the elements; `is_leaf` is
/// true if the owner's drop runs no deleter.
///
/// # Safety
/// The contract of [`Tensor::from_raw_parts`](crate::Tensor::from_raw_parts), for the parts and dims of `describe`, on
/// the CPU; and Layout holds for them.
#[cfg(feature = "ndarray")]
#[inline]
pub(crate) unsafe fn from_strided<O, F>(
    owner: O,
    ndim: usize,
    check: Option<Check>,
    is_leaf: bool,
    describe: F,
) -> Result<Managed>
where
    O: Send + 'static,
    F: FnOnce(&mut O, &mut DimsOut<'_>) -> (RawParts, usize),
{
    if ndim > MAX_NDIM {
        return Err(Error::InvalidNdim { ndim: ndim as i64 });
    }
    let mut builder = Builder::new(owner, ndim);
    let (owner, mut dims) = builder.owner_and_dims();
    let (parts, elements) = describe(owner, &mut dims);
    assert!(dims.is_full(), "an axis was not described");
    // SAFETY: the dims were just written, all of them. The caller guarantees Layout for them, and the contract of
    // `Tensor::from_raw_parts`, which is Data, Calm, Exclusive, Immutable and Send, for the parts.
    Ok(unsafe {
        builder.finish(description(&parts, ndim, elements), parts.marks(), check, is_leaf)
    })
}

/// The description of elements in main memory, without dims. The address is NULL if the tensor is empty.
#[inline]
fn description(parts: &RawParts, ndim: usize, elements: usize) -> DLTensor {
    DLTensor {
        data: if elements == 0 { ptr::null_mut() } else { parts.data },
        device: parts.device.into(),
        ndim: ndim as i32,
        dtype: parts.dtype.into(),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}
