//! The stable C functions of PyTorch, found at run time in the `libtorch_cpu` that is loaded.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use dlbridge::DataType;

use crate::error::{Error, ErrorKind, Result};
use crate::library::TorchKernel;

/// A tensor, a string, a list or a library that PyTorch owns.
pub(super) type Object = *mut c_void;

/// The oldest release with all functions, as PyTorch encodes releases: major and minor in the two upper bytes.
pub(super) const OLDEST: u64 = (2 << 56) | (10 << 48);

/// As many dtypes as PyTorch may have; it has 46.
const DTYPES: usize = 128;

macro_rules! shim {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: $type:ty;)*) => {
        /// The functions. All except `check` return zero unless they failed, and let no exception escape.
        pub(super) struct Shim {
            $($(#[$doc])* pub(super) $field: $type,)*
            /// Deletes the box of an optional value.
            delete_box: DeleteBox,
            /// The message of the last failure, in releases that keep it.
            what: Option<unsafe extern "C" fn() -> *const c_char>,
            pub(super) cpu: i32,
            pub(super) cuda: i32,
            pub(super) meta: i32,
            pub(super) strided: i32,
            dtypes: [Option<DataType>; DTYPES],
        }

        impl Shim {
            /// # Safety
            /// `library` is PyTorch's, of major release 2.
            unsafe fn find(library: &Loaded) -> Result<Self> {
                // SAFETY: the types are those of the C declarations in PyTorch's stable headers, which stay the same
                // within a major release.
                unsafe {
                    let value = |name| Ok::<_, Error>(library.function::<unsafe extern "C" fn() -> i32>(name)?());
                    Ok(Self {
                        $($field: library.function($symbol)?,)*
                        delete_box: DeleteBox::find(library)?,
                        what: library.function("torch_exception_get_what_without_backtrace").ok(),
                        cpu: value("aoti_torch_device_type_cpu")?,
                        cuda: value("aoti_torch_device_type_cuda")?,
                        meta: value("aoti_torch_device_type_meta")?,
                        strided: value("aoti_torch_layout_strided")?,
                        dtypes: dtypes(library),
                    })
                }
            }
        }
    };
}

shim! {
    delete_tensor = "aoti_torch_delete_tensor_object": unsafe extern "C" fn(Object) -> i32;
    /// Reads a tensor's address; elements that two tensors share until a write stay shared.
    const_data = "torch_get_const_data_ptr": unsafe extern "C" fn(Object, *mut *const c_void) -> i32;
    mutable_data = "torch_get_mutable_data_ptr": unsafe extern "C" fn(Object, *mut *mut c_void) -> i32;
    dim = "aoti_torch_get_dim": unsafe extern "C" fn(Object, *mut i64) -> i32;
    sizes = "aoti_torch_get_sizes": unsafe extern "C" fn(Object, *mut *const i64) -> i32;
    strides = "aoti_torch_get_strides": unsafe extern "C" fn(Object, *mut *const i64) -> i32;
    dtype = "aoti_torch_get_dtype": unsafe extern "C" fn(Object, *mut i32) -> i32;
    device_type = "aoti_torch_get_device_type": unsafe extern "C" fn(Object, *mut i32) -> i32;
    device_index = "aoti_torch_get_device_index": unsafe extern "C" fn(Object, *mut i32) -> i32;
    layout = "aoti_torch_get_layout": unsafe extern "C" fn(Object, *mut i32) -> i32;
    empty_strided = "aoti_torch_empty_strided":
        unsafe extern "C" fn(i64, *const i64, *const i64, i32, i32, i32, *mut Object) -> i32;
    string_length = "torch_string_length": unsafe extern "C" fn(Object, *mut usize) -> i32;
    string_data = "torch_string_c_str": unsafe extern "C" fn(Object, *mut *const c_char) -> i32;
    delete_string = "torch_delete_string": unsafe extern "C" fn(Object) -> i32;
    list_size = "torch_list_size": unsafe extern "C" fn(Object, *mut usize) -> i32;
    list_item = "torch_list_get_item": unsafe extern "C" fn(Object, usize, *mut u64) -> i32;
    delete_list = "torch_delete_list": unsafe extern "C" fn(Object) -> i32;
    fragment = "aoti_torch_library_init_fragment":
        unsafe extern "C" fn(*const c_char, *const c_char, u32, *mut Object) -> i32;
    implementations = "aoti_torch_library_init_impl":
        unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, u32, *mut Object) -> i32;
    define = "aoti_torch_library_def": unsafe extern "C" fn(Object, *const c_char) -> i32;
    implement = "torch_library_impl": unsafe extern "C" fn(Object, *const c_char, TorchKernel, u64) -> i32;
    delete_library = "aoti_torch_delete_library_object": unsafe extern "C" fn(Object) -> i32;
    /// Throws a C++ exception with the message if the condition is false.
    check = "aoti_torch_check":
        unsafe extern "C-unwind" fn(bool, *const c_char, *const c_char, u32, *const c_char);
}

