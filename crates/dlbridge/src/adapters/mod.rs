//! One file per library: export and import side by side.

mod standard;

#[cfg(feature = "image")]
mod image;
#[cfg(feature = "ndarray")]
mod ndarray;
