//! Tensors as matrices of nalgebra: which layouts can be viewed, the address, and results computed on them.

use dlbridge::{Element, Error, Tensor, TensorView};
use dlbridge_nalgebra::{MatrixExt, TensorViewExt, TensorViewMutExt};
use dlbridge_testing::{counting_matrix, product_element};
use nalgebra::{DMatrix, Dyn, Scalar, dmatrix, dvector};

/// The product of two views, term by term.
fn product(a: &TensorView<'_, f64>, b: &TensorView<'_, f64>) -> DMatrix<f64> {
    let [rows, columns] = [a.shape()[0], b.shape()[1]].map(|extent| extent as usize);
    DMatrix::from_fn(rows, columns, |i, j| product_element(a, b, [i, j]))
}

/// Asserts that each element has the same address in the view and in the matrix.
fn is_viewed_in_place<T: Element + Scalar>(view: &TensorView<'_, T>) {
    let matrix = view.as_matrix().unwrap();
    assert_eq!([matrix.nrows() as i64, matrix.ncols() as i64], view.shape());
    for (i, j) in (0..matrix.nrows()).flat_map(|i| (0..matrix.ncols()).map(move |j| (i, j))) {
        assert!(std::ptr::eq(&matrix[(i, j)], &view[[i, j]]), "{i} {j}");
    }
}

#[test]
fn fortran_order_is_viewed_in_place() {
    is_viewed_in_place(&counting_matrix([4, 3], [1, 4], 0).view::<f64>().unwrap());
    is_viewed_in_place(&counting_matrix([4, 3], [1, 4], 5).view::<f64>().unwrap());
    is_viewed_in_place(&dmatrix![1_u8, 2; 3, 4].into_tensor().view::<u8>().unwrap());
    let broad = counting_matrix([4, 3], [1, 4], 0);
    is_viewed_in_place(&broad.view::<f64>().unwrap().slice(1, 1..).unwrap());
}

#[test]
fn strides_of_extent_one_do_not_matter() {
    is_viewed_in_place(&counting_matrix([4, 1], [1, -9], 0).view::<f64>().unwrap());
    is_viewed_in_place(&counting_matrix([1, 4], [-9, 1], 0).view::<f64>().unwrap());
    is_viewed_in_place(&counting_matrix([1, 1], [0, 0], 3).view::<f64>().unwrap());
}

#[test]
fn views_without_elements() {
    for (shape, strides) in [([0, 3], [-1, 7]), ([3, 0], [3, 0]), ([0, 0], [0, 0])] {
        let mut tensor = counting_matrix(shape, strides, 0);
        let matrix = tensor.view::<f64>().unwrap().as_matrix().unwrap();
        assert_eq!(matrix.shape(), (shape[0], shape[1]));
        assert_eq!(matrix.sum(), 0.0);
        let matrix = tensor.view_mut::<f64>().unwrap().into_matrix_mut().unwrap();
        assert_eq!(matrix.shape(), (shape[0], shape[1]));
    }
    let tensor = Tensor::from(Vec::<f32>::new());
    assert_eq!(tensor.view::<f32>().unwrap().as_vector().unwrap().len(), 0);
}

#[test]
fn c_order_is_viewed_as_its_transpose() {
    let tensor = counting_matrix([2, 3], [3, 1], 0);
    let view = tensor.view::<f64>().unwrap();
    assert_eq!(view.as_matrix().unwrap_err(), Error::NotFortranContiguous);
    is_viewed_in_place(&view.transpose());
    assert_eq!(view.transpose().as_matrix().unwrap(), dmatrix![0., 3.; 1., 4.; 2., 5.]);
    assert_eq!(view.to_matrix().unwrap(), dmatrix![0., 1., 2.; 3., 4., 5.]);
}

/// Refused as they are and transposed, but copied.
#[test]
fn other_strides_are_refused_and_copied() {
    let mut overlapping = 0;
    for (shape, strides, offset) in [
        ([2, 3], [1, 4], 0),   // columns apart
        ([2, 3], [4, 1], 0),   // rows apart
        ([2, 3], [2, 4], 0),   // every second row
        ([2, 3], [-1, 2], 1),  // rows backwards
        ([2, 3], [1, -2], 4),  // columns backwards
        ([2, 3], [1, 0], 0),   // one column three times
        ([2, 3], [0, 1], 0),   // one row twice
        ([2, 3], [1, 1], 0),   // a sliding window
        ([2, 3], [-3, -1], 5), // all backwards
    ] {
        let tensor = counting_matrix(shape, strides, offset);
        let view = tensor.view::<f64>().unwrap();
        assert_eq!(view.as_matrix().unwrap_err(), Error::NotFortranContiguous, "{strides:?}");
        let transpose = view.transpose();
        assert_eq!(transpose.as_matrix().unwrap_err(), Error::NotFortranContiguous, "{strides:?}");
        let copy = view.to_matrix().unwrap();
        assert_eq!(copy, DMatrix::from_fn(2, 3, |i, j| view[[i, j]]), "{strides:?}");
        let mut tensor = counting_matrix(shape, strides, offset);
        match tensor.view_mut::<f64>() {
            Ok(view) => {
                assert_eq!(view.into_matrix_mut().unwrap_err(), Error::NotFortranContiguous)
            }
            Err(refused) => overlapping += usize::from(refused == Error::Overlapping),
        }
    }
    assert_eq!(overlapping, 3, "the column and the row that come again, and the window");
}

