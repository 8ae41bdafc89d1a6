//! Slices, transposes and reshapes: compares chains of random operations, on every type with slices, with a naive
//! model.

use crate::common::Count;
use crate::common::model::{Layout, Model, Op, Rng};
use crate::common::{Counted, indices};
use dlbridge::{Error, MAX_NDIM, Tensor, TensorRef, TensorRefMut, TensorView};

/// Applies an operation. Types without a broadcast get none.
macro_rules! apply {
    ($parts:expr, $op:expr) => {
        apply!($parts, $op, Op::BroadcastTo(_) => unreachable!())
    };
    ($parts:expr, $op:expr, $broadcast:pat => $result:expr) => {
        match $op {
            Op::Slice(axis, range) => $parts.slice(*axis, range.clone()),
            Op::StepBy(axis, step) => $parts.step_by(*axis, *step),
            Op::Flip(axis) => $parts.flip(*axis),
            Op::IndexAxis(axis, index) => $parts.index_axis(*axis, *index),
            Op::InsertAxis(axis) => $parts.insert_axis(*axis),
            Op::Transpose => Ok($parts.transpose()),
            Op::Permute(order) => $parts.permute(order),
            Op::Reshape(shape) => $parts.reshape(shape),
            $broadcast => $result,
        }
    };
}

const CASES: usize = if cfg!(miri) { 6 } else { 1500 };
const ELEMENTS: usize = if cfg!(miri) { 8 } else { 200 };

fn value(position: usize) -> u32 {
    position as u32 + 1000
}

fn values(model: &Model) -> Vec<u32> {
    model.positions.iter().map(|&position| value(position)).collect()
}

fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| extent as usize).collect()
}

/// Asserts that a view equals the model, through every accessor.
#[track_caller]
fn agrees(view: &TensorView<'_, u32>, model: &Model, of: &dyn std::fmt::Debug) {
    let expected = values(model);
    assert_eq!(extents(view.shape()), model.shape, "{of:?}");
    assert_eq!((view.len(), view.strides().len()), (expected.len(), view.ndim()), "{of:?}");
    assert_eq!(view.to_vec(), expected, "{of:?}");
    assert!(view.iter().eq(&expected), "{of:?}");
    let by_index = indices(&model.shape).into_iter().map(|index| *view.get(&index).unwrap());
    assert!(by_index.eq(expected.iter().copied()), "{of:?}");
    let adjacent = model.is_adjacent().then_some(&expected[..]);
    assert_eq!(view.as_slice(), adjacent, "{of:?}");
}

#[test]
fn chains_of_operations_agree_with_the_model() {
    let mut rng = Rng::new(1);
    let mut refused = 0;
    for _ in 0..CASES {
        let layout = Layout::random(&mut rng, ELEMENTS, true);
        let (mut owned, source) = (layout.tensor(value), layout.tensor(value));
        let mut view = source.view::<u32>().unwrap();
        let mut tensor = TensorRef::from(&source);
        let (mut model, mut done) = (layout.model(), Vec::new());
        agrees(&view, &model, &layout);
        let home = layout.model().positions.first().map_or(0, |&at| source.data().addr() - 4 * at);
        for _ in 0..1 + rng.below(6) {
            let op = Op::random(&mut rng, &model.shape);
            done.push(op.clone());
            let of = (&layout, &done);
            if matches!(&op, Op::Reshape(shape) if model.strides_of(shape).is_none()) {
                assert_eq!(apply!(view, &op).unwrap_err(), Error::NotReshapable, "{of:?}");
                assert_eq!(apply!(tensor, &op).unwrap_err(), Error::NotReshapable, "{of:?}");
                refused += 1;
                continue;
            }
            model = model.apply(&op);
            view = apply!(view, &op).unwrap();
            tensor = apply!(tensor, &op).unwrap();
            owned = apply!(owned, &op).unwrap();
            agrees(&view, &model, &of);
            agrees(&tensor.view().unwrap(), &model, &of);
            agrees(&owned.view().unwrap(), &model, &of);
            let address = model.positions.first().map_or(0, |&at| home + 4 * at);
            assert_eq!((tensor.data().addr(), tensor.byte_offset()), (address, 0), "{of:?}");
            assert_eq!(tensor.len(), model.positions.len());
            assert_eq!(owned.data().is_null(), model.positions.is_empty());
            assert_eq!((view.shape(), view.strides()), (tensor.shape(), tensor.strides()));
            assert_eq!((owned.shape(), owned.strides()), (tensor.shape(), tensor.strides()));
            assert_eq!(tensor.is_c_contiguous(), model.is_adjacent(), "{of:?}");
            let fortran = model.apply(&Op::Transpose).is_adjacent();
            assert_eq!(tensor.is_f_contiguous(), fortran, "{of:?}");
        }
        let whole: Vec<u32> = (0..layout.len).map(value).collect();
        assert_eq!(owned.try_into_owner::<Vec<u32>>().unwrap(), whole, "{layout:?}");
    }
    assert!(refused > CASES / 20, "both results of a reshape occur");
}

