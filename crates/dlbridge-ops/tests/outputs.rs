//! Outputs: tensors of the caller, new tensors, and shapes that the function decides.

mod common;

use common::{Array, call, elements, message, vector, zeros};
use dlbridge_ops::{Dynamic, Error, ErrorKind, Out, Uninit, op};

#[op]
fn double(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
}

#[op]
fn fill(x: &[f32], mut out: Out<'_, f32>) {
    out.iter_mut().for_each(|out| *out = x[0]);
}

#[op(shape(one = like(x), two = [x[0] + 1]))]
fn both(x: dlbridge_ops::Array<'_, f32, 1>, one: &mut [f32], two: &mut [i64]) {
    one.fill(x[0]);
    two.fill(2);
}

#[op]
fn nonzero(x: &[f32], indices: Dynamic<'_, i64, 1>) -> Result<(), Error> {
    let found: Vec<i64> = (0..x.len()).filter(|i| x[*i] != 0.0).map(|i| i as i64).collect();
    let mut indices = indices.allocate([found.len()])?;
    indices.iter_mut().zip(found).for_each(|(index, found)| *index = found);
    Ok(())
}

#[op]
fn forgets(_x: &[f32], _out: Dynamic<'_, f32, 1>) {}

#[test]
fn destination_is_filled() {
    let (mut x, mut out) = (vector([1.0_f32, 2.0]), zeros::<f32>(&[2]));
    assert!(call::<double::Operator>(&[x.any(), out.any()]).unwrap().is_empty());
    assert_eq!(out.data, [2.0, 4.0]);
}

#[test]
fn strided_destination_of_a_slice_is_filled() {
    let mut x = vector([1.0_f32, 2.0]);
    let mut out = Array::strided(vec![-1.0_f32; 4], &[2], &[2], 4);
    call::<double::Operator>(&[x.any(), out.any()]).unwrap();
    assert_eq!(out.data, [-1.0, 2.0, -1.0, 4.0]);
}

#[test]
fn strided_destination_of_a_view_is_filled() {
    let mut x = vector([3.0_f32, 3.0]);
    let mut out = Array::strided(vec![-1.0_f32; 4], &[2], &[-2], 12);
    call::<fill::Operator>(&[x.any(), out.any()]).unwrap();
    assert_eq!(out.data, [-1.0, 3.0, -1.0, 3.0]);
}

#[test]
fn wrong_destination_is_refused() {
    let mut x = vector([1.0_f32, 2.0]);
    let error =
        |any: [dlbridge_ops::tvm::Any; 2]| call::<double::Operator>(&any).map(drop).unwrap_err();
    let found = error([x.any(), zeros::<f32>(&[3]).any()]);
    assert_eq!(found.kind(), ErrorKind::Value);
    assert_eq!(found.to_string(), "double: out must have the shape [2], but has [3]");
    let found = error([x.any(), zeros::<f64>(&[2]).any()]);
    assert_eq!(found.kind(), ErrorKind::Type);
    let found = error([x.any(), common::int(1)]);
    assert_eq!(found.to_string(), "double: out must be a tensor to fill");
    let found = error([x.any(), Array::strided(vec![0.0_f32], &[2], &[0], 0).any()]);
    assert!(found.to_string().starts_with("double: out: "), "{found}");
}

#[test]
fn destination_that_overlaps_is_refused() {
    let mut x = vector([1.0_f32, 2.0]);
    let x = x.any();
    let error = call::<double::Operator>(&[x, x]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Buffer);
    let mut memory = vector([1.0_f32, 2.0, 3.0]);
    let mut first = Array::strided(Vec::<f32>::new(), &[2], &[1], 0);
    let second = memory.any();
    let first = first.any();
    // SAFETY: the descriptions belong to this test.
    unsafe {
        let whole = second.payload.pointer.cast::<dlbridge::sys::DLTensor>();
        (*first.payload.pointer.cast::<dlbridge::sys::DLTensor>()).data = (*whole).data;
        (*(*whole).shape) = 2;
        (*whole).byte_offset = 4;
    }
    let expected = "double: out is written and shares memory with x; pass a copy";
    assert_eq!(message::<double::Operator>(&[first, second]), expected);
}

#[test]
fn several_outputs_are_returned_in_order() {
    let results = call::<both::Operator>(&[vector([5.0_f32]).any()]).unwrap();
    assert_eq!(elements::<f32>(&results[0]), [5.0]);
    assert_eq!(elements::<i64>(&results[1]), [2, 2]);
}

#[test]
fn function_decides_the_shape() {
    let mut x = vector([0.0_f32, 1.0, 0.0, 2.0]);
    let results = call::<nonzero::Operator>(&[x.any()]).unwrap();
    assert_eq!(elements::<i64>(&results[0]), [1, 3]);
    let mut out = zeros::<i64>(&[2]);
    call::<nonzero::Operator>(&[x.any(), out.any()]).unwrap();
    assert_eq!(out.data, [1, 3]);
    let mut short = zeros::<i64>(&[1]);
    let error = call::<nonzero::Operator>(&[x.any(), short.any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert_eq!(error.to_string(), "nonzero: indices must have the shape [2], but has [1]");
}

#[test]
fn output_that_the_function_does_not_make_is_an_error() {
    let mut x = vector([0.0_f32]);
    let expected = "forgets: the function did not allocate _out; call its method `allocate`";
    assert_eq!(message::<forgets::Operator>(&[x.any()]), expected);
    assert_eq!(message::<forgets::Operator>(&[x.any(), zeros::<f32>(&[1]).any()]), expected);
}

#[test]
fn shape_that_is_too_large_is_an_error() {
    #[op]
    fn huge(x: &[f32], out: Dynamic<'_, f32, 2>) -> Result<(), Error> {
        out.allocate([usize::MAX, x.len()])?;
        Ok(())
    }
    assert!(message::<huge::Operator>(&[zeros::<f32>(&[2]).any()]).starts_with("huge: "));
}

#[test]
fn panic_after_an_output_is_made_frees_it() {
    #[op]
    fn panics(x: &[f32], out: Dynamic<'_, f32, 1>) {
        let mut out = out.allocate([3]).unwrap();
        out[[x.len() + 3]] = 1.0;
    }
    assert!(
        message::<panics::Operator>(&[zeros::<f32>(&[1]).any()]).starts_with("panics: panicked")
    );
}

#[op(shape(slice = like(x), view = like(x), flags = like(x)))]
fn accumulate(
    x: &[f32],
    slice: &mut [f32],
    mut view: Out<'_, f32>,
    flags: &mut [bool],
    vector: Dynamic<'_, f32, 1>,
) -> Result<(), Error> {
    let mut vector = vector.allocate([x.len()])?;
    for (i, x) in x.iter().enumerate() {
        slice[i] += x;
        view.elements_mut()[i] += x;
        vector[[i]] += x;
        flags[i] |= *x > 1.0;
    }
    Ok(())
}

#[test]
fn output_begins_as_zeros() {
    let mut x = vector([1.0_f32, 2.0]);
    let results = call::<accumulate::Operator>(&[x.any()]).unwrap();
    assert_eq!(elements::<f32>(&results[0]), [1.0, 2.0]);
    for strides in [&[][..], &[2]] {
        let [mut slice, mut view, mut made] =
            [7.0_f32; 3].map(|old| Array::strided(vec![old; 3], &[2], strides, 0));
        let mut flags = Array::strided(vec![true; 3], &[2], strides, 0);
        let outs = [slice.any(), view.any(), flags.any(), made.any()];
        call::<accumulate::Operator>(&[&[x.any()], &outs[..]].concat()).unwrap();
        let (second, untouched) = if strides.is_empty() { (1, 2) } else { (2, 1) };
        for found in [slice.data, view.data, made.data] {
            assert_eq!([found[0], found[second], found[untouched]], [1.0, 2.0, 7.0]);
        }
        assert_eq!([flags.data[0], flags.data[second], flags.data[untouched]], [false, true, true]);
    }
}

#[op(shape(first = like(x), flags = like(x)))]
fn first_of(x: &[f32], first: &mut [Uninit<f32>], flags: &mut [Uninit<bool>]) {
    *first[0].write(x[0]) += 1.0;
    flags[0].write(true);
}

#[test]
fn uninit_output_keeps_what_the_function_does_not_write() {
    let (mut x, mut first, mut flags) =
        (vector([1.0_f32, 2.0]), vector([7.0_f32, 8.0]), vector([true, true]));
    call::<first_of::Operator>(&[x.any(), first.any(), flags.any()]).unwrap();
    assert_eq!(first.data, [2.0, 8.0]);
    // Not all bytes are booleans.
    assert_eq!(flags.data, [true, false]);
    let mut strided = Array::strided(vec![7.0_f32; 3], &[2], &[2], 0);
    call::<first_of::Operator>(&[x.any(), strided.any(), flags.any()]).unwrap();
    assert_eq!(strided.data, [2.0, 7.0, 0.0]);
    let results = call::<first_of::Operator>(&[x.any()]).unwrap();
    assert_eq!(elements::<f32>(&results[0]), [2.0, 0.0]);
}
