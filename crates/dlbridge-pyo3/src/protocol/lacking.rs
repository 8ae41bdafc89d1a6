//! The attributes of the protocols, and those that objects of a type lack.
//!
//! Looking up a missing attribute costs Python an exception, and thousands of nanoseconds if the class defines
//! `__getattr__` in Python: 4,000 for a Series of polars. So dlbridge remembers per type which attributes are
//! missing:
//!
//! - **Fixed.** A C class that cannot change, whose objects lack attributes of their own: for ever.
//! - **Made up.** A class whose `__getattr__` is that of a framework with `looks_for_attributes`: as for the first
//!   object of the class, until one of the attributes appears in one of the classes that it derived from then. Bases
//!   and hooks such as `__getattr__` that are assigned to the class later are not noticed. A method that a program
//!   sets on one object alone is found if the other protocols of the object refuse.
//!
//! For all other classes, each object is checked: the `__getattr__` of a wrapper may return an attribute of another
//! object.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use crate::classes::{attribute, is_plain, package_of};
use crate::frameworks::IMPORT_RULES;

/// An attribute that offers a protocol.
#[derive(Clone, Copy)]
pub(crate) enum Method {
    Dlpack,
    CudaArrayInterface,
    ArrayInterface,
    ArrayStruct,
    ArrowArray,
    ArrowDeviceArray,
    ArrowStream,
}

impl Method {
    const ALL: [Self; 7] = [
        Self::Dlpack,
        Self::CudaArrayInterface,
        Self::ArrayInterface,
        Self::ArrayStruct,
        Self::ArrowArray,
        Self::ArrowDeviceArray,
        Self::ArrowStream,
    ];

    pub(crate) fn name(self, py: Python<'_>) -> &Bound<'_, PyString> {
        match self {
            Self::Dlpack => intern!(py, "__dlpack__"),
            Self::CudaArrayInterface => intern!(py, "__cuda_array_interface__"),
            Self::ArrayInterface => intern!(py, "__array_interface__"),
            Self::ArrayStruct => intern!(py, "__array_struct__"),
            Self::ArrowArray => intern!(py, "__arrow_c_array__"),
            Self::ArrowDeviceArray => intern!(py, "__arrow_c_device_array__"),
            Self::ArrowStream => intern!(py, "__arrow_c_stream__"),
        }
    }

    /// The attribute of an object; `None` if the object lacks it.
    #[inline]
    pub(crate) fn of<'py>(
        self,
        object: &Bound<'py, PyAny>,
        lacking: Lacking,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if lacking.has(self) {
            return Ok(None);
        }
        attribute(object, self.name(object.py()))
    }
}

/// A set of attributes that an object lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lacking(u8);

impl Lacking {
    /// Nothing is known, so each attribute is looked up.
    pub(crate) const UNKNOWN: Self = Self(0);
    /// All of them.
    pub(crate) const ALL: Self = Self((1 << Method::ALL.len()) - 1);

    #[inline]
    fn has(self, method: Method) -> bool {
        self.0 & (1 << method as u8) != 0
    }

    fn methods(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |&method| self.has(method))
    }

    /// Returns true if an object has one of these attributes after all.
    pub(crate) fn is_wrong_for(self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        for method in self.methods() {
            if method.of(object, Self::UNKNOWN)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The attributes that objects of a type lack, and how long that holds.
pub(crate) enum Remembered {
    /// Fixed.
    Always(Lacking),
    /// Made up: while none of these namespaces has one of the attributes.
    While(Lacking, Box<[Py<PyAny>]>),
}

impl Remembered {
    /// Finds the attributes that objects of this object's type lack.
    pub(crate) fn find_out(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let object_type = object.get_type();
        let py = object.py();
        let mut namespaces = Vec::new();
        let mut is_fixed = is_plain(&object_type) && !has_dict(&object_type)?;
        for class in object_type.getattr(intern!(py, "__mro__"))?.cast_into::<PyTuple>()?.iter() {
            is_fixed &= cannot_change(&class)?;
            namespaces.push(class.getattr(intern!(py, "__dict__"))?);
        }
        let mut missing = Lacking(0);
        // The namespace of `object`, which lacks the attributes.
        namespaces.pop();
        for method in Method::ALL {
            if !is_in(&namespaces, method)? {
                missing.0 |= 1 << method as u8;
            }
        }
        if is_fixed {
            return Ok(Self::Always(missing));
        }
        if !makes_up_attributes(&namespaces)? || missing.is_wrong_for(object)? {
            return Ok(Self::Always(Lacking::UNKNOWN));
        }
        Ok(Self::While(missing, namespaces.into_iter().map(Bound::unbind).collect()))
    }

    /// The attributes that objects of the type lack now.
    pub(crate) fn now(&self, py: Python<'_>) -> PyResult<Lacking> {
        let (lacking, namespaces) = match self {
            Self::Always(lacking) => return Ok(*lacking),
            Self::While(lacking, namespaces) => (*lacking, namespaces),
        };
        for method in lacking.methods() {
            for namespace in namespaces {
                if namespace.bind(py).contains(method.name(py))? {
                    return Ok(Lacking::UNKNOWN);
                }
            }
        }
        Ok(lacking)
    }

    /// Returns true if objects of the type never have any of the attributes.
    pub(crate) fn is_all_for_ever(&self) -> bool {
        matches!(self, Self::Always(lacking) if *lacking == Lacking::ALL)
    }

    /// Returns true if one object may have an attribute that other objects of its type lack.
    pub(crate) fn may_differ(&self) -> bool {
        matches!(self, Self::While(..))
    }
}

fn is_in(namespaces: &[Bound<'_, PyAny>], method: Method) -> PyResult<bool> {
    for namespace in namespaces {
        if namespace.contains(method.name(namespace.py()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if objects of a type have attributes of their own.
fn has_dict(object_type: &Bound<'_, PyType>) -> PyResult<bool> {
    let offset = object_type.getattr(intern!(object_type.py(), "__dictoffset__"))?;
    Ok(offset.extract::<i64>()? != 0)
}

/// Returns true if attributes cannot be added to a class.
fn cannot_change(class: &Bound<'_, PyAny>) -> PyResult<bool> {
    const IMMUTABLE: u64 = 1 << 8;
    const HEAP: u64 = 1 << 9;
    let flags = class.getattr(intern!(class.py(), "__flags__"))?.extract::<u64>()?;
    Ok(flags & HEAP == 0 || flags & IMMUTABLE != 0)
}

/// Returns true if a type looks up missing attributes by the `__getattr__` of such a framework, and has no
/// `__getattribute__` of its own. The namespaces are those of its classes, except `object`.
fn makes_up_attributes(namespaces: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    let mut hook = None;
    for namespace in namespaces {
        let py = namespace.py();
        if namespace.contains(intern!(py, "__getattribute__"))? {
            return Ok(false);
        }
        let name = intern!(py, "__getattr__");
        if hook.is_none() && namespace.contains(name)? {
            hook = Some(namespace.get_item(name)?);
        }
    }
    let Some(hook) = hook else { return Ok(false) };
    let package = package_of(&hook)?;
    Ok(IMPORT_RULES.iter().any(|rules| rules.looks_for_attributes && rules.is_of(&package)))
}
