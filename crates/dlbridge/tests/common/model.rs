//! A naive model of layouts, a shape and the position of each element, with random layouts and operations that are
//! the same in each run.

use std::ops::Range;

use dlbridge::{Element, Tensor};

use super::{indices, positions};

/// A generator of pseudo-random numbers: SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to `end`, exclusive.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns all numbers below `end`, in random order.
    pub(crate) fn order(&mut self, end: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..end).collect();
        (1..end).rev().for_each(|last| order.swap(last, self.below(last + 1)));
        order
    }
}

/// A layout within an owner of `len` elements, whose first and last element it touches.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<isize>,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Layout {
    /// Returns a layout whose shape has at most `elements` elements.
    pub(crate) fn random(rng: &mut Rng, elements: usize, overlap: bool) -> Self {
        let ndim = rng.below(7);
        let mut shape = vec![1; ndim];
        for extent in &mut shape {
            *extent = [1, 2, 2, 3, 4, 5][rng.below(6)];
        }
        while shape.iter().product::<usize>() > elements {
            let largest = (0..ndim).max_by_key(|&axis| shape[axis]).unwrap();
            shape[largest] -= 1;
        }
        if ndim > 0 && rng.one_in(12) {
            shape[rng.below(ndim)] = 0;
        }
        Self::of_shape(rng, shape, overlap)
    }

    /// Returns a layout with axes in any order, with or without gaps, with strides of either sign, and 0
    /// if elements may overlap. Strides of axes without a second index are arbitrary.
    pub(crate) fn of_shape(rng: &mut Rng, shape: Vec<usize>, overlap: bool) -> Self {
        let ndim = shape.len();
        let spread = rng.below(3);
        let (mut strides, mut step) = (vec![0; ndim], 1);
        for axis in rng.order(ndim) {
            step *= if spread == 0 { 1 } else { 1 + rng.below(2) as isize };
            strides[axis] = if rng.one_in(3) { -step } else { step };
            if overlap && rng.one_in(6) {
                strides[axis] = 0;
            }
            step *= shape[axis].max(1) as isize;
        }
        let empty = shape.contains(&0);
        let (mut lowest, mut highest) = (0, 0);
        for (&extent, stride) in shape.iter().zip(&mut strides) {
            if (empty || extent == 1) && rng.one_in(2) {
                *stride = [isize::MIN, isize::MAX, 0, -7][rng.below(4)];
            }
            if !empty {
                let reach = (extent as isize - 1) * if extent == 1 { 0 } else { *stride };
                *(if reach < 0 { &mut lowest } else { &mut highest }) += reach;
            }
        }
        let len = if empty { 3 } else { (highest - lowest) as usize + 1 };
        Self { shape, strides, offset: -lowest as usize, len }
    }

    /// Returns a tensor of this layout. `of` makes each element from its position.
    pub(crate) fn tensor<T: Element>(&self, of: impl Fn(usize) -> T) -> Tensor {
        let values: Vec<T> = (0..self.len).map(of).collect();
        Tensor::from_parts_strided(values, &self.shape, &self.strides, self.offset).unwrap()
    }

    pub(crate) fn model(&self) -> Model {
        // Without a second index, the stride must not matter, not even by overflow.
        let step = |(&extent, &stride)| if extent > 1 { stride } else { 0 };
        let strides: Vec<isize> = self.shape.iter().zip(&self.strides).map(step).collect();
        let positions = positions(&self.shape, &strides, self.offset);
        Model { shape: self.shape.clone(), positions }
    }
}

/// An operation that makes a slice of a tensor, or changes the order of its elements.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Slice(usize, Range<usize>),
    StepBy(usize, usize),
    Flip(usize),
    IndexAxis(usize, usize),
    InsertAxis(usize),
    Transpose,
    Permute(Vec<usize>),
    Reshape(Vec<usize>),
    BroadcastTo(Vec<usize>),
}

impl Op {
    /// Returns an operation that a shape allows, except a broadcast.
    pub(crate) fn random(rng: &mut Rng, shape: &[usize]) -> Self {
        let ndim = shape.len();
        if ndim == 0 || rng.one_in(8) {
            return match rng.below(3) {
                0 => Self::Transpose,
                1 if ndim < 8 => Self::InsertAxis(rng.below(ndim + 1)),
                _ => Self::Reshape(reshaped(rng, shape)),
            };
        }
        let axis = rng.below(ndim);
        let extent = shape[axis];
        match rng.below(10) {
            0..=2 => {
                let half = if rng.one_in(8) { extent } else { extent / 2 };
                let start = rng.below(half + 1);
                Self::Slice(axis, start..extent - rng.below((extent - start) / 2 + 1))
            }
            3 => Self::StepBy(axis, [1, 2, 2, 3, 100, usize::MAX][rng.below(6)]),
            4 | 5 => Self::Flip(axis),
            6 if extent > 0 => Self::IndexAxis(axis, rng.below(extent)),
            7 => Self::Permute(rng.order(ndim)),
            _ => Self::Reshape(reshaped(rng, shape)),
        }
    }

