//! One file per library: both directions side by side.

#[forbid(unsafe_code)]
mod standard;

#[cfg(feature = "bytes")]
mod bytes;
#[cfg(feature = "image")]
#[forbid(unsafe_code)]
mod image;
#[cfg(feature = "memmap2")]
mod memmap2;
#[cfg(feature = "ndarray")]
mod ndarray;
