//! Objects of other libraries in messages.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::type_name;

/// The text of an object for a message: the beginning of its `repr`, or its type if that fails. Rust's own formatting
/// of such an object prints the exceptions of its `__str__`.
pub(crate) fn shown(object: &Bound<'_, PyAny>) -> String {
    from_text(object, object.repr())
}

/// As `shown`, by `str`, for objects that their text names.
pub(crate) fn named(object: &Bound<'_, PyAny>) -> String {
    from_text(object, object.str())
}

fn from_text(object: &Bound<'_, PyAny>, text: PyResult<Bound<'_, PyString>>) -> String {
    match text {
        Ok(text) => shortened(text.to_string_lossy().into_owned()),
        Err(_) => format!("an object of type {} that cannot be shown", type_name(object)),
    }
}

/// Shortens a text that is too long for a message.
fn shortened(text: String) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
