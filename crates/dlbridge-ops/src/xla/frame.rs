//! The C structs of XLA's foreign function interface, version 0.3.
//!
//! Most structs begin with their size, in bytes. A newer XLA may add fields at the end of a struct, so a field is read
//! only after [`Known::knows`] has found that the struct has it. Structs inside of another struct must have the size
//! that is known here, because a larger one would move the fields behind it.
#![allow(missing_docs, reason = "most names say what XLA's header says")]

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that the handler is written for.
pub const MAJOR: c_int = 0;
/// The minor version of the same.
pub const MINOR: c_int = 3;

/// The handler of an operator.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut XlaError;

/// An error that XLA owns. Its fields are private to XLA.
#[repr(C)]
#[derive(Debug)]
pub struct XlaError {
    _private: [u8; 0],
}

/// A struct that begins with its size.
///
/// # Safety
/// The first field is the size as a `usize`, and the struct has the layout of C.
pub unsafe trait Known: Sized {
    /// The bytes up to the end of the last field that the handler needs, without padding.
    const NEEDED: usize;

    /// Returns true if the struct at `place` has the first `bytes` bytes.
    ///
    /// # Safety
    /// `place` is NULL, or points at a struct of this type that has at least its size.
    unsafe fn knows(place: *const Self, bytes: usize) -> bool {
        // SAFETY: the caller guarantees that the size can be read; `Known` guarantees that it comes first.
        !place.is_null() && place.is_aligned() && unsafe { place.cast::<usize>().read() } >= bytes
    }
}

