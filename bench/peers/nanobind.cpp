// Functions written with nanobind, for the benchmarks and for the comparison.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

// begin: shared
template <typename Array> void check_alignment(const Array &array) {
    if ((uintptr_t)array.data() % alignof(typename Array::Scalar))
        throw nb::type_error("the tensor is not aligned");
}
// end: shared

// begin: mean
// The mean of a float32 matrix.
float mean(nb::ndarray<const float, nb::ndim<2>, nb::device::cpu> x) {
    check_alignment(x);
    auto matrix = x.view();
    float sum = 0;
    for (size_t i = 0; i < matrix.shape(0); ++i)
        for (size_t j = 0; j < matrix.shape(1); ++j)
            sum += matrix(i, j);
    return sum / (float)x.size();
}
// end: mean

// begin: invert
// Inverts an image in place.
void invert(nb::ndarray<uint8_t, nb::shape<-1, -1, 3>, nb::device::cpu> image) {
    auto pixels = image.view();
    for (size_t i = 0; i < pixels.shape(0); ++i)
        for (size_t j = 0; j < pixels.shape(1); ++j)
            for (size_t k = 0; k < 3; ++k)
                pixels(i, j, k) = 255 - pixels(i, j, k);
}
// end: invert

// begin: twice
// Twice a vector.
nb::ndarray<nb::array_api, float, nb::ndim<1>>
twice(nb::ndarray<const float, nb::ndim<1>, nb::device::cpu> x) {
    check_alignment(x);
    auto vector = x.view();
    float *doubled = new float[x.size()];
    nb::capsule owner(doubled, [](void *data) noexcept { delete[] (float *)data; });
    for (size_t i = 0; i < x.size(); ++i)
        doubled[i] = 2 * vector(i);
    return {doubled, {x.size()}, owner};
}
// end: twice

// A float32 matrix.
void noop(nb::ndarray<const float, nb::ndim<2>, nb::device::cpu> x) { (void)x; }

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;
using Written = nb::ndarray<float, nb::ndim<2>, nb::device::cpu>;

// Lists and a dict of matrices.
void noop_list(std::vector<Matrix> x) { (void)x; }
void write_list(std::vector<Written> x) { (void)x; }
void noop_dict(std::unordered_map<std::string, Matrix> x) { (void)x; }

template <typename Framework> nb::ndarray<Framework, float, nb::ndim<1>> vector() {
    float *values = new float[24];
    for (size_t i = 0; i < 24; ++i)
        values[i] = 1;
    nb::capsule owner(values, [](void *data) noexcept { delete[] (float *)data; });
    return {values, {24}, owner};
}

NB_MODULE(with_nanobind, m) {
    m.def("noop", &noop, nb::arg("x").noconvert());
    m.def("noop_list", &noop_list, nb::arg("x").noconvert());
    m.def("write_list", &write_list, nb::arg("x").noconvert());
    m.def("noop_dict", &noop_dict, nb::arg("x").noconvert());
    // Without a framework the result is a capsule; with the array API, an object that exports it.
    m.def("new", &vector<nb::no_framework>);
    m.def("make", &vector<nb::array_api>);
    // Without `noconvert`, nanobind converts arguments of another dtype, and `invert` would write a copy.
    // begin: mean
    m.def("mean", &mean, nb::arg("x").noconvert());
    // end: mean
    // begin: invert
    m.def("invert", &invert, nb::arg("image").noconvert());
    // end: invert
    // begin: twice
    m.def("twice", &twice, nb::arg("x").noconvert());
    // end: twice
}
