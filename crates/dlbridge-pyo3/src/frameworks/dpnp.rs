//! dpnp, the arrays of oneAPI.

use super::fit::is_backwards;
use super::framework::{Behaviour, FRAMEWORK, Framework};

pub(super) static DPNP: Framework = Framework {
    name: "dpnp",
    module: "dpnp",
    on_device: Behaviour::FREE,
    refuses: |tensor| {
        let on_device = !tensor.device().device_type().is_host_accessible();
        (on_device && is_backwards(tensor)).then(|| {
            "dpnp expects the memory to begin at the address of the first element, and it begins before \
             that, since the strides are negative; copy the tensor first"
                .to_owned()
        })
    },
    ..FRAMEWORK
};
