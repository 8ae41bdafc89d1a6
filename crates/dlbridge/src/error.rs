//! The error type: the fault, the value found, the remedy.

use core::fmt;

use crate::{Access, DataType, Device, MAX_NDIM};

/// The result of an operation of this crate.
///
/// ```
/// fn first(t: &dlbridge::Tensor) -> dlbridge::Result<f32> {
///     Ok(t.view::<f32>()?.as_slice().map_or(f32::NAN, |s| s[0]))
/// }
/// assert_eq!(first(&dlbridge::Tensor::from(vec![4.0_f32]))?, 4.0);
/// # Ok::<(), dlbridge::Error>(())
/// ```
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a tensor could not be made, imported, viewed or exported.
///
/// The text names the fault, the value found if there is one, and the remedy.
///
/// ```
/// use dlbridge::{DataType, Error, Tensor};
///
/// let error = Tensor::from(vec![1_u8]).view::<f32>().unwrap_err();
/// assert_eq!(error, Error::DataType { expected: DataType::FLOAT32, found: DataType::UINT8 });
/// assert_eq!(error.to_string(), "expected dtype float32, found uint8; request elements of dtype uint8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A pointer that must not be NULL is NULL.
    NullPointer {
        /// The field of the struct, or the struct itself.
        field: &'static str,
    },
    /// The pointer to the managed tensor is not aligned for the struct.
    MisalignedStruct {
        /// The address.
        address: usize,
    },
    /// The managed tensor is of another major version.
    Version {
        /// The major version found.
        major: u32,
        /// The minor version found.
        minor: u32,
    },
    /// The number of dimensions is negative, or larger than [`MAX_NDIM`](crate::MAX_NDIM).
    InvalidNdim {
        /// The number found.
        ndim: i64,
    },
    /// An extent of the shape is negative.
    NegativeExtent {
        /// The axis.
        axis: usize,
        /// The extent.
        extent: i64,
    },
    /// The dtype cannot exist: no bits, no lanes, or a width that its code forbids.
    InvalidDataType {
        /// The dtype found.
        dtype: DataType,
    },
    /// The name is not that of a dtype. Errors are [`Copy`] and allocate nothing, so they do not hold it.
    UnknownDataTypeName,
    /// The name is not that of a device. Errors are [`Copy`] and allocate nothing, so they do not hold it.
    UnknownDeviceName,
    /// An extent, a stride, the elements, or the bytes they span are more than the address space
    /// holds.
    TooLarge,
    /// The allocator cannot provide the memory for a new tensor, or for a copy of one.
    OutOfMemory {
        /// The number of bytes requested.
        bytes: usize,
        /// True if the memory was for a copy.
        for_copy: bool,
    },
    /// The shape's number of elements differs from that of the data.
    ElementCount {
        /// The product of the shape.
        shape: usize,
        /// The number of elements of the owner, or of the reshaped tensor.
        owner: usize,
    },
    /// There are too few bytes for the elements.
    ByteCount {
        /// The end of the elements, in bytes from the first available byte.
        needed: u128,
        /// The number of available bytes.
        available: usize,
    },
    /// Shape and strides have different lengths.
    StridesLength {
        /// The number of extents.
        ndim: usize,
        /// The number of strides.
        strides: usize,
    },
    /// Shape, strides and offset reach outside the owner's elements.
    OutOfBounds {
        /// The lowest element touched, counted from the owner's first.
        lowest: i64,
        /// The highest element touched.
        highest: i64,
        /// The number of elements owned.
        owner: usize,
    },
    /// The dtype is not the requested one.
    DataType {
        /// The requested dtype.
        expected: DataType,
        /// The dtype of the tensor.
        found: DataType,
    },
    /// The number of dimensions is not the requested one.
    Ndim {
        /// The requested number.
        expected: usize,
        /// The number of the tensor.
        found: usize,
    },
    /// The number of given axes or extents differs from the tensor's number of dimensions.
    AxisCount {
        /// The number given.
        given: usize,
        /// The number of dimensions of the tensor.
        ndim: usize,
    },
    /// The extent of an axis is not the requested one.
    Extent {
        /// The axis.
        axis: usize,
        /// The requested extent.
        expected: usize,
        /// The extent of the tensor.
        found: usize,
    },
    /// The extent of an axis is larger than the requested library can hold.
    ExtentLimit {
        /// The axis.
        axis: usize,
        /// The largest extent it can hold.
        limit: usize,
        /// The extent of the tensor.
        found: usize,
    },
    /// The CPU cannot read the memory.
    NotHostAccessible {
        /// The device of the tensor.
        device: Device,
    },
    /// The elements are not aligned for their type.
    Misaligned {
        /// The address of the first element.
        address: usize,
        /// The alignment needed, in bytes.
        required: usize,
    },
    /// Elements share bytes, so none can be viewed alone, and no slice can begin or end within a byte.
    SubbytePacked {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// Elements are whole bytes, or have more than 64 bits.
    NotSubbyte {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// An element holds bits that are not a value of its type.
    InvalidElement {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// The data must not be written.
    ReadOnly,
    /// Other code may read or write the data too.
    Shared,
    /// Code other than the tensor's holder may write the data, so a library must not keep slices of it.
    Unstable {
        /// The access of the tensor: shared or read-only.
        access: Access,
    },
    /// Two indices may lead to the same element, which forbids a mutable view. Strides that interleave in unusual ways
    /// count as overlapping even if they are not.
    Overlapping,
    /// The elements are not contiguous in C order.
    NotContiguous,
    /// The elements are not contiguous in Fortran order, and the requested library accepts no other.
    NotFortranContiguous,
    /// The tensor does not have this axis.
    InvalidAxis {
        /// The requested axis.
        axis: usize,
        /// The number of dimensions.
        ndim: usize,
    },
    /// An axis is named twice.
    RepeatedAxis {
        /// The axis.
        axis: usize,
    },
    /// Indices are outside of an axis, or end before they start.
    InvalidRange {
        /// The axis.
        axis: usize,
        /// The first index.
        start: usize,
        /// One past the last.
        end: usize,
        /// The extent of the axis.
        extent: usize,
    },
    /// No strides lead through the same elements in the new shape.
    NotReshapable,
    /// Numbers of this dtype are not whole bytes, so they have no byte order.
    NoByteOrder {
        /// The dtype of the tensor.
        dtype: DataType,
    },
    /// The legacy struct cannot state that the data must not be written.
    LegacyReadOnly,
    /// The legacy struct cannot state that sub-byte elements are padded.
    LegacySubbytePadded,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NullPointer { field } => {
                write!(f, "{field} is NULL; the producer must set it")
            }
            Self::MisalignedStruct { address } => {
                write!(
                    f,
                    "the managed tensor at {address:#x} is misaligned; pass the pointer the producer gave"
                )
            }
            Self::Version { major, minor } => write!(
                f,
                "the managed tensor is of DLPack version {major}.{minor}, whose layout is unknown; \
                 ask the producer for version 1"
            ),
            Self::InvalidNdim { ndim } => {
                write!(f, "ndim is {ndim}; it must be 0 to {MAX_NDIM}")
            }
            Self::NegativeExtent { axis, extent } => {
                write!(f, "the extent of axis {axis} is {extent}; give its number of elements")
            }
            Self::InvalidDataType { dtype } => write!(
                f,
                "no dtype has code {}, {} and {}; use a width that the code allows, and at least one lane",
                dtype.code().code(),
                Count(dtype.bits().into(), "bit", "bits"),
                Count(dtype.lanes().into(), "lane", "lanes")
            ),
            Self::UnknownDataTypeName => {
                write!(
                    f,
                    "not the name of a dtype; write one like 'float32', 'float8_e4m3fn' or 'bfloat16x2'"
                )
            }
            Self::UnknownDeviceName => {
                write!(f, "not the name of a device; write one like 'cpu' or 'cuda:0'")
            }
            Self::TooLarge => {
                write!(f, "the tensor spans more than the address space; check shape and strides")
            }
            Self::OutOfMemory { bytes, for_copy: false } => {
                write!(f, "no memory for a tensor of {bytes} bytes; request a smaller one")
            }
            Self::OutOfMemory { bytes, for_copy: true } => {
                write!(f, "no memory for a copy of {bytes} bytes; copy a slice of the tensor")
            }
            Self::ElementCount { shape, owner } => write!(
                f,
                "the shape has {}, but there {} {owner}; pass a shape with {owner}",
                Count(shape, "element", "elements"),
                are(owner)
            ),
            // No memory has more bytes, and the code that writes larger numbers is long.
            Self::ByteCount { needed, available } => write!(
                f,
                "the elements end at byte {} but there {} {}; change shape, dtype or offset",
                u64::try_from(needed).unwrap_or(u64::MAX),
                are(available),
                Count(available, "byte", "bytes")
            ),
            Self::StridesLength { ndim, strides } => {
                let (strides, ndim) = (Count(strides, "stride", "strides"), dimensions(ndim));
                write!(f, "{strides} for {ndim}; give one stride per dimension")
            }
            Self::OutOfBounds { lowest, highest, owner } => write!(
                f,
                "the strides reach elements {lowest} to {highest} but the owner has {}; \
                 change offset, shape or strides",
                Count(owner, "element", "elements")
            ),
            Self::DataType { expected, found } => {
                write!(
                    f,
                    "expected dtype {expected}, found {found}; request elements of dtype {found}"
                )
            }
            Self::Ndim { expected, found } => {
                let expected = dimensions(expected);
                write!(f, "expected {expected}, found {found}; reshape the tensor")
            }
            Self::AxisCount { given, ndim } => write!(
                f,
                "found {} for {}; a permutation needs each axis once, a broadcast at least {}",
                Count(given, "axis", "axes"),
                dimensions(ndim),
                Count(ndim, "extent", "extents")
            ),
            Self::Extent { axis, expected, found } => {
                write!(
                    f,
                    "expected extent {expected} on axis {axis}, found {found}; permute or reshape the \
                     tensor"
                )
            }
            Self::ExtentLimit { axis, limit, found } => {
                write!(
                    f,
                    "the extent of axis {axis} is {found}, over the limit of {limit}; slice the tensor"
                )
            }
            Self::NotHostAccessible { device } => {
                write!(
                    f,
                    "the data is on {device}, where the CPU cannot read it; copy it to the CPU first"
                )
            }
            Self::Misaligned { address, required } => write!(
                f,
                "the data at {address:#x} is not aligned to {required} bytes; copy the tensor, or view it as \
                 Unaligned elements"
            ),
            Self::SubbytePacked { dtype } => write!(
                f,
                "the {dtype} elements are packed, several in a byte: none can be viewed alone, and no \
                 slice can begin or end within a byte; read them with Tensor::view_subbyte, or copy them with \
                 Tensor::to_unpacked"
            ),
            Self::NotSubbyte { dtype } => write!(
                f,
                "elements of {dtype} cannot be viewed as bits, packed or unpacked, because they are whole \
                 bytes or have more than 64 bits; use Tensor::view for whole bytes"
            ),
            Self::InvalidElement { dtype } => write!(
                f,
                "an element is not a valid {dtype}; view the bytes instead, or repair the data"
            ),
            Self::ReadOnly => write!(f, "the data is read-only; copy the tensor to write it"),
            Self::Shared => write!(
                f,
                "the data is shared with its producer, so it cannot be borrowed mutably; copy the \
                 tensor, or promise that no other code uses it (unsafe Tensor::assume_exclusive)"
            ),
            Self::Unstable { access } => {
                let (found, others) = match access {
                    Access::ReadOnly => {
                        ("read-only", "its consumers must not write the data, but its producer may")
                    }
                    _ => ("shared", "its producer and other consumers may write the data"),
                };
                write!(
                    f,
                    "the tensor is {found}: {others}, so safe code cannot keep slices of it; copy the \
                     tensor first, or promise that no code writes it (unsafe Tensor::assume_immutable)"
                )
            }
            Self::Overlapping => {
                write!(f, "elements may overlap with these strides; copy the tensor to write it")
            }
            Self::NotContiguous => {
                write!(f, "the elements are not contiguous in C order; copy the tensor first")
            }
            Self::NotFortranContiguous => write!(
                f,
                "the elements are not contiguous in Fortran order; take the transpose if they are in C \
                 order, or copy the tensor"
            ),
            Self::InvalidAxis { axis, ndim } => {
                let ndim = dimensions(ndim);
                write!(f, "axis {axis} is out of range for {ndim}; count axes from 0")
            }
            Self::RepeatedAxis { axis } => {
                write!(f, "axis {axis} is named twice; name each axis once")
            }
            Self::InvalidRange { axis, start, end, extent } => write!(
                f,
                "indices {start}..{end} are not a range on axis {axis}, whose extent is {extent}; begin \
                 before the end, and stay within 0..{extent}"
            ),
            Self::NotReshapable => {
                write!(f, "no strides can give these elements that shape; copy the tensor first")
            }
            Self::NoByteOrder { dtype } => write!(
                f,
                "numbers of dtype {dtype} are not whole bytes, so no byte order can be changed; copy \
                 the tensor with to_copy"
            ),
            Self::LegacyReadOnly => write!(
                f,
                "read-only data cannot be exported in a legacy managed tensor, which lacks a flag \
                 for it; export the versioned one, or a copy"
            ),
            Self::LegacySubbytePadded => write!(
                f,
                "padded sub-byte elements cannot be exported in a legacy managed tensor, which lacks \
                 a flag for it; export the versioned one"
            ),
        }
    }
}

/// A number of things, with their names for one and for several.
struct Count(usize, &'static str, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(number, one, several) = self;
        write!(f, "{number} {}", if number == 1 { one } else { several })
    }
}

fn dimensions(number: usize) -> Count {
    Count(number, "dimension", "dimensions")
}

/// The verb for a number of things.
fn are(number: usize) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

impl core::error::Error for Error {}

crate::impl_py_error! {
    Error {
        Error::OutOfMemory { .. } => MemoryError,
        _ => BufferError,
    }
}
