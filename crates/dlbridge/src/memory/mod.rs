//! Memory that dlbridge allocates for elements.

pub(crate) mod aligned;
pub(crate) mod pages;