impl Shim {
    /// Returns true if PyTorch is loaded, of any release.
    pub(super) fn is_loaded() -> bool {
        Loaded::find().is_some()
    }

    /// The functions of the PyTorch that is loaded.
    ///
    /// # Errors
    /// Returns an error of kind `Missing` if PyTorch is not loaded, or its release is not supported.
    pub(super) fn loaded() -> Result<&'static Self> {
        static SHIM: OnceLock<Shim> = OnceLock::new();
        if let Some(shim) = SHIM.get() {
            return Ok(shim);
        }
        let library = Loaded::find().ok_or_else(|| {
            missing("PyTorch is not loaded; import torch before the operators are registered")
        })?;
        library.check_version()?;
        // SAFETY: `check_version` found the major release 2.
        let shim = unsafe { Self::find(&library) }?;
        Ok(SHIM.get_or_init(|| shim))
    }

    /// The dtype of a code of PyTorch.
    #[inline]
    pub(super) fn data_type(&self, code: i32) -> Option<DataType> {
        self.dtypes.get(usize::try_from(code).ok()?).copied().flatten()
    }

    /// PyTorch's code of a dtype.
    pub(super) fn code(&self, dtype: DataType) -> Option<i32> {
        let found = self.dtypes.iter().position(|known| *known == Some(dtype))?;
        i32::try_from(found).ok()
    }

    /// PyTorch's current stream of a CUDA device.
    ///
    /// # Errors
    /// Returns an error of kind `Missing` if PyTorch was built without CUDA.
    pub(super) fn cuda_stream(&self, device: i32) -> Result<*mut c_void> {
        type Current = unsafe extern "C" fn(i32, *mut *mut c_void) -> i32;
        static CURRENT: OnceLock<Current> = OnceLock::new();
        let current = match CURRENT.get() {
            Some(current) => *current,
            None => {
                let library = Loaded::find_named("libtorch_cuda.so").ok_or_else(|| {
                    missing("PyTorch has no CUDA; install a build of PyTorch with CUDA to call operators on CUDA")
                })?;
                // SAFETY: the type is that of the C declaration in PyTorch's headers.
                let found = unsafe { library.function("aoti_torch_get_current_cuda_stream") }?;
                *CURRENT.get_or_init(|| found)
            }
        };
        let mut stream = std::ptr::null_mut();
        // SAFETY: the result is valid for writes.
        let code = unsafe { current(device, &mut stream) };
        self.succeeded(code, "get the current stream")?;
        Ok(stream)
    }

    /// The error of a function that returned a code other than zero.
    #[cold]
    pub(super) fn failed(&self, action: &str) -> Error {
        let what = self.what.and_then(|what| {
            // SAFETY: the function takes nothing, and returns null or a string that lives until the thread's next
            // exception; it is copied at once.
            let text = unsafe {
                let text = what();
                if text.is_null() { None } else { Some(CStr::from_ptr(text)) }
            }?;
            Some(text.to_string_lossy().into_owned()).filter(|text| !text.is_empty())
        });
        let what = what.unwrap_or_else(|| "PyTorch printed the reason to stderr".to_owned());
        Error::of(ErrorKind::Failed, format_args!("PyTorch failed to {action}: {what}"))
    }

    /// An error unless the code is zero.
    #[inline]
    pub(super) fn succeeded(&self, code: i32, action: &str) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.failed(action)) }
    }

    /// Deletes the box of an optional value, but not the value in it.
    ///
    /// # Safety
    /// The box came from PyTorch's stack, and is not used afterwards.
    pub(super) unsafe fn delete_box(&self, value: *mut u64) {
        match self.delete_box {
            // SAFETY: the release has the function for boxes that it made, and the caller owns this one.
            DeleteBox::Torch(delete) => unsafe {
                delete(value);
            },
            // SAFETY: releases without such a function make the box by C++'s `operator new`. PyTorch's libraries resolve it
            // first in the global scope, as `find` resolved this counterpart, so both are of one allocator.
            DeleteBox::Cpp(delete) => unsafe { delete(value.cast()) },
        }
    }
}

/// How a release deletes the box of an optional value.
enum DeleteBox {
    /// Since PyTorch 2.13.
    Torch(unsafe extern "C" fn(*mut u64) -> i32),
    /// C++'s `operator delete(void *)`.
    Cpp(unsafe extern "C" fn(*mut c_void)),
}

impl DeleteBox {
    /// # Safety
    /// `library` is PyTorch's.
    unsafe fn find(library: &Loaded) -> Result<Self> {
        // SAFETY: the type is that of the C declaration.
        if let Ok(delete) = unsafe { library.function("torch_delete_stable_ivalue") } {
            return Ok(Self::Torch(delete));
        }
        // C++'s `operator delete(void *)`. The loader searches the global scope first, which has a preloaded allocator, then
        // PyTorch's library and the libraries that it links, which have the C++ runtime.
        let global = Loaded(libloading::os::unix::Library::this());
        // SAFETY: the name is that of this one function, whose type C++ defines.
        let found = unsafe { global.function("_ZdlPv").or_else(|_| library.function("_ZdlPv")) };
        found.map(Self::Cpp)
    }
}

