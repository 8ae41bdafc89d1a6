// Functions whose only difference is the type of their argument, written with nanobind. `DTYPES` is 1, 2, 4 or 10;
// with `DIMENSIONS` there is one for 1, 2, 3 and 4 dimensions.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace nb = nanobind;

template <typename T, int N>
void add(nb::module_ &module, const char *name) {
    module.def(
        name, [](nb::ndarray<const T, nb::ndim<N>, nb::device::cpu> x) { return x.size(); }, nb::arg("x"));
}

NB_MODULE(typed_arguments_nanobind, module) {
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
