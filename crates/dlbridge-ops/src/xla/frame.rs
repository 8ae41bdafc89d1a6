//! The C structs of XLA's foreign function interface, version 0.3.
//!
//! Most structs begin with their size, in bytes. A newer XLA may add fields at the end of a struct, so a field is read
//! only after [`Known::knows`] has found that the struct has it. Structs inside of another struct must have the size
//! that is known here, because a larger one would move the fields behind it.

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

/// The head of an extension: further data that XLA attaches to a struct, as a linked list.
#[repr(C)]
#[derive(Debug)]
pub struct Extension {
    /// The size of the extension's struct.
    pub struct_size: usize,
    /// The type of the extension; [`Extension::METADATA`] is the only one that matters here.
    pub kind: c_int,
    /// The next extension, or NULL.
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
    /// The head.
    pub head: Extension,
    /// The place of the description.
    pub metadata: *mut Metadata,
}

/// The description of a handler.
#[repr(C)]
#[derive(Debug)]
pub struct Metadata {
    /// The size of this struct as XLA knows it.
    pub struct_size: usize,
    /// The version of the interface that the handler uses; the handler writes it.
    pub version: Version,
    /// Properties of the handler as bits; the handler writes them. The only bit allows XLA to record the kernels of a call
    /// on CUDA, and to launch them again without the handler. The handlers here do not set it, because the function of an
    /// operator may do more in each call than launch kernels.
    pub traits: u32,
}

/// A version of the interface.
#[repr(C)]
#[derive(Debug)]
pub struct Version {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// Changes with each incompatible change.
    pub major: c_int,
    /// Changes with each addition.
    pub minor: c_int,
}

/// One call of a handler.
#[repr(C)]
#[derive(Debug)]
pub struct CallFrame {
    /// The size of this struct as XLA knows it.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// XLA's own functions.
    pub api: *const Api,
    /// What XLA's functions need to find the stream or the thread pool of the call.
    pub context: *mut c_void,
    /// The step of the program's life in which the handler is called.
    pub stage: c_int,
    /// The arrays that the operator reads.
    pub arguments: Buffers,
    /// The arrays that the operator fills.
    pub results: Buffers,
    /// Numbers, strings and lists.
    pub attributes: Attributes,
}

impl CallFrame {
    /// The stage in which the operator runs.
    pub const EXECUTE: c_int = 3;
}

/// The functions of XLA. Older releases have a part of these, and newer ones may have more.
#[repr(C)]
#[derive(Debug)]
pub struct Api {
    /// The size of this struct as XLA knows it.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The version of the interface that XLA has.
    pub version: Version,
    /// Functions of XLA that are not for others.
    pub internal: *const c_void,
    /// Makes an error, which belongs to the caller.
    pub create_error: Option<unsafe extern "C" fn(*mut ErrorArguments) -> *mut XlaError>,
    /// A function that is not used here.
    pub error_message: *const c_void,
    /// Frees an error.
    pub destroy_error: Option<unsafe extern "C" fn(*mut DestroyArguments)>,
    /// A function that is not used here.
    pub register: *const c_void,
    /// Returns the stream of a call.
    pub get_stream: Option<unsafe extern "C" fn(*mut StreamArguments) -> *mut XlaError>,
    /// Functions that are not used here.
    pub others: [*const c_void; 12],
    /// Returns the number of a call's device.
    pub get_ordinal: Option<unsafe extern "C" fn(*mut OrdinalArguments) -> *mut XlaError>,
}

/// The arguments of [`Api::destroy_error`].
#[repr(C)]
#[derive(Debug)]
pub struct DestroyArguments {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The error.
    pub error: *mut XlaError,
}

/// The arguments of [`Api::get_stream`].
#[repr(C)]
#[derive(Debug)]
pub struct StreamArguments {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The context of the call frame.
    pub context: *mut c_void,
    /// The stream, which XLA writes: a `CUstream` on the platform CUDA.
    pub stream: *mut c_void,
}

