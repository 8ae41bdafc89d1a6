// The operator `twice` for tvm-ffi, written with its headers, in the form that fills a tensor of the caller:
// once with the checks that make it right for every tensor, once as the example of `tvm_ffi.cpp.load_inline`.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

// begin: twice
static void Twice(ffi::TensorView x, ffi::TensorView out) {
  DLDataType float32{kDLFloat, 32, 1};
  TVM_FFI_ICHECK(x.dtype() == float32 && out.dtype() == float32) << "x and out must be float32";
  TVM_FFI_ICHECK(x.IsContiguous() && out.IsContiguous()) << "x and out must be contiguous";
  TVM_FFI_ICHECK(x.ndim() == out.ndim()) << "x and out must have the same shape";
  int64_t count = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    TVM_FFI_ICHECK(x.size(i) == out.size(i)) << "x and out must have the same shape";
    count *= x.size(i);
  }
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] + from[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice);
// end: twice

// The example has one dimension, and does not check that the elements are contiguous.
static void TwiceOfExample(ffi::TensorView x, ffi::TensorView y) {
  TVM_FFI_ICHECK(x.ndim() == 1) << "x must be a 1D tensor";
  DLDataType f32_dtype{kDLFloat, 32, 1};
  TVM_FFI_ICHECK(x.dtype() == f32_dtype) << "x must be a float tensor";
  TVM_FFI_ICHECK(y.ndim() == 1) << "y must be a 1D tensor";
  TVM_FFI_ICHECK(y.dtype() == f32_dtype) << "y must be a float tensor";
  TVM_FFI_ICHECK(x.size(0) == y.size(0)) << "x and y must have the same shape";
  for (int i = 0; i < x.size(0); ++i) {
    static_cast<float*>(y.data_ptr())[i] = static_cast<float*>(x.data_ptr())[i] * 2;
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice_of_example, TwiceOfExample);
