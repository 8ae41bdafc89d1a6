// A nanobind extension whose functions import and export tensors.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <vector>

namespace nb = nanobind;

using Array = nb::ndarray<nb::array_api>;
using ReadOnly = nb::ndarray<nb::array_api, nb::ro>;

// Wraps an argument, because returning the argument itself would return the object that it came from.
struct Kept {
    nb::ndarray<> tensor;
};

// An argument of any dtype, shape and device, as the class that nanobind gives to Python.
static Array from_dlpack(nb::ndarray<> tensor) {
    // The constructor below takes device type 0 as not given, and makes it the CPU.
    if (tensor.device_type() == 0)
        throw nb::value_error("a result cannot say the device type 0");
    std::vector<size_t> shape;
    std::vector<int64_t> strides;
    for (size_t axis = 0; axis < tensor.ndim(); ++axis) {
        shape.push_back(tensor.shape(axis));
        strides.push_back(tensor.stride(axis));
    }
    nb::object owner = nb::cast(Kept{tensor});
    return Array(tensor.data(), shape.size(), shape.data(), owner, strides.data(), tensor.dtype(), tensor.device_type(),
                 tensor.device_id());
}

// Address, shape, strides in elements, and the dtype's code, bits and lanes.
static nb::tuple describe(nb::ndarray<nb::ro> tensor) {
    nb::list shape, strides;
    for (size_t axis = 0; axis < tensor.ndim(); ++axis) {
        shape.append(tensor.shape(axis));
        strides.append(tensor.stride(axis));
    }
    nb::dlpack::dtype dtype = tensor.dtype();
    nb::tuple kind = nb::make_tuple((int) dtype.code, (int) dtype.bits, (int) dtype.lanes);
    return nb::make_tuple((uintptr_t) tensor.data(), nb::tuple(shape), nb::tuple(strides), kind);
}

// A tensor over memory that an object owns.
static nb::object make(uintptr_t address, std::vector<size_t> shape, std::vector<int64_t> strides, uint8_t code,
                       uint8_t bits, bool read_only, nb::object owner) {
    nb::dlpack::dtype dtype{code, bits, 1};
    if (read_only)
        return nb::cast(ReadOnly((const void *) address, shape.size(), shape.data(), owner, strides.data(), dtype));
    return nb::cast(Array((void *) address, shape.size(), shape.data(), owner, strides.data(), dtype));
}

NB_MODULE(dlbridge_conformance_nanobind, module) {
    nb::class_<Kept>(module, "Kept");
    module.def("from_dlpack", &from_dlpack);
    module.def("describe", &describe);
    module.def("make", &make);
}
