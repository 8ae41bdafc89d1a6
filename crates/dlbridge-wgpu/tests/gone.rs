//! An address whose owner is gone. Alone in its program, because the next owner may get the same.

mod common;

use common::gpu;
use dlbridge::{DataType, RawParts, Tensor};
use dlbridge_wgpu::{BufferExt, Error, TensorExt};

#[test]
fn a_buffer_is_not_found_when_its_owner_is_gone() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.filled(&[1.0, 2.0]);
    let ours = buffer.clone().into_tensor::<f32>([2]).unwrap();
    let parts = RawParts { device: ours.device(), ..RawParts::new(ours.data(), DataType::FLOAT32) };
    // SAFETY: nobody follows the address, which is what this is about.
    let stale = unsafe { Tensor::from_raw_parts((), parts, &[2], None::<&[i64]>) }.unwrap();
    assert_eq!(gpu.host(&stale), [1.0, 2.0]);
    assert_eq!(stale.to_buffer().unwrap(), buffer);
    drop(ours);
    assert!(matches!(stale.to_buffer(), Err(Error::Foreign)));
}
