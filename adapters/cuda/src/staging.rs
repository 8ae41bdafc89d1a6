//! Pinned memory for copies between the host and a device: two buffers in turn, so that the CPU fills or empties one
//! while the device copies the other.

use std::mem;
use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream, PinnedHostSlice, result};

use crate::{Result, order};

/// The number of bytes of a buffer.
const PIECE: usize = 4 << 20;

pub(crate) struct Staging<'a> {
    stream: &'a Arc<CudaStream>,
    /// The buffers, each with the event of its last copy.
    pieces: Vec<(PinnedHostSlice<u8>, CudaEvent)>,
}

impl<'a> Staging<'a> {
    /// Allocates buffers for copies of `len` bytes; `len` must not be zero.
    pub(crate) fn new(stream: &'a Arc<CudaStream>, len: usize) -> Result<Self> {
        let mut staging = Self { stream, pieces: Vec::new() };
        for _ in 0..len.div_ceil(PIECE).min(2) {
            // No flag: write-combined memory is slow to read.
            // SAFETY: `upload` and `download` write the bytes before they read them.
            let piece = unsafe { stream.context().alloc_pinned_with_flags(len.min(PIECE), 0) }?;
            staging.pieces.push((piece, stream.context().new_event(None)?));
        }
        Ok(staging)
    }

    /// Copies bytes to an address of the stream's device. Returns after the copy.
    ///
    /// # Safety
    /// The caller may write `bytes.len()` bytes at the address.
    pub(crate) unsafe fn upload(mut self, bytes: &[u8], mut address: u64) -> Result<()> {
        for (number, chunk) in bytes.chunks(PIECE).enumerate() {
            let (piece, copied) = &mut self.pieces[number % 2];
            // Waits for the last copy from this buffer.
            copied.synchronize()?;
            let filled = &mut piece.as_mut_slice()?[..chunk.len()];
            filled.copy_from_slice(chunk);
            // SAFETY: the chunks together have as many bytes as the caller guarantees at the first address. The buffer
            // is neither written nor freed until the copy is made: the loop waits for `copied` before it writes, and
            // `drop` waits for the stream.
            unsafe { result::memcpy_htod_async(address, filled, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += chunk.len() as u64;
        }
        Ok(())
    }

    /// Copies bytes from an address of the stream's device.
    ///
    /// # Safety
    /// The caller may read `target.len()` bytes at the address.
    pub(crate) unsafe fn download(mut self, mut address: u64, target: &mut [u8]) -> Result<()> {
        let mut fetched: Option<(usize, &mut [u8])> = None;
        for (number, chunk) in target.chunks_mut(PIECE).enumerate() {
            let (turn, len) = (number % 2, chunk.len());
            let (piece, copied) = &mut self.pieces[turn];
            let piece = &mut piece.as_mut_slice()?[..len];
            // SAFETY: the chunks together have as many bytes as the caller guarantees at the first address. The buffer
            // is neither read nor freed until the copy is made: `empty` waits for `copied`, and `drop` for the stream.
            unsafe { result::memcpy_dtoh_async(piece, address, self.stream.cu_stream()) }?;
            copied.record(self.stream)?;
            address += len as u64;
            self.empty(fetched.replace((turn, chunk)))?;
        }
        self.empty(fetched)
    }

    /// Waits for the copy into a buffer, and copies the buffer to the target.
    fn empty(&self, fetched: Option<(usize, &mut [u8])>) -> Result<()> {
        if let Some((turn, chunk)) = fetched {
            let (piece, copied) = &self.pieces[turn];
            copied.synchronize()?;
            chunk.copy_from_slice(&piece.as_slice()?[..chunk.len()]);
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    /// Waits even after a copy has failed, because another may be pending.
    fn drop(&mut self) {
        // The context stores an error for the next call.
        let _told = order::in_drop(Arc::clone(self.stream.context()), |context| {
            let done = self.stream.synchronize().or_else(|_| order::wait(context));
            if done.is_err() {
                mem::forget(mem::take(&mut self.pieces));
            }
            done
        });
    }
}
