//! Views as text.

use alloc::vec::Vec;
use core::fmt;

use crate::{TensorView, TensorViewMut};

/// Up to this number, all elements are written.
const ALL: usize = 1000;

/// The number of indices written at each end of an axis, if not all elements are written.
const ENDS: usize = 3;

/// The limit of written elements if not all are written: many axes have many ends.
const MOST: usize = 10_000;

/// Writes the elements in nested brackets, one line for each row of the last axis, as NumPy and ndarray do.
///
/// Width, precision and sign apply to each element. If a view has more than 1000 elements, each axis of more than six
/// indices shows the first three and the last three, with `...` between them; `{:#}` writes all elements.
///
/// ```
/// let tensor = dlbridge::Tensor::from([[1.0, 2.0], [3.0, 4.25]]);
/// assert_eq!(tensor.view::<f64>()?.to_string(), "[[1, 2],\n [3, 4.25]]");
/// assert_eq!(format!("{:.1}", tensor.view::<f64>()?), "[[1.0, 2.0],\n [3.0, 4.2]]");
///
/// let long = dlbridge::Tensor::from((0..2000).collect::<Vec<i32>>());
/// assert_eq!(long.view::<i32>()?.to_string(), "[0, 1, 2, ..., 1997, 1998, 1999]");
/// # Ok::<(), dlbridge::Error>(())
/// ```
impl<T: fmt::Display> fmt::Display for TensorView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = f.alternate() || self.len() <= ALL;
        Nested::new(self, all, true, T::fmt).write(f)
    }
}

/// Writes the elements as a [`TensorView`] does.
impl<T: fmt::Display> fmt::Display for TensorViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_shared().fmt(f)
    }
}

/// Writes shape, strides and elements. If a view has more than 1000 elements, each axis of more than six indices shows
/// the first three and the last three.
///
/// ```
/// let tensor = dlbridge::Tensor::from([[1, 2], [3, 4]]);
/// let text = "TensorView { shape: [2, 2], strides: [2, 1], elements: [[1, 2], [3, 4]] }";
/// assert_eq!(format!("{:?}", tensor.view::<i32>()?), text);
/// # Ok::<(), dlbridge::Error>(())
/// ```
impl<T: fmt::Debug> fmt::Debug for TensorView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        described(self, "TensorView", f)
    }
}

/// Writes shape, strides and elements as a [`TensorView`] does.
impl<T: fmt::Debug> fmt::Debug for TensorViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        described(self.as_shared(), "TensorViewMut", f)
    }
}

fn described<T: fmt::Debug>(
    view: &TensorView<'_, T>,
    name: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.debug_struct(name)
        .field("shape", &view.shape())
        .field("strides", &view.strides())
        .field("elements", &Elements(view))
        .finish()
}

/// The elements of a view, in one line.
struct Elements<'v, 'a, T>(&'v TensorView<'a, T>);

impl<T: fmt::Debug> fmt::Debug for Elements<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Nested::new(self.0, self.0.len() <= ALL, false, T::fmt).write(f)
    }
}

/// Writes elements in nested brackets.
struct Nested<'v, 'a, T> {
    view: &'v TensorView<'a, T>,
    /// The number of indices written at each end of an axis.
    ends: usize,
    in_lines: bool,
    element: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    /// The leading indices of the next element.
    index: Vec<usize>,
    /// The number of elements that may still be written.
    left: usize,
}

impl<'v, 'a, T> Nested<'v, 'a, T> {
    fn new(
        view: &'v TensorView<'a, T>,
        all: bool,
        in_lines: bool,
        element: fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result,
    ) -> Self {
        let (ends, left) = if all { (usize::MAX / 2, usize::MAX) } else { (ENDS, MOST) };
        Self { view, ends, in_lines, element, index: Vec::new(), left }
    }

    fn write(&mut self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Axes without elements may have any number of indices.
        if self.view.is_empty() { f.write_str("[]") } else { self.axis(f) }
    }

    /// Writes the elements at the indices that begin with `self.index`.
    fn axis(&mut self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = self.index.len();
        let Some(&extent) = self.view.shape().get(axis) else {
            self.left -= 1;
            let element = self.view.get(&self.index).expect("the index is within the shape");
            return (self.element)(element, f);
        };
        let extent = extent as usize;
        f.write_str("[")?;
        let mut i = 0;
        while i < extent {
            if i != 0 {
                self.separate(f, axis)?;
            }
            let shortened = i == self.ends && extent > 2 * self.ends;
            if shortened || self.left == 0 {
                f.write_str("...")?;
                i = if self.left == 0 { extent } else { extent - self.ends };
                continue;
            }
            self.index.push(i);
            self.axis(f)?;
            self.index.pop();
            i += 1;
        }
        f.write_str("]")
    }

    /// Writes the separator of two indices of an axis: a comma, and line breaks except for the last axis.
    fn separate(&self, f: &mut fmt::Formatter<'_>, axis: usize) -> fmt::Result {
        let inner = self.view.ndim() - axis - 1;
        if !self.in_lines || inner == 0 {
            return f.write_str(", ");
        }
        f.write_str(",")?;
        (0..inner).try_for_each(|_| f.write_str("\n"))?;
        (0..=axis).try_for_each(|_| f.write_str(" "))
    }
}
