//! One file per library: export and import side by side.

mod standard;

#[cfg(feature = "bytes")]
mod bytes;
#[cfg(feature = "image")]
mod image;
#[cfg(feature = "memmap2")]
mod memmap2;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "safetensors")]
pub mod safetensors;
