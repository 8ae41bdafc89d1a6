//! Parts of tensors and of what is borrowed of them, against a model that keeps the position of
//! each element in a list.

mod common;

use common::{indices, positions};
use dlbridge::{Error, Result, Tensor, TensorRef, TensorRefMut, TensorView, TensorViewMut};

/// A shape, and the position of the element at each of its indices, the last axis fastest.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    shape: Vec<usize>,
    at: Vec<usize>,
}

/// A way to make a part of something.
#[derive(Clone, Debug)]
enum Op {
    Slice(usize, usize, usize),
    StepBy(usize, usize),
    Flip(usize),
    IndexAxis(usize, usize),
    InsertAxis(usize),
    Transpose,
    Permute(Vec<usize>),
    Reshape(Vec<usize>),
}

impl Model {
    fn new(shape: &[usize], strides: &[isize], offset: usize) -> Self {
        Self { shape: shape.to_vec(), at: positions(shape, strides, offset) }
    }

    fn get(&self, index: &[usize]) -> usize {
        let nth = index.iter().zip(&self.shape).fold(0, |nth, (&i, &extent)| nth * extent + i);
        self.at[nth]
    }

    /// The model whose element at each index is this one's at another.
    fn mapped(&self, shape: Vec<usize>, from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let at = indices(&shape).iter().map(|index| self.get(&from(index))).collect();
        Self { shape, at }
    }

    fn apply(&self, op: &Op) -> Self {
        let mut shape = self.shape.clone();
        match *op {
            Op::Slice(axis, start, end) => {
                shape[axis] = end - start;
                self.mapped(shape, |index| with(index, axis, |i| i + start))
            }
            Op::StepBy(axis, step) => {
                shape[axis] = shape[axis].div_ceil(step);
                self.mapped(shape, |index| with(index, axis, |i| i * step))
            }
            Op::Flip(axis) => {
                let extent = shape[axis];
                self.mapped(shape, |index| with(index, axis, |i| extent - 1 - i))
            }
            Op::IndexAxis(axis, at) => {
                shape.remove(axis);
                self.mapped(shape, |index| {
                    let mut index = index.to_vec();
                    index.insert(axis, at);
                    index
                })
            }
            Op::InsertAxis(axis) => {
                shape.insert(axis, 1);
                Self { shape, at: self.at.clone() }
            }
            Op::Transpose => {
                shape.reverse();
                self.mapped(shape, |index| index.iter().rev().copied().collect())
            }
            Op::Permute(ref order) => {
                let shape = order.iter().map(|&axis| self.shape[axis]).collect();
                self.mapped(shape, |index| {
                    let mut from = vec![0; index.len()];
                    order.iter().zip(index).for_each(|(&axis, &i)| from[axis] = i);
                    from
                })
            }
            Op::Reshape(ref shape) => Self { shape: shape.clone(), at: self.at.clone() },
        }
    }

    /// Whether some strides lead through the elements in the order of a shape.
    fn has_strides(&self, shape: &[usize]) -> bool {
        let new = Self { shape: shape.to_vec(), at: self.at.clone() };
        let step = |axis: usize| {
            let mut index = vec![0; shape.len()];
            if shape[axis] < 2 {
                return 0;
            }
            index[axis] = 1;
            new.get(&index) as isize - new.at[0] as isize
        };
        if new.at.is_empty() {
            return true;
        }
        let strides: Vec<isize> = (0..shape.len()).map(step).collect();
        positions(shape, &strides, new.at[0]) == new.at
    }
}

fn with(index: &[usize], axis: usize, change: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = change(index[axis]);
    index
}

/// Everything that has parts.
trait Parts: Sized {
    fn part(self, op: &Op) -> Result<Self>;
}

macro_rules! parts {
    ($($type:ty),*) => {$(
        impl Parts for $type {
            fn part(self, op: &Op) -> Result<Self> {
                match *op {
                    Op::Slice(axis, start, end) => self.slice(axis, start..end),
                    Op::StepBy(axis, step) => self.step_by(axis, step),
                    Op::Flip(axis) => self.flip(axis),
                    Op::IndexAxis(axis, index) => self.index_axis(axis, index),
                    Op::InsertAxis(axis) => self.insert_axis(axis),
                    Op::Transpose => Ok(self.transpose()),
                    Op::Permute(ref order) => self.permute(order),
                    Op::Reshape(ref shape) => self.reshape(shape),
                }
            }
        }
    )*};
}

