// The operator `twice` for JAX, written with the headers that `jax.ffi.include_dir()` names.
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// begin: twice
static ffi::Error Twice(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out) {
  const float* from = x.typed_data();
  float* to = out->typed_data();
  for (size_t i = 0; i < x.element_count(); ++i) to[i] = from[i] + from[i];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(twice, Twice,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
// end: twice
