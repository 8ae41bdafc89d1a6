//! Crafts DLPack structs that Python cannot make, for conformance tests.
//!
//! It offers managed tensors with every field settable, right or wrong; deleters that record how they were called; the
//! calls that a consumer may make, from any thread, at any time; and the C exchange API, function by function, as the
//! library and as its caller.
//!
//! The crafter does not validate a crafted struct, because tests need wrong ones. A consumer that trusts such a struct
//! can crash the process. The functions here do not trust it: they look it up by its address (`made`), and never read
//! or write beyond its memory. The documentation says *Unsafe* where an argument is an address, or where a function of
//! another library is called.
//!
//! | | |
//! | --- | --- |
//! | `made` | a register of crafted structs by address |
//! | `managed` | the fields and the deleter of a managed tensor |
//! | `extent` | the byte range of its elements |
//! | `record` | how a deleter was called |
//! | `block` | a crafted struct and the state of its deleter |
//! | `held` | a managed tensor as a consumer holds it |
//! | `capsule` | makes and consumes capsules |
//! | `craft` | a managed tensor with every field settable |
//! | `delete` | the ways to call a deleter |
//! | `table` | calls the C exchange API of a type |
//! | `craft_table` | a C exchange API with every field settable |
//! | `exporter` | an object that exports a buffer with every field settable |
//! | `arguments` | arguments of Python functions |
//!
//! The SAFETY comments cite these invariants:
//!
//! - **Kept.** A crafted struct is never freed, and neither are its data, shape and strides, nor those of a buffer. So a second call of the
//!   deleter only counts, and a consumer that uses the tensor after its deletion does not use freed memory. The first
//!   call of the deleter fills the data with 0xDD, so that such a consumer reads other elements. The crafter itself
//!   neither reads nor writes the data after that: one lock guards the deletion and these accesses.
//! - **Held.** A struct in a `Held` that was not crafted lives until its deleter is called, has the ABI that it came
//!   as, and has `ndim` numbers in its shape and in its strides: DLPack requires this of the library. Its deleter is
//!   called through the `Held`, which is empty afterwards, or by the new owner if the `Held` gave it away. All of this
//!   happens under the GIL.
//! - **Tables.** A table of the C exchange API and the older tables that it links to live as long as the process and do
//!   not change: DLPack requires this of the library. A table of major version 1 has the layout of `DLPackExchangeAPI`;
//!   of any other table, only the header is read.
//! - **Named.** A capsule under one of DLPack's names holds the struct that the name announces, unless we crafted it.

mod arguments;
mod block;
mod capsule;
mod craft;
mod craft_table;
mod delete;
mod exporter;
mod extent;
mod held;
mod made;
mod managed;
mod record;
mod table;

/// The Python module.
#[pyo3::pymodule(gil_used = true)]
mod _crafter {
    #[pymodule_export]
    use crate::block::counts;
    #[pymodule_export]
    use crate::capsule::{capsule_name, take};
    #[pymodule_export]
    use crate::craft::Crafted;
    #[pymodule_export]
    use crate::craft_table::{craft_table, stream_asked};
    #[pymodule_export]
    use crate::delete::{clear_pending, finished_with_gil_held, report_at_exit};
    #[pymodule_export]
    use crate::exporter::Exporter;
    #[pymodule_export]
    use crate::held::Held;
    #[pymodule_export]
    use crate::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::delete::register_report();
        module.add("__doc__", "Managed tensors with every field settable, for conformance tests.")
    }
}
