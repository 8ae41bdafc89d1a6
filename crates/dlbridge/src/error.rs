//! The error type: what was asked, what was found, what to do.

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
/// The text says what was wrong, gives the offending value where a number says it, and says what to
/// do about it.
///
/// ```
/// use dlbridge::{DataType, Error, Tensor};
///
/// let error = Tensor::from(vec![1_u8]).view::<f32>().unwrap_err();
/// assert_eq!(error, Error::DataType { expected: DataType::FLOAT32, found: DataType::UINT8 });
/// assert_eq!(error.to_string(), "expected dtype float32, found uint8; ask for a view of that dtype");
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
    /// The name is not that of a dtype.
    UnknownDataTypeName,
    /// The name is not that of a device.
    UnknownDeviceName,
    /// An extent, a stride, the elements, or the bytes they span are more than the address space
    /// holds.
    TooLarge,
    /// The allocator cannot provide the memory for a new tensor, or for a copy of one.
    OutOfMemory {
        /// The number of bytes asked for.
        bytes: usize,
        /// True if they were for a copy.
        for_copy: bool,
    },
    /// The shape has another number of elements than there are.
    ElementCount {
        /// The product of the shape.
        shape: usize,
        /// The number of elements of the owner, or of what is reshaped.
        owner: usize,
    },
    /// There are too few bytes for the elements.
    ByteCount {
        /// Where the elements end, in bytes from the first that there is.
        needed: u128,
        /// The number of bytes that there are.
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
    /// The dtype is not the one asked for.
    DataType {
        /// The dtype asked for.
        expected: DataType,
        /// The dtype of the tensor.
        found: DataType,
    },
    /// The number of dimensions is not the one asked for.
    Ndim {
        /// The number asked for.
        expected: usize,
        /// The number of the tensor.
        found: usize,
    },
    /// Axes or extents are given for another number of dimensions than the tensor has.
    AxisCount {
        /// The number given.
        given: usize,
        /// The number of dimensions of the tensor.
        ndim: usize,
    },
    /// The extent of an axis is not the one asked for.
    Extent {
        /// The axis.
        axis: usize,
        /// The extent asked for.
        expected: usize,
        /// The extent of the tensor.
        found: usize,
    },
    /// The extent of an axis is more than the library asked for can hold.
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
    /// Elements share bytes, so none can be viewed alone, and no part can begin or end within a byte.
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
    /// Somebody else may read or write the data too.
    Shared,
    /// Somebody except the holder of the tensor may write the data, which a library would keep slices of.
    Unstable {
        /// The access of the tensor: shared or read-only.
        access: Access,
    },
    /// Two indices may lead to the same element, which forbids a mutable view. Strides that interleave
    /// in unusual ways count as overlapping, even where they are not.
    Overlapping,
    /// The elements are not contiguous in C order.
    NotContiguous,
    /// The elements are not contiguous in Fortran order, and the requested library accepts no other.
    NotFortranContiguous,
    /// The tensor does not have this axis.
    InvalidAxis {
        /// The axis asked for.
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
    /// Numbers of this dtype are not whole bytes, which have no order.
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
                "dtype with code {}, {} bits and {} lanes cannot exist; a dtype has the width its \
                 code demands, and at least one lane",
                dtype.code().code(),
                dtype.bits(),
                dtype.lanes()
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
                write!(f, "no memory for a tensor of {bytes} bytes; ask for a smaller one")
            }
            Self::OutOfMemory { bytes, for_copy: true } => {
                write!(f, "no memory for a copy of {bytes} bytes; copy a slice of the tensor")
            }
            Self::ElementCount { shape, owner } => write!(
                f,
                "the shape has {shape} elements but there are {owner}; they must be equal"
            ),
            Self::ByteCount { needed, available } => write!(
                f,
                "the elements end at byte {needed} but there are {available} bytes; change shape, dtype \
                 or offset"
            ),
            Self::StridesLength { ndim, strides } => {
                write!(f, "{strides} strides for {ndim} dimensions; give one stride per dimension")
            }
            Self::OutOfBounds { lowest, highest, owner } => write!(
                f,
                "the strides reach elements {lowest} to {highest} but the owner has {owner}; \
                 change offset, shape or strides"
            ),
            Self::DataType { expected, found } => {
                write!(f, "expected dtype {expected}, found {found}; ask for a view of that dtype")
            }
            Self::Ndim { expected, found } => {
                write!(f, "expected {expected} dimensions, found {found}; reshape the tensor")
            }
            Self::AxisCount { given, ndim } => write!(
                f,
                "{given} axes are given for {ndim} dimensions; give each axis once, and for a broadcast \
                 at least as many"
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
                    "the extent of axis {axis} is {found}, over the limit of {limit}; take a part"
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
                 part can begin or end within a byte; see Tensor::view_subbyte and Tensor::to_unpacked"
            ),
            Self::NotSubbyte { dtype } => write!(
                f,
                "elements of {dtype} are whole bytes, or have more than 64 bits, so there are no bits to \
                 view, pack or unpack; take the tensor as it is"
            ),
            Self::InvalidElement { dtype } => write!(
                f,
                "an element is no valid {dtype}; view the bytes instead, or mend the data"
            ),
            Self::ReadOnly => write!(f, "the data is read-only; copy the tensor to write it"),
            Self::Shared => write!(
                f,
                "the data is shared with its producer, so it cannot be borrowed mutably; copy the \
                 tensor, or see Tensor::assume_exclusive"
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
                    "the tensor is {found}: {others}, so slices of it cannot be kept; copy the \
                     tensor first, or promise that nobody writes with the unsafe Tensor::assume_immutable"
                )
            }
            Self::Overlapping => {
                write!(f, "elements may overlap with these strides; copy the tensor to write it")
            }
            Self::NotContiguous => {
                write!(f, "the elements are not adjacent in C order; copy the tensor first")
            }
            Self::NotFortranContiguous => write!(
                f,
                "the elements are not adjacent in Fortran order; take the transpose if they are in C \
                 order, or copy the tensor"
            ),
            Self::InvalidAxis { axis, ndim } => {
                write!(f, "there is no axis {axis} in {ndim} dimensions; count axes from 0")
            }
            Self::RepeatedAxis { axis } => {
                write!(f, "axis {axis} is named twice; name each axis once")
            }
            Self::InvalidRange { axis, start, end, extent } => write!(
                f,
                "indices {start}..{end} are no range on axis {axis}, whose extent is {extent}; begin \
                 before the end, and stay within 0..{extent}"
            ),
            Self::NotReshapable => {
                write!(f, "no strides can give these elements that shape; copy the tensor first")
            }
            Self::NoByteOrder { dtype } => write!(
                f,
                "numbers of dtype {dtype} are not whole bytes, so no byte order can be changed; copy \
                 the tensor as it is"
            ),
            Self::LegacyReadOnly => write!(
                f,
                "read-only data cannot be lent in a legacy managed tensor, which has no flag to say \
                 so; export the versioned one, or a copy"
            ),
            Self::LegacySubbytePadded => write!(
                f,
                "padded sub-byte elements cannot be lent in a legacy managed tensor, which has no \
                 flag to say so; export the versioned one"
            ),
        }
    }
}

impl core::error::Error for Error {}

dlbridge_raise::raise! {
    Error {
        Error::OutOfMemory { .. } => MemoryError,
        _ => BufferError,
    }
}
