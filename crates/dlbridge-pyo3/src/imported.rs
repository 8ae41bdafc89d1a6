//! A tensor that was imported from a Python object, its protocol, and the record of its import.

use dlbridge::sys::{DLPACK_FLAG_BITMASK_IS_COPIED, DLPACK_MAJOR_VERSION, DLPackVersion};
use dlbridge::{CopyReason, Tensor};

/// The protocol of an import.
///
/// ```
/// use dlbridge_pyo3::Protocol;
///
/// assert_eq!(Protocol::LegacyDlpack.name(), "dlpack-legacy");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// The C exchange API of DLPack, in the type's attribute `__dlpack_c_exchange_api__`.
    ExchangeApi,
    /// `__dlpack__` with a versioned capsule; or such a capsule itself.
    Dlpack,
    /// `__dlpack__` with a legacy capsule, which cannot mark data as read-only; or such a capsule itself.
    LegacyDlpack,
    /// `__cuda_array_interface__`.
    CudaArrayInterface,
    /// `__array_interface__`.
    ArrayInterface,
    /// `__array_struct__`.
    ArrayStruct,
    /// The buffer protocol.
    Buffer,
    /// The Arrow PyCapsule interface.
    Arrow,
    /// `__dlpack__` with a legacy capsule, over memory that the caller of `asdlpack` says may be written.
    AssumedWritable,
}

impl Protocol {
    /// All protocols. Other releases know them by their places.
    pub const ALL: [Self; 9] = [
        Self::ExchangeApi,
        Self::Dlpack,
        Self::LegacyDlpack,
        Self::CudaArrayInterface,
        Self::ArrayInterface,
        Self::ArrayStruct,
        Self::Buffer,
        Self::Arrow,
        Self::AssumedWritable,
    ];

    /// The name that Python sees.
    ///
    /// ```
    /// assert_eq!(dlbridge_pyo3::Protocol::Buffer.name(), "buffer");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExchangeApi => "exchange-api",
            Self::Dlpack => "dlpack",
            Self::LegacyDlpack => "dlpack-legacy",
            Self::CudaArrayInterface => "cuda-array-interface",
            Self::ArrayInterface => "array-interface",
            Self::ArrayStruct => "array-struct",
            Self::Buffer => "buffer",
            Self::Arrow => "arrow",
            Self::AssumedWritable => "dlpack-legacy, assumed writable",
        }
    }

    /// Returns true if a producer can mark its data as read-only. A legacy producer cannot, and may share data that
    /// must not change, so such data is treated as read-only unless it is a copy, as in NumPy.
    pub const fn tells_read_only(self) -> bool {
        !matches!(self, Self::LegacyDlpack)
    }

    /// The attribute or the name of this protocol, for messages.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ExchangeApi => "__dlpack_c_exchange_api__",
            Self::Dlpack | Self::LegacyDlpack | Self::AssumedWritable => "__dlpack__",
            Self::CudaArrayInterface => "__cuda_array_interface__",
            Self::ArrayInterface => "__array_interface__",
            Self::ArrayStruct => "__array_struct__",
            Self::Buffer => "the buffer protocol",
            Self::Arrow => "the Arrow PyCapsule interface",
        }
    }
}

/// A tensor imported from a Python object, with the facts about its import.
pub struct Imported {
    pub tensor: Tensor,
    pub protocol: Protocol,
    /// Why the elements were copied, if that is known.
    pub reason: Option<CopyReason>,
    /// The version in the producer's managed tensor.
    pub version: Option<DLPackVersion>,
}

impl Imported {
    pub fn new(tensor: Tensor, protocol: Protocol) -> Self {
        Self { tensor, protocol, reason: None, version: None }
    }

    /// The import of a versioned managed tensor, whose flags say whether the producer made a copy.
    pub(crate) fn of_managed(
        tensor: Tensor,
        protocol: Protocol,
        version: Option<DLPackVersion>,
    ) -> Self {
        let reason = is_copied(&tensor).then_some(CopyReason::Producer);
        Self { tensor, protocol, reason, version }
    }

    /// Returns true if the data is read-only, or if its producer could not mark it.
    pub fn is_read_only(&self) -> bool {
        let told = self.reason.is_some() || self.protocol.tells_read_only();
        !told || self.tensor.is_read_only()
    }
}

/// Returns true if the producer says that the tensor is a copy.
pub(crate) fn is_copied(tensor: &Tensor) -> bool {
    tensor.flags() & DLPACK_FLAG_BITMASK_IS_COPIED != 0
}

/// How a tensor was imported.
#[derive(Clone, Copy, Default)]
pub struct Record {
    /// The protocol of the import; `None` for a tensor that Rust made.
    pub protocol: Option<Protocol>,
    /// Why the elements were copied, if they were and it is known.
    pub reason: Option<CopyReason>,
    /// The version in the producer's managed tensor.
    pub version: Option<DLPackVersion>,
}

/// The reasons that have a number. Other releases know them by their places.
const REASONS: [CopyReason; 15] = [
    CopyReason::NotContiguous,
    CopyReason::NotFortranContiguous,
    CopyReason::ReadOnly,
    CopyReason::Shared,
    CopyReason::Overlapping,
    CopyReason::Requested,
    CopyReason::Producer,
    CopyReason::Device,
    CopyReason::ByteOrder,
    CopyReason::ByteStrides,
    CopyReason::BitPacked,
    CopyReason::InvalidBooleans,
    CopyReason::Nulls,
    CopyReason::SeveralChunks,
    CopyReason::Converted,
];

impl Record {
    /// The record as a number, for extensions of any release: later ones may only add protocols and reasons at the end. Without
    /// a version or a reason that has no number.
    pub fn number(self) -> usize {
        let unversioned = Self { version: None, ..self };
        let requested = Self { reason: self.reason.map(|_| CopyReason::Requested), ..unversioned };
        let numbers = [self, unversioned, requested].into_iter().find_map(Self::packed);
        numbers.unwrap_or(1)
    }

    /// The fields as an odd number: 1, then a byte each for the protocol, the minor version, and the reason, each of
    /// which is zero for none. `None` if they do not fit.
    #[inline]
    pub(crate) fn packed(self) -> Option<usize> {
        let protocol = self.protocol.map_or(0, |protocol| protocol as usize + 1);
        let version = match self.version {
            None => 0,
            Some(DLPackVersion { major: DLPACK_MAJOR_VERSION, minor }) if minor < 255 => {
                minor as usize + 1
            }
            Some(_) => return None,
        };
        let reason = match self.reason {
            None => 0,
            Some(reason) => REASONS.iter().position(|&known| known == reason)? + 1,
        };
        Some(1 | protocol << 1 | version << 8 | reason << 16)
    }

    /// The record with a number. A reason that this release does not know is `Requested`.
    #[inline]
    pub fn of_number(packed: usize) -> Self {
        let (protocol, version, reason) = (packed >> 1 & 0x7f, packed >> 8 & 0xff, packed >> 16);
        let minor = |version: usize| version as u32 - 1;
        Self {
            protocol: protocol.checked_sub(1).and_then(|place| Protocol::ALL.get(place).copied()),
            version: (version != 0)
                .then(|| DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: minor(version) }),
            reason: (reason != 0)
                .then(|| REASONS.get(reason - 1).copied().unwrap_or(CopyReason::Requested)),
        }
    }
}