#[test]
fn broadcasts_agree_with_the_model() {
    let mut rng = Rng::new(2);
    for _ in 0..CASES / 2 {
        let layout = Layout::random(&mut rng, ELEMENTS / 4, true);
        let source = layout.tensor(value);
        let mut view = source.view::<u32>().unwrap();
        let mut tensor = TensorRef::from(&source);
        let (mut model, mut done) = (layout.model(), Vec::new());
        for turn in 0..3 {
            let op = match turn {
                1 => Op::broadcast(&mut rng, &model.shape),
                _ => Op::random(&mut rng, &model.shape),
            };
            if matches!(&op, Op::Reshape(shape) if model.strides_of(shape).is_none()) {
                continue;
            }
            done.push(op.clone());
            model = model.apply(&op);
            view = apply!(view, &op, Op::BroadcastTo(shape) => view.broadcast_to(shape)).unwrap();
            tensor =
                apply!(tensor, &op, Op::BroadcastTo(shape) => tensor.broadcast_to(shape)).unwrap();
            agrees(&view, &model, &(&layout, &done));
            agrees(&tensor.view().unwrap(), &model, &(&layout, &done));
        }
    }
}

/// Applies random operations to something mutable.
macro_rules! chain {
    ($rng:expr, $parts:ident, $model:ident) => {
        for _ in 0..$rng.below(5) {
            let op = Op::random($rng, &$model.shape);
            if !matches!(&op, Op::Reshape(shape) if $model.strides_of(shape).is_none()) {
                $model = $model.apply(&op);
                $parts = apply!($parts, &op).unwrap();
            }
        }
    };
}

#[test]
fn writes_through_a_slice_agree_with_the_model() {
    let mut rng = Rng::new(3);
    for case in 0..CASES {
        let layout = Layout::random(&mut rng, ELEMENTS, false);
        let (mut tensor, mut model) = (layout.tensor(value), layout.model());
        let mut expected: Vec<u32> = (0..layout.len).map(value).collect();
        match case % 3 {
            0 => {
                let mut view = tensor.view_mut::<u32>().unwrap();
                chain!(&mut rng, view, model);
                agrees(&view.as_view(), &model, &layout);
                view.iter_mut().for_each(|element| *element += 5000);
            }
            1 => {
                let mut part = TensorRefMut::try_from(&mut tensor).unwrap();
                chain!(&mut rng, part, model);
                assert_eq!(extents(part.shape()), model.shape);
                assert_eq!(part.as_tensor_ref().data().is_null(), model.positions.is_empty());
                let mut view = part.into_view_mut::<u32>().unwrap();
                for index in indices(&model.shape) {
                    *view.get_mut(&index).unwrap() += 5000;
                }
            }
            _ => {
                chain!(&mut rng, tensor, model);
                let view = tensor.view_mut::<u32>().unwrap();
                view.into_iter().for_each(|element| *element += 5000);
            }
        }
        model.positions.iter().for_each(|&position| expected[position] += 5000);
        assert_eq!(tensor.try_into_owner::<Vec<u32>>().unwrap(), expected, "{layout:?}");
    }
}

