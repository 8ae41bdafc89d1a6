// The functions of `examples/template`, written with nanobind.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

namespace nb = nanobind;

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

// Gives a vector to an array, which frees it.
template <typename Array, size_t N>
Array owned(std::vector<float> values, const size_t (&shape)[N]) {
    auto *kept = new std::vector<float>(std::move(values));
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<float> *>(p); });
    return Array(kept->data(), N, shape, owner);
}

NB_MODULE(template_nanobind, module) {
    module.def(
        "row_sums",
        [](Matrix x) {
            auto view = x.view();
            std::vector<float> sums;
            sums.reserve(view.shape(0));
            for (size_t i = 0; i < view.shape(0); ++i) {
                float sum = 0;
                for (size_t j = 0; j < view.shape(1); ++j) sum += view(i, j);
                sums.push_back(sum);
            }
            return owned<nb::ndarray<nb::numpy, float>, 1>(std::move(sums), {view.shape(0)});
        },
        nb::arg("x"));
    module.def(
        "matrix",
        [](std::vector<float> values, size_t rows, size_t columns) {
            if (values.size() != rows * columns) throw nb::value_error("the shape has another number of elements");
            return owned<nb::ndarray<nb::numpy, float>, 2>(std::move(values), {rows, columns});
        },
        nb::arg("values"), nb::arg("rows"), nb::arg("columns"));
}