    /// Returns a shape that `shape` can be broadcast to.
    pub(crate) fn broadcast(rng: &mut Rng, shape: &[usize]) -> Self {
        let mut repeats = 1;
        let mut repeated = |rng: &mut Rng| {
            let times = if repeats < 20 { rng.below(4) } else { 1 };
            repeats *= times.max(1);
            times
        };
        let mut wide: Vec<usize> = (0..rng.below(3)).map(|_| repeated(rng)).collect();
        wide.extend(shape.iter().map(|&e| if e == 1 { repeated(rng) } else { e }));
        Self::BroadcastTo(wide)
    }
}

/// Returns another shape with the same number of elements: it merges neighbouring axes, and splits one axis.
fn reshaped(rng: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    for _ in 0..1 + rng.below(3) {
        let axis = rng.below(shape.len() + 1);
        match rng.below(3) {
            0 if axis + 1 < shape.len() => {
                let inner = shape.remove(axis + 1);
                shape[axis] *= inner;
            }
            1 if axis < shape.len() => {
                let divisors: Vec<usize> =
                    (1..=shape[axis]).filter(|d| shape[axis].is_multiple_of(*d)).collect();
                if let Some(&inner) = divisors.get(rng.below(divisors.len().max(1))) {
                    shape[axis] /= inner;
                    shape.insert(axis + 1, inner);
                }
            }
            _ if shape.len() < 8 => shape.insert(axis, 1),
            _ => {}
        }
    }
    shape
}

/// A shape, and the position of each element in the owner, the last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) shape: Vec<usize>,
    pub(crate) positions: Vec<usize>,
}

impl Model {
    /// Returns a model of another shape. `old` maps each new index to the old one.
    fn select(&self, shape: Vec<usize>, old: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let nth = |index: Vec<usize>| {
            let index = old(&index);
            assert_eq!(index.len(), self.shape.len());
            self.positions[index.iter().zip(&self.shape).fold(0, |nth, (i, e)| nth * e + i)]
        };
        Self { positions: indices(&shape).into_iter().map(nth).collect(), shape }
    }

    /// Returns a model with another extent of one axis. `old` maps each new index on the axis to the old one.
    fn along(&self, axis: usize, extent: usize, old: impl Fn(usize) -> usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        self.select(shape, |index| {
            let mut index = index.to_vec();
            index[axis] = old(index[axis]);
            index
        })
    }

    pub(crate) fn apply(&self, op: &Op) -> Self {
        let (shape, ndim) = (&self.shape, self.shape.len());
        match op {
            Op::Slice(axis, range) => self.along(*axis, range.len(), |i| range.start + i),
            Op::StepBy(axis, step) => {
                let extent = (0..shape[*axis]).step_by(*step).count();
                self.along(*axis, extent, |i| i * step)
            }
            Op::Flip(axis) => self.along(*axis, shape[*axis], |i| shape[*axis] - 1 - i),
            Op::IndexAxis(axis, at) => {
                let mut kept = shape.clone();
                kept.remove(*axis);
                self.select(kept, |index| [&index[..*axis], &[*at], &index[*axis..]].concat())
            }
            Op::InsertAxis(axis) => {
                let mut more = shape.clone();
                more.insert(*axis, 1);
                Self { shape: more, ..self.clone() }
            }
            Op::Transpose => self.apply(&Op::Permute((0..ndim).rev().collect())),
            Op::Permute(order) => {
                self.select(order.iter().map(|&axis| shape[axis]).collect(), |index| {
                    let place = |axis| order.iter().position(|&named| named == axis).unwrap();
                    (0..ndim).map(|axis| index[place(axis)]).collect()
                })
            }
            Op::Reshape(shape) => Self { shape: shape.clone(), ..self.clone() },
            Op::BroadcastTo(wide) => self.select(wide.clone(), |index| {
                let last = &index[wide.len() - ndim..];
                last.iter().zip(shape).map(|(&i, &e)| if e == 1 { 0 } else { i }).collect()
            }),
        }
    }

    /// Returns the strides of a shape that reach these elements in this order, if they exist, and 0 for axes without
    /// a second index. A stride can only be the distance to index 1.
    pub(crate) fn strides_of(&self, shape: &[usize]) -> Option<Vec<isize>> {
        assert_eq!(shape.iter().product::<usize>(), self.positions.len());
        let Some(&first) = self.positions.first() else { return Some(vec![0; shape.len()]) };
        let stride = |axis: usize| match shape[axis] {
            1 => 0,
            _ => {
                let one_step: usize = shape[axis + 1..].iter().product();
                self.positions[one_step] as isize - first as isize
            }
        };
        let strides: Vec<isize> = (0..shape.len()).map(stride).collect();
        let lead = |index: &Vec<usize>| -> isize {
            index.iter().zip(&strides).map(|(&i, &stride)| i as isize * stride).sum()
        };
        let reached = indices(shape).iter().map(lead).collect::<Vec<_>>();
        let there = self.positions.iter().map(|&p| p as isize - first as isize);
        there.eq(reached).then_some(strides)
    }

    /// Returns true if the elements are contiguous in C order.
    pub(crate) fn is_adjacent(&self) -> bool {
        self.positions.windows(2).all(|pair| pair[0] + 1 == pair[1])
    }
}