#[test]
fn split_halves_share_no_element() {
    let mut rng = Rng::new(4);
    for _ in 0..CASES / 3 {
        let layout = Layout::random(&mut rng, ELEMENTS, false);
        if layout.shape.is_empty() {
            continue;
        }
        let (mut tensor, model) = (layout.tensor(value), layout.model());
        let axis = rng.below(layout.shape.len());
        let extent = layout.shape[axis];
        let at = rng.below(extent + 1);
        let (mut head, mut tail) = tensor.view_mut::<u32>().unwrap().split_at(axis, at).unwrap();
        let heads = model.apply(&Op::Slice(axis, 0..at));
        let tails = model.apply(&Op::Slice(axis, at..extent));
        agrees(&head.as_view(), &heads, &layout);
        agrees(&tail.as_view(), &tails, &layout);
        // All references are alive at the same time.
        let all: Vec<_> = head.iter_mut().zip([1].iter().cycle()).collect();
        let more: Vec<_> = tail.iter_mut().zip([2].iter().cycle()).collect();
        all.into_iter().chain(more).for_each(|(element, &which)| *element = which);
        let mut expected: Vec<u32> = (0..layout.len).map(value).collect();
        heads.positions.iter().for_each(|&position| expected[position] = 1);
        tails.positions.iter().for_each(|&position| expected[position] = 2);
        assert_eq!(tensor.try_into_owner::<Vec<u32>>().unwrap(), expected);
    }
    let mut tensor = Tensor::from([[1, 2], [3, 4]]);
    let error = tensor.view_mut::<i32>().unwrap().split_at(1, 3).unwrap_err();
    assert!(matches!(error, Error::InvalidRange { axis: 1, extent: 2, .. }));
    let error = tensor.view_mut::<i32>().unwrap().split_at(2, 0).unwrap_err();
    assert_eq!(error, Error::InvalidAxis { axis: 2, ndim: 2 });
}

/// Asserts that every type with an operation refuses it with an error, and that the owner is dropped
/// then.
macro_rules! refused {
    ($shape:expr, $method:ident($($argument:expr),*), $error:expr) => {
        let make = || -> (Tensor, Count) {
            let (owner, dropped) = Counted::new(vec![7_u8; $shape.iter().product()]);
            (Tensor::from_parts(owner, $shape).unwrap(), dropped)
        };
        let ((mut tensor, dropped), error) = (make(), $error);
        assert_eq!(tensor.view::<u8>().unwrap().$method($($argument),*).unwrap_err(), error);
        assert_eq!(TensorRef::from(&tensor).$method($($argument),*).unwrap_err(), error);
        refused!(@owned tensor, $method($($argument),*), error);
        assert_eq!(dropped.get(), 1);
    };
    (@owned $tensor:ident, broadcast_to($($argument:expr),*), $error:expr) => {
        $tensor = $tensor.into_read_only();
        drop($tensor);
    };
    (@owned $tensor:ident, $method:ident($($argument:expr),*), $error:expr) => {
        let view = $tensor.view_mut::<u8>().unwrap();
        assert_eq!(view.$method($($argument),*).unwrap_err(), $error);
        let part = TensorRefMut::try_from(&mut $tensor).unwrap();
        assert_eq!(part.$method($($argument),*).unwrap_err(), $error);
        assert_eq!($tensor.$method($($argument),*).unwrap_err(), $error);
    };
}

