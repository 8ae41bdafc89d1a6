//! Helpers of several tests.

use candle_core::{CpuStorage, Storage, Tensor};

/// The address of the first element of a tensor of candle, wherever its storage begins.
pub(crate) fn address(tensor: &Tensor) -> usize {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { panic!("not on the CPU") };
    macro_rules! first {
        ($($variant:ident)*) => {
            match storage {
                $(CpuStorage::$variant(elements) => {
                    elements.as_ptr().wrapping_add(layout.start_offset()).addr()
                })*
            }
        };
    }
    first!(U8 U32 I16 I32 I64 F16 BF16 F32 F64 F8E4M3 F8E8M0 F4 F6E2M3 F6E3M2)
}
