// The functions that are measured from Python, written with nanobind.

#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

// A float32 matrix.
void noop(nb::ndarray<const float, nb::ndim<2>, nb::device::cpu> x) { (void)x; }

template <typename Framework> nb::ndarray<Framework, float, nb::ndim<1>> vector() {
    float *values = new float[24];
    for (size_t i = 0; i < 24; ++i)
        values[i] = 1;
    nb::capsule owner(values, [](void *data) noexcept { delete[] (float *)data; });
    return {values, {24}, owner};
}

NB_MODULE(bench_nanobind, m) {
    m.def("noop", &noop, nb::arg("x").noconvert());
    // Without a framework the result is a capsule; with the array API, an object that exports it.
    m.def("new", &vector<nb::no_framework>);
    m.def("make", &vector<nb::array_api>);
}
