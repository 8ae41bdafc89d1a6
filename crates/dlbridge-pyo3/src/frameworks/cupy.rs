//! CuPy. It accepts only data on a GPU, so its behaviour is not measured.

use super::framework::{Behaviour, FRAMEWORK, Framework};

pub(super) static CUPY: Framework = Framework {
    name: "cupy",
    module: "cupy",
    measured: false,
    stated: Behaviour::DEVICE,
    ..FRAMEWORK
};
