//! What the protocols of columns and images do not report, and the advice for objects without a protocol.

mod arrow;
pub(crate) mod pandas;

use dlbridge_pyo3::error::type_name;
use dlbridge_pyo3::frameworks::ImportRules;
use pyo3::prelude::*;

/// The import rules of the frameworks of columns and images.
pub(crate) static IMPORT_RULES: [&ImportRules; 3] =
    [&arrow::POLARS, &pandas::PANDAS, &arrow::PILLOW];

/// The advice for an object of a framework that has no protocol; `None` for others.
pub(crate) fn remedy(object: &Bound<'_, PyAny>) -> Option<String> {
    if type_name(object).ends_with(".PRNGKeyArray") {
        return Some("pass the integers of the keys: jax.random.key_data(keys)".to_owned());
    }
    of_tensorflow(object).or_else(|| pandas::remedy(object))
}

/// What to pass instead of a variable, or of a tensor without values, of TensorFlow or Keras.
fn of_tensorflow(object: &Bound<'_, PyAny>) -> Option<String> {
    let name = type_name(object);
    let (package, class) = (name.split('.').next()?, name.rsplit('.').next()?);
    let remedy = match (package, class) {
        ("tensorflow", class) if class.ends_with("Variable") => "pass its value: variable.value()",
        ("keras", "Variable") => "pass its value: variable.value",
        ("tensorflow", "SymbolicTensor") | ("keras", "KerasTensor") => {
            "it stands for elements that are not computed yet: convert it outside of the compiled function or \
             model, or in a function called by tf.py_function"
        }
        _ => return None,
    };
    Some(remedy.to_owned())
}
