//! Read-only tensors whose memory another handle writes.

use dlbridge::Tensor;
use dlbridge::sys::DLManagedTensorVersioned;

/// A second handle on the memory of a tensor, which wrote that memory.
#[derive(Debug)]
pub struct Writer(*mut DLManagedTensorVersioned);

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: exported by `written_by_another_handle`, and not used again.
        unsafe { (*self.0).deleter.unwrap()(self.0) };
    }
}

/// Returns a tensor that safe code marked as read-only, and the handle that wrote its memory nevertheless.
pub fn written_by_another_handle() -> (Tensor, Writer) {
    let tensor = Tensor::from(vec![1_i32, 2]).into_shared();
    let writer = Writer(tensor.to_raw());
    let read_only = tensor.share().into_read_only();
    // SAFETY: the integer is alive, and no view of it exists.
    unsafe { (*writer.0).dl_tensor.data.cast::<i32>().write(7) };
    assert_eq!(read_only.view::<i32>().unwrap().to_vec(), [7, 2]);
    (read_only, writer)
}
