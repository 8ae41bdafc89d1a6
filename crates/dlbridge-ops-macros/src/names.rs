//! Names that Rust, Python and PyTorch accept.

use syn::{Error, Ident, Result};

/// Words that Python or PyTorch's schemas do not accept as names.
const RESERVED: [&str; 37] = [
    "Ellipsis", "False", "None", "NoneType", "True", "and", "as", "assert", "async", "await",
    "break", "class", "continue", "def", "del", "elif", "else", "except", "finally", "for", "from",
    "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "return", "try", "while", "with", "yield",
];

/// Checks the name of an operator or of a parameter.
pub(crate) fn check(name: &Ident) -> Result<()> {
    let text = name.to_string();
    if text.starts_with("r#") || RESERVED.contains(&&*text) {
        let message = format!(
            "`{text}` is a keyword, which Python or PyTorch cannot have as a name; rename it, for example `{}_`",
            text.trim_start_matches("r#")
        );
        return Err(Error::new(name.span(), message));
    }
    if !text.is_ascii() {
        let message =
            format!("`{text}` must be ASCII, because PyTorch refuses other names; rename it");
        return Err(Error::new(name.span(), message));
    }
    Ok(())
}
