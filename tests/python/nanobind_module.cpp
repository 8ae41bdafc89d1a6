// An extension made with nanobind: C++ code that imports tensors, and exports its own.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

namespace nb = nanobind;

// Describes any tensor: address, shape, strides in elements, code and bits of the dtype, and its bytes.
static nb::tuple describe(nb::ndarray<nb::ro> tensor) {
    std::vector<int64_t> shape, strides;
    for (size_t axis = 0; axis < tensor.ndim(); ++axis) {
        shape.push_back(tensor.shape(axis));
        strides.push_back(tensor.stride(axis));
    }
    return nb::make_tuple((uintptr_t) tensor.data(), shape, strides, tensor.dtype().code,
                          tensor.dtype().bits, tensor.device_type(), tensor.device_id());
}

// Doubles the numbers of a writable matrix.
static uintptr_t twice(nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> matrix) {
    auto numbers = matrix.view();
    for (size_t row = 0; row < numbers.shape(0); ++row)
        for (size_t column = 0; column < numbers.shape(1); ++column)
            numbers(row, column) *= 2;
    return (uintptr_t) matrix.data();
}

static int living = 0;

// Exports numbers that this module owns.
static nb::ndarray<nb::array_api, float, nb::ndim<2>> make() {
    auto *numbers = new float[6]{0, 1, 2, 3, 4, 5};
    ++living;
    nb::capsule owner(numbers, [](void *numbers) noexcept {
        --living;
        delete[] (float *) numbers;
    });
    return nb::ndarray<nb::array_api, float, nb::ndim<2>>(numbers, {2, 3}, owner);
}

NB_MODULE(nanobind_module, m) {
    m.def("describe", &describe);
    m.def("twice", &twice);
    m.def("make", &make);
    m.def("living", [] { return living; });
}
