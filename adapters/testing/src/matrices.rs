//! Matrices for the libraries of linear algebra.

use dlbridge::{Tensor, TensorView};

/// Returns a matrix over the numbers 0 to 23, with strides from an offset on, all in elements.
pub fn counting_matrix(shape: [usize; 2], strides: [isize; 2], offset: usize) -> Tensor {
    let elements: Vec<f64> = (0..24).map(f64::from).collect();
    Tensor::from_parts_strided(elements, shape, strides, offset).expect("the numbers suffice")
}

/// Returns an element of the product of two matrices, summed term by term.
pub fn product_element(
    a: &TensorView<'_, f64>,
    b: &TensorView<'_, f64>,
    [i, j]: [usize; 2],
) -> f64 {
    (0..a.shape()[1] as usize).map(|k| a[[i, k]] * b[[k, j]]).sum()
}
