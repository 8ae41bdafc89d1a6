//! States of PyTorch's tensors that no boolean attribute reports: tangents of forward mode, and dtypes whose export is
//! that of another dtype.

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};

use super::cached_attr::CachedAttr;
use crate::frameworks::{Attribute, Dtypes};
use crate::python::classes::{attr, attr_if_any, is_subclass, modules};

pub(super) struct TorchChecks {
    levels: Option<DualLevels>,
    dtype: CachedAttr,
    /// PyTorch's dtypes int8 and uint8.
    bytes: [Py<PyAny>; 2],
}

/// Tensors have tangents inside of a dual level only. PyTorch keeps the number of the present level in a variable.
struct DualLevels {
    /// The variables of the module `torch.autograd.forward_ad`.
    variables: Py<PyDict>,
    /// The name of the variable, and its value outside of all levels: the number -1, which CPython has once.
    name: Py<PyString>,
    outside: Py<PyAny>,
    /// `unpack_dual` of the module.
    unpack_dual: Py<PyAny>,
}

impl TorchChecks {
    /// The checks for a type whose objects are tensors of PyTorch; `None` for all others.
    pub(super) fn of_type(
        object_type: &Bound<'_, PyType>,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        if !is_subclass(object_type, "torch", "Tensor")? {
            return Ok(None);
        }
        let py = object_type.py();
        let torch = py.import("torch")?;
        let find = |name| Ok::<_, PyErr>(attr_if_any(&torch, name)?.map(Bound::unbind));
        let dtype = CachedAttr::of(object_type, Attribute::Value("dtype"), is_fixed)?;
        // Any module may have the name of PyTorch.
        let (Some(dtype), Some(int8), Some(uint8)) = (dtype, find("int8")?, find("uint8")?) else {
            return Ok(None);
        };
        Ok(Some(Self { levels: DualLevels::find(py)?, dtype, bytes: [int8, uint8] }))
    }

    /// Refuses a tensor whose elements, of the dtype of its export, are not all of its values.
    #[inline]
    pub(super) fn check(&self, object: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<()> {
        if Dtypes::Differentiable.contain(dtype) {
            match &self.levels {
                Some(levels) if !levels.are_outside(object.py()) => levels.check(object),
                _ => Ok(()),
            }
        } else if dtype == DataType::INT8 || dtype == DataType::UINT8 {
            self.check_dtype(object)
        } else {
            Ok(())
        }
    }

    /// Refuses a dtype such as `torch.int4`, which PyTorch exports as bytes.
    fn check_dtype(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let dtype = self.dtype.value(object)?;
        if self.bytes.iter().any(|bytes| dtype.is(bytes)) {
            return Ok(());
        }
        Err(PyBufferError::new_err(format!(
            "the tensor's dtype is {dtype}, which PyTorch exports as another dtype; \
             call view(torch.uint8) to import its bytes"
        )))
    }
}

impl DualLevels {
    /// Finds the variable; `None` if this release of PyTorch has other names.
    fn find(py: Python<'_>) -> PyResult<Option<Self>> {
        let module = modules(py)?.get_item("torch.autograd.forward_ad")?;
        let Some(module) = module else { return Ok(None) };
        let variables = attr(&module, "__dict__")?.cast_into::<PyDict>()?;
        let name = PyString::intern(py, "_current_level");
        let Some(unpack_dual) = attr_if_any(&module, "unpack_dual")? else { return Ok(None) };
        if !variables.contains(&name)? {
            return Ok(None);
        }
        let outside = (-1_i32).into_pyobject(py)?.into_any().unbind();
        let (variables, name) = (variables.unbind(), name.unbind());
        Ok(Some(Self { variables, name, outside, unpack_dual: unpack_dual.unbind() }))
    }

    /// Returns true outside of all levels. Everything else is left to `check`.
    #[inline]
    fn are_outside(&self, _attached: Python<'_>) -> bool {
        let (variables, name) = (self.variables.as_ptr(), self.name.as_ptr());
        // SAFETY: attached; a dictionary and a string. The result is NULL, or a borrowed reference of which only the address
        // is used.
        let level = unsafe { ffi::PyDict_GetItemWithError(variables, name) };
        level == self.outside.as_ptr()
    }

    #[cold]
    fn check(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        if let Some(error) = PyErr::take(py) {
            return Err(error);
        }
        let unpacked = self.unpack_dual.bind(py).call1((object,))?;
        if attr(&unpacked, "tangent")?.is_none() {
            return Ok(());
        }
        Err(PyBufferError::new_err(
            "the tensor has a tangent, which no protocol exports; call detach() first, and pass \
             torch.autograd.forward_ad.unpack_dual(x).tangent by itself",
        ))
    }
}