/// Defines structs that begin with their size as XLA knows it, and with a list of extensions, or NULL. The fields after
/// the semicolon are those that not every call needs.
macro_rules! structs {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
            $(; $($(#[$more_doc:meta])* $more:ident: $more_type:ty,)*)?
        }
    )*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            pub struct_size: usize,
            pub extension: *mut Extension,
            $($(#[$field_doc])* pub $field: $type,)*
            $($($(#[$more_doc])* pub $more: $more_type,)*)?
        }

        // SAFETY: the struct is `repr(C)`, and its first field is `struct_size: usize`.
        unsafe impl Known for $name {
            const NEEDED: usize = {
                const ENDS: &[usize] = &[$(std::mem::offset_of!($name, $field) + size_of::<$type>()),*];
                ENDS[ENDS.len() - 1]
            };
        }
    )*};
}

structs! {
    /// A version of the interface.
    Version {
        /// Changes with each incompatible change.
        major: c_int,
        /// Changes with each addition.
        minor: c_int,
    }

    /// One call of a handler.
    CallFrame {
        /// XLA's own functions.
        api: *const Api,
        /// What XLA's functions need to find the stream or the thread pool of the call.
        context: *mut c_void,
        /// The step of the program's life in which the handler is called.
        stage: c_int,
        /// The arrays that the operator reads.
        arguments: Buffers,
        /// The arrays that the operator fills.
        results: Buffers,
        /// Numbers, strings and lists.
        attributes: Attributes,
    }

    /// The functions of XLA. Older releases have a part of these, and newer ones may have more.
    Api {
        /// The version of the interface that XLA has.
        version: Version,
        /// Functions of XLA that are not for others.
        internal: *const c_void,
        /// Makes an error, which belongs to the caller.
        create_error: Option<unsafe extern "C" fn(*mut ErrorArguments) -> *mut XlaError>;
        /// A function that is not used here.
        error_message: *const c_void,
        /// Frees an error.
        destroy_error: Option<unsafe extern "C" fn(*mut DestroyArguments)>,
        /// A function that is not used here.
        register: *const c_void,
        /// Returns the stream of a call.
        get_stream: Option<unsafe extern "C" fn(*mut StreamArguments) -> *mut XlaError>,
        /// Functions that are not used here.
        others: [*const c_void; 12],
        /// Returns the number of a call's device.
        get_ordinal: Option<unsafe extern "C" fn(*mut OrdinalArguments) -> *mut XlaError>,
    }

    /// The arguments of [`Api::destroy_error`].
    DestroyArguments {
        error: *mut XlaError,
    }

    /// The arguments of [`Api::get_stream`].
    StreamArguments {
        /// The context of the call frame.
        context: *mut c_void,
        /// The stream, which XLA writes: a `CUstream` on the platform CUDA.
        stream: *mut c_void,
    }

    /// The arguments of [`Api::get_ordinal`].
    OrdinalArguments {
        /// The context of the call frame.
        context: *mut c_void,
        /// The number of the device, which XLA writes.
        ordinal: i32,
    }

    /// The arguments of [`Api::create_error`].
    ErrorArguments {
        /// The message, with a NUL at its end. XLA copies it.
        message: *const c_char,
        /// The class of the error, with the numbers of Abseil's status codes.
        code: c_int,
    }

    /// A list of arguments or of results.
    Buffers {
        count: i64,
        /// What each entry is; [`Buffers::BUFFER`] is the only type.
        types: *const c_int,
        entries: *const *const Buffer,
    }

    /// An array, contiguous in C order.
    Buffer {
        /// The type of the elements, with XLA's numbers.
        dtype: c_int,
        data: *mut c_void,
        ndim: i64,
        shape: *const i64,
    }

    /// The attributes of a call, sorted by name.
    Attributes {
        count: i64,
        /// What each attribute is: one of the constants of [`Attributes`].
        types: *const c_int,
        names: *const *const Text,
        /// The values: [`List`], [`Scalar`] or [`Text`], as the type says.
        values: *const *const c_void,
    }
}

impl CallFrame {
    /// The stage in which the operator runs.
    pub const EXECUTE: c_int = 3;
}

impl Buffers {
    /// The type of an entry that is an array.
    pub const BUFFER: c_int = 1;
}

impl Attributes {
    /// The type of a [`List`].
    pub const LIST: c_int = 1;
    /// The type of a [`Scalar`].
    pub const SCALAR: c_int = 3;
    /// The type of a [`Text`].
    pub const TEXT: c_int = 4;
}

/// The head of an extension: further data that XLA attaches to a struct, as a linked list.
#[repr(C)]
#[derive(Debug)]
pub struct Extension {
    pub struct_size: usize,
    /// The type of the extension; [`Extension::METADATA`] is the only one that matters here.
    pub kind: c_int,
    pub next: *mut Extension,
}

impl Extension {
    /// The type of an extension in which the handler describes itself.
    pub const METADATA: c_int = 1;
}

/// The extension in which the handler describes itself.
#[repr(C)]
#[derive(Debug)]
pub struct MetadataExtension {
    pub head: Extension,
    pub metadata: *mut Metadata,
}

/// The description of a handler.
#[repr(C)]
#[derive(Debug)]
pub struct Metadata {
    pub struct_size: usize,
    /// The version of the interface that the handler uses; the handler writes it.
    pub version: Version,
    /// Properties of the handler as bits; the handler writes them. The only bit allows XLA to record the kernels of a call
    /// on CUDA, and to launch them again without the handler. The handlers here do not set it, because the function of an
    /// operator may do more in each call than launch kernels.
    pub traits: u32,
}

// SAFETY: the struct is `repr(C)`, and its first field is the size.
unsafe impl Known for Extension {
    const NEEDED: usize = size_of::<Self>();
}

// SAFETY: the struct is `repr(C)`, and its first field begins with the size.
unsafe impl Known for MetadataExtension {
    const NEEDED: usize = size_of::<Self>();
}

// SAFETY: the struct is `repr(C)`, and its first field is the size.
unsafe impl Known for Metadata {
    const NEEDED: usize = std::mem::offset_of!(Self, traits) + size_of::<u32>();
}

/// Bytes without a NUL at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Text {
    pub data: *const u8,
    pub len: usize,
}

/// A number or a boolean.
#[repr(C)]
#[derive(Debug)]
pub struct Scalar {
    /// Its type, with XLA's numbers.
    pub dtype: c_int,
    pub value: *const c_void,
}

/// A list of numbers.
#[repr(C)]
#[derive(Debug)]
pub struct List {
    /// The type of its elements, with XLA's numbers.
    pub dtype: c_int,
    pub len: usize,
    pub data: *const c_void,
}
