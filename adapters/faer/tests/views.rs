//! Tensors as matrices of faer, with any strides, and results computed on them.

use dlbridge::{Error, Tensor, TensorView};
use dlbridge_faer::{MatrixExt, TensorViewExt, TensorViewMutExt};
use dlbridge_testing::{counting_matrix, product_element};
use faer::{Mat, MatRef, col, mat};

const LAYOUTS: &[([usize; 2], [isize; 2], usize)] = &[
    ([2, 3], [3, 1], 0),   // C order
    ([2, 3], [1, 2], 0),   // Fortran order
    ([2, 3], [1, 8], 3),   // columns apart
    ([2, 3], [8, 1], 3),   // rows apart
    ([2, 3], [2, 8], 0),   // every second row
    ([2, 3], [-3, 1], 3),  // rows backwards
    ([2, 3], [3, -1], 2),  // columns backwards
    ([2, 3], [-1, -2], 5), // all backwards
    ([3, 1], [1, -7], 0),  // one column
    ([1, 3], [-7, 1], 0),  // one row
    ([1, 1], [0, 0], 23),
];

/// Layouts that repeat elements.
const REPEATING: &[([usize; 2], [isize; 2], usize)] =
    &[([2, 3], [1, 0], 0), ([2, 3], [0, 1], 0), ([2, 3], [0, 0], 7), ([2, 3], [1, 1], 0)];

fn counting(&(shape, strides, offset): &([usize; 2], [isize; 2], usize)) -> Tensor {
    counting_matrix(shape, strides, offset)
}

/// The indices of a matrix.
fn indices(shape: &[i64]) -> impl Iterator<Item = (usize, usize)> + use<> {
    let [rows, columns] = [0, 1].map(|axis| shape[axis] as usize);
    (0..rows).flat_map(move |i| (0..columns).map(move |j| (i, j)))
}

/// The product of two matrices, term by term.
fn product(a: &TensorView<'_, f64>, b: &TensorView<'_, f64>) -> Mat<f64> {
    let [rows, columns] = [a.shape()[0], b.shape()[1]].map(|extent| extent as usize);
    Mat::from_fn(rows, columns, |i, j| product_element(a, b, [i, j]))
}

#[test]
fn any_strides_are_viewed_in_place() {
    for layout in LAYOUTS.iter().chain(REPEATING) {
        let tensor = counting(layout);
        let view = tensor.view::<f64>().unwrap();
        let matrix = view.as_matrix().unwrap();
        assert_eq!([matrix.nrows() as i64, matrix.ncols() as i64], view.shape());
        for (i, j) in indices(view.shape()) {
            assert!(std::ptr::eq(&matrix[(i, j)], &view[[i, j]]), "{layout:?}");
        }
        assert_eq!(view.to_matrix().unwrap(), matrix);
    }
}

#[test]
fn any_strides_without_repetition_are_written_in_place() {
    for layout in LAYOUTS {
        let mut tensor = counting(layout);
        let before: Mat<f64> = tensor.view::<f64>().unwrap().to_matrix().unwrap();
        let mut matrix = tensor.view_mut::<f64>().unwrap().into_matrix_mut().unwrap();
        matrix *= faer::Scale(2.0);
        matrix[(0, 0)] = -1.0;
        let view = tensor.view::<f64>().unwrap();
        for (i, j) in indices(view.shape()) {
            let expected = if (i, j) == (0, 0) { -1.0 } else { 2.0 * before[(i, j)] };
            assert_eq!(view[[i, j]], expected, "{layout:?}");
        }
    }
    for layout in REPEATING {
        assert_eq!(counting(layout).view_mut::<f64>().unwrap_err(), Error::Overlapping);
    }
}

