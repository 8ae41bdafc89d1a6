//! The two kinds of borrows.

/// Reading, or reading and writing.
///
/// ```
/// use dlbridge_borrow::Mode;
///
/// assert_ne!(Mode::Read, Mode::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A borrow that reads; others may read too.
    Read,
    /// A borrow that reads and writes; no other borrow may do either.
    Write,
}