/// The reason why columns with a gap between them are refused, on nalgebra's own memory. If this test fails, nalgebra
/// has changed, and such columns may be viewed.
#[test]
fn nalgebra_reshape_ignores_gaps_between_columns() {
    let matrix = dmatrix![1, 3; 2, 4];
    let first_row = matrix.view((0, 0), (1, 2));
    assert_eq!(first_row, dmatrix![1, 3]);
    let column = first_row.reshape_generic(Dyn(2), Dyn(1));
    assert_eq!(column, dmatrix![1; 2], "3 is in the view, 2 is not");
}

#[test]
fn vectors() {
    let mut tensor = Tensor::from(vec![3.0_f32, 4.0, 5.0]);
    let view = tensor.view::<f32>().unwrap();
    let vector = view.as_vector().unwrap();
    assert_eq!((vector.as_ptr(), vector.norm_squared()), (view.as_ptr(), 50.0));
    let backwards = view.flip(0).unwrap();
    assert_eq!(backwards.as_vector().unwrap_err(), Error::NotContiguous);
    assert_eq!(backwards.to_vector().unwrap(), dvector![5.0, 4.0, 3.0]);
    tensor.view_mut::<f32>().unwrap().into_vector_mut().unwrap()[1] = 40.0;
    assert_eq!(tensor.view::<f32>().unwrap().to_vec(), [3.0, 40.0, 5.0]);
    let every_second = tensor.view_mut::<f32>().unwrap().step_by(0, 2).unwrap();
    assert_eq!(every_second.into_vector_mut().unwrap_err(), Error::NotContiguous);
}

#[test]
fn other_numbers_of_dimensions_are_refused() {
    let mut vector = Tensor::from(vec![1.0, 2.0]);
    let mut cube = Tensor::from([[[1.0, 2.0]]]);
    let error = |expected, found| Error::Ndim { expected, found };
    let view = vector.view::<f64>().unwrap();
    assert_eq!(view.as_matrix().unwrap_err(), error(2, 1));
    assert_eq!(view.to_matrix().unwrap_err(), error(2, 1));
    let view = cube.view::<f64>().unwrap();
    assert_eq!(view.as_matrix().unwrap_err(), error(2, 3));
    assert_eq!(view.as_vector().unwrap_err(), error(1, 3));
    assert_eq!(view.to_vector().unwrap_err(), error(1, 3));
    assert_eq!(vector.view_mut::<f64>().unwrap().into_matrix_mut().unwrap_err(), error(2, 1));
    assert_eq!(cube.view_mut::<f64>().unwrap().into_vector_mut().unwrap_err(), error(1, 3));
}

#[test]
fn products_of_views_equal_those_of_the_elements() {
    // Small and large products take different paths in nalgebra.
    for n in [2, 3, 7] {
        let elements: Vec<f64> = (0..n * n).map(|x| (x * x % 11) as f64).collect();
        let a = Tensor::from_parts(elements.clone(), [n, n]).unwrap().transpose();
        let b = DMatrix::from_vec(n, n, elements).map(|x| x + 1.0).into_tensor();
        let (a, b) = (a.view::<f64>().unwrap(), b.view::<f64>().unwrap());
        let expected = product(&a, &b);
        assert_eq!(a.as_matrix().unwrap() * b.as_matrix().unwrap(), expected);
        let mut sum = DMatrix::zeros(n, n);
        sum.gemm(1.0, &a.as_matrix().unwrap(), &b.as_matrix().unwrap(), 0.0);
        assert_eq!(sum, expected);
    }
}

#[test]
fn writes_through_a_matrix_reach_the_tensor() {
    let mut tensor = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let view = tensor.view_mut::<f64>().unwrap().transpose();
    let mut matrix = view.into_matrix_mut().unwrap();
    matrix.column_mut(0).scale_mut(10.0);
    matrix.row_mut(1).add_scalar_mut(0.5);
    assert_eq!(tensor.view::<f64>().unwrap().to_vec(), [10.0, 20.5, 3.0, 4.5]);
}

#[test]
fn matrix_view_outlives_its_tensor_view() {
    let tensor = dmatrix![1.0, 2.0; 3.0, 4.0].into_tensor();
    let matrix = tensor.view::<f64>().unwrap().as_matrix().unwrap();
    assert_eq!(matrix.column(1).sum(), 6.0);
}
