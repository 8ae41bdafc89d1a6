//! Elements of outputs that the function only writes.
//!
//! - **Bytes.** The bytes of an `Uninit<T>` are a valid `T`: one that was written, or what the framework's memory had, if every
//!   bit pattern is valid. Safe code can write a `T`, and exchange two of `Uninit<T>`, which shows it old bytes.

use std::mem::MaybeUninit;

/// An element of an output that the function only writes: `out: &mut [Uninit<T>]`.
///
/// An output `&mut [T]` begins as zeros, which costs a pass over its memory. A function that writes each element before it
/// reads it takes this type instead. Elements that it does not write are zeros or keep what the memory had, so the caller sees old data.
///
/// ```
/// use dlbridge_ops::{Uninit, op};
///
/// #[op(elementwise)]
/// fn double(x: &[f32], out: &mut [Uninit<f32>]) {
///     for (out, x) in out.iter_mut().zip(x) {
///         out.write(2.0 * x);
///     }
/// }
///
/// // A call in Rust.
/// let mut doubled = [0.0; 2];
/// double(&[1.0, 2.0], Uninit::of(&mut doubled));
/// assert_eq!(doubled, [2.0, 4.0]);
/// ```
///
/// The function cannot read an element that it has not written:
/// ```compile_fail,E0368
/// # use dlbridge_ops::{Uninit, op};
/// #[op]
/// fn accumulate(x: &[f32], out: &mut [Uninit<f32>]) {
///     out[0] += x[0];
/// }
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct Uninit<T>(MaybeUninit<T>);

impl<T> Uninit<T> {
    /// Writes the element, and returns it.
    ///
    /// ```
    /// # use dlbridge_ops::Uninit;
    /// let mut element = [0];
    /// *Uninit::of(&mut element)[0].write(1) += 1;
    /// assert_eq!(element, [2]);
    /// ```
    pub fn write(&mut self, value: T) -> &mut T {
        self.0.write(value)
    }

    /// The elements of a slice, for a call of an operator's function in Rust.
    ///
    /// ```
    /// # use dlbridge_ops::Uninit;
    /// let mut elements = [1, 2];
    /// Uninit::of(&mut elements)[1].write(3);
    /// assert_eq!(elements, [1, 3]);
    /// ```
    pub fn of(elements: &mut [T]) -> &mut [Self] {
        // SAFETY: the layout is the same. Bytes: each element stays a valid `T`, whatever safe code does with the result.
        unsafe { &mut *(std::ptr::from_mut(elements) as *mut [Self]) }
    }
}
