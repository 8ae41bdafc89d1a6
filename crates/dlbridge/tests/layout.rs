//! Layout arithmetic against the same in 128-bit integers, which no 64-bit shape or stride here can
//! overflow: what is taken, what is refused, sizes and contiguity.

mod common;

use std::ops::Range;

use common::Producer;
use dlbridge::{DataType, Tensor};

const PADDED: u64 = dlbridge::sys::DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
const CUDA: i32 = 2;
const OPENCL: i32 = 4;

/// Numbers that look like chance and are always the same.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Mostly small, often at an edge, sometimes anything.
    fn number(&mut self) -> i64 {
        let edges = [
            i64::MIN,
            i64::MIN + 1,
            i64::MAX,
            i64::MAX - 1,
            1 << 62,
            1 << 61,
            -(1 << 62),
            1 << 32,
            0,
            1,
        ];
        match self.below(12) {
            0..=5 => self.below(7) as i64 - 2,
            6..=8 => self.of(&edges),
            9 => self.below(1 << 33) as i64,
            _ => self.next() as i64,
        }
    }
}

/// A layout from outside, with its numbers widened.
#[derive(Debug)]
struct Layout {
    shape: Vec<i64>,
    strides: Vec<i64>,
    dtype: DataType,
    padded: bool,
    device: i32,
    address: usize,
    byte_offset: u64,
}

impl Layout {
    fn roll(dice: &mut Dice) -> Self {
        let ndim = dice.below(6);
        let dtypes = [
            "uint8",
            "int16",
            "float32",
            "complex128",
            "uint4",
            "float6_e2m3fn",
            "int12",
            "float64x3",
        ];
        let large = dice.below(8) == 0;
        Self {
            shape: (0..ndim).map(|_| dice.number().max(-1)).collect(),
            strides: (0..ndim).map(|_| dice.number()).collect(),
            dtype: dice.of(&dtypes).parse().unwrap(),
            padded: dice.below(2) == 0,
            device: dice.of(&[CUDA, OPENCL]),
            address: dice.of(&[8, 0x1000, 1 << 40, usize::MAX - 1000]),
            byte_offset: if large { dice.next() } else { dice.below(100) },
        }
    }

    fn axes(&self) -> impl DoubleEndedIterator<Item = (i128, i128)> {
        let wide = |(&extent, &stride): (&i64, &i64)| (i128::from(extent), i128::from(stride));
        self.shape.iter().zip(&self.strides).map(wide)
    }

    fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// The bits of an element, with those that pad it.
    fn bits(&self) -> i128 {
        let bits = i128::from(self.dtype.element_bits());
        if self.padded { (bits + 7) / 8 * 8 } else { bits }
    }

    /// The number of elements, unless an extent is negative, or the others count too many.
    fn count(&self) -> Option<i128> {
        let mut product = 1;
        for (extent, _) in self.axes() {
            if extent < 0 {
                return None;
            }
            product *= extent.max(1);
            if product > isize::MAX as i128 {
                return None;
            }
        }
        Some(if self.is_empty() { 0 } else { product })
    }

    /// The bytes touched, counted from the first element's, unless they are more than can be.
    fn extent(&self) -> Option<Range<i128>> {
        let (mut lowest, mut highest) = (0, 0);
        let fits = |n: i128| i64::try_from(n).is_ok();
        for (extent, stride) in self.axes() {
            let reach = (extent - 1) * stride;
            *if reach < 0 { &mut lowest } else { &mut highest } += reach;
            if !fits(reach) || !fits(lowest) || !fits(highest) {
                return None;
            }
        }
        let start = (lowest * self.bits()).div_euclid(8);
        let end = (highest * self.bits() + self.bits() + 7).div_euclid(8);
        (fits(start) && fits(end) && fits(end - start)).then_some(start..end)
    }

