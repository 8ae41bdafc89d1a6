//! What a conformance test needs and Python cannot make: managed tensors with every field settable, right or
//! wrong; deleters that record how they were called; the calls that a consumer may make, from any thread, at any
//! time; and the C exchange API, function by function, from both sides.
//!
//! Nothing here validates: that is the purpose. The functions are for tests alone and can end the process, as
//! what they are made to test can.
//!
//! | | |
//! | --- | --- |
//! | `record` | how a deleter was called |
//! | `craft` | a managed tensor with every field settable |
//! | `capsule` | capsules over one, and what is taken out of one |
//! | `delete` | the ways to call a deleter |
//! | `table` | the C exchange API of a type, called |
//! | `craft_table` | a C exchange API with every field settable |
//!
//! - **Kept.** What [`craft`](mod@craft) makes is never freed, but for its shape, strides and data, which its
//!   deleter frees when it is called first: a second call is counted, and no use after free.
//! - **Named.** A capsule under one of the names of DLPack holds what the name says, unless a test made it lie.

mod capsule;
mod craft;
mod craft_table;
mod delete;
mod record;
mod table;

/// The functions as a module of Python.
#[pyo3::pymodule]
pub mod _crafter {
    #[pymodule_export]
    use crate::capsule::{Held, capsule_name, take};
    #[pymodule_export]
    use crate::craft::{Crafted, counts};
    #[pymodule_export]
    use crate::craft_table::{craft_table, stream_asked};
    #[pymodule_export]
    use crate::delete::{clear_pending, report_at_exit};
    #[pymodule_export]
    use crate::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::record::find_symbols();
        crate::delete::register_at_exit();
        module.add("__doc__", "Managed tensors with every field settable, for conformance tests.")
    }
}
