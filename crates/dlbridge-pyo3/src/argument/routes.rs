//! Takes an argument by the fastest path for its type; other types are imported.
//!
//! The shortcuts, in this order. Each makes all checks of an import:
//!
//! 1. NumPy's array is read in place, or refused.
//! 2. dlbridge's own tensor is viewed.
//! 3. A tensor of PyTorch that is only read is described in place, and its storage keeps the memory.
//! 4. Plain Python objects, and objects of types that never have a protocol, are refused.
//! 5. An array that must be converted is copied at once.
//! 6. An object whose buffer has the same data as its `__dlpack__`, such as a JAX array, is viewed through that buffer.
//! 7. A C exchange table exports the tensor without a lookup of the other protocols.
//!
//! The pipeline of `import/mod.rs` imports everything else, and `imported.rs` compares the result with the argument's
//! type.

use dlbridge::TensorRef;
use dlbridge_borrow::Mode;
use pyo3::prelude::*;

use super::borrowed::{BorrowedArgument, outliving};
use super::refusal::{Found, Refusal};
use super::spec::ArgumentSpec;
#[cfg(feature = "tensor-class")]
use crate::PyTensor;
use crate::borrow::Guard;
use crate::classes;
use crate::import::{self, ByTable};
use crate::import_options::ImportOptions;
use crate::protocol::memory_owner::{self, MemoryOwner};
use crate::protocol::{in_storage, is_copied, type_info};
use crate::stream::StreamOf;

impl ArgumentSpec {
    /// Takes an argument.
    #[inline(never)]
    pub(super) fn import_argument<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        // 1.
        if let Some(type_info) = type_info::array_of(object) {
            if self.times.is_empty()
                && let Some(argument) = self.borrow_numpy(type_info, object)
            {
                return Ok(argument);
            }
            // Code that tries several types most often refuses arrays, so this comes first.
            self.refuse_numpy(type_info, object)?;
        }
        // 2.
        #[cfg(feature = "tensor-class")]
        let ours = object.cast_exact::<PyTensor>().ok();
        #[cfg(feature = "tensor-class")]
        if self.times.is_empty()
            && let Some(ours) = ours
        {
            // `PyTensor` cannot be subclassed.
            let (tensor, ours) = (TensorRef::from(&**ours.get().tensor()), ours.get());
            if self.fits(&tensor, ours.is_read_only()) {
                let type_info = type_info::of(object)?;
                // SAFETY: the argument keeps the object, which never replaces its tensor.
                let tensor = unsafe { outliving(tensor) };
                return self.borrow(tensor, None, &type_info, object);
            }
        }
        // 3.
        let quick = type_info::quick_of(object);
        if let Some(type_info) = &quick
            && in_storage::is_described(type_info)
            && let Some(argument) = self.borrow_torch(type_info, object)?
        {
            return Ok(argument);
        }
        // 4.
        if quick.is_none() && classes::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        if !self.times.is_empty() {
            return self.import_times(object);
        }
        let type_info = match quick {
            Some(kind) => kind,
            None => type_info::of(object)?,
        };
        if import::never_has_protocol(object, &type_info) {
            return Err(Refusal::Object(self));
        }
        self.refuse_numpy(&type_info, object)?;
        // 5.
        if self.allow_copy
            && let Some(head) = type_info.head
            && let Some(argument) = self.copy_numpy(head, &type_info, object)?
        {
            return Ok(argument);
        }
        // 6.
        if let Some(buffer) = memory_owner::same_buffer(object, &type_info)?
            && let Some(tensor) = buffer.describe()
            && self.fits(&tensor, buffer.is_read_only())
        {
            // SAFETY: the argument keeps the buffer, which keeps the memory; the dims are stored with the tensor.
            let tensor = unsafe { outliving(tensor) };
            return self.borrow(tensor, Some(MemoryOwner::Buffer(buffer)), &type_info, object);
        }
        // 7.
        #[cfg(feature = "tensor-class")]
        let is_ours = ours.is_some();
        #[cfg(not(feature = "tensor-class"))]
        let is_ours = false;
        let answer = match is_ours || self.allow_copy {
            true => ByTable::None,
            false => import::by_table(object, &type_info)?,
        };
        let imported = match answer {
            ByTable::Imported(imported) => {
                let tensor = &imported.tensor;
                // Writes to a copy would be lost.
                let shared = self.mode == Mode::Read || !is_copied(tensor);
                if shared && self.fits(&TensorRef::from(tensor), tensor.is_read_only()) {
                    return self.borrow_imported(imported.tensor, &type_info, object);
                }
                let valid = import::with_claim(imported, &ImportOptions::default());
                let imported = valid.map_err(|error| self.no_tensor(object, error))?.unrestricted();
                return self.fit_imported(imported, &type_info, object);
            }
            ByTable::OnDevice => import::past_table(object, &self.import_options()),
            ByTable::None => import::any_imported(object, &self.import_options()),
        };
        let imported = imported.map_err(|error| self.no_tensor(object, error))?;
        let imported = imported.ok_or(Refusal::Object(self))?;
        self.fit_imported(imported, &type_info, object)
    }

    /// Takes an argument for code that works on the data's device, and synchronises the data with the argument's
    /// stream. Host memory is borrowed; device memory is not, because its streams order the accesses.
    pub(super) fn import_on_device<'py>(
        &'static self,
        object: &Bound<'py, PyAny>,
        choice: Option<StreamOf>,
    ) -> Result<Box<BorrowedArgument<'py>>, Refusal> {
        if classes::is_plain_python(object) {
            return Err(Refusal::Object(self));
        }
        let (imported, stream) = import::on_device::on_device(object, choice)
            .map_err(|error| self.no_tensor(object, error))?;
        let unmet = self.compare(&imported);
        if !unmet.is_empty() {
            return Err(Refusal::new(
                self,
                Found::tensor(&TensorRef::from(&imported.tensor), unmet),
            ));
        }
        let owner = imported.tensor;
        // SAFETY: the argument keeps the owner, which keeps the memory and the dims.
        let tensor = unsafe { outliving(TensorRef::from(&owner)) };
        let guard = match tensor.device().device_type().is_host_accessible() {
            true => {
                let type_info = type_info::of(object)?;
                Guard::acquire(&type_info.borrowed, object, &tensor, self.mode)?
            }
            false => Guard::NONE,
        };
        let owner = Some(MemoryOwner::Tensor(owner));
        let mut argument = BorrowedArgument::put(Box::new_uninit(), tensor, guard, owner, object);
        argument.stream = stream;
        Ok(argument)
    }
}
