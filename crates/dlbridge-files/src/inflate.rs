//! Elements in a stream of deflated bytes.

use std::io::{self, Read};

/// Inflates a stream, skips some of its bytes, and fills a slice with those that follow.
#[cfg(feature = "npz")]
pub(crate) fn read(stream: impl Read, skip: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut inflated = flate2::read::DeflateDecoder::new(stream);
    io::copy(&mut inflated.by_ref().take(skip), &mut io::sink())?;
    inflated.read_exact(bytes)
}

/// Without the feature `npz` no format has such streams.
#[cfg(not(feature = "npz"))]
pub(crate) fn read(_: impl Read, _: u64, _: &mut [u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
