//! Elements at any address and in either byte order.

use core::fmt;
use core::mem::MaybeUninit;
use core::slice;

use crate::DataType;
use crate::element::Element;

/// An element at any address, aligned or not.
///
/// If a tensor's data is not aligned for its dtype, view it as this type, whose alignment is 1. It also reads data of
/// the other byte order.
///
/// ```
/// use dlbridge::{Tensor, Unaligned};
///
/// let values: Vec<Unaligned<f32>> = [1.0, 2.0].map(Unaligned::from).to_vec();
/// let tensor = Tensor::from(values);                    // a float32 tensor at some address
/// let view = tensor.view::<Unaligned<f32>>()?;          // right for every address
/// assert_eq!(view[[1]].get(), 2.0);
/// # Ok::<(), dlbridge::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq)]
#[repr(C, packed)]
pub struct Unaligned<T: Element>(T);

// SAFETY: the same bytes as `T`, with the same meaning and the same valid patterns; packed around `T`, which has no
// padding.
unsafe impl<T: Element> Element for Unaligned<T> {
    const DATA_TYPE: DataType = T::DATA_TYPE;
    const CHECK: Option<fn(&[u8]) -> bool> = T::CHECK;
}

impl<T: Element> Unaligned<T> {
    /// The element.
    ///
    /// ```
    /// assert_eq!(dlbridge::Unaligned::from(1.5_f32).get(), 1.5);
    /// ```
    pub fn get(self) -> T {
        self.0
    }

    /// The element with the bytes of each number reversed, for data of the other byte order: of each lane, and of each
    /// half of a complex number. Does not compile for types that need a check of their bits.
    ///
    /// ```
    /// assert_eq!(dlbridge::Unaligned::from(0x0102_u16).get_byte_swapped(), 0x0201);
    /// ```
    pub fn get_byte_swapped(self) -> T {
        const { assert!(T::CHECK.is_none(), "the reversed bytes may not be a valid value of the type") }
        let mut element = MaybeUninit::new(self.0);
        // SAFETY: the bytes of an element, which has no padding; borrowed from a variable.
        let bytes =
            unsafe { slice::from_raw_parts_mut(element.as_mut_ptr().cast::<u8>(), size_of::<T>()) };
        let number = T::DATA_TYPE.number_size().unwrap_or(1);
        bytes.chunks_exact_mut(number).for_each(<[u8]>::reverse);
        // SAFETY: without a check every bit pattern is a value of the type (`Element`).
        unsafe { element.assume_init() }
    }
}

impl<T: Element> From<T> for Unaligned<T> {
    fn from(element: T) -> Self {
        Self(element)
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Unaligned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unaligned").field(&self.get()).finish()
    }
}
