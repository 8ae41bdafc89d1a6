//! The FFI of TVM. It imports objects through their C exchange API.

use super::framework::{FRAMEWORK, Framework};

pub(super) static TVM_FFI: Framework = Framework {
    name: "tvm_ffi",
    aliases: &["tvm-ffi"],
    module: "tvm_ffi",
    calls_tables: true,
    takes_lanes: |_| true,
    refuses: |tensor| {
        tensor.is_subbyte_padded().then(|| {
            let dtype = tensor.dtype();
            format!(
                "tvm_ffi does not support {dtype} elements in a byte each; convert them to another dtype \
                 first"
            )
        })
    },
    ..FRAMEWORK
};
