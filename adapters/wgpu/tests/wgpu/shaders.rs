//! Shaders that compute on tensors.

use dlbridge::Tensor;
use dlbridge_wgpu::{Binding, BufferExt, TensorExt, to_device};

use crate::gpu::{Gpu, gpu};

/// Doubles the floats of a matrix with any strides.
const TWICE: &str = "
    struct Dims { first: i32, extents: array<i32, 2>, strides: array<i32, 2> }
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @group(0) @binding(1) var<storage, read> dims: Dims;
    @compute @workgroup_size(1) fn twice() {
        for (var i = 0; i < dims.extents[0]; i++) {
            for (var j = 0; j < dims.extents[1]; j++) {
                x[dims.first + i * dims.strides[0] + j * dims.strides[1]] *= 2.0;
            }
        }
    }";

/// The same for bytes; a shader reads four at once.
const TWICE_BYTES: &str = "
    struct Dims { first: i32, extents: array<i32, 2>, strides: array<i32, 2> }
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var<storage, read> dims: Dims;
    @compute @workgroup_size(1) fn twice() {
        for (var i = 0; i < dims.extents[0]; i++) {
            for (var j = 0; j < dims.extents[1]; j++) {
                let at = dims.first + i * dims.strides[0] + j * dims.strides[1];
                let shift = u32(at % 4) * 8u;
                let byte = (x[at / 4] >> shift) & 0xffu;
                x[at / 4] = insertBits(x[at / 4], byte * 2u, shift, 8u);
            }
        }
    }";

/// Runs a shader on a matrix.
fn run(gpu: &Gpu, source: &str, tensor: &Tensor, first: u64) {
    let (buffer, binding) = (tensor.to_buffer().unwrap(), tensor.binding(&gpu.device).unwrap());
    let layout = [&[first as i64][..], tensor.shape(), tensor.strides()].concat();
    let layout: Vec<i32> = layout.into_iter().map(|number| number as i32).collect();
    let layout = to_device(&Tensor::from(layout), &gpu.device).unwrap().to_buffer().unwrap();
    gpu.run(source, &[binding.resource(&buffer), layout.as_entire_binding()]);
}

fn twice(gpu: &Gpu, tensor: &Tensor) {
    let first = tensor.binding(&gpu.device).unwrap().first;
    assert_eq!(first % 4, 0);
    run(gpu, TWICE, tensor, first / 4);
}

#[test]
fn shader_doubles_a_tensor_of_rust() {
    let Some(gpu) = gpu() else { return };
    let tensor = to_device(&Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]), &gpu.device).unwrap();
    twice(&gpu, &tensor);
    assert_eq!(gpu.host(&tensor), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn shader_doubles_only_the_slice() {
    let Some(gpu) = gpu() else { return };
    let values: Vec<f32> = (0..200).map(|i| i as f32).collect();
    type Slicing = fn(Tensor) -> dlbridge::Result<Tensor>;
    // Rows of ten floats: the second slice begins after 15 rows, which is not a multiple of 256 bytes.
    let slicings: [(&str, Slicing); 4] = [
        ("rows", |t| t.slice(0, 1..3)),
        ("off the alignment", |t| t.slice(0, 15..17)?.slice(1, 3..4)),
        ("every third, transposed", |t| Ok(t.step_by(1, 3)?.transpose())),
        ("backwards", |t| t.slice(0, 8..18)?.flip(0)?.flip(1)?.step_by(1, 2)),
    ];
    for (name, sliced) in slicings {
        let host = Tensor::from(values.clone()).reshape([20, 10]).unwrap();
        let device = to_device(&host, &gpu.device).unwrap();
        let buffer = device.to_buffer().unwrap();
        let (device, host) = (sliced(device).unwrap(), sliced(host).unwrap());
        let chosen = host.view::<f32>().unwrap().to_vec();
        twice(&gpu, &device);
        let doubled: Vec<f32> = chosen.iter().map(|x| x * 2.0).collect();
        assert_eq!(gpu.host(&device), doubled, "{name}");
        let expected: Vec<f32> =
            values.iter().map(|x| if chosen.contains(x) { x * 2.0 } else { *x }).collect();
        let whole = buffer.into_tensor::<f32>([200]).unwrap();
        assert_eq!(gpu.host(&whole), expected, "{name}");
    }
}

#[test]
fn shader_doubles_bytes_at_odd_places() {
    let Some(gpu) = gpu() else { return };
    let values: Vec<u8> = (0..21).collect();
    let tensor = to_device(&Tensor::from(values).reshape([3, 7]).unwrap(), &gpu.device).unwrap();
    let buffer = tensor.to_buffer().unwrap();
    let slice = tensor.slice(0, 1..3).unwrap().step_by(1, 2).unwrap();
    assert_eq!((slice.byte_offset(), slice.strides()), (7, &[7, 2][..]));
    let first = slice.binding(&gpu.device).unwrap().first;
    run(&gpu, TWICE_BYTES, &slice, first);
    let bytes = |tensor: &Tensor| {
        let host = tensor.to_host(&gpu.device, &gpu.queue).unwrap();
        host.view::<u8>().unwrap().to_vec()
    };
    assert_eq!(bytes(&slice), [14, 18, 22, 26, 28, 32, 36, 40]);
    let whole = buffer.into_tensor::<u8>([21]).unwrap();
    let expected = [0, 1, 2, 3, 4, 5, 6, 14, 8, 18, 10, 22, 12, 26, 28, 15, 32, 17, 36, 19, 40];
    assert_eq!(bytes(&whole), expected);
}

#[test]
fn binding_is_aligned_and_has_all_elements() {
    let Some(gpu) = gpu() else { return };
    let alignment = u64::from(gpu.device.limits().min_storage_buffer_offset_alignment);
    assert_eq!(alignment, 256, "the default");
    let of = |slice: dlbridge::Result<Tensor>| {
        let Binding { offset, size, first, .. } = slice.unwrap().binding(&gpu.device).unwrap();
        (offset, size.get(), first)
    };
    let floats = || to_device(&[0.0_f32; 200], &gpu.device).unwrap();
    assert_eq!(of(Ok(floats())), (0, 800, 0));
    assert_eq!(of(floats().slice(0, 63..65)), (0, 260, 252));
    assert_eq!(of(floats().slice(0, 64..65)), (256, 4, 0));
    assert_eq!(of(floats().slice(0, 100..200)), (256, 544, 144));
    assert_eq!(of(floats().slice(0, 100..200).unwrap().flip(0)), (256, 544, 540));
    let bytes = || to_device(&[0_u8; 601], &gpu.device).unwrap();
    assert_eq!(of(bytes().slice(0, 513..514)), (512, 4, 1));
    assert_eq!(of(bytes().slice(0, 515..601)), (512, 92, 3));
}