/// The dtype of each code that PyTorch has a function for.
///
/// # Safety
/// `library` is PyTorch's.
unsafe fn dtypes(library: &Loaded) -> [Option<DataType>; DTYPES] {
    const KNOWN: [(&str, DataType); 22] = [
        ("aoti_torch_dtype_bool", DataType::BOOL),
        ("aoti_torch_dtype_uint8", DataType::UINT8),
        ("aoti_torch_dtype_uint16", DataType::UINT16),
        ("aoti_torch_dtype_uint32", DataType::UINT32),
        ("aoti_torch_dtype_uint64", DataType::UINT64),
        ("aoti_torch_dtype_int8", DataType::INT8),
        ("aoti_torch_dtype_int16", DataType::INT16),
        ("aoti_torch_dtype_int32", DataType::INT32),
        ("aoti_torch_dtype_int64", DataType::INT64),
        ("aoti_torch_dtype_float16", DataType::FLOAT16),
        ("aoti_torch_dtype_bfloat16", DataType::BFLOAT16),
        ("aoti_torch_dtype_float32", DataType::FLOAT32),
        ("aoti_torch_dtype_float64", DataType::FLOAT64),
        ("aoti_torch_dtype_complex32", DataType::COMPLEX32),
        ("aoti_torch_dtype_complex64", DataType::COMPLEX64),
        ("aoti_torch_dtype_complex128", DataType::COMPLEX128),
        ("aoti_torch_dtype_float8_e4m3fn", DataType::FLOAT8_E4M3FN),
        ("aoti_torch_dtype_float8_e4m3fnuz", DataType::FLOAT8_E4M3FNUZ),
        ("aoti_torch_dtype_float8_e5m2", DataType::FLOAT8_E5M2),
        ("aoti_torch_dtype_float8_e5m2fnuz", DataType::FLOAT8_E5M2FNUZ),
        // One or the other name, by release.
        ("aoti_torch_dtype_float8_e8m0fnu", DataType::FLOAT8_E8M0FNU),
        ("torch_dtype_float8_e8m0fnu", DataType::FLOAT8_E8M0FNU),
    ];
    let mut dtypes = [None; DTYPES];
    for (name, dtype) in KNOWN {
        // SAFETY: the caller guarantees the library; these functions take nothing and return the code.
        let code =
            unsafe { library.function::<unsafe extern "C" fn() -> i32>(name).map(|get| get()) };
        let place = code.ok().and_then(|code| usize::try_from(code).ok());
        if let Some(place) = place.and_then(|code| dtypes.get_mut(code)) {
            *place = Some(dtype);
        }
    }
    dtypes
}

/// The `libtorch_cpu` that is loaded, which stays loaded: Python never unloads it.
struct Loaded(libloading::os::unix::Library);

impl Loaded {
    fn find() -> Option<Self> {
        const NAME: &str = if cfg!(target_vendor = "apple") {
            "@rpath/libtorch_cpu.dylib"
        } else {
            "libtorch_cpu.so"
        };
        Self::find_named(NAME)
    }

    fn find_named(name: &str) -> Option<Self> {
        use libloading::os::unix::{Library, RTLD_NOW};
        const RTLD_NOLOAD: i32 = if cfg!(target_vendor = "apple") { 0x10 } else { 0x4 };
        // SAFETY: no library is loaded by this call, so no code of a library runs.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_NOLOAD) }.ok().map(Self)
    }

    fn check_version(&self) -> Result<()> {
        // SAFETY: the function takes nothing, and returns the release as a number, in all releases that have it.
        let version = unsafe {
            self.function::<unsafe extern "C" fn() -> u64>("aoti_torch_abi_version")
                .map(|get| get())
        };
        let version = version.map_err(|_| {
            missing("PyTorch is too old, it is 2.8 or older; install PyTorch 2.10 or newer")
        })?;
        let (major, minor) = (version >> 56, (version >> 48) & 0xff);
        match (major, minor) {
            (2, 10..) => Ok(()),
            (0..=2, _) => Err(missing(format_args!(
                "PyTorch is too old, it is {major}.{minor}; install PyTorch 2.10 or newer"
            ))),
            _ => Err(missing(format_args!(
                "PyTorch {major}.{minor} is not supported; install PyTorch 2 from 2.10 on, or a newer release of \
                 dlbridge-ops"
            ))),
        }
    }

    /// # Safety
    /// `F` is the type of the function.
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller guarantees the type.
        match unsafe { self.0.get::<F>(name.as_bytes()) } {
            Ok(function) => Ok(*function),
            Err(_) => Err(missing(format_args!(
                "PyTorch does not have the function {name}; install PyTorch 2.10 or newer"
            ))),
        }
    }
}

fn missing(message: impl std::fmt::Display) -> Error {
    Error::of(ErrorKind::Missing, message)
}
