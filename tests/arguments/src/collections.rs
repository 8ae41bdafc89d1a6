//! Lists and dicts of tensors as arguments.

use std::collections::{BTreeMap, HashMap};

use dlbridge_pyo3::{DYNAMIC, Each, Entries, PyReadonlyTensor, PyReadwriteTensor};
use pyo3::prelude::*;

type Floats<'py> = PyReadonlyTensor<'py, f32, DYNAMIC>;
type Written<'py> = PyReadwriteTensor<'py, f32, DYNAMIC>;

fn sum(tensor: &Floats<'_>) -> f32 {
    tensor.iter().sum()
}

fn negate(tensor: &mut Written<'_>) {
    tensor.iter_mut().for_each(|value| *value = -*value);
}

/// The sums of a list, by PyO3's own extraction.
#[pyfunction]
pub(crate) fn sums_of_vec(x: Vec<Floats<'_>>) -> Vec<f32> {
    x.iter().map(sum).collect()
}

/// The sums of a dict, by PyO3's own extraction.
#[pyfunction]
pub(crate) fn sums_of_map(x: HashMap<String, Floats<'_>>) -> HashMap<String, f32> {
    x.iter().map(|(name, tensor)| (name.clone(), sum(tensor))).collect()
}

#[pyfunction]
pub(crate) fn sums_of_list(x: Each<Vec<Floats<'_>>>) -> Vec<f32> {
    x.iter().map(sum).collect()
}

#[pyfunction]
pub(crate) fn sums_of_dict(x: Each<HashMap<String, Floats<'_>>>) -> HashMap<String, f32> {
    x.iter().map(|(name, tensor)| (name.clone(), sum(tensor))).collect()
}

/// The sums of a dict, in its order.
#[pyfunction]
pub(crate) fn sums_of_entries(x: Each<Entries<Floats<'_>>>) -> Vec<(String, f32)> {
    x.0.0.iter().map(|(name, tensor)| (name.clone(), sum(tensor))).collect()
}

/// The sums of lists in a dict with numbers as keys, sorted by the key.
#[pyfunction]
pub(crate) fn sums_of_dict_of_lists(
    x: Each<BTreeMap<i64, Vec<Floats<'_>>>>,
) -> Vec<(i64, Vec<f32>)> {
    x.iter().map(|(&key, tensors)| (key, tensors.iter().map(sum).collect())).collect()
}

#[pyfunction]
pub(crate) fn sums_with_gaps(x: Each<Vec<Option<Floats<'_>>>>) -> Vec<Option<f32>> {
    x.iter().map(|tensor| tensor.as_ref().map(sum)).collect()
}

/// The sums of weights and biases.
#[pyfunction]
pub(crate) fn sums_of_pairs(
    x: Each<Vec<(PyReadonlyTensor<'_, f32, 2>, PyReadonlyTensor<'_, f32, 1>)>>,
) -> Vec<f32> {
    x.iter().map(|(weight, bias)| weight.iter().chain(bias.iter()).sum()).collect()
}

#[pyfunction]
pub(crate) fn negate_list(mut x: Each<Vec<Written<'_>>>) {
    x.iter_mut().for_each(negate);
}

/// Inverts the sign of all tensors of a list, by PyO3's own extraction.
#[pyfunction]
pub(crate) fn negate_vec(mut x: Vec<Written<'_>>) {
    x.iter_mut().for_each(negate);
}

#[pyfunction]
pub(crate) fn negate_dict(mut x: Each<HashMap<String, Written<'_>>>) {
    x.values_mut().for_each(negate);
}

#[pyfunction]
pub(crate) fn subtract_lists(
    mut x: Each<Entries<Vec<Written<'_>>>>,
    y: Each<Entries<Vec<Floats<'_>>>>,
) {
    let values = x.0.0.iter_mut().flat_map(|(_, values)| values);
    for (value, by) in values.zip(y.0.0.iter().flat_map(|(_, values)| values)) {
        value.iter_mut().zip(by.iter()).for_each(|(value, by)| *value -= by);
    }
}