#[test]
fn operation_that_the_shape_does_not_allow_is_refused() {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    let no_axis = |axis| Error::InvalidAxis { axis, ndim: 2 };
    refused!([2, 3], slice(2, ..), no_axis(2));
    refused!([2, 3], step_by(usize::MAX, 1), no_axis(usize::MAX));
    refused!([2, 3], flip(2), no_axis(2));
    refused!([2, 3], index_axis(2, 0), no_axis(2));
    refused!([2, 3], insert_axis(3), no_axis(3));
    let range = |start, end| Error::InvalidRange { axis: 1, start, end, extent: 3 };
    refused!([2, 3], slice(1, 1..4), range(1, 4));
    refused!([2, 3], slice(1, ..=3), range(0, 4));
    refused!([2, 3], slice(1, 4..), range(4, 3));
    #[expect(clippy::reversed_empty_ranges, reason = "which is refused")]
    {
        refused!([2, 3], slice(1, 2..1), range(2, 1));
    }
    let max = usize::MAX;
    refused!([2, 3], slice(1, 0..=max), range(0, max));
    refused!([2, 3], slice(1, (Excluded(max), Unbounded)), range(max, 3));
    refused!([2, 3], slice(1, (Included(max), Included(max))), range(max, max));
    refused!([2, 3], index_axis(1, 3), range(3, 4));
    refused!([2, 3], index_axis(1, max), range(max, max));
    refused!(
        [2, 0],
        index_axis(1, 0),
        Error::InvalidRange { axis: 1, start: 0, end: 1, extent: 0 }
    );
    refused!([2, 3], permute([0]), Error::AxisCount { given: 1, ndim: 2 });
    refused!([2, 3], permute([0, 1, 2]), Error::AxisCount { given: 3, ndim: 2 });
    refused!([2, 3], permute([0, 2]), no_axis(2));
    refused!([2, 3], permute([1, 1]), Error::RepeatedAxis { axis: 1 });
    refused!([2, 3, 4], permute([0, 2, 0]), Error::RepeatedAxis { axis: 0 });
    refused!([2, 3], reshape([7]), Error::ElementCount { shape: 7, owner: 6 });
    refused!([2, 3], reshape([0, 6]), Error::ElementCount { shape: 0, owner: 6 });
    refused!([0, 6], reshape([6]), Error::ElementCount { shape: 6, owner: 0 });
    refused!([2, 3], reshape([max]), Error::TooLarge);
    refused!([0], reshape([0, max / 2, 3]), Error::TooLarge);
    let ndim = Error::InvalidNdim { ndim: MAX_NDIM as i64 + 1 };
    refused!([1], reshape([1; MAX_NDIM + 1]), ndim);
    refused!([2, 3], broadcast_to([3]), Error::AxisCount { given: 1, ndim: 2 });
    refused!([2, 3], broadcast_to([4, 3, 3]), Error::Extent { axis: 0, expected: 3, found: 2 });
    refused!([2, 3], broadcast_to([2, 1]), Error::Extent { axis: 1, expected: 1, found: 3 });
    refused!([0], broadcast_to([1]), Error::Extent { axis: 0, expected: 1, found: 0 });
    refused!([1], broadcast_to([max / 2, 3, 1]), Error::TooLarge);
    refused!([1], broadcast_to([1; MAX_NDIM + 1]), ndim);
}

#[test]
fn slice_accepts_every_kind_of_range() {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    let tensor = TensorRef::from(&[0_u8, 1, 2, 3]);
    for start in [Included(0), Included(1), Excluded(0), Excluded(2), Unbounded] {
        for end in [Included(2), Included(3), Excluded(3), Excluded(4), Unbounded] {
            let part = tensor.slice(0, (start, end)).unwrap();
            let expected = &[0, 1, 2, 3][(start, end)];
            assert_eq!(part.view::<u8>().unwrap().as_slice(), Some(expected));
        }
    }
}

#[test]
#[should_panic(expected = "a step of 0 goes nowhere")]
fn step_by_zero_panics() {
    let _ = Tensor::from([1, 2]).step_by(0, 0);
}

#[test]
#[cfg_attr(miri, ignore = "a thousand axes take quadratic time")]
fn insert_axis_up_to_the_limit_succeeds() {
    let mut tensor = Tensor::from_parts(vec![value(0)], [1; MAX_NDIM]).unwrap();
    let full = Error::InvalidNdim { ndim: MAX_NDIM as i64 + 1 };
    assert_eq!(TensorRef::from(&tensor).insert_axis(0).unwrap_err(), full);
    tensor = tensor.permute((0..MAX_NDIM).rev().collect::<Vec<_>>()).unwrap().transpose();
    tensor = tensor.index_axis(MAX_NDIM - 1, 0).unwrap().insert_axis(0).unwrap();
    assert_eq!((tensor.ndim(), tensor.len()), (MAX_NDIM, 1));
    let scalar = TensorRef::from(&tensor).reshape([]).unwrap();
    agrees(&scalar.view().unwrap(), &Model { shape: vec![], positions: vec![0] }, &"a scalar");
    let wide = scalar.broadcast_to([1; MAX_NDIM]).unwrap();
    assert_eq!(wide.view::<u32>().unwrap().get([0; MAX_NDIM]), Some(&value(0)));
}
