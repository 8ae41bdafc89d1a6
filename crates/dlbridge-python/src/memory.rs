//! Memory that protocols other than DLPack describe by address and byte strides, as a tensor. A copy repairs what a
//! tensor cannot express.

use std::ffi::c_void;
use std::ops::Range;

use dlbridge::{
    Access, CopyReason, DataType, Device, Error, RawParts, Tensor, TensorRef, TensorRefMut,
};
use dlbridge_pyo3::borrow::Guard;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::layout::NO_EXTENT;
use dlbridge_pyo3::protocol::numpy::Source;
use dlbridge_pyo3::python::copies;
use dlbridge_pyo3::python::error::to_py_err;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// The most dimensions that these protocols support.
pub(crate) const MAX_NDIM: usize = 64;

/// The number of elements between two checks, for work that checks by itself.
const BLOCK: usize = 1 << 22;

/// Calls `work` with one block of elements after the other, and its start; `None` if `work` stopped it.
pub(crate) fn each_block<T>(
    elements: &mut [T],
    go_on: &mut dyn FnMut() -> bool,
    mut work: impl FnMut(usize, &mut [T]),
) -> Option<()> {
    for (nth, block) in elements.chunks_mut(BLOCK).enumerate() {
        if nth > 0 && !go_on() {
            return None;
        }
        work(nth * BLOCK, block);
    }
    Some(())
}

/// Elements at any place in memory.
pub(crate) struct Memory {
    pub(crate) protocol: Protocol,
    /// The address of the element at index zero.
    pub(crate) data: *mut c_void,
    pub(crate) dtype: DataType,
    /// True if each number has the byte order that this machine does not use.
    pub(crate) byte_swapped: bool,
    /// At most [`MAX_NDIM`] extents, none of them negative.
    pub(crate) shape: Vec<isize>,
    /// `None` means C order.
    pub(crate) byte_strides: Option<Vec<isize>>,
    pub(crate) device: Device,
    /// `Exclusive` if nothing else can reach the memory.
    pub(crate) access: Access,
}

/// The access to memory that its producer keeps.
pub(crate) fn access(read_only: bool) -> Access {
    if read_only { Access::ReadOnly } else { Access::Shared }
}

impl Memory {
    /// The bytes of the elements, from `data` on; `None` without elements. Sums saturate.
    pub(crate) fn byte_range(&self) -> Option<Range<i128>> {
        let (mut lowest, mut end) = (0_i128, self.dtype.itemsize() as i128);
        let mut adjacent = end;
        for (axis, &extent) in self.shape.iter().enumerate().rev() {
            let stride =
                self.byte_strides.as_ref().map_or(adjacent, |strides| strides[axis] as i128);
            adjacent = adjacent.saturating_mul(extent as i128);
            let reach = stride.saturating_mul(extent as i128 - 1);
            lowest = lowest.saturating_add(reach.min(0));
            end = end.saturating_add(reach.max(0));
        }
        (!self.shape.contains(&0)).then_some(lowest..end)
    }

