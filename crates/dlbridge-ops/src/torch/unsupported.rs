//! Platforms on which dlbridge-ops does not find PyTorch's functions yet.

use crate::Define;
use crate::error::{Error, ErrorKind, Result};
use crate::library::Library;

/// Registers nothing.
pub(crate) fn loaded(_library: &'static Library) {}

/// Withdraws nothing.
#[cfg(feature = "python")]
pub(crate) fn withdraw(_library: &'static Library) {}

/// Refuses, because this platform is not supported.
///
/// # Errors
/// Always.
pub fn register(_library: &'static Library) -> Result<()> {
    let message = "operators for PyTorch need Linux or macOS; call the operator with NumPy arrays";
    Err(Error::of(ErrorKind::Missing, message))
}

macro_rules! kernels {
    ($($name:ident)*) => {
        $(
            /// Not registered, so that PyTorch never calls it.
            ///
            /// # Safety
            /// None; the type is that of a kernel.
            pub unsafe extern "C-unwind" fn $name<O: Define>(_: *mut u64, _: u64, _: u64) {}
        )*
    };
}

kernels! { kernel out_kernel meta_kernel }