parts!(Tensor, TensorView<'_, u16>, TensorViewMut<'_, u16>, TensorRef<'_>, TensorRefMut<'_>);

/// Numbers that look like chance and are always the same.
struct Dice(u32);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % end.max(1)
    }

    /// An operation that a shape allows. Reshaping may still be refused.
    fn op(&mut self, shape: &[usize]) -> Op {
        let ndim = shape.len();
        let axis = self.below(ndim);
        match self.below(if ndim == 0 { 2 } else { 9 }) {
            0 if ndim < 6 => Op::InsertAxis(self.below(ndim + 1)),
            0 | 1 => Op::Transpose,
            2 | 3 => {
                let start = self.below(shape[axis] + 1);
                Op::Slice(axis, start, start + self.below(shape[axis] - start + 1))
            }
            4 => Op::StepBy(axis, 1 + self.below(3)),
            5 => Op::Flip(axis),
            6 if shape[axis] > 0 => Op::IndexAxis(axis, self.below(shape[axis])),
            7 => {
                let mut order: Vec<usize> = (0..ndim).collect();
                (1..ndim).for_each(|i| order.swap(i, self.below(i + 1)));
                Op::Permute(order)
            }
            _ => Op::Reshape(self.shape_of(shape.iter().product())),
        }
    }

    /// A shape with so many elements.
    fn shape_of(&mut self, mut elements: usize) -> Vec<usize> {
        let mut shape = vec![];
        while elements > 1 {
            let factor = (2..=elements).filter(|n| elements.is_multiple_of(*n));
            let factors: Vec<usize> = factor.collect();
            let factor = factors[self.below(factors.len())];
            shape.push(factor);
            elements /= factor;
        }
        if elements == 0 {
            shape.push(0);
        }
        if self.below(3) == 0 {
            shape.insert(self.below(shape.len() + 1), 1);
        }
        shape
    }
}

type Layout = (&'static [usize], &'static [isize], usize);

const LAYOUTS: &[Layout] = &[
    (&[], &[], 3),
    (&[24], &[1], 0),
    (&[4, 6], &[6, 1], 0),
    (&[4, 6], &[1, 4], 0),
    (&[2, 3, 4], &[12, 4, 1], 0),
    (&[2, 3, 4], &[-12, 4, -1], 15),
    (&[3, 4], &[8, 2], 1),
    (&[2, 1, 3, 1, 2], &[12, 99, 4, -7, 2], 0),
    (&[2, 2, 1, 2, 3], &[12, 6, 6, 3, 1], 0),
    (&[3, 0, 2], &[5, 5, 5], 0),
];

fn numbers() -> Vec<u16> {
    (0..24).map(|n| n * 7 + 1000).collect()
}

fn tensor((shape, strides, offset): Layout) -> Tensor {
    Tensor::from_parts_strided(numbers(), shape, strides, offset).unwrap()
}

fn shape_of(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().iter().map(|&extent| extent as usize).collect()
}

const ROUNDS: usize = if cfg!(miri) { 2 } else { 400 };