    /// Whether a tensor can be so.
    fn can_be(&self) -> bool {
        let Some(count) = self.count() else { return false };
        if count == 0 {
            return true;
        }
        let Some(extent) = self.extent() else { return false };
        let base = if self.device == OPENCL { 0 } else { self.address as i128 };
        let first = base + i128::from(self.byte_offset);
        let limit = u64::MAX as i128;
        first <= limit && first + extent.start >= 0 && first + extent.end <= limit
    }

    fn import(&self) -> dlbridge::Result<Tensor> {
        Producer::at(std::ptr::without_provenance_mut(self.address), self.dtype, &self.shape)
            .strides(&self.strides)
            .device(self.device, 0)
            .byte_offset(self.byte_offset)
            .flags(if self.padded { PADDED } else { 0 })
            .import()
    }
}

/// Whether axes, the fastest first, step through adjacent elements.
fn adjacent(axes: impl Iterator<Item = (i128, i128)>) -> bool {
    let mut step = 1_i128;
    let mut all = true;
    for (extent, stride) in axes {
        all &= extent == 1 || stride == step;
        step = step.saturating_mul(extent);
    }
    all
}

#[test]
#[cfg(target_pointer_width = "64")]
fn any_layout_is_taken_exactly_if_it_can_be() {
    let mut dice = Dice(7);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..if cfg!(miri) { 200 } else { 200_000 } {
        let layout = Layout::roll(&mut dice);
        match layout.import() {
            Err(error) => {
                assert!(!layout.can_be(), "{error}: {layout:?}");
                refused += 1;
            }
            Ok(tensor) => {
                assert!(layout.can_be(), "{layout:?}");
                let count = layout.count().unwrap();
                assert_eq!(tensor.len() as i128, count);
                assert_eq!(tensor.nbytes() as i128, (count * layout.bits() + 7) / 8, "{layout:?}");
                let empty = layout.is_empty();
                assert_eq!(tensor.is_c_contiguous(), empty || adjacent(layout.axes().rev()));
                assert_eq!(tensor.is_f_contiguous(), empty || adjacent(layout.axes()));
                assert_eq!((tensor.shape(), tensor.strides()), (&*layout.shape, &*layout.strides));
                taken += 1;
            }
        }
    }
    // Neither side of the question is rare.
    assert!(taken > refused / 20 && refused > taken / 20, "{taken} taken, {refused} refused");
}

#[test]
fn small_layouts_are_contiguous_exactly_if_their_positions_count_up() {
    let extents: &[i64] = if cfg!(miri) { &[1, 2] } else { &[0, 1, 2, 3] };
    let strides: &[i64] = if cfg!(miri) { &[-1, 1, 2] } else { &[-3, -1, 0, 1, 2, 3, 6] };
    for shape in common::indices(&[extents.len(); 3]) {
        let shape: Vec<i64> = shape.iter().map(|&i| extents[i]).collect();
        for stride in common::indices(&[strides.len(); 3]) {
            let stride: Vec<i64> = stride.iter().map(|&i| strides[i]).collect();
            let lent =
                Producer::at(std::ptr::without_provenance_mut(1 << 20), DataType::UINT8, &shape);
            let tensor = lent.strides(&stride).device(CUDA, 0).import().unwrap();
            let extents: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
            let position = |index: &Vec<usize>| -> i64 {
                index.iter().zip(&stride).map(|(&i, &stride)| i as i64 * stride).sum()
            };
            let counts_up = |order: Vec<Vec<usize>>| {
                order.iter().zip(0..).all(|(index, nth)| position(index) == nth)
            };
            let c_order = common::indices(&extents);
            let reversed: Vec<usize> = extents.iter().rev().copied().collect();
            let f_order = common::indices(&reversed).into_iter().map(|mut index| {
                index.reverse();
                index
            });
            assert_eq!(tensor.is_c_contiguous(), counts_up(c_order), "{shape:?} {stride:?}");
            assert_eq!(
                tensor.is_f_contiguous(),
                counts_up(f_order.collect()),
                "{shape:?} {stride:?}"
            );
        }
    }
}
