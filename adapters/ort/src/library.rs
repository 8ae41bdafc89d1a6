//! Opens the library of ONNX Runtime before ort needs it: ort itself panics without one.

use crate::Result;

/// Makes sure that ort's functions can be called.
#[cfg(feature = "load-dynamic")]
pub(crate) fn open() -> Result<()> {
    use std::env;
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    use std::ffi::OsString;
    use std::sync::OnceLock;

    static OPEN: OnceLock<()> = OnceLock::new();
    if OPEN.get().is_some() {
        return Ok(());
    }
    // The file that ort would open, unless the program has opened another one.
    let path = env::var_os("ORT_DYLIB_PATH")
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| OsString::from(format!("{DLL_PREFIX}onnxruntime{DLL_SUFFIX}")));
    match ort::init_from(path) {
        Ok(_) => {
            OPEN.get_or_init(|| ());
            Ok(())
        }
        Err(error) => Err(crate::Error::Library { reason: error.to_string() }),
    }
}

/// The library is linked, or the program gave ort another one.
#[cfg(not(feature = "load-dynamic"))]
pub(crate) fn open() -> Result<()> {
    Ok(())
}
