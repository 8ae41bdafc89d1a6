//! CPython as this crate uses it: names and classes, exceptions and their words, attaching, and functions of newer releases.

#[macro_use]
pub mod once;
pub mod classes;
pub mod copies;
pub mod error;
pub mod interpreter;
#[cfg(all(target_os = "linux", target_env = "gnu", not(target_arch = "arm"), not(miri)))]
mod stopped_threads;
pub mod symbols;
