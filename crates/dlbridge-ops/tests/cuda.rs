//! Operators on CUDA, called without a framework: which tensors they refuse. No test here needs a GPU.
#![allow(missing_docs)]

mod common;

use common::{Array, call, message, one, zeros};
use dlbridge::{Device, DeviceType};
use dlbridge_ops::{CudaArray, CudaInPlace, CudaOut, CudaView, Define, ErrorKind, OnCuda, op};

#[op]
fn double(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = 2.0 * x);
}

#[op(shape(out = like(x)), default(a = 1.0))]
fn axpy(
    x: CudaArray<'_, f32>,
    y: Option<CudaView<'_, f32>>,
    cuda: OnCuda<'_>,
    a: f64,
    out: CudaOut<'_, f32>,
) {
    let _ = (x, y, cuda, a, out);
    panic!("without a framework there is no stream");
}

#[op]
fn add_(cuda: OnCuda<'_>, x: CudaInPlace<'_, f32>, y: CudaArray<'_, f32>) {
    let _ = (cuda, x, y);
    panic!("without a framework there is no stream");
}

fn on(id: i32) -> Array<f32> {
    zeros::<f32>(&[2]).on(Device::new(DeviceType::CUDA, id))
}

#[test]
fn schema_leaves_the_device_out() {
    let schema = "axpy(Tensor x, Tensor? y=None, float a=1.) -> Tensor";
    assert_eq!(axpy::Operator::OPERATOR.schema(), schema);
}

#[test]
fn tensor_on_the_cpu_is_refused() {
    let (mut x, mut out) = (zeros::<f32>(&[2]), on(0));
    let found = call::<axpy::Operator>(&[x.any(), common::none(), common::float(1.0), out.any()]);
    let error = found.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Buffer);
    let expected = "axpy: x must be on a CUDA device, but is on cpu; move it there before the call, or \
                    call an operator for the CPU";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn tensor_on_cuda_is_refused_by_an_operator_for_the_cpu() {
    let (mut x, mut out) = (zeros::<f32>(&[2]), on(1));
    let expected = "double: out must be on the CPU, but is on cuda:1; ";
    let found = message::<double::Operator>(&[x.any(), out.any()]);
    assert!(found.starts_with(expected), "{found}");
    assert_eq!(one::<double::Operator, f32>(&[x.any()]).unwrap(), [0.0; 2]);
}

#[test]
fn tensors_on_several_devices_are_refused() {
    let (mut x, mut y, mut out) = (on(0), on(1), on(1));
    let a = common::float(1.0);
    let found = message::<axpy::Operator>(&[x.any(), y.any(), a, out.any()]);
    assert_eq!(found, "axpy: y is on cuda:1, but x is on CUDA device 0; move both to one device");
    let found = message::<axpy::Operator>(&[x.any(), common::none(), a, out.any()]);
    let expected =
        "axpy: out is on cuda:1, but the call on CUDA device 0; move all tensors to one device";
    assert_eq!(found, expected);
}

#[test]
fn tensor_with_gaps_is_refused_where_the_function_takes_none() {
    let cuda = Device::new(DeviceType::CUDA, 0);
    let mut gaps = Array::strided(vec![0.0_f32; 4], &[2], &[2], 0).on(cuda);
    let (mut x, mut y) = (on(0), on(0));
    let found = message::<add_::Operator>(&[x.any(), gaps.any()]);
    assert!(
        found.contains("add_: y must be aligned and in C order without gaps, because"),
        "{found}"
    );
    let a = common::float(1.0);
    let found = message::<axpy::Operator>(&[x.any(), y.any(), a, gaps.any()]);
    assert!(found.contains("axpy: out must be aligned and in C order without gaps"), "{found}");
}

#[test]
fn memory_that_overlaps_is_refused() {
    let mut x = on(0);
    let x = x.any();
    let found = message::<add_::Operator>(&[x, x]);
    assert!(found.contains("add_: x is written and shares memory with y; pass a copy"), "{found}");
}

#[test]
fn call_without_outputs_is_refused() {
    let mut x = on(0);
    let found = message::<axpy::Operator>(&[x.any()]);
    let expected = "axpy: out has no memory, because dlbridge-ops does not allocate on CUDA; pass the tensor to fill";
    assert!(found.starts_with(expected), "{found}");
}
