//! Memory as protocols other than DLPack describe it, by address and byte strides, as a tensor;
//! repaired by a copy where a tensor could not express it.

use std::ffi::c_void;

use dlbridge::{Access, DataType, Device, RawParts, Tensor, TensorRef, TensorRefMut};
use pyo3::PyResult;
use pyo3::exceptions::PyBufferError;

use crate::borrow::Guard;
use crate::error::to_py_err;
use crate::receipt::CopyReason;

/// The most dimensions that these protocols have.
pub(super) const MAX_NDIM: usize = 64;

/// An extent that no tensor has: an axis that cannot be told is refused with it, in the one place where a layout is
/// checked. A second way out would keep the compiler from writing the tensor once.
pub(super) const NO_EXTENT: i64 = -1;

/// The extent and the stride of an axis, of elements of `1 << shift` bytes; [`NO_EXTENT`] where the byte stride is no
/// whole number of them.
#[inline(always)]
pub(super) fn in_elements(extent: isize, byte_stride: isize, shift: u32) -> (i64, i64) {
    let whole = byte_stride >> shift << shift == byte_stride;
    (if whole { extent as i64 } else { NO_EXTENT }, (byte_stride >> shift) as i64)
}

/// Elements somewhere in memory.
pub(super) struct Memory<'a> {
    /// The protocol's word for where it comes from, for messages.
    pub(super) door: &'static str,
    /// The address of the element at index zero.
    pub(super) data: *mut c_void,
    pub(super) dtype: DataType,
    /// Whether the bytes of each number are in the other order than this machine's.
    pub(super) byte_swapped: bool,
    /// At most [`MAX_NDIM`] extents, none of them negative.
    pub(super) shape: &'a [isize],
    /// C order where there are none.
    pub(super) byte_strides: Option<&'a [isize]>,
    pub(super) device: Device,
    pub(super) read_only: bool,
    /// Whether elements narrower than a byte take a whole byte each.
    pub(super) subbyte_padded: bool,
}

