//! CPython as this crate uses it: objects and their classes, exceptions and their words, attaching, and long copies.

#[macro_use]
pub mod objects;
pub mod copies;
pub mod error;
pub mod interpreter;
#[cfg(all(target_os = "linux", target_env = "gnu", not(target_arch = "arm"), not(miri)))]
mod stopped_threads;
