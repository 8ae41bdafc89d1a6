//! The import of buffers with all options: copies of elements that a tensor cannot express, and precise refusals.
//!
//! Source: PEP 3118 and the C API documentation of `Py_buffer`.

use dlbridge::{DataType, Device};
use dlbridge_pyo3::import_options::ImportOptions;
use dlbridge_pyo3::imported::{Imported, Protocol};
use dlbridge_pyo3::protocol::buffer::Unfit;
use dlbridge_pyo3::protocol::buffer::{Buffer, is_supported};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use super::options::check_on_cpu;
use crate::interfaces::no_dtype;
use crate::memory::{MAX_NDIM, Memory, access};

/// Imports an object that exports a buffer; `None` for one that does not.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    options: &ImportOptions,
) -> PyResult<Option<Imported>> {
    if !is_supported(object) {
        return Ok(None);
    }
    check_on_cpu(options, "a buffer")?;
    let buffer = Buffer::get(object)?;
    let (fields, (dtype, byte_swapped)) = (buffer.fields(), dtype(object, &buffer)?);
    let itemsize = dtype.itemsize() as isize;
    let ndim = usize::try_from(fields.ndim).ok().filter(|&ndim| ndim <= MAX_NDIM);
    let Some(ndim) = ndim else {
        return Err(PyBufferError::new_err(format!(
            "the buffer has {} dimensions; 0 to {MAX_NDIM} are allowed",
            fields.ndim
        )));
    };
    if let Some(suboffsets) = buffer.suboffsets()
        && suboffsets.iter().any(|&suboffset| suboffset >= 0)
    {
        return Err(PyBufferError::new_err(
            "the buffer has suboffsets: its elements are behind pointers, which a tensor cannot \
             express; copy it to contiguous memory first, for example with bytes()",
        ));
    }
    let shape = match buffer.shape() {
        Some(extents) => extents.to_vec(),
        None if ndim == 1 => vec![fields.len / itemsize],
        None if ndim == 0 => Vec::new(),
        None => return Err(PyBufferError::new_err("the buffer has dimensions but no shape")),
    };
    let bytes = shape.iter().try_fold(itemsize, |n, &extent| n.checked_mul(extent));
    if bytes != Some(fields.len) {
        return Err(PyBufferError::new_err(format!(
            "the buffer's shape {:?} of {itemsize} byte elements disagrees with its length of {} \
             bytes; the exporter must make them agree",
            shape, fields.len
        )));
    }
    let memory = Memory {
        protocol: Protocol::Buffer,
        data: fields.buf,
        dtype,
        byte_swapped,
        shape,
        byte_strides: buffer.strides().map(<[isize]>::to_vec),
        device: Device::CPU,
        access: access(buffer.is_read_only()),
    };
    let exporter = buffer.exporter(object);
    // SAFETY: the protocol: the memory of the described elements stays valid and in place until the buffer is
    // released, which the owner does on drop. The program promises that no code writes while a view is alive (see
    // the crate documentation).
    unsafe { memory.import_of(&exporter, buffer, options.copy) }.map(Some)
}

/// The dtype, and true for the other byte order.
fn dtype(object: &Bound<'_, PyAny>, buffer: &Buffer) -> PyResult<(DataType, bool)> {
    let (format, itemsize) = (buffer.format(), buffer.fields().itemsize);
    buffer.parsed().map_err(|unfit| {
        let format = String::from_utf8_lossy(format);
        match unfit {
            Unfit::NoNumber => {
                no_dtype(&format!("the buffer's format '{format}'"), &format, object)
            }
            Unfit::Size(size) => PyBufferError::new_err(format!(
                "the buffer's format '{format}' says {size} bytes, but its itemsize is \
                 {itemsize}; the exporter must make them agree"
            )),
        }
    })
}