    /// As [`import`](Self::import), for the memory of a Python object. If a known source already keeps that memory, the
    /// tensor keeps the source instead of the owner.
    ///
    /// # Safety
    /// As for `import`.
    pub(crate) unsafe fn import_of<O: Send + 'static>(
        self,
        object: &Bound<'_, PyAny>,
        owner: O,
        copy: Option<bool>,
    ) -> PyResult<Imported> {
        let address =
            |offset: i128| offset.saturating_add(self.data.addr() as i128).try_into().ok();
        let known = match self.byte_range() {
            None => Source::of(object, &(0..0)),
            Some(bytes) => address(bytes.start)
                .zip(address(bytes.end))
                .and_then(|(start, end)| Source::of(object, &(start..end))),
        };
        // SAFETY: the caller promises it for the owner; the source keeps the same memory alive (Within of
        // `layout.rs`).
        unsafe {
            match known {
                None => self.import(owner, copy),
                Some(Source::Tensor(source)) => self.import(source, copy),
                Some(Source::Object(source)) => self.import(source, copy),
            }
        }
    }

    /// The tensor, and why its elements were copied if they were. With `copy` as `Some(false)`, a necessary copy is
    /// an error.
    ///
    /// # Safety
    /// The contract of [`Tensor::from_raw_parts`] holds for these extents and byte strides, except that the memory
    /// may be unaligned.
    pub(crate) unsafe fn import<O: Send + 'static>(
        self,
        owner: O,
        copy: Option<bool>,
    ) -> PyResult<Imported> {
        let mut strides = [0; MAX_NDIM];
        // SAFETY: the caller promises valid memory for these extents and byte strides, which the owner keeps. `strides`
        // gets the same strides in elements; the rows of bytes are those of the elements, and need no alignment.
        unsafe {
            if self.has_odd_strides(copy, &mut strides)? {
                let (shape, strides) = self.rows();
                let parts =
                    RawParts { dtype: DataType::UINT8, subbyte_padded: false, ..self.parts() };
                let rows = Tensor::from_raw_parts(owner, parts, &shape, Some(&strides));
                return self.copied_rows(rows);
            }
            let strides = self.byte_strides.as_ref().map(|_| &strides[..self.shape.len()]);
            self.usable(Tensor::from_raw_parts(owner, self.parts(), &self.shape, strides), copy)
        }
    }

    /// Writes the strides in elements. Returns true if elements must be copied because a byte stride is not a multiple
    /// of their size; that and wrong dims are errors if no copy is possible.
    ///
    /// Not generic over the owner, like all that follows: it would be compiled again for each.
    fn has_odd_strides(
        &self,
        copy: Option<bool>,
        strides: &mut [isize; MAX_NDIM],
    ) -> PyResult<bool> {
        let itemsize = self.dtype.itemsize() as isize;
        let mut odd = None;
        let may_copy = copy != Some(false) && self.device.device_type().is_host_accessible();
        let (ndim, name) = (self.shape.len(), self.name());
        if ndim > MAX_NDIM
            || self.byte_strides.as_ref().is_some_and(|strides| strides.len() != ndim)
        {
            return Err(PyBufferError::new_err(format!(
                "the {name} has {ndim} extents, which must match the number of strides and be at most {MAX_NDIM}"
            )));
        }
        for (axis, &stride) in self.byte_strides.iter().flatten().enumerate() {
            strides[axis] = stride / itemsize;
            // The stride of a dimension of extent 1 leads nowhere.
            if stride % itemsize != 0 && self.shape[axis] > 1 && !self.shape.contains(&0) {
                odd = Some((axis, stride));
            }
        }
        if let Some((axis, stride)) = odd {
            if !may_copy {
                return Err(PyBufferError::new_err(format!(
                    "the {name}'s stride of {stride} bytes on axis {axis} is not a multiple of its \
                     {itemsize} byte elements, which a tensor cannot express; allow a copy, or copy \
                     it first"
                )));
            }
            return Ok(true);
        }
        if self.byte_swapped && !may_copy {
            return Err(PyBufferError::new_err(format!(
                "the {name}'s elements are not in this machine's byte order, which a tensor cannot \
                 express; allow a copy, or swap them first, for example with \
                 a.astype(a.dtype.newbyteorder('='))"
            )));
        }
        Ok(false)
    }

    /// The source of the memory, for messages.
    fn name(&self) -> &'static str {
        match self.protocol {
            Protocol::Buffer => "buffer",
            Protocol::CudaArrayInterface => "CUDA array interface",
            _ => "array interface",
        }
    }

    /// The tensor, or a copy in this machine's byte order and without invalid booleans.
    fn usable(&self, tensor: dlbridge::Result<Tensor>, copy: Option<bool>) -> PyResult<Imported> {
        let tensor = tensor.map_err(to_py_err)?;
        let (tensor, reason) = if !self.byte_swapped {
            normalized(tensor, copy)?
        } else if tensor.access() == Access::Exclusive && tensor.is_c_contiguous() {
            (swapped_in_place(tensor)?, None)
        } else {
            let _reading = Guard::for_copy(&tensor)?;
            let swapped = copies::byte_swapped(&TensorRef::from(&tensor))?;
            (swapped, Some(CopyReason::ByteOrder))
        };
        Ok(Imported { reason, ..Imported::new(tensor, self.protocol) })
    }

    fn parts(&self) -> RawParts {
        RawParts {
            device: self.device,
            access: self.access,
            subbyte_padded: self.dtype.is_subbyte(),
            ..RawParts::new(self.data, self.dtype)
        }
    }

    /// The extents and byte strides of the elements as rows of bytes.
    fn rows(&self) -> (Vec<isize>, Vec<isize>) {
        let strides = self.byte_strides.as_deref().unwrap_or_default();
        ([&self.shape[..], &[self.dtype.itemsize() as isize]].concat(), [strides, &[1]].concat())
    }

    /// A copy of elements whose byte strides are not multiples of the element size, from the rows of their bytes.
    fn copied_rows(&self, rows: dlbridge::Result<Tensor>) -> PyResult<Imported> {
        let rows = rows.map_err(to_py_err)?;
        let reading = Guard::for_copy(&rows)?;
        let copy = copies::copied(&TensorRef::from(&rows), 1)?;
        drop(reading);
        let tensor = with_dtype(copy, self.dtype, &self.shape)?;
        let tensor = if self.byte_swapped { swapped_in_place(tensor)? } else { tensor };
        let reason = Some(CopyReason::ByteStrides);
        Ok(Imported { reason, ..Imported::new(tensor, self.protocol) })
    }
}

