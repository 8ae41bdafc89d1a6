//! Copies of 4 MiB and more, which use several threads on machines with several processors.
#![cfg(not(miri))]

use dlbridge::{Element, Tensor, TensorRef};

const COLUMNS: usize = 4111;

/// The number of rows of a matrix of somewhat more than 8 MiB.
const fn rows<T>() -> usize {
    2053 / size_of::<T>() + 13
}

/// Returns a matrix whose elements `number` makes from their positions.
fn matrix<T: Element>(number: impl Fn(u64) -> T) -> Tensor {
    let numbers: Vec<T> = (0..(rows::<T>() * COLUMNS) as u64).map(number).collect();
    Tensor::from_parts(numbers, [rows::<T>(), COLUMNS]).unwrap()
}

/// Compares a copy, in C order, with the value of `at` for each row and column.
fn check<T: Element + PartialEq + core::fmt::Debug>(copy: &Tensor, at: impl Fn(usize, usize) -> T) {
    assert!(copy.is_c_contiguous());
    let view = copy.view::<T>().unwrap();
    let elements = view.as_slice().unwrap();
    let columns = copy.shape()[1] as usize;
    for (row, found) in elements.chunks(columns).enumerate() {
        let differs = (0..columns).find(|&column| found[column] != at(row, column));
        assert_eq!(differs, None, "row {row}");
    }
}

fn at(row: usize, column: usize) -> u64 {
    (row * COLUMNS + column) as u64
}

#[test]
fn large_copy_of_a_transpose_is_equal() {
    fn of<T: Element + PartialEq + core::fmt::Debug>(number: fn(u64) -> T) {
        let matrix = matrix(number);
        let copy = TensorRef::from(&matrix).transpose().to_copy().unwrap();
        check(&copy, |row, column| number(at(column, row)));
    }
    of(|n| (n * 31 + n / 251) as u8);
    of(|n| (n * 31 + n / 65_521) as u16);
    of(|n| n as u32);
    of(|n| n);
}

#[test]
fn large_copy_with_negative_strides_and_steps_is_equal() {
    let matrix = matrix(|n| n as u32);
    let flipped = TensorRef::from(&matrix).flip(0).unwrap().flip(1).unwrap().to_copy().unwrap();
    check(&flipped, |row, column| at(rows::<u32>() - 1 - row, COLUMNS - 1 - column) as u32);
    let left = TensorRef::from(&matrix).slice(1, ..COLUMNS - 1).unwrap().to_copy().unwrap();
    check(&left, |row, column| at(row, column) as u32);
    let halves = TensorRef::from(&matrix).step_by(1, 2).unwrap().to_copy().unwrap();
    check(&halves, |row, column| at(row, 2 * column) as u32);
    let whole = TensorRef::from(&matrix).to_copy().unwrap();
    check(&whole, |row, column| at(row, column) as u32);
}

#[test]
fn large_copy_of_a_broadcast_row_is_equal() {
    let row = Tensor::from((0..COLUMNS as u64).collect::<Vec<_>>());
    let shape = [rows::<u64>(), COLUMNS];
    let copy = TensorRef::from(&row).broadcast_to(shape).unwrap().to_copy().unwrap();
    check(&copy, |_, column| column as u64);
}

#[test]
fn large_copy_to_the_other_byte_order_is_equal() {
    fn of<T: Element + PartialEq + core::fmt::Debug>(number: fn(u64) -> T, swap: fn(T) -> T) {
        let matrix = matrix(number);
        let copy = TensorRef::from(&matrix).to_byte_swapped().unwrap();
        check(&copy, |row, column| swap(number(at(row, column))));
        let copy = TensorRef::from(&matrix).transpose().to_byte_swapped().unwrap();
        check(&copy, |row, column| swap(number(at(column, row))));
    }
    of(|n| n as u16, u16::swap_bytes);
    of(|n| n as u32, u32::swap_bytes);
    of(|n| n * 0x1_0000_0001, u64::swap_bytes);
}
