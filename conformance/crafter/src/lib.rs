//! What a conformance test needs and Python cannot make: managed tensors with every field settable, right or
//! wrong; deleters that record how they were called; the calls that a consumer may make, from any thread, at any
//! time; and the C exchange API, function by function, from both sides.
//!
//! A crafted struct is not validated: that is the purpose, and a consumer that believes it can end the process. The functions
//! here do not believe it. They look up what was crafted by its address (`made`), and read and write no memory beyond it. Where
//! an argument is an address, or calls a function of another library, its documentation says *Unsafe*.
//!
//! | | |
//! | --- | --- |
//! | `made` | what was crafted, by address |
//! | `managed` | the fields and the deleter of a managed tensor |
//! | `extent` | where its bytes are |
//! | `chain` | deleters of tensors that a crafted one owns |
//! | `record` | how a deleter was called |
//! | `block` | a crafted struct with what its deleter needs |
//! | `held` | a managed tensor as a consumer holds it |
//! | `capsule` | capsules over one, and what is taken out of one |
//! | `craft` | a managed tensor with every field settable |
//! | `delete` | the ways to call a deleter |
//! | `table` | the C exchange API of a type, called |
//! | `craft_table` | a C exchange API with every field settable |
//! | `arguments` | arguments of Python functions |
//!
//! - **Kept.** What `craft` makes is never freed, nor is its data, shape and strides: a deleter that
//!   is called again counts that, and whoever uses memory that was given back uses no freed memory. The first call
//!   fills the data with 0xDD, so that they read other elements, and no later one is read or written from here: both
//!   happen under one lock.
//! - **Held.** A struct in a `Held` that was not crafted lives until its deleter is called, and is of the ABI that
//!   it came as, with as many numbers of shape and strides as it has dimensions: DLPack obliges the library to that.
//!   Its deleter is called through the `Held`, which is empty then, or by whom it was given away to; all under the
//!   GIL.
//! - **Tables.** A table of the C exchange API lives as long as the process and does not change, and neither do the
//!   older ones behind it: DLPack obliges the library to that. Beyond its header a table is of the layout here if its
//!   major version is 1.
//! - **Named.** A capsule under one of the names of DLPack holds what the name says, unless it is one of ours.

mod arguments;
mod block;
mod capsule;
mod chain;
mod craft;
mod craft_table;
mod delete;
mod extent;
mod held;
mod made;
mod managed;
mod record;
mod table;

/// The functions as a module of Python.
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
    use crate::held::Held;
    #[pymodule_export]
    use crate::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::record::find_symbols(module.py());
        crate::delete::register_report();
        module.add("__doc__", "Managed tensors with every field settable, for conformance tests.")
    }
}
