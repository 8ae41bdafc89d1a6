//! Pinned memory through which copies between the host and a device go: two pieces in turn, so that the CPU fills or
//! empties one while the device copies the other.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, PinnedHostSlice, result};

use crate::{Result, order};

/// The bytes of a piece.
const PIECE: usize = 4 << 20;

pub(crate) struct Staging<'a> {
    stream: &'a Arc<CudaStream>,
    /// Each with its last copy.
    pieces: Vec<(PinnedHostSlice<u8>, CudaEvent)>,
}

impl<'a> Staging<'a> {
    /// Room for copies of so many bytes, which are more than none.
    pub(crate) fn new(stream: &'a Arc<CudaStream>, len: usize) -> Result<Self> {
        let mut staging = Self { stream, pieces: Vec::new() };
        for _ in 0..len.div_ceil(PIECE).min(2) {
            // No flag: memory that the CPU combines writes to is slow to read.
            // SAFETY: bytes are written before they are read.
            let piece = unsafe { stream.context().alloc_pinned_with_flags(len.min(PIECE), 0) }?;
            staging.pieces.push((piece, stream.context().new_event(None)?));
        }
        Ok(staging)
    }

    /// Copies bytes to an address of the stream's device. It is done when this returns.
    ///
    /// # Safety
    /// So many bytes there are the caller's to write.
    pub(crate) unsafe fn upload(mut self, bytes: &[u8], mut address: u64) -> Result<()> {
        for (number, part) in bytes.chunks(PIECE).enumerate() {
            let (piece, copied) = &mut self.pieces[number % 2];
            // That of the part before the last.
            copied.synchronize()?;
            let filled = &mut piece.as_mut_slice()?[..part.len()];
            filled.copy_from_slice(part);
            // SAFETY: the parts together have as many bytes as the caller guarantees at the first address. The piece is neither
            // written nor freed until the copy is made: `copied` is waited for before, and `drop` waits for the stream.
            unsafe { result::memcpy_htod_async(address, filled, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes from an address of the stream's device.
    ///
    /// # Safety
    /// So many bytes there may be read.
    pub(crate) unsafe fn download(mut self, mut address: u64, target: &mut [u8]) -> Result<()> {
        let mut fetched: Option<(usize, &mut [u8])> = None;
        for (number, part) in target.chunks_mut(PIECE).enumerate() {
            let (turn, len) = (number % 2, part.len());
            let (piece, copied) = &mut self.pieces[turn];
            let piece = &mut piece.as_mut_slice()?[..len];
            // SAFETY: the parts together have as many bytes as the caller guarantees at the first address. The piece is neither
            // read nor freed until the copy is made: `empty` waits for `copied`, and `drop` for the stream.
            unsafe { result::memcpy_dtoh_async(piece, address, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += len as u64;
            self.empty(fetched.replace((turn, part)))?;
        }
        self.empty(fetched)
    }

    /// Waits for a piece, and copies it to where it belongs.
    fn empty(&self, fetched: Option<(usize, &mut [u8])>) -> Result<()> {
        if let Some((turn, part)) = fetched {
            let (piece, copied) = &self.pieces[turn];
            copied.synchronize()?;
            part.copy_from_slice(&piece.as_slice()?[..part.len()]);
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    /// Also where a copy has failed, another may be under way.
    fn drop(&mut self) {
        // An error waits in the context then.
        let _told = order::in_drop(Arc::clone(self.stream.context()), |context| {
            let done = self.stream.synchronize().or_else(|_| order::wait(context));
            if done.is_err() {
                mem::forget(mem::take(&mut self.pieces));
            }
            done
        });
    }
}
