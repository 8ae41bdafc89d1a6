//! Memory of cudarc as tensors, on a stand-in for the driver: no GPU.

mod common;

use std::thread;

use common::{cuda, numbers};
use cudarc::driver::CudaSlice;
use dlbridge::{Access, DataType, Device, DeviceType, Tensor};
use dlbridge_cuda::{Error, SliceExt, TensorExt};

#[test]
fn a_slice_is_a_tensor_in_the_order_of_the_default_stream() {
    let Some(cuda) = cuda() else { return };
    let context = cuda.context(0);
    let (mine, yours) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let slice = cuda.slice(&mine, &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let address = common::address(&slice);
    let waits = cuda.host_waits();
    let tensor = slice.into_tensor([2, 3]).unwrap();
    assert_eq!(cuda.host_waits(), waits, "the host waits for nothing");
    assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3][..], &[3, 1][..]));
    assert_eq!((tensor.dtype(), tensor.byte_offset()), (DataType::FLOAT32, 0));
    assert_eq!(tensor.device(), Device::new(DeviceType::CUDA, 0));
    assert_eq!((tensor.data().addr() as u64, tensor.access()), (address, Access::Exclusive));
    assert!(tensor.view::<f32>().is_err(), "the CPU does not reach it");
    assert_eq!(cuda.now(address, 4), [0xcc; 4], "the kernel has not run yet");
    assert_eq!(numbers(&tensor.to_host(&yours).unwrap()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}
