//! Elements narrower than a byte: views of their bits, packed and padded. `raw` holds the memory.

#[forbid(unsafe_code)]
mod methods;
pub(crate) mod raw;
#[forbid(unsafe_code)]
mod whole_bytes;

pub use raw::{SubbyteView, SubbyteViewMut};
