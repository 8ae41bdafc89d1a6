//! The import record of a `PyTensor`, in one word.
//!
//! PyO3 moves the fields of a new object through memory, unless they fit into two registers. So a
//! `PyTensor`, the only field of its class, has two words: its tensor, and this one.
//!
//! - **Word.** The pointer of a [`Record`] is odd and holds the fields themselves; or it is even, and leads to a leaked
//!   box that belongs to this `Record` alone.

use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use dlbridge::sys::{DLPACK_MAJOR_VERSION, DLPackVersion};
use dlbridge::{ArcTensor, CopyReason, Tensor};

use crate::borrow::Guard;
use crate::imported::Protocol;
use crate::stream::DataStream;

/// The record of a tensor.
pub(crate) struct Record(*mut Fields);

// SAFETY: Word: a number, or a box of these fields.
unsafe impl Send for Record where Fields: Send {}
// SAFETY: Word: a number, or a box of these fields, which `&Record` only reads.
unsafe impl Sync for Record where Fields: Sync {}

/// A record that does not fit a word.
struct Fields {
    common: Common,
    stream: DataStream,
    reading: OnceLock<Guard>,
    writable: Mutex<Option<ArcTensor>>,
}

/// The fields of every record.
#[derive(Clone, Copy, Default)]
pub struct Common {
    /// The protocol of the import; `None` for a tensor that Rust made.
    pub protocol: Option<Protocol>,
    /// Why the elements were copied, if they were and it is known.
    pub reason: Option<CopyReason>,
    /// The version in the producer's managed tensor.
    pub version: Option<DLPackVersion>,
}

impl Record {
    /// The record of a tensor, with the stream that runs its work after the pending writes to the data. That of
    /// read-only data which Rust made has room for a borrow.
    #[inline]
    pub(crate) fn new(tensor: &Tensor, common: Common, stream: DataStream) -> Self {
        let may_be_borrowed = common.protocol.is_none() && tensor.is_read_only();
        match (common.packed(), &stream) {
            (Some(packed), DataStream::Default) if !may_be_borrowed => {
                Self(ptr::without_provenance_mut(packed))
            }
            _ => Self::boxed(common, stream, None),
        }
    }

    /// The record of read-only data that Rust made, whose first export is another tensor over the same memory.
    pub(crate) fn writable_once(writable: ArcTensor) -> Self {
        Self::boxed(Common::default(), DataStream::Default, Some(writable))
    }

    #[cold]
    fn boxed(common: Common, stream: DataStream, writable: Option<ArcTensor>) -> Self {
        let (reading, writable) = (OnceLock::new(), Mutex::new(writable));
        Self(Box::into_raw(Box::new(Fields { common, stream, reading, writable })))
    }

    /// Returns true for data on the default stream, without a borrow, whose own flag says whether it is read-only.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        const LEGACY: usize = (Protocol::LegacyDlpack as usize + 1) << 1;
        let word = self.0.addr();
        word & 1 == 1 && word & 0xfe != LEGACY
    }

    #[inline]
    fn fields(&self) -> Option<&Fields> {
        // SAFETY: Word: an even pointer is a box, which lives as long as the record.
        (self.0.addr() & 1 == 0).then(|| unsafe { &*self.0 })
    }

    #[inline]
    pub(crate) fn common(&self) -> Common {
        match self.fields() {
            None => Common::of_number(self.0.addr()),
            Some(fields) => fields.common,
        }
    }

    /// The stream that runs its work after the pending writes to the data.
    #[inline]
    pub(crate) fn stream(&self) -> &DataStream {
        static DEFAULT: DataStream = DataStream::Default;
        self.fields().map_or(&DEFAULT, |fields| &fields.stream)
    }

    /// The tensor of the only writable export; `None` if there is none, or it was taken.
    fn writable(&self) -> Option<MutexGuard<'_, Option<ArcTensor>>> {
        Some(self.fields()?.writable.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the tensor of the only writable export.
    #[inline]
    pub(crate) fn take_writable(&self) -> Option<ArcTensor> {
        self.writable()?.take()
    }

    /// Returns true if the next export is writable although the tensor is not.
    #[inline]
    pub(crate) fn has_writable(&self) -> bool {
        self.writable().is_some_and(|writable| writable.is_some())
    }

    /// The place of a borrow, in the record of read-only data that Rust made. It is filled once such data was
    /// exported through a protocol whose consumers keep the object.
    #[inline]
    pub(crate) fn reading(&self) -> Option<&OnceLock<Guard>> {
        self.fields().map(|fields| &fields.reading)
    }
}

impl Drop for Record {
    #[inline]
    fn drop(&mut self) {
        if self.fields().is_some() {
            // SAFETY: Word: an even pointer is a box of this record alone, which is not used again.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

/// The word of a record without a protocol, a version and a reason.
const PLAIN_RUST: usize = 1;

/// The reasons that fit into a word. Other releases know them by their places.
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

impl Common {
    /// The record as a number, for extensions of any release: later ones may only add protocols and reasons at the end. Without
    /// a version or a reason that has no number.
    pub fn number(self) -> usize {
        let unversioned = Self { version: None, ..self };
        let requested = Self { reason: self.reason.map(|_| CopyReason::Requested), ..unversioned };
        let numbers = [self, unversioned, requested].into_iter().find_map(Self::packed);
        numbers.unwrap_or(PLAIN_RUST)
    }

    /// The fields as an odd number: 1, then a byte each for the protocol, the minor version, and the reason, each of
    /// which is zero for none. `None` if they do not fit.
    #[inline]
    fn packed(self) -> Option<usize> {
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
        Some(PLAIN_RUST | protocol << 1 | version << 8 | reason << 16)
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
