//! One call of an operator: dtypes, dimensions, copies, panics, threads.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Array, call, int, message, none, one, vector, zeros};
use dlbridge::{Device, DeviceType};
use dlbridge_ops::{Define, ErrorKind, InPlace, Out, View, op};

#[op]
fn double(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
}

#[op(T in [f32, f64, i32])]
fn last<T: Copy>(x: View<'_, T>, y: View<'_, T>, mut out: Out<'_, T>) {
    out.iter_mut().zip(x.iter().zip(y.iter())).for_each(|(out, (x, _))| *out = *x);
}

#[op(shape(out = [x[0]]))]
fn row_sums(x: View<'_, f32, 2>, out: &mut [f32]) {
    let [rows, columns] = x.dims();
    (0..rows).for_each(|row| out[row] = (0..columns).map(|column| x[[row, column]]).sum());
}

#[op]
fn positive(x: &[f32], out: &mut [bool]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = *x > 0.0);
}

#[op]
fn untouched(x: &[f32], out: &mut [bool]) {
    assert_eq!(out.len(), x.len());
}

#[op]
fn invert(x: &[bool], out: &mut [bool]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = !x);
}

#[op]
fn add_bias(x: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = x[i] + bias.map_or(0.0, |bias| bias[i]);
    }
}

#[op]
fn relu_(mut x: InPlace<'_, f32>, y: &[f32]) {
    assert_eq!(x.len(), y.len());
    x.iter_mut().for_each(|x| *x = x.max(0.0));
}

#[test]
fn slice_of_contiguous_input_is_not_copied() {
    let mut x = vector([1.0_f32, 2.0]);
    let copies = double::Operator::OPERATOR.copies();
    assert_eq!(one::<double::Operator, f32>(&[x.any()]).unwrap(), [2.0, 4.0]);
    assert_eq!(double::Operator::OPERATOR.copies(), copies);
}

