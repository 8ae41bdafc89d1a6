//! Defines an extension's operators in PyTorch's dispatcher.

use std::ffi::{CStr, CString};
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use super::shim::{OLDEST, Object, Shim};
use crate::error::{Error, ErrorKind, Result};
use crate::extension::keep_loaded;
use crate::library::{Exported, Library, TorchKernel};
use crate::operator::Operator;
use crate::parameter::Kind;

/// A library that is registered, or whose registration failed.
struct Registered {
    library: *const Library,
    result: Result<Objects>,
}

// SAFETY: the pointer is only compared, and PyTorch's functions for libraries may be called on any thread.
unsafe impl Send for Registered {}

/// What PyTorch keeps of a registration; it ends when the object is deleted.
struct Objects {
    /// Shape functions, until Python registers its own.
    meta: Option<Part>,
    /// Definitions and kernels, which stay.
    _parts: [Part; 3],
}

/// Definitions, or kernels for one kind of tensors, which are withdrawn when dropped.
struct Part {
    shim: &'static Shim,
    object: Object,
}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: the object is owned, and not used afterwards.
        unsafe { (self.shim.delete_library)(self.object) };
    }
}

static REGISTERED: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Registers the operators if PyTorch is loaded. The loader calls it as it loads the extension.
///
/// With the feature `python` an error is kept for [`register`], which Python calls; without it, the error is printed.
pub(crate) fn loaded(library: &'static Library) {
    if !Shim::is_loaded() {
        return;
    }
    // A panic must not reach the loader.
    let result = std::panic::catch_unwind(|| once(library, |_| ()));
    if let Ok(Err(error)) = result
        && !cfg!(feature = "python")
    {
        // Not `eprintln!`, which panics if it cannot write.
        let _ = writeln!(std::io::stderr(), "{error}");
    }
}

/// Registers the operators unless that is done, for Python, which registers its own shape functions.
///
/// # Errors
/// Returns an error of kind `Missing` if PyTorch is not loaded or its release is not supported, and of kind `Failed` if
/// another extension has an operator of the same name and namespace.
pub fn register(library: &'static Library) -> Result<()> {
    once(library, |objects| objects.meta = None)
}

/// Withdraws the operators, so that PyTorch does not run them without the Python code that refuses gradients.
#[cfg(feature = "python")]
pub(crate) fn withdraw(library: &'static Library) {
    let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|one| !ptr::eq(one.library, library));
}

/// Registers the operators unless that is done, and passes what PyTorch keeps on.
fn once(library: &'static Library, then: impl FnOnce(&mut Objects)) -> Result<()> {
    let shim = Shim::loaded()?;
    let mut all = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let position = all.iter().position(|one| ptr::eq(one.library, library));
    let position = position.unwrap_or_else(|| {
        all.push(Registered { library, result: define(shim, library) });
        all.len() - 1
    });
    match &mut all[position].result {
        Ok(objects) => {
            then(objects);
            Ok(())
        }
        Err(error) => Err(error.clone()),
    }
}

/// Defines the operators with their kernels: all of them, or none.
fn define(shim: &'static Shim, library: &'static Library) -> Result<Objects> {
    let file = keep_loaded()?;
    let namespace = CString::new(library.namespace)?;
    let mut object = ptr::null_mut();
    // SAFETY: the strings end with zero, and the result is valid for writes.
    let code = unsafe { (shim.fragment)(namespace.as_ptr(), file.as_ptr(), 0, &mut object) };
    shim.succeeded(code, "open a namespace")?;
    let definitions = Part { shim, object };
    for Exported { operator, .. } in library.operators {
        definitions.define(library, operator, operator.schema())?;
        if has_out(operator) {
            definitions.define(library, operator, operator.out_schema())?;
        }
    }
    let cpu = Part::implementations(shim, &namespace, c"CPU", file)?;
    // An operator on CUDA is registered for the CPU too, so that its own error refuses tensors there.
    let cuda = Part::implementations(shim, &namespace, c"CUDA", file)?;
    let meta = Part::implementations(shim, &namespace, c"Meta", file)?;
    for Exported { operator, torch, torch_out, torch_meta, .. } in library.operators {
        cpu.implement(operator.name().to_owned(), *torch)?;
        meta.implement(operator.name().to_owned(), *torch_meta)?;
        if has_out(operator) {
            cpu.implement(format!("{}.out", operator.name()), *torch_out)?;
        }
        if operator.on_cuda {
            cuda.implement(operator.name().to_owned(), *torch)?;
            if has_out(operator) {
                cuda.implement(format!("{}.out", operator.name()), *torch_out)?;
            }
        }
    }
    Ok(Objects { meta: Some(meta), _parts: [definitions, cpu, cuda] })
}

/// Returns true if the operator has a variant that fills tensors of the caller.
fn has_out(operator: &'static Operator) -> bool {
    operator.outputs().count() > 0
        && !operator.outputs().any(|output| matches!(output.kind, Kind::Dynamic(_)))
        && !operator.inputs().any(|input| matches!(input.kind, Kind::InPlace(_)))
}

impl Part {
    fn implementations(
        shim: &'static Shim,
        namespace: &CStr,
        key: &CStr,
        file: &CStr,
    ) -> Result<Self> {
        let mut object = ptr::null_mut();
        // SAFETY: the strings end with zero, and the result is valid for writes.
        let code = unsafe {
            (shim.implementations)(namespace.as_ptr(), key.as_ptr(), file.as_ptr(), 0, &mut object)
        };
        shim.succeeded(code, "open a namespace")?;
        Ok(Self { shim, object })
    }

    fn define(
        &self,
        library: &'static Library,
        operator: &'static Operator,
        schema: String,
    ) -> Result<()> {
        let schema = CString::new(schema)?;
        // SAFETY: the object is alive, and the string ends with zero.
        let code = unsafe { (self.shim.define)(self.object, schema.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        let name = format!("{}::{}", library.namespace, operator.name());
        let cause = self.shim.failed(&format!("define {name}"));
        // PyTorch's message for a second definition of a name, or none, because an old release prints it.
        let text = cause.to_string();
        if !text.contains("multiple times") && !text.contains("stderr") {
            return Err(cause);
        }
        Err(Error::of(
            ErrorKind::Failed,
            format_args!(
                "{cause}\nIf another extension has an operator {name}, rename the operator or its namespace"
            ),
        ))
    }

    fn implement(&self, name: String, kernel: TorchKernel) -> Result<()> {
        let (action, name) = (format!("register a kernel for {name}"), CString::new(name)?);
        // SAFETY: the object is alive, and the string ends with zero. The kernel takes the stack of the operator's
        // schema, with values as the release `OLDEST` packs them. `define` calls `keep_loaded`, which succeeded, before it
        // makes a `Part`, so the code stays loaded.
        let code = unsafe { (self.shim.implement)(self.object, name.as_ptr(), kernel, OLDEST) };
        self.shim.succeeded(code, &action)
    }
}
