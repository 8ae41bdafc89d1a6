//! The layout of each struct, asserted when the crate is compiled.
//!
//! A struct of the header has one of three layouts. They differ in the size of a pointer and the alignment of
//! `uint64_t`, which is 4 on 32-bit x86 with Linux. `tests/layout.rs` compares the same numbers with C compilers for
//! each target.

/// Calls a macro with each struct: its size, its alignment and the offset of each field, for pointers of 8 bytes, for
/// pointers of 4 bytes with `u64` aligned to 8, and for pointers of 4 bytes with `u64` aligned to 4.
macro_rules! layouts {
    ($callback:ident) => {
        $callback! {
            DLPackVersion { size 8 8 8, align 4 4 4, major 0 0 0, minor 4 4 4 }
            DLDevice { size 8 8 8, align 4 4 4, device_type 0 0 0, device_id 4 4 4 }
            DLDataType { size 4 4 4, align 2 2 2, code 0 0 0, bits 1 1 1, lanes 2 2 2 }
            DLTensor {
                size 48 40 36, align 8 8 4,
                data 0 0 0, device 8 4 4, ndim 16 12 12, dtype 20 16 16,
                shape 24 20 20, strides 32 24 24, byte_offset 40 32 28
            }
            DLManagedTensor {
                size 64 48 44, align 8 8 4,
                dl_tensor 0 0 0, manager_ctx 48 40 36, deleter 56 44 40
            }
            DLManagedTensorVersioned {
                size 80 64 60, align 8 8 4,
                version 0 0 0, manager_ctx 8 8 8, deleter 16 12 12, flags 24 16 16, dl_tensor 32 24 24
            }
            DLPackExchangeAPIHeader {
                size 16 12 12, align 8 4 4,
                version 0 0 0, prev_api 8 8 8
            }
            DLPackExchangeAPI {
                size 56 32 32, align 8 4 4,
                header 0 0 0, managed_tensor_allocator 16 12 12,
                managed_tensor_from_py_object_no_sync 24 16 16,
                managed_tensor_to_py_object_no_sync 32 20 20,
                dltensor_from_py_object_no_sync 40 24 24, current_work_stream 48 28 28
            }
        }
    };
}
pub(crate) use layouts;
