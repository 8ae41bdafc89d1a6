//! The checks of an import that no protocol makes: states in which a tensor's bytes are not its values, or that make
//! autograd miss writes. `frameworks.rs` states the facts. This file finds those of a type, once, and applies them by attributes
//! and methods that are read from each object. No boolean attribute of PyTorch's tensors reports tangents of forward mode, and
//! dtypes whose export is that of another dtype.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use dlbridge::DataType;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBoolMethods, PyDict, PyMemoryView, PyString, PyType};

use crate::frameworks::{Attribute, Dtypes, ImportRules, ORDER, State, import_rules};
use crate::imported::Protocol;
use crate::python::objects::{
    attr, attr_if_any, defining_class, is_plain, is_subclass, modules, package_of,
};

/// The checks for objects of one type.
pub struct TypeChecks {
    /// The states whose attributes the type has.
    states: Box<[(CachedAttr, &'static State)]>,
    /// The checks of PyTorch's tensors.
    torch: Option<TorchChecks>,
    /// The method that returns the owner of the memory, for types that may replace their memory.
    pub(super) storage: Option<CachedAttr>,
    /// The rules of the framework that the type belongs to.
    pub rules: Option<&'static ImportRules>,
    /// True if the framework raises other exceptions than the standard's for data that it cannot export.
    pub raises_its_own: bool,
    /// The protocols in the order in which they are tried.
    pub order: &'static [Protocol],
    /// True for Python's memoryview, whose object may need a check.
    pub(super) is_memoryview: bool,
}

impl TypeChecks {
    /// Finds the checks for a type of a package.
    pub(super) fn of_type(object_type: &Bound<'_, PyType>, package: &str) -> PyResult<Self> {
        let py = object_type.py();
        // The classes of the frameworks do not change. A class that a program derives may get another attribute
        // later.
        let is_fixed = import_rules().any(|rules| !rules.states.is_empty() && rules.is_of(package));
        let mut states = Vec::new();
        for group in import_rules().flat_map(|rules| rules.states) {
            let mut found = Vec::new();
            for state in *group {
                if let Some(attr) = CachedAttr::of(object_type, state.attribute, is_fixed)? {
                    found.push((attr, state));
                }
            }
            if found.len() == group.len() {
                states.append(&mut found);
            }
        }
        let of_package = import_rules().find(|rules| rules.is_of(package));
        let exporter = defining_class(object_type, "__dlpack__")?;
        let exporter = exporter.map(|(_, class)| package_of(&class)).transpose()?;
        let mut storage = None;
        for rules in import_rules() {
            // A class of a program that exports by a method of its own may export other memory.
            if let Some(name) = rules.storage
                && exporter.as_ref().is_some_and(|package| rules.is_of(package))
            {
                let method = CachedAttr::of(object_type, Attribute::Method(name), is_fixed)?;
                storage = storage.or(method);
            }
        }
        Ok(Self {
            states: states.into(),
            torch: TorchChecks::of_type(object_type, is_fixed)?,
            storage,
            rules: rules_of(object_type, package)?,
            raises_its_own: of_package.is_some(),
            order: of_package.map_or(&ORDER, |rules| rules.protocols),
            is_memoryview: object_type.is(py.get_type::<PyMemoryView>()),
        })
    }

    /// Refuses an object in a state that its bytes do not show. `dtype` is the dtype of its tensor, because most states
    /// belong to some dtypes only.
    #[inline]
    pub fn check(&self, object: &Bound<'_, PyAny>, dtype: DataType) -> PyResult<()> {
        for (attr, state) in &self.states {
            if state.dtypes.contain(dtype) && attr.is_true(object)? == state.refused {
                return Err(PyBufferError::new_err(state.reason));
            }
        }
        self.torch.as_ref().map_or(Ok(()), |torch| torch.check(object, dtype))
    }

    /// Returns true for a class of a library of columns.
    pub fn is_column(&self) -> bool {
        self.order[0] == Protocol::Arrow
    }
}

/// The rules of the framework that a type belongs to: by its class, or else by its package.
fn rules_of(
    object_type: &Bound<'_, PyType>,
    package: &str,
) -> PyResult<Option<&'static ImportRules>> {
    for rules in import_rules() {
        if let Some((module, class)) = rules.class
            && is_subclass(object_type, module, class)?
        {
            return Ok(Some(rules));
        }
    }
    let of_package = |rules: &&ImportRules| rules.class.is_none() && rules.is_of(package);
    Ok(import_rules().find(of_package))
}

/// An attribute, or a method without arguments, of the objects of a type.
///
/// An attribute that a C type computes is a C function in a table of the type, and so is a method. The stable ABI has
/// these tables. Calling the function saves Python the lookup of the name in all classes, and the checks that a
/// descriptor makes at each call. This works only for fixed types, the classes of the frameworks. A class that a
/// program derives may define the name itself, now or later, so the attribute of its objects is looked up by name.
pub(crate) struct CachedAttr {
    name: Py<PyString>,
    access: Access,
}

enum Access {
    /// By the name of the attribute, or of the method without arguments.
    Name { is_method: bool },
    /// The C function that returns the attribute, and its second argument.
    Getter(ffi::getter, Closure),
    /// The C function of the method.
    Function(ffi::PyCFunction),
}

/// The second argument of a getter.
#[derive(Clone, Copy)]
struct Closure(*mut c_void);

// SAFETY: this code only passes the pointer to the getter that it belongs to. Python calls a getter with the same
// pointer from any thread that is attached.
unsafe impl Send for Closure {}
// SAFETY: as for `Send`.
unsafe impl Sync for Closure {}

impl CachedAttr {
    /// An attribute of a type; `None` if the type does not have it.
    pub(super) fn of(
        object_type: &Bound<'_, PyType>,
        attribute: Attribute,
        is_fixed: bool,
    ) -> PyResult<Option<Self>> {
        let (is_method, name) = match attribute {
            Attribute::Value(name) => (false, name),
            Attribute::Method(name) => (true, name),
        };
        let name = PyString::intern(object_type.py(), name);
        let Some(found) = object_type.getattr_opt(&name)? else { return Ok(None) };
        let function = match is_fixed && is_plain(object_type) {
            true => function(object_type, &found, is_method)?,
            false => None,
        };
        let access = function.unwrap_or(Access::Name { is_method });
        Ok(Some(Self { name: name.unbind(), access }))
    }

