//! The type of a row.

/// One piece of work by one library.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}
