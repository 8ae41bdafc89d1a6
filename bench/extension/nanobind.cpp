// The same extension on nanobind. With `DTYPES` (1, 2, 4 or 10) it has functions whose only difference is the type of
// their argument, with `DIMENSIONS` also of 2, 3 and 4 dimensions. Otherwise it has the functions of `examples/template`.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace nb = nanobind;

#ifdef DTYPES

template <typename T, int N> void add(nb::module_ &module, const char *name) {
    module.def(
        name, [](nb::ndarray<const T, nb::ndim<N>, nb::device::cpu> x) { return x.size(); }, nb::arg("x"));
}

NB_MODULE(extension, module) {
    add<double, 1>(module, "of_f64");
#if DTYPES >= 2
    add<float, 1>(module, "of_f32");
#endif
#if DTYPES >= 4
    add<int64_t, 1>(module, "of_i64");
    add<int32_t, 1>(module, "of_i32");
#endif
#if DTYPES >= 10
    add<int16_t, 1>(module, "of_i16");
    add<int8_t, 1>(module, "of_i8");
    add<uint64_t, 1>(module, "of_u64");
    add<uint32_t, 1>(module, "of_u32");
    add<uint16_t, 1>(module, "of_u16");
    add<uint8_t, 1>(module, "of_u8");
#endif
#ifdef DIMENSIONS
    add<double, 2>(module, "of_two");
    add<double, 3>(module, "of_three");
    add<double, 4>(module, "of_four");
#endif
}

#else

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

// Gives a vector to an array, which frees it.
template <typename Array, size_t N> Array owned(std::vector<float> values, const size_t (&shape)[N]) {
    auto *kept = new std::vector<float>(std::move(values));
    nb::capsule owner(kept, [](void *p) noexcept { delete static_cast<std::vector<float> *>(p); });
    return Array(kept->data(), N, shape, owner);
}

NB_MODULE(extension, module) {
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

#endif