impl Memory<'_> {
    /// The tensor, and why its elements were copied, if they were: only if `copy` is not
    /// `Some(false)`.
    ///
    /// # Safety
    /// The contract of [`Tensor::from_raw_parts`], for strides in bytes; the memory may be unaligned.
    pub(super) unsafe fn into_tensor<O: Send + 'static>(
        self,
        owner: O,
        copy: Option<bool>,
    ) -> PyResult<(Tensor, Option<CopyReason>)> {
        let itemsize = self.dtype.itemsize() as isize;
        let mut strides = [0; MAX_NDIM];
        let mut odd = None;
        let ndim = self.shape.len();
        if ndim > MAX_NDIM || self.byte_strides.is_some_and(|strides| strides.len() != ndim) {
            return Err(PyBufferError::new_err(format!(
                "the {} has {ndim} extents, and not as many strides, or more than {MAX_NDIM}",
                self.door
            )));
        }
        for (axis, &stride) in self.byte_strides.unwrap_or_default().iter().enumerate() {
            strides[axis] = stride / itemsize;
            // The stride of an axis with one element leads nowhere.
            if stride % itemsize != 0 && self.shape[axis] > 1 && !self.shape.contains(&0) {
                odd = Some((axis, stride));
            }
        }
        if let Some((axis, stride)) = odd {
            if copy == Some(false) || !self.device.device_type().is_host_accessible() {
                return Err(PyBufferError::new_err(format!(
                    "the {}'s stride of {stride} bytes on axis {axis} is no multiple of its \
                     {itemsize} byte elements, which a tensor cannot express; allow a copy, or copy \
                     it first",
                    self.door
                )));
            }
            // SAFETY: the contract of this function.
            return Ok((unsafe { self.copied_by_bytes(owner) }?, Some(CopyReason::ByteStrides)));
        }
        if self.byte_swapped {
            self.check_may_swap(copy)?;
        }
        let swapped = self.byte_swapped;
        let strides = self.byte_strides.map(|_| &strides[..ndim]);
        // SAFETY: the contract of this function.
        let tensor = unsafe { Tensor::from_raw_parts(owner, self.parts(), self.shape, strides) };
        let tensor = tensor.map_err(to_py_err)?;
        if !swapped {
            return normalized(tensor, copy);
        }
        let _reading = Guard::reading(&tensor, "tensor that is copied")?;
        let swapped = TensorRef::from(&tensor).to_byte_swapped().map_err(to_py_err)?;
        Ok((swapped, Some(CopyReason::ByteOrder)))
    }

    fn parts(&self) -> RawParts {
        RawParts {
            device: self.device,
            access: if self.read_only { Access::ReadOnly } else { Access::Shared },
            subbyte_padded: self.subbyte_padded,
            ..RawParts::new(self.data, self.dtype)
        }
    }

    fn check_may_swap(&self, copy: Option<bool>) -> PyResult<()> {
        if copy == Some(false) || !self.device.device_type().is_host_accessible() {
            return Err(PyBufferError::new_err(format!(
                "the {}'s elements are not in this machine's byte order, which a tensor cannot \
                 express; allow a copy, or swap them first, for example with \
                 a.astype(a.dtype.newbyteorder('='))",
                self.door
            )));
        }
        Ok(())
    }

    /// A copy of elements that are not whole elements apart: they are read as rows of bytes.
    ///
    /// # Safety
    /// That of `into_tensor`.
    unsafe fn copied_by_bytes<O: Send + 'static>(&self, owner: O) -> PyResult<Tensor> {
        let (ndim, itemsize) = (self.shape.len(), self.dtype.itemsize() as isize);
        let (mut shape, mut strides) = ([1; MAX_NDIM + 1], [1; MAX_NDIM + 1]);
        shape[..ndim].copy_from_slice(self.shape);
        strides[..ndim].copy_from_slice(self.byte_strides.unwrap_or_default());
        shape[ndim] = itemsize;
        let parts = RawParts { dtype: DataType::UINT8, subbyte_padded: false, ..self.parts() };
        let (shape, strides) = (&shape[..=ndim], &strides[..=ndim]);
        // SAFETY: the contract of this function: the bytes of each element are there.
        let rows = unsafe { Tensor::from_raw_parts(owner, parts, shape, Some(strides)) };
        let rows = rows.map_err(to_py_err)?;
        let reading = Guard::reading(&rows, "tensor that is copied")?;
        let copy = rows.to_copy().map_err(to_py_err)?;
        drop(reading);
        let parts = RawParts {
            access: Access::Exclusive,
            subbyte_padded: self.subbyte_padded,
            ..RawParts::new(copy.data(), self.dtype)
        };
        // SAFETY: new memory with all the bytes of the elements in C order; its only handle becomes
        // the owner, which is sound with any bytes.
        let tensor = unsafe { Tensor::from_raw_parts(copy, parts, self.shape, None::<&[i64]>) };
        let mut tensor = tensor.map_err(to_py_err)?;
        if self.byte_swapped {
            let target = TensorRefMut::try_from(&mut tensor);
            target.and_then(TensorRefMut::swap_bytes).map_err(to_py_err)?;
        }
        Ok(tensor)
    }
}

/// Truth values of 0 and 1, which is what consumers count on: other bytes are made 1, by a copy.
pub(crate) fn normalized(
    tensor: Tensor,
    copy: Option<bool>,
) -> PyResult<(Tensor, Option<CopyReason>)> {
    let on_cpu = tensor.device().device_type().is_host_accessible();
    if tensor.dtype() != DataType::BOOL || !on_cpu {
        return Ok((tensor, None));
    }
    let reading = Guard::reading(&tensor, "tensor that is copied")?;
    if tensor.view::<bool>().is_ok() {
        drop(reading);
        return Ok((tensor, None));
    }
    if copy == Some(false) {
        return Err(PyBufferError::new_err(
            "some truth values are neither 0 nor 1, which consumers read in different ways; allow a \
             copy, or mend them first",
        ));
    }
    let extents: Vec<usize> = tensor.shape().iter().map(|&extent| extent as usize).collect();
    let mut values = Tensor::zeros(DataType::BOOL, extents).map_err(to_py_err)?;
    let bytes = tensor.view_bool_as_u8().map_err(to_py_err)?;
    let mut mended = values.view_mut::<bool>().map_err(to_py_err)?;
    for (value, &byte) in mended.iter_mut().zip(bytes.iter()) {
        *value = byte != 0;
    }
    Ok((values, Some(CopyReason::TruthValues)))
}