#[test]
#[cfg_attr(miri, ignore = "faer multiplies with instructions that Miri does not know")]
fn products_of_views_equal_those_of_the_elements() {
    for a in LAYOUTS.iter().chain(REPEATING) {
        for b in LAYOUTS.iter().chain(REPEATING) {
            let (a, b) = (counting(a), counting(b));
            let (a, b) = (a.view::<f64>().unwrap(), b.view::<f64>().unwrap());
            let b = if a.shape()[1] == b.shape()[0] { b } else { b.transpose() };
            if a.shape()[1] == b.shape()[0] {
                // Whole numbers of this size are exact in any order of summation.
                let found = a.as_matrix().unwrap() * b.as_matrix().unwrap();
                assert_eq!(found, product(&a, &b), "{a:?} {b:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "faer multiplies with instructions that Miri does not know")]
fn a_large_product_of_a_matrix_and_a_tensor_in_c_order() {
    let n = 70;
    let elements: Vec<f64> = (0..n * n).map(|x| (x * x % 11) as f64).collect();
    let a = Tensor::from_parts(elements, [n, n]).unwrap();
    let b = Mat::from_fn(n, n, |i, j| (i * j % 7) as f64).into_tensor();
    let (a, b) = (a.view::<f64>().unwrap(), b.view::<f64>().unwrap());
    assert_eq!(a.as_matrix().unwrap() * b.as_matrix().unwrap(), product(&a, &b));
}

#[test]
fn views_without_elements() {
    for (shape, strides) in [([0, 3], [isize::MAX, 7]), ([3, 0], [3, -1]), ([0, 0], [0, 0])] {
        let mut tensor = counting(&(shape, strides, 0));
        let matrix: MatRef<'_, f64> = tensor.view::<f64>().unwrap().as_matrix().unwrap();
        assert_eq!((matrix.shape(), matrix.to_owned().ncols()), ((shape[0], shape[1]), shape[1]));
        let matrix = tensor.view_mut::<f64>().unwrap().into_matrix_mut().unwrap();
        assert_eq!(matrix.shape(), (shape[0], shape[1]));
    }
}

#[test]
fn vectors_become_columns() {
    let mut tensor = Tensor::from(vec![3.0, 4.0, 5.0]);
    let view = tensor.view::<f64>().unwrap();
    assert_eq!(view.as_vector().unwrap().as_ptr(), view.as_ptr());
    let backwards = view.flip(0).unwrap();
    assert_eq!(backwards.as_vector().unwrap(), col![5.0, 4.0, 3.0]);
    assert_eq!(backwards.to_vector().unwrap(), col![5.0, 4.0, 3.0]);
    let mut view = tensor.view_mut::<f64>().unwrap().flip(0).unwrap().into_vector_mut().unwrap();
    view[0] = 50.0;
    assert_eq!(tensor.view::<f64>().unwrap().to_vec(), [3.0, 4.0, 50.0]);
}

#[test]
fn other_numbers_of_dimensions_are_refused() {
    let mut vector = Tensor::from(vec![1.0, 2.0]);
    let mut cube = Tensor::from([[[1.0, 2.0]]]);
    let error = |expected, found| Error::Ndim { expected, found };
    let view = vector.view::<f64>().unwrap();
    assert_eq!(view.as_matrix().err(), Some(error(2, 1)));
    assert_eq!(view.to_matrix().err(), Some(error(2, 1)));
    let view = cube.view::<f64>().unwrap();
    assert_eq!(view.as_matrix().err(), Some(error(2, 3)));
    assert_eq!(view.as_vector().err(), Some(error(1, 3)));
    assert_eq!(view.to_vector().err(), Some(error(1, 3)));
    assert_eq!(vector.view_mut::<f64>().unwrap().into_matrix_mut().err(), Some(error(2, 1)));
    assert_eq!(cube.view_mut::<f64>().unwrap().into_vector_mut().err(), Some(error(1, 3)));
}

#[test]
fn matrix_outlives_its_view() {
    let tensor = mat![[1.0, 2.0], [3.0, 4.0]].into_tensor();
    let matrix = tensor.view::<f64>().unwrap().as_matrix().unwrap();
    assert_eq!((matrix[(0, 1)], matrix[(1, 1)]), (2.0, 4.0));
}
