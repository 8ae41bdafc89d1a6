//! A reshape without a copy succeeds if and only if strides for the new shape exist. The tests compare all layouts of a
//! size with a model that searches for strides, and with ndarray.

use crate::common::model::{Layout, Model, Rng};
use crate::common::positions;
use dlbridge::{Error, Tensor, TensorRef};

/// Returns all shapes of a number of elements with at most `axes` axes.
fn shapes(elements: usize, axes: usize) -> Vec<Vec<usize>> {
    if axes == 0 {
        return if elements == 1 { vec![vec![]] } else { vec![] };
    }
    let mut all = shapes(elements, axes - 1);
    for extent in (1..=elements).filter(|extent| elements.is_multiple_of(*extent)) {
        for mut shape in shapes(elements / extent, axes - 1) {
            shape.insert(0, extent);
            all.push(shape);
        }
    }
    all.sort();
    all.dedup();
    all
}

/// Reshapes a layout to all shapes, and compares with the model.
fn check(tensor: &Tensor, model: &Model, shapes: &[Vec<usize>]) -> [usize; 2] {
    let mut answers = [0; 2];
    let of = (tensor.shape(), tensor.strides());
    for shape in shapes {
        let reshaped = TensorRef::from(tensor).reshape(shape);
        let strides = model.strides_of(shape);
        answers[usize::from(strides.is_some())] += 1;
        let Some(strides) = strides else {
            assert_eq!(reshaped.unwrap_err(), Error::NotReshapable, "{of:?} to {shape:?}");
            continue;
        };
        let reshaped = reshaped.unwrap_or_else(|_| panic!("{of:?} to {shape:?}"));
        for (axis, &extent) in shape.iter().enumerate() {
            assert_eq!(reshaped.shape()[axis], extent as i64, "{of:?} to {shape:?}");
            if extent > 1 {
                assert_eq!(reshaped.strides()[axis], strides[axis] as i64, "{of:?} to {shape:?}");
            }
        }
        assert_eq!(reshaped.data(), tensor.data());
    }
    answers
}

#[test]
fn reshape_succeeds_exactly_if_strides_exist() {
    const LEN: usize = 400;
    let steps: &[isize] = if cfg!(miri) { &[-2, 3] } else { &[-2, -1, 0, 1, 2, 3, 4, 6] };
    let mut answers = [0; 2];
    for (elements, axes) in [(4, 2), (6, 2), (8, 3), (12, 2)] {
        if cfg!(miri) && elements > 4 {
            break;
        }
        let shapes = shapes(elements, axes + 1);
        for from in shapes.iter().filter(|shape| shape.len() <= axes) {
            for nth in 0..steps.len().pow(from.len() as u32) {
                let stride = |axis: u32| steps[nth / steps.len().pow(axis) % steps.len()];
                let strides: Vec<isize> = (0..from.len() as u32).map(stride).collect();
                let values = vec![0_u8; LEN];
                let tensor = Tensor::from_parts_strided(values, from, &strides, LEN / 2).unwrap();
                let positions = positions(from, &strides, LEN / 2);
                let model = Model { shape: from.clone(), positions };
                let [refused, granted] = check(&tensor, &model, &shapes);
                answers = [answers[0] + refused, answers[1] + granted];
            }
        }
    }
    assert!(answers.iter().all(|&answer| answer > if cfg!(miri) { 5 } else { 10_000 }));
}

#[test]
fn reshape_of_an_empty_tensor_to_any_empty_shape_succeeds() {
    let mut rng = Rng::new(9);
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let layout = Layout::of_shape(&mut rng, vec![2, 0, 3], true);
        let tensor = layout.tensor(|_| 0_u8);
        let reshaped = TensorRef::from(&tensor).reshape([5, 0, 4]).unwrap();
        assert_eq!((reshaped.shape(), reshaped.strides()), (&[5, 0, 4][..], &[4, 4, 1][..]));
        assert_eq!(TensorRef::from(&tensor).reshape([0]).unwrap().shape(), [0]);
    }
}

/// ndarray searches for strides too; dlbridge finds the same ones.
#[test]
#[cfg(feature = "ndarray")]
fn reshape_agrees_with_ndarray() {
    use ndarray::{ArrayViewD, IxDyn, Order};

    let mut rng = Rng::new(10);
    let mut answers = [0; 2];
    for _ in 0..if cfg!(miri) { 3 } else { 1000 } {
        let layout = Layout::random(&mut rng, 24, false);
        if layout.shape.contains(&0) {
            continue;
        }
        let tensor = layout.tensor(|at| at as u32);
        let array = ArrayViewD::try_from(tensor.view::<u32>().unwrap()).unwrap();
        for shape in shapes(array.len(), if cfg!(miri) { 2 } else { 3 }) {
            let theirs = array.to_shape((IxDyn(&shape), Order::RowMajor)).unwrap();
            let ours = TensorRef::from(&tensor).reshape(&shape);
            answers[usize::from(ours.is_ok())] += 1;
            assert_eq!(theirs.is_view(), ours.is_ok(), "{layout:?} to {shape:?}");
            if let Ok(ours) = ours {
                let ours = ours.view::<u32>().unwrap();
                assert_eq!(ArrayViewD::try_from(ours).unwrap(), theirs);
            }
        }
    }
    assert!(answers.iter().all(|&answer| answer > 2), "both results occur: {answers:?}");
}
