//! CuPy.

use super::framework::{FRAMEWORK, Framework, ReadOnly};

pub(super) static CUPY: Framework =
    Framework { name: "cupy", module: "cupy", read_only: ReadOnly::Lost, ..FRAMEWORK };
