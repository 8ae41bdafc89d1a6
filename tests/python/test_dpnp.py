"""dpnp: arrays in SYCL memory, on SYCL's CPU device. Code on the CPU must not read this memory directly."""

import sys
from pathlib import Path

from conftest import missing
from frameworks import require_installed
from processes import output

CODE = """
import dlbridge, dpnp, numpy as np

array = dpnp.arange(6, dtype="float32").reshape(2, 3)
tensor = dlbridge.asdlpack(array)
assert (tensor.device, tensor.shape, tensor.dtype) == ("oneapi:0", (2, 3), "float32")
assert (tensor.copied, tensor.readonly, tensor.protocol) == (False, False, "dlpack")

back = tensor.to("dpnp")
assert type(back) is dpnp.ndarray
array[0, 0] = 7
assert back.asnumpy().tolist() == [[7, 1, 2], [3, 4, 5]], "the same memory"
assert type(dlbridge.like(array, tensor)) is dpnp.ndarray
assert dpnp.from_dlpack(tensor)[0, 0] == 7
transposed = dlbridge.asdlpack(array.T).to("dpnp")
assert transposed.asnumpy().tolist() == [[7, 3], [1, 4], [2, 5]]

on_cpu = dlbridge.asdlpack(array, device="cpu")
assert (on_cpu.device, on_cpu.copy_reason) == ("cpu", "the producer made a copy")
assert on_cpu.numpy().tolist() == [[7, 1, 2], [3, 4, 5]]

try:
    tensor.numpy()
except BufferError as error:
    assert "on the CPU only, and this is on oneapi:0" in str(error)
else:
    raise AssertionError
backwards = dlbridge.asdlpack(array[::-1])
assert dlbridge.explain(backwards, to="dpnp").verdicts[0].reason is not None
try:
    backwards.to("dpnp")
except BufferError as error:
    assert "the strides are negative" in str(error)
else:
    raise AssertionError

assert tensor.stream is None
tensor.__dlpack__(stream=-1)
for wrong, kind in ((1, ValueError), (array.sycl_queue, TypeError)):
    for call in (tensor.__dlpack__, lambda stream: dlbridge.asdlpack(array, stream=stream)):
        try:
            call(stream=wrong)
        except kind as error:
            assert "stream must be None" in str(error)
        else:
            raise AssertionError

# Data on the CPU stays there.
assert type(dlbridge.asdlpack(np.ones(3, "f4")).to("dpnp")) is np.ndarray
"""


def test_arrays_of_sycl() -> None:
    require_installed("dpnp")
    drivers = sorted(Path(sys.prefix, "lib").glob("libintelocl.so.*"))
    if not drivers:
        missing("intel-opencl-rt is not installed, so that SYCL has no device")
    driver = drivers[-1]
    environment = {"OCL_ICD_FILENAMES": str(driver), "LD_LIBRARY_PATH": str(driver.parent)}
    output(CODE, options=(), quiet=False, **environment)
