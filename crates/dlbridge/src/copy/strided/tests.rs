//! Compares copies with copies made index by index. Here small copies use threads too.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Element, Tensor, TensorRef, TensorRefMut};

/// Pseudo-random numbers.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A type whose `nth` elements differ from their neighbours, with bytes that differ from each other.
trait Number: Element + PartialEq + core::fmt::Debug {
    fn nth(nth: usize) -> Self;
    fn reversed(self) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn nth(nth: usize) -> Self {
                (nth as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835) as $type
            }

            fn reversed(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}
numbers! { u8 u16 u32 u64 u128 }

/// The values of a tensor, read one by one.
fn naive<T: Number>(source: &TensorRef<'_>) -> Vec<T> {
    let view = source.view::<T>().unwrap();
    let mut index = vec![0; source.ndim()];
    let mut values = Vec::new();
    for _ in 0..source.len() {
        values.push(*view.get(&index).unwrap());
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < source.shape()[axis] as usize {
                break;
            }
            index[axis] = 0;
        }
    }
    values
}

/// Copies a layout to C order, with and without swapping bytes, and to its own order reversed.
fn check<T: Number>(source: &TensorRef<'_>) {
    let expected = naive::<T>(source);
    let of = format!("{:?} {:?} of {}", source.shape(), source.strides(), source.dtype());
    assert_eq!(source.view::<T>().unwrap().to_vec(), expected, "{of}");
    assert_eq!(source.to_copy().unwrap().view::<T>().unwrap().to_vec(), expected, "{of}");
    let swapped = source.to_byte_swapped().unwrap();
    let reversed: Vec<T> = expected.iter().map(|number| number.reversed()).collect();
    assert_eq!(swapped.view::<T>().unwrap().as_slice(), Some(&reversed[..]), "{of}");
    check_in_blocks(source, &expected, &reversed);

    let shape: Vec<usize> = source.shape().iter().rev().map(|&extent| extent as usize).collect();
    let mut target = Tensor::zeros::<T>(shape).unwrap();
    let turned = TensorRefMut::try_from(&mut target).unwrap().transpose();
    turned.copy_from(source).unwrap();
    assert_eq!(naive::<T>(&TensorRef::from(&target).transpose()), expected, "{of}");
    TensorRefMut::try_from(&mut target).unwrap().swap_bytes().unwrap();
    assert_eq!(naive::<T>(&TensorRef::from(&target).transpose()), reversed, "{of}");
}

/// Copies a layout in blocks: completely, and stopped at the first and at the last pause.
fn check_in_blocks<T: Number>(source: &TensorRef<'_>, expected: &[T], reversed: &[T]) {
    let mut pauses = 0;
    let copy = source.to_copy_while(1, || {
        pauses += 1;
        true
    });
    assert_eq!(copy.unwrap().unwrap().view::<T>().unwrap().as_slice(), Some(expected));
    // Blocks are at least half of 1 KiB, unless they are single indices of an outer axis.
    assert!(source.nbytes() < 2048 || pauses > 0, "{:?} in one block", source.shape());
    let swapped = source.to_byte_swapped_while(|| true).unwrap().unwrap();
    assert_eq!(swapped.view::<T>().unwrap().as_slice(), Some(reversed));
    for mut left in [1, pauses].into_iter().filter(|_| pauses > 0) {
        let copy = source.to_copy_while(1, || {
            left -= 1;
            left > 0
        });
        assert!(copy.unwrap().is_none());
    }
}

/// Checks slices of a plane and of a stack of planes, in every order and direction.
fn check_all<T: Number>(noise: &mut Noise, shape: [usize; 3]) {
    let len = shape.iter().product();
    let values: Vec<T> = (0..len).map(T::nth).collect();
    let mut source = TensorRef::from(&values[..]).reshape(shape).unwrap();
    for (axis, extent) in shape.into_iter().enumerate() {
        match noise.below(6) {
            0 => source = source.flip(axis).unwrap(),
            1 if extent > 2 => source = source.slice(axis, 1..).unwrap(),
            2 => source = source.step_by(axis, 2).unwrap(),
            _ => {}
        }
    }
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    check::<T>(&source.permute(orders[noise.below(6)]).unwrap());
}

#[test]
fn copy_random_layouts_matches_index_by_index() {
    let mut noise = Noise(11);
    let rounds = if cfg!(miri) { 1 } else { 60 };
    for _ in 0..rounds {
        // One small extent, one up to about a tile's side, and one that is mostly larger.
        let mut extents =
            [1 + noise.below(5), 1 + noise.below(if cfg!(miri) { 9 } else { 70 }), 17];
        extents[2] = if cfg!(miri) { 17 } else { 60 + noise.below(90) };
        extents.rotate_left(noise.below(3));
        check_all::<u8>(&mut noise, extents);
        if !cfg!(miri) {
            check_all::<u16>(&mut noise, extents);
            check_all::<u32>(&mut noise, extents);
            check_all::<u64>(&mut noise, extents);
        }
        check_all::<u128>(&mut noise, extents);
    }
}

#[test]
fn copy_transposed_tile_edges_matches_index_by_index() {
    fn square<T: Number>(heights: &[usize], widths: &[usize]) {
        for &height in heights {
            for &width in widths {
                let values: Vec<T> = (0..height * width).map(T::nth).collect();
                let plane = TensorRef::from(&values[..]).reshape([height, width]).unwrap();
                check::<T>(&plane.transpose());
            }
        }
    }
    if cfg!(miri) {
        // A whole tile and its edges, and a partial tile: Miri is slow.
        square::<u8>(&[6], &[17]);
        square::<u64>(&[9], &[17]);
        return;
    }
    let edges = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130];
    square::<u8>(&edges, &edges);
    square::<u16>(&edges, &edges);
    square::<u32>(&edges, &edges);
    square::<u64>(&edges, &edges);
    square::<u128>(&edges, &[1, 5, 8, 9, 64, 67]);
}

#[test]
fn copy_broadcast_element_fills_target() {
    // Miri is slow.
    let (rows, others) = if cfg!(miri) { (9, 4) } else { (40, 30) };
    let values: Vec<u16> = (0..rows).map(u16::nth).collect();
    let column = TensorRef::from(&values[..]).reshape([rows, 1]).unwrap();
    check::<u16>(&column.broadcast_to([rows, others]).unwrap());
    check::<u16>(&column.transpose().broadcast_to([others, rows]).unwrap());
    check::<u16>(&column.slice(0, ..1).unwrap().broadcast_to([3, others]).unwrap());
}

#[test]
fn copy_long_runs_with_gaps_matches_index_by_index() {
    let len = if cfg!(miri) { 40 } else { 900 };
    let values: Vec<u32> = (0..3 * len).map(u32::nth).collect();
    let rows = TensorRef::from(&values[..]).reshape([3, len]).unwrap();
    check::<u32>(&rows.slice(1, 1..len - 10).unwrap());
    check::<u32>(&rows);
    check::<u32>(&rows.slice(1, ..7).unwrap());
}
