//! A managed tensor with every field settable.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr;

use dlbridge_sys::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arguments::Items;
use crate::block::{Block, Data, Either, delete_legacy, delete_versioned};
use crate::capsule;
use crate::held::Held;
use crate::made::{self, What};
use crate::managed::{Managed, add_rest, fields_with};

/// A managed tensor with every field settable.
///
/// A `shape` or `strides` of None is a NULL pointer. `payload` is stored at a multiple of 256, and the tensor's data
/// begins at its byte `origin`. With an address in `data`, the tensor's data begins there instead. `skew` is how many bytes shape and strides lie off
/// their alignment.
///
/// Unsafe: `data` is trusted, like an address in `ctypes`. Reading or writing an address without memory crashes the
/// process, also through a `Held`. And a consumer of a wrong struct may crash.
#[pyclass(frozen, module = "dlbridge._core._crafter")]
pub(crate) struct Crafted {
    block: &'static Block,
    /// The fields as they were made.
    fields: Py<PyDict>,
    #[pyo3(get)]
    versioned: bool,
}

#[pymethods]
impl Crafted {
    #[new]
    #[pyo3(signature = (
        *, versioned=true, version=(1, 3), manager_ctx=0, deleter=true, flags=0, device=(1, 0),
        dtype=(2, 32, 1), ndim, shape, strides, byte_offset=0, payload, origin=0, data=None, skew=0
    ))]
    #[allow(clippy::too_many_arguments, reason = "one for each field of the struct")]
    fn new(
        py: Python<'_>,
        versioned: bool,
        version: (u32, u32),
        manager_ctx: usize,
        deleter: bool,
        flags: u64,
        device: (i32, i32),
        dtype: (u8, u8, u16),
        ndim: i32,
        shape: Option<Items<i64>>,
        strides: Option<Items<i64>>,
        byte_offset: u64,
        payload: &[u8],
        origin: isize,
        data: Option<usize>,
        skew: usize,
    ) -> PyResult<Self> {
        let (shape, strides) = (shape.map(|dims| dims.0), strides.map(|dims| dims.0));
        let room = |dims: &Option<Vec<i64>>| dims.as_ref().map_or(0, |dims| 8 * dims.len() + 8);
        let dims_at = payload.len().next_multiple_of(16).checked_add(skew);
        let size = dims_at.and_then(|at| at.checked_add(room(&shape) + room(&strides) + 16));
        let (Some(dims_at), Some(size)) = (dims_at, size) else {
            return Err(PyValueError::new_err(format!("a skew of {skew} is too large")));
        };
        let layout = Layout::from_size_align(size, 256)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        // SAFETY: the size is not zero.
        let body = unsafe { alloc_zeroed(layout) };
        if body.is_null() {
            return Err(PyMemoryError::new_err(format!(
                "a body of {size} bytes cannot be allocated"
            )));
        }
        // SAFETY: `size` has room for the payload and, from `dims_at` on, for the numbers of shape and strides.
        let tensor = unsafe {
            ptr::copy_nonoverlapping(payload.as_ptr(), body, payload.len());
            let mut end = body.add(dims_at);
            let mut write = |dims: Option<&[i64]>| {
                let Some(dims) = dims else { return ptr::null_mut() };
                let start = end;
                ptr::copy_nonoverlapping(dims.as_ptr().cast(), end, 8 * dims.len());
                // Empty arrays advance too, since `made` needs a distinct address for each array.
                end = end.add(8 * dims.len() + 8);
                made::add(start.expose_provenance(), What::Numbers(dims.len()));
                start.cast()
            };
            DLTensor {
                data: data
                    .map_or(body.wrapping_offset(origin).cast(), ptr::with_exposed_provenance_mut),
                device: DLDevice { device_type: DLDeviceType(device.0), device_id: device.1 },
                ndim,
                dtype: DLDataType { code: DLDataTypeCode(dtype.0), bits: dtype.1, lanes: dtype.2 },
                shape: write(shape.as_deref()),
                strides: write(strides.as_deref()),
                byte_offset,
            }
        };
        let manager_ctx: *mut c_void = ptr::with_exposed_provenance_mut(manager_ctx);
        let fields = fields_with(py, &tensor, shape.as_deref(), strides.as_deref())?;
        let called = match (deleter, versioned) {
            (false, _) => 0,
            (true, true) => delete_versioned as *const () as usize,
            (true, false) => delete_legacy as *const () as usize,
        };
        let (said, flags) = if versioned { (Some(version), flags) } else { (None, 0) };
        add_rest(&fields, said, flags, manager_ctx, called)?;
        let first = tensor.data;
        let managed = match versioned {
            true => Either {
                versioned: ManuallyDrop::new(DLManagedTensorVersioned {
                    version: DLPackVersion { major: version.0, minor: version.1 },
                    manager_ctx,
                    deleter: deleter.then_some(delete_versioned),
                    flags,
                    dl_tensor: tensor,
                }),
            },
            false => Either {
                legacy: ManuallyDrop::new(DLManagedTensor {
                    dl_tensor: tensor,
                    manager_ctx,
                    deleter: deleter.then_some(delete_legacy),
                }),
            },
        };
        let data = Data {
            start: body,
            len: payload.len(),
            data: first,
            byte_offset,
            elsewhere: data.is_some(),
            is_deleted: false,
        };
        let block = Block::keep(managed, versioned, deleter, data);
        Ok(Self { block, fields: fields.unbind(), versioned })
    }

    /// The address of the struct.
    #[getter]
    fn address(&self) -> usize {
        ptr::from_ref(self.block).expose_provenance()
    }

    /// A capsule over the struct, under a name, or without a name.
    ///
    /// Unsafe: a consumer trusts the name, and reads the struct as the ABI that it announces.
    fn capsule<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::over(py, self.managed(), name)
    }

    /// Every field as it was made, as keywords of `Fields`.
    pub(crate) fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.fields.bind(py).copy()
    }

    /// How the deleter was called: (calls, thread, gil, initialized, pending).
    fn record(&self) -> (u32, u64, bool, bool, bool) {
        self.block.record().values()
    }

    /// Makes the deleter delete another tensor too, after it has released the GIL. The crafted tensor then owns the
    /// other.
    fn own(&self, held: &Held) -> PyResult<()> {
        self.block.own(|| held.give_away())
    }

    /// The struct as held by a consumer that took it.
    fn held(&self, py: Python<'_>) -> Held {
        Held::of(self.block, self.fields.clone_ref(py))
    }
}

impl Crafted {
    fn managed(&self) -> Managed {
        self.block.managed()
    }

    /// The struct; ValueError for a legacy one.
    pub(crate) fn as_versioned(&self) -> PyResult<*mut DLManagedTensorVersioned> {
        self.managed().as_versioned()
    }
}
