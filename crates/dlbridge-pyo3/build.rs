//! Forwards the cfgs of PyO3, such as `Py_LIMITED_API` and `Py_3_11`: the target ABI decides which parts of Python's
//! C API exist.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