/// The arguments of [`Api::get_ordinal`].
#[repr(C)]
#[derive(Debug)]
pub struct OrdinalArguments {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The context of the call frame.
    pub context: *mut c_void,
    /// The number of the device, which XLA writes.
    pub ordinal: i32,
}

/// The arguments of [`Api::create_error`].
#[repr(C)]
#[derive(Debug)]
pub struct ErrorArguments {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The message, with a NUL at its end. XLA copies it.
    pub message: *const c_char,
    /// The class of the error, with the numbers of Abseil's status codes.
    pub code: c_int,
}

/// A list of arguments or of results.
#[repr(C)]
#[derive(Debug)]
pub struct Buffers {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The number of entries.
    pub count: i64,
    /// What each entry is; [`Buffers::BUFFER`] is the only type.
    pub types: *const c_int,
    /// The entries.
    pub entries: *const *const Buffer,
}

impl Buffers {
    /// The type of an entry that is an array.
    pub const BUFFER: c_int = 1;
}

/// An array, contiguous in C order.
#[repr(C)]
#[derive(Debug)]
pub struct Buffer {
    /// The size of this struct as XLA knows it.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The type of the elements, with XLA's numbers.
    pub dtype: c_int,
    /// The first element.
    pub data: *mut c_void,
    /// The number of dimensions.
    pub ndim: i64,
    /// The extents.
    pub shape: *const i64,
}

/// The attributes of a call, sorted by name.
#[repr(C)]
#[derive(Debug)]
pub struct Attributes {
    /// The size of this struct.
    pub struct_size: usize,
    /// Extensions, or NULL.
    pub extension: *mut Extension,
    /// The number of attributes.
    pub count: i64,
    /// What each attribute is: one of the constants of [`Attributes`].
    pub types: *const c_int,
    /// The names.
    pub names: *const *const Text,
    /// The values: [`List`], [`Scalar`] or [`Text`], as the type says.
    pub values: *const *const c_void,
}

impl Attributes {
    /// The type of a [`List`].
    pub const LIST: c_int = 1;
    /// The type of a [`Scalar`].
    pub const SCALAR: c_int = 3;
    /// The type of a [`Text`].
    pub const TEXT: c_int = 4;
}

/// Bytes without a NUL at the end.
#[repr(C)]
#[derive(Debug)]
pub struct Text {
    /// The first byte.
    pub data: *const u8,
    /// The number of bytes.
    pub len: usize,
}

/// A number or a boolean.
#[repr(C)]
#[derive(Debug)]
pub struct Scalar {
    /// Its type, with XLA's numbers.
    pub dtype: c_int,
    /// Its place.
    pub value: *const c_void,
}

/// A list of numbers.
#[repr(C)]
#[derive(Debug)]
pub struct List {
    /// The type of its elements, with XLA's numbers.
    pub dtype: c_int,
    /// The number of elements.
    pub len: usize,
    /// The first element.
    pub data: *const c_void,
}

/// A struct that begins with its size.
///
/// # Safety
/// The first field is the size as a `usize`, and the struct has the layout of C.
pub unsafe trait Known: Sized {
    /// The bytes up to the end of the last field that is known here, without padding.
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

macro_rules! known {
    ($($name:ident up to $last:ident: $type:ty),* $(,)?) => {$(
        // SAFETY: the struct is `repr(C)`, and its first field is `struct_size: usize`.
        unsafe impl Known for $name {
            const NEEDED: usize = std::mem::offset_of!($name, $last) + size_of::<$type>();
        }
    )*};
}

known! {
    Extension up to next: *mut Extension,
    MetadataExtension up to metadata: *mut Metadata,
    Metadata up to traits: u32,
    Version up to minor: c_int,
    CallFrame up to attributes: Attributes,
    Api up to create_error: Option<unsafe extern "C" fn(*mut ErrorArguments) -> *mut XlaError>,
    ErrorArguments up to code: c_int,
    DestroyArguments up to error: *mut XlaError,
    StreamArguments up to stream: *mut c_void,
    OrdinalArguments up to ordinal: i32,
    Buffers up to entries: *const *const Buffer,
    Buffer up to shape: *const i64,
    Attributes up to values: *const *const c_void,
}
