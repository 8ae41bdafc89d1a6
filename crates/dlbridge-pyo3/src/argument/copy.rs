//! Copies of tensors that do not fit, for arguments that allow them, and the order of the elements in a copy.

use dlbridge::{Tensor, TensorRef};
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::cast::by_rule;
use super::mismatch::{Access, Mismatch};
use super::refusal::RefusedTensor;
use super::spec::{ArgumentSpec, Copies, Unfit};
use crate::borrow::Guard;
use crate::import;
use crate::import_options::Order;
use crate::numpy::array::NumpyArray;
use crate::protocol::TypeInfo;
use crate::python::copies;
use crate::python::error::to_py_err;

impl ArgumentSpec {
    pub(super) const COPIES: &'static Copies = &Copies {
        of_array: Self::copy_array,
        of_tensor: Self::copy_tensor,
        of_table: import::table,
    };

    fn copy_array(
        &'static self,
        head: NumpyArray,
        type_info: &TypeInfo,
        object: &Bound<'_, PyAny>,
        byte_swapped: bool,
    ) -> Result<Tensor, Unfit> {
        let describe = || match byte_swapped {
            true => head.describe_swapped(object),
            false => head.describe(object),
        };
        let found = describe().filter(|found| self.fits_extents(found.tensor.shape()));
        let found = found.ok_or(Unfit::Always)?;
        let _reading = Guard::acquire(&type_info.borrowed, object, &found.tensor, Mode::Read)?;
        // The first borrow may import modules, and code that runs meanwhile may replace the array's memory.
        let now = describe().filter(|now| now.is_as(&found)).ok_or(Unfit::Always)?;
        let copy = self.in_words(&now.tensor, None, self.convert(&now.tensor, byte_swapped))?;
        match self.compare(&TensorRef::from(&copy), Access::Writable, None).is_empty() {
            true => Ok(copy),
            false => Err(Unfit::Always),
        }
    }

    fn copy_tensor(
        &'static self,
        imported: &Tensor,
        type_info: &TypeInfo,
        object: &Bound<'_, PyAny>,
    ) -> Result<Tensor, Unfit> {
        let tensor = TensorRef::from(imported);
        let _reading = Guard::acquire(&type_info.borrowed, object, &tensor, Mode::Read)?;
        self.in_words(&tensor, None, self.convert(&tensor, false))
    }

    /// Adds the tensor to the words for an element that does not fit; `time` is NumPy's name for its elements.
    pub(super) fn in_words(
        &'static self,
        tensor: &TensorRef<'_>,
        time: Option<&str>,
        copy: Result<Tensor, Unfit>,
    ) -> Result<Tensor, Unfit> {
        let Err(Unfit::Element(words)) = copy else { return copy };
        let found = RefusedTensor::of(self, tensor, Mismatch::default());
        let time = time.map(str::to_owned);
        let found = RefusedTensor { element: Some(words), time, ..found };
        Err(Unfit::Element(found.found()))
    }

    /// A copy that fits, of a tensor that does not. `byte_swapped` is true for numbers in the byte order that this
    /// machine does not use.
    pub(super) fn convert(
        &self,
        source: &TensorRef<'_>,
        byte_swapped: bool,
    ) -> Result<Tensor, Unfit> {
        if !source.device().device_type().is_host_accessible() {
            return Err(Unfit::Always);
        }
        let axes = axes_of_copy(self.order, source);
        let permuted = match &axes {
            Some(axes) => &source.permute(axes).map_err(to_py_err)?,
            None => source,
        };
        let mut copy = byte_swapped.then(|| copies::byte_swapped(permuted)).transpose()?;
        if !self.fits_dtype(source.dtype()) {
            let native = copy.as_ref().map(TensorRef::from);
            copy = match by_rule(native.as_ref().unwrap_or(permuted), self) {
                // The message must name the first element in C order.
                Err(Unfit::Element(_)) if axes.is_some() => {
                    let in_c_order = Self { order: Order::C, ..*self };
                    return in_c_order.convert(source, byte_swapped);
                }
                converted => Some(converted?),
            };
        }
        let is_aligned =
            |copy: &Tensor| copy.is_empty() || self.fits_address(copy.data().addr(), copy.dtype());
        let copy = match copy {
            Some(copy) if is_aligned(&copy) => copy,
            Some(copy) => copies::copied(&TensorRef::from(&copy), self.align(copy.dtype()))?,
            None => copies::copied(permuted, self.align(permuted.dtype()))?,
        };
        let Some(axes) = axes else { return Ok(copy) };
        let mut places = vec![0; axes.len()];
        for (place, axis) in axes.into_iter().enumerate() {
            places[axis] = place;
        }
        Ok(copy.permute(places).map_err(to_py_err)?)
    }
}

/// The axes of a copy from the slowest to the fastest; `None` for C order.
///
/// Without a demanded order, the copy keeps the order of the tensor, as NumPy's order `K` does: memory is then read and
/// written in one direction.
fn axes_of_copy(demanded: Order, tensor: &TensorRef<'_>) -> Option<Vec<usize>> {
    let (shape, ndim) = (tensor.shape(), tensor.ndim());
    // A dimension of extent 1 fits any position.
    let stride = |axis: usize| match shape[axis] {
        1 => u64::MAX,
        _ => tensor.strides()[axis].unsigned_abs(),
    };
    let strides = || (0..ndim).map(stride).filter(|&stride| stride != u64::MAX);
    match demanded {
        _ if ndim < 2 => None,
        Order::C => None,
        Order::Fortran => Some((0..ndim).rev().collect()),
        // Repeated elements do not have an order.
        _ if tensor.is_empty() || strides().any(|stride| stride == 0) => None,
        _ if strides().rev().is_sorted() => None,
        _ if strides().is_sorted() => Some((0..ndim).rev().collect()),
        // A tensor with another order of axes is not contiguous.
        Order::Either => None,
        Order::Strided => {
            // There are few axes, and the standard library's sort adds 8 kB of code.
            let mut axes: Vec<usize> = Vec::new();
            for axis in 0..ndim {
                let place = axes.iter().position(|&other| stride(other) < stride(axis));
                axes.insert(place.unwrap_or(axes.len()), axis);
            }
            Some(axes)
        }
    }
}