#[test]
fn slice_of_strided_input_is_copied_and_counted() {
    #[op]
    fn same(x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
    }
    let mut x = Array::strided((0..6).map(|i| i as f32).collect(), &[3, 2], &[1, 3], 0);
    assert_eq!(one::<same::Operator, f32>(&[x.any()]).unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(same::Operator::OPERATOR.copies(), 1);
    let mut reversed = Array::strided(vec![1.0_f32, 2.0, 3.0], &[3], &[-1], 8);
    assert_eq!(one::<same::Operator, f32>(&[reversed.any()]).unwrap(), [3.0, 2.0, 1.0]);
    let mut repeated = Array::strided(vec![7.0_f32], &[3], &[0], 0);
    assert_eq!(one::<same::Operator, f32>(&[repeated.any()]).unwrap(), [7.0; 3]);
    assert_eq!(same::Operator::OPERATOR.copies(), 3);
}

#[test]
fn view_of_strided_input_is_not_copied() {
    let mut x = Array::strided(vec![1.0_f32, 2.0, 3.0, 4.0], &[2, 2], &[1, 2], 0);
    assert_eq!(one::<row_sums::Operator, f32>(&[x.any()]).unwrap(), [4.0, 6.0]);
    assert_eq!(row_sums::Operator::OPERATOR.copies(), 0);
}

#[test]
fn misaligned_input_is_copied() {
    #[op]
    fn same(x: View<'_, i32>, mut out: Out<'_, i32>) {
        out.iter_mut().zip(x.iter()).for_each(|(out, x)| *out = *x);
    }
    // The second byte of memory that is aligned for i32.
    let mut x = Array::strided(vec![0x0201_0000_i32, 0x0000_0403], &[1], &[1], 1);
    let expected = i32::from_le_bytes([0, 1, 2, 3]);
    assert_eq!(one::<same::Operator, i32>(&[x.any()]).unwrap(), [expected]);
    assert_eq!(same::Operator::OPERATOR.copies(), 1);
}

#[test]
fn dtype_selects_the_kernel() {
    let [mut a, mut b] = [vector([1.5_f64]), vector([2.5_f64])];
    assert_eq!(one::<last::Operator, f64>(&[a.any(), b.any()]).unwrap(), [1.5]);
    let [mut a, mut b] = [vector([1_i32]), vector([2_i32])];
    assert_eq!(one::<last::Operator, i32>(&[a.any(), b.any()]).unwrap(), [1]);
}

#[test]
fn dtype_without_kernel_is_refused() {
    let [mut a, mut b] = [vector([1_u8]), vector([1_u8])];
    let error = call::<last::Operator>(&[a.any(), b.any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Type);
    let expected =
        "last: x must be float32 or float64 or int32, but is uint8; convert it before the call";
    assert_eq!(error.to_string(), expected);
    let (mut a, mut b) = (vector([1_i32]), vector([1.0_f32]));
    let expected =
        "last: the dtypes must agree, but x is int32, y is float32; convert them before the call";
    assert_eq!(message::<last::Operator>(&[a.any(), b.any()]), expected);
}

#[test]
fn wrong_number_of_dimensions_is_refused() {
    let mut x = vector([1.0_f32]);
    let error = call::<row_sums::Operator>(&[x.any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert_eq!(error.to_string(), "row_sums: x must have 2 dimensions, but has 1");
}

#[test]
fn wrong_kind_is_refused() {
    assert_eq!(
        message::<double::Operator>(&[int(1)]),
        "double: x must be a tensor, but is an integer"
    );
    assert_eq!(message::<double::Operator>(&[none()]), "double: x must be a tensor, but is None");
    let expected = "add_bias: bias must be a tensor or None, but is an integer";
    assert_eq!(message::<add_bias::Operator>(&[zeros::<f32>(&[1]).any(), int(1)]), expected);
}

#[test]
fn wrong_number_of_arguments_is_refused() {
    let expected =
        "double: 1 arguments are expected, or 2 with the tensors to fill, but there are 0";
    assert_eq!(message::<double::Operator>(&[]), expected);
    let expected = "relu_: 2 arguments are expected, but there are 3";
    assert_eq!(message::<relu_::Operator>(&[none(); 3]), expected);
}

#[test]
fn other_device_is_refused() {
    let mut x = zeros::<f32>(&[1]).on(Device::new(DeviceType::CUDA, 0));
    let error = call::<double::Operator>(&[x.any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Buffer);
    assert!(
        error.to_string().contains("double: x must be on the CPU, but is on cuda:0; move it there"),
        "{error}"
    );
}

#[test]
fn tensor_of_no_dimension_and_empty_tensors_work() {
    assert_eq!(
        one::<double::Operator, f32>(&[Array::new(vec![3.0_f32], &[]).any()]).unwrap(),
        [6.0]
    );
    for shape in [&[0][..], &[2, 0, 3], &[0, 0]] {
        let results = call::<double::Operator>(&[zeros::<f32>(shape).any()]).unwrap();
        assert_eq!(results[0].shape(), shape);
    }
    let sums = call::<row_sums::Operator>(&[zeros::<f32>(&[2, 0]).any()]).unwrap();
    assert_eq!(common::elements::<f32>(&sums[0]), [0.0; 2]);
}

#[test]
fn bool_output_is_valid_before_the_function_writes() {
    let mut x = vector([-1.0_f32, 1.0]);
    assert_eq!(one::<positive::Operator, bool>(&[x.any()]).unwrap(), [false, true]);
    // The destination has bytes that are not booleans.
    let mut bytes = vector([7_u8, 9]);
    let mut destination = bytes.any();
    retype(&mut destination);
    call::<untouched::Operator>(&[x.any(), destination]).unwrap();
    assert_eq!(bytes.data, [0, 0]);
}

#[test]
fn bool_input_with_other_bytes_is_refused() {
    let mut bytes = vector([1_u8, 2]);
    let mut x = bytes.any();
    retype(&mut x);
    let error = call::<invert::Operator>(&[x]).map(drop).unwrap_err();
    assert!(error.to_string().starts_with("invert: x: "), "{error}");
}

/// Makes a tensor of bytes one of booleans.
fn retype(any: &mut dlbridge_ops::tvm::Any) {
    // SAFETY: the argument is a description, which no other code uses.
    unsafe {
        (*any.payload.pointer.cast::<dlbridge::sys::DLTensor>()).dtype =
            dlbridge::DataType::BOOL.into();
    }
}

#[test]
fn optional_input_may_be_none_or_omitted() {
    let mut x = vector([1.0_f32]);
    assert_eq!(one::<add_bias::Operator, f32>(&[x.any(), none()]).unwrap(), [1.0]);
    assert_eq!(one::<add_bias::Operator, f32>(&[x.any()]).unwrap(), [1.0]);
    let mut bias = vector([2.0_f32]);
    assert_eq!(one::<add_bias::Operator, f32>(&[x.any(), bias.any()]).unwrap(), [3.0]);
    let mut wrong = vector([2.0_f64]);
    let expected = "add_bias: bias must be float32, but is float64; convert it before the call";
    assert_eq!(message::<add_bias::Operator>(&[x.any(), wrong.any()]), expected);
}

#[test]
fn in_place_changes_the_argument() {
    let (mut x, mut y) = (vector([-1.0_f32, 2.0]), zeros::<f32>(&[2]));
    assert!(call::<relu_::Operator>(&[x.any(), y.any()]).unwrap().is_empty());
    assert_eq!(x.data, [0.0, 2.0]);
}

#[test]
fn in_place_argument_that_overlaps_is_refused() {
    let mut x = vector([-1.0_f32, 2.0]);
    let x = x.any();
    let error = call::<relu_::Operator>(&[x, x]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Buffer);
    let expected = "relu_: x is written and shares memory with y; pass a copy";
    assert_eq!(error.to_string(), expected);
    let (mut repeated, mut y) = (Array::strided(vec![1.0_f32], &[2], &[0], 0), zeros::<f32>(&[2]));
    assert!(message::<relu_::Operator>(&[repeated.any(), y.any()]).starts_with("relu_: x: "));
}

#[test]
fn error_of_the_function_is_returned() {
    #[op]
    fn fails(x: &[f32], out: &mut [f32]) -> Result<(), String> {
        Err(format!("no solution for {} and {}", x.len(), out.len()))
    }
    let error = call::<fails::Operator>(&[zeros::<f32>(&[1]).any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(error.to_string(), "fails: no solution for 1 and 1");
}

#[test]
fn panic_of_the_function_is_an_error() {
    #[op]
    fn panics(x: &[f32], out: &mut [f32]) {
        out[0] = x[7];
    }
    let error = call::<panics::Operator>(&[zeros::<f32>(&[1]).any()]).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panic);
    let expected = "panics: panicked: index out of bounds: the len is 1 but the index is 7";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn panic_whose_value_panics_is_an_error() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Bomb);
        }
    }
    #[op]
    fn explodes(x: &[f32], out: &mut [f32]) {
        assert_eq!(x.len(), out.len());
        std::panic::panic_any(Bomb);
    }
    let expected = "explodes: panicked: the function panicked";
    assert_eq!(message::<explodes::Operator>(&[zeros::<f32>(&[1]).any()]), expected);
}

#[test]
fn function_may_call_its_operator() {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    #[op]
    fn nested(x: &[f32], out: &mut [f32]) {
        if DEPTH.fetch_add(1, Ordering::Relaxed) < 3 {
            let mut inner = vector(x);
            out.copy_from_slice(&one::<nested::Operator, f32>(&[inner.any()]).unwrap());
            out[0] += 1.0;
        }
    }
    assert_eq!(one::<nested::Operator, f32>(&[zeros::<f32>(&[1]).any()]).unwrap(), [3.0]);
}

#[test]
fn threads_call_at_once() {
    std::thread::scope(|scope| {
        for i in 0..4 {
            scope.spawn(move || {
                let mut x = vector([i as f32; 3]);
                for _ in 0..8 {
                    let found = one::<double::Operator, f32>(&[x.any()]).unwrap();
                    assert_eq!(found, [2.0 * i as f32; 3]);
                }
            });
        }
    });
}

/// Operators with names that the code of the macro could have.
macro_rules! named {
    ($($name:ident)*) => {$(
        #[op]
        fn $name(inputs: &[f32], out: &mut [f32]) {
            out.copy_from_slice(inputs);
        }
    )*};
}

named! { run copies inputs outputs value_0 }

#[test]
fn operator_has_any_name() {
    let mut x = vector([1.0_f32, 2.0]);
    assert_eq!(one::<run::Operator, f32>(&[x.any()]).unwrap(), [1.0, 2.0]);
    assert_eq!(one::<copies::Operator, f32>(&[x.any()]).unwrap(), [1.0, 2.0]);
    assert_eq!(one::<inputs::Operator, f32>(&[x.any()]).unwrap(), [1.0, 2.0]);
    assert_eq!(one::<outputs::Operator, f32>(&[x.any()]).unwrap(), [1.0, 2.0]);
    assert_eq!(one::<value_0::Operator, f32>(&[x.any()]).unwrap(), [1.0, 2.0]);
}
