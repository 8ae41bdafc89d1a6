//! A driver without memory pools, on a stand-in: no GPU.

mod common;

use common::cuda;
use dlbridge_cuda::{SliceExt, TensorExt};
use dlbridge_testing::numbers;

#[test]
fn memory_without_pool_is_freed_after_consumers_work() {
    let Some(cuda) = cuda() else { return };
    cuda.without_pools();
    let context = cuda.context(1);
    assert!(!context.has_async_alloc());
    let mine = context.new_stream().unwrap();
    let tensor = cuda.slice(&mine, &[1.0_f32, 2.0]).into_tensor([2]).unwrap();
    assert_eq!(numbers(&tensor.to_host(&mine).unwrap()), [1.0, 2.0]);
    cuda.kernel(&context.default_stream(), tensor.data().addr() as u64, &[1; 8]);
    drop(tensor);
    assert_eq!(cuda.regions(), 0);
}