    /// Returns true if a C function returns the value, without a lookup of the name.
    pub(super) fn is_function(&self) -> bool {
        matches!(self.access, Access::Getter(..) | Access::Function(_))
    }

    /// Returns true if the value for an object of the type is true.
    #[inline]
    pub(super) fn is_true(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let value = self.value(object)?;
        // Most values are one of these two objects.
        match value.cast_exact::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => value.is_truthy(),
        }
    }

    /// The value for an object of the type, which is an address or a number of bytes.
    #[inline]
    pub(super) fn size(&self, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        let value = self.value(object)?;
        // Takes a third of the time of `extract`, which also converts objects with `__index__`.
        // SAFETY: attached; a live object. `usize::MAX` means an error only if an exception is set.
        let size = unsafe { ffi::PyLong_AsSize_t(value.as_ptr()) };
        match size == usize::MAX {
            true => PyErr::take(object.py()).map_or(Ok(size), Err),
            false => Ok(size),
        }
    }

    /// The value for an object of the type.
    #[inline]
    pub(super) fn value<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = object.py();
        Ok(match &self.access {
            Access::Name { is_method: false } => object.getattr(&self.name)?,
            Access::Name { is_method: true } => object.call_method0(&self.name)?,
            // SAFETY: attached. `object` is of a subclass of the type whose table has the getter, which `function`
            // compared, and the closure is the getter's; the result is a new reference, or NULL with an exception.
            Access::Getter(get, closure) => unsafe {
                Bound::from_owned_ptr_or_err(py, get(object.as_ptr(), closure.0))?
            },
            // SAFETY: attached. `object` is of a subclass of the type whose table has the method, which `function`
            // compared, and NULL is the second argument of a method without arguments; the result is a new reference,
            // or NULL with an exception.
            Access::Function(function) => unsafe {
                Bound::from_owned_ptr_or_err(py, function(object.as_ptr(), ptr::null_mut()))?
            },
        })
    }
}

/// The C function of an attribute or a method without arguments, in the table of the class that defines it. `None` if
/// there is none, or if objects of the type do not belong to that class: their descriptor raises.
fn function(
    object_type: &Bound<'_, PyType>,
    found: &Bound<'_, PyAny>,
    is_method: bool,
) -> PyResult<Option<Access>> {
    let (descriptor, slot) = match is_method {
        true => ("MethodDescriptorType", ffi::Py_tp_methods),
        false => ("GetSetDescriptorType", ffi::Py_tp_getset),
    };
    if !found.get_type().is(&attr(found.py().import("types")?.as_any(), descriptor)?) {
        return Ok(None);
    }
    let class = attr(found, "__objclass__")?.cast_into::<PyType>()?;
    let name: String = attr(found, "__name__")?.extract()?;
    // SAFETY: attached; two live types. A metaclass cannot change the answer, unlike that of `issubclass`.
    if unsafe { ffi::PyType_IsSubtype(object_type.as_type_ptr(), class.as_type_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: attached. A type object and the number of one of its slots, which CPython defines as NULL or a table of
    // this type, with entries of the type below. A table lives as long as its type, which a subclass keeps.
    Ok(unsafe {
        let table = ffi::PyType_GetSlot(class.as_type_ptr(), slot);
        if is_method {
            let method = entry(table.cast::<ffi::PyMethodDef>(), &name, |entry| entry.ml_name);
            // These flags say that the function is of this type.
            let method = method.filter(|entry| entry.ml_flags == ffi::METH_NOARGS);
            method.map(|entry| Access::Function(entry.ml_meth.PyCFunction))
        } else {
            let getter = entry(table.cast::<ffi::PyGetSetDef>(), &name, |entry| entry.name);
            getter.and_then(|entry| Some(Access::Getter(entry.get?, Closure(entry.closure))))
        }
    })
}

/// The entry of a table with a name. Python makes the descriptor of the first one.
///
/// # Safety
/// `table` is NULL or a table of `T` that lives for `'a` and ends with an entry whose name is NULL. `name_of` returns
/// NULL or a C string.
unsafe fn entry<'a, T>(
    table: *const T,
    name: &str,
    name_of: impl Fn(&T) -> *const c_char,
) -> Option<&'a T> {
    let mut next = table;
    loop {
        // SAFETY: NULL or an entry: the loop ends at the last one.
        let entry = unsafe { next.as_ref() }?;
        let found = name_of(entry);
        if found.is_null() {
            return None;
        }
        // SAFETY: the caller promises a C string.
        if unsafe { CStr::from_ptr(found) }.to_bytes() == name.as_bytes() {
            return Some(entry);
        }
        // SAFETY: the entry is not the last one.
        next = unsafe { next.add(1) };
    }
}

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