#[test]
fn chains_of_parts_lead_to_the_elements_of_the_model() {
    let mut dice = Dice(1);
    for layout in LAYOUTS {
        for _ in 0..ROUNDS {
            let mut model = Model::new(layout.0, layout.1, layout.2);
            let (owned, mut lent) = (tensor(*layout), tensor(*layout));
            let address = owned.view::<u16>().unwrap().as_ptr().addr();
            let mut whole = Some(owned);
            let shared = tensor(*layout);
            let mut view = shared.view::<u16>().unwrap();
            let mut untyped = TensorRef::from(&shared);
            for _ in 0..5 {
                let op = dice.op(&model.shape);
                if let Op::Reshape(shape) = &op
                    && !model.has_strides(shape)
                {
                    assert_eq!(
                        view.part(&op).unwrap_err(),
                        Error::NotReshapable,
                        "{model:?} {op:?}"
                    );
                    view = untyped.view().unwrap();
                    continue;
                }
                model = model.apply(&op);
                view = view.part(&op).unwrap();
                untyped = untyped.part(&op).unwrap();
                whole = Some(whole.take().unwrap().part(&op).unwrap());
                let exclusive = lent.part(&op).unwrap();
                lent = exclusive;
                let expected: Vec<u16> = model.at.iter().map(|&at| numbers()[at]).collect();
                let extents: Vec<i64> = model.shape.iter().map(|&extent| extent as i64).collect();
                assert_eq!((view.shape(), view.len()), (&extents[..], expected.len()), "{op:?}");
                assert_eq!(view.to_vec(), expected, "{layout:?} {op:?}");
                assert!(view.iter().eq(&expected) && view.clone().into_iter().eq(&expected));
                assert_eq!(untyped.view::<u16>().unwrap().to_vec(), expected);
                assert_eq!(whole.as_ref().unwrap().view::<u16>().unwrap().to_vec(), expected);
                let by_index = indices(&model.shape);
                assert!(by_index.iter().map(|index| view.get(index).unwrap()).eq(&expected));
                if view.as_slice().is_some() {
                    assert_eq!(view.as_slice(), Some(&expected[..]));
                }
            }
            let whole = whole.unwrap();
            if !whole.is_empty() && layout.2 == 0 && !layout.1.contains(&-12) {
                let first = (whole.data().addr() - address) / 2;
                assert!(first < 24);
            }
            assert_eq!(shape_of(&whole), model.shape);
            assert_eq!(whole.try_into_owner::<Vec<u16>>().unwrap(), numbers());
            write_through(lent, &model);
        }
    }
}

/// Writes each element of an exclusive part, through each kind of mutable view, and sees that no
/// other one changed.
fn write_through(mut part: Tensor, model: &Model) {
    let mut expected = numbers();
    for (nth, &at) in model.at.iter().enumerate() {
        expected[at] = nth as u16;
    }
    let mut view = part.view_mut::<u16>().unwrap();
    view.iter_mut().enumerate().for_each(|(nth, element)| *element = nth as u16 + 1);
    for element in &mut view {
        *element -= 1;
    }
    for (nth, index) in indices(&model.shape).iter().enumerate() {
        assert_eq!(view.get_mut(index).copied(), Some(nth as u16));
    }
    assert_eq!(part.try_into_owner::<Vec<u16>>().unwrap(), expected);
}

#[test]
fn mutable_parts_are_those_of_the_model() {
    let mut dice = Dice(2);
    for layout in LAYOUTS {
        for _ in 0..ROUNDS / 2 {
            let mut model = Model::new(layout.0, layout.1, layout.2);
            let mut tensor = tensor(*layout);
            let mut view = tensor.view_mut::<u16>().unwrap();
            for _ in 0..4 {
                let op = dice.op(&model.shape);
                if !matches!(op, Op::Reshape(_)) {
                    model = model.apply(&op);
                    view = view.part(&op).unwrap();
                }
            }
            view.into_iter().for_each(|element| *element = 1);
            let mut whole = TensorRefMut::try_from(&mut tensor).unwrap();
            let shorter = whole.as_tensor_ref_mut().insert_axis(0).unwrap();
            assert_eq!(shorter.shape().len(), layout.0.len() + 1);
            let mut expected = numbers();
            model.at.iter().for_each(|&at| expected[at] = 1);
            assert_eq!(tensor.try_into_owner::<Vec<u16>>().unwrap(), expected);
        }
    }
}

#[test]
fn a_shape_is_refused_if_and_only_if_no_strides_lead_through_it() {
    let shapes: Vec<Vec<usize>> = (1..=4)
        .flat_map(|ndim| indices(&vec![7; ndim]))
        .filter(|shape| matches!(shape.iter().product(), 0 | 1 | 6 | 12 | 24))
        .collect();
    let step = if cfg!(miri) { 499 } else { 1 };
    for layout in LAYOUTS {
        let (tensor, model) = (tensor(*layout), Model::new(layout.0, layout.1, layout.2));
        let view = tensor.view::<u16>().unwrap();
        for shape in shapes.iter().step_by(step) {
            let count: usize = shape.iter().product();
            let found = view.reshape(shape).map(|view| view.to_vec());
            let expected = if count != model.at.len() {
                Err(Error::ElementCount { shape: count, owner: model.at.len() })
            } else if model.has_strides(shape) {
                Ok(view.to_vec())
            } else {
                Err(Error::NotReshapable)
            };
            assert_eq!(found, expected, "{layout:?} to {shape:?}");
        }
    }
}