/// Reverses the bytes of each number in place; the tensor is exclusive and contiguous.
fn swapped_in_place(tensor: Tensor) -> PyResult<Tensor> {
    let (dtype, len, shape) = (tensor.dtype(), tensor.len(), tensor.shape().to_vec());
    let mut elements = with_dtype(tensor, dtype, &[len])?;
    copies::detached(len * dtype.itemsize(), |go_on| {
        for begin in (0..len).step_by(BLOCK) {
            if begin > 0 && !go_on() {
                return Ok(None);
            }
            let end = len.min(begin + BLOCK);
            TensorRefMut::try_from(&mut elements)?.slice(0, begin..end)?.swap_bytes()?;
        }
        Ok(Some(()))
    })?;
    with_dtype(elements, dtype, &shape)
}

/// The bytes of an exclusive, contiguous copy as elements of whole bytes.
pub(crate) fn with_dtype<S: Copy + TryInto<i64>>(
    copy: Tensor,
    dtype: DataType,
    shape: &[S],
) -> PyResult<Tensor> {
    let extents = shape.iter().map(|&extent| extent.try_into().unwrap_or(NO_EXTENT));
    let bytes = extents.map(i128::from).product::<i128>() * dtype.itemsize() as i128;
    assert!(copy.access() == Access::Exclusive && copy.is_c_contiguous());
    assert_eq!(bytes, copy.nbytes() as i128, "the size differs from that of the elements");
    let (access, subbyte_padded) = (Access::Exclusive, dtype.is_subbyte());
    let parts = RawParts { access, subbyte_padded, ..RawParts::new(copy.data(), dtype) };
    // SAFETY: Exclusive: the only handle on the copy becomes the owner, so any bytes are sound; there are as many
    // bytes as the elements need (compared above), in C order.
    let tensor = unsafe { Tensor::from_raw_parts(copy, parts, shape, None::<&[i64]>) };
    tensor.map_err(to_py_err)
}

/// Returns true if all bytes of booleans are 0 or 1.
fn are_booleans(tensor: &Tensor) -> PyResult<bool> {
    let view = tensor.view_bool_as_u8().map_err(to_py_err)?;
    let axes = || tensor.shape().iter().zip(tensor.strides());
    let reached = axes().fold(1, |bytes: u64, (&extent, &stride)| {
        bytes.saturating_add((extent.max(1) as u64 - 1).saturating_mul(stride.unsigned_abs()))
    });
    let repeats = axes().any(|(&extent, &stride)| extent > 1 && stride == 0);
    copies::detached(view.len(), |go_on| {
        // A producer may export a few bytes as any number of elements. The core checks each byte once then.
        if repeats || view.len() as u64 > reached {
            return match tensor.view::<bool>() {
                Ok(_) => Ok(Some(true)),
                Err(Error::InvalidElement { .. }) => Ok(Some(false)),
                Err(error) => Err(error),
            };
        }
        let mut strided = view.iter();
        for begin in (0..view.len()).step_by(BLOCK) {
            if begin > 0 && !go_on() {
                return Ok(None);
            }
            let count = BLOCK.min(view.len() - begin);
            let all_bits = match view.as_slice() {
                Some(bytes) => bytes[begin..begin + count].iter().fold(0, |all, byte| all | byte),
                None => strided.by_ref().take(count).fold(0, |all, byte| all | byte),
            };
            if all_bits > 1 {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    })
}

/// Booleans as bytes of 0 and 1, which consumers rely on: other bytes become 1, in a copy unless the tensor is
/// exclusive.
pub(crate) fn normalized(
    tensor: Tensor,
    copy: Option<bool>,
) -> PyResult<(Tensor, Option<CopyReason>)> {
    let on_cpu = tensor.device().device_type().is_host_accessible();
    if tensor.dtype() != DataType::BOOL || !on_cpu {
        return Ok((tensor, None));
    }
    let reading = Guard::for_copy(&tensor)?;
    if are_booleans(&tensor)? {
        drop(reading);
        return Ok((tensor, None));
    }
    if copy == Some(false) {
        return Err(PyBufferError::new_err(
            "some booleans are neither 0 nor 1, which consumers read in different ways; allow a \
             copy, or fix them first",
        ));
    }
    let shape = tensor.shape().to_vec();
    let (mut bytes, reason) = match tensor.access() == Access::Exclusive && tensor.is_c_contiguous()
    {
        true => {
            drop(reading);
            (with_dtype(tensor, DataType::UINT8, &shape)?, None)
        }
        false => {
            let bytes = tensor.view_bool_as_u8().map_err(to_py_err)?;
            let copy = copies::copied(&TensorRef::from(bytes), 1)?;
            (copy, Some(CopyReason::InvalidBooleans))
        }
    };
    let values = bytes.view_mut::<u8>().map_err(to_py_err)?.into_mut_slice();
    let values = values.expect("these bytes are contiguous");
    copies::detached(values.len(), |go_on| {
        let normalize = |_, block: &mut [u8]| {
            block.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        };
        Ok(each_block(values, go_on, normalize))
    })?;
    Ok((with_dtype(bytes, DataType::BOOL, &shape)?, reason))
}
