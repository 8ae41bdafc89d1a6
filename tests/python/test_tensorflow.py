"""Objects of TensorFlow and Keras that have no memory."""

from __future__ import annotations

from frameworks import require_installed
from processes import output

#: TensorFlow cannot share a process with all other libraries.
CODE = """
import dlbridge, keras, pytest, tensorflow as tf

with pytest.raises(TypeError, match=r"pass its value: variable\\.value\\(\\)"):
    dlbridge.asdlpack(tf.Variable([1.0]))
with pytest.raises(TypeError, match=r"pass its value: variable\\.value$"):
    dlbridge.asdlpack(keras.Variable([1.0]))

@tf.function
def compiled(x):
    with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
        dlbridge.asdlpack(x)
    return x

compiled(tf.constant([1.0]))
with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
    dlbridge.asdlpack(keras.Input((3,)))
print("done")
"""


def test_variables_and_symbolic_tensors_say_what_to_pass() -> None:
    require_installed("tensorflow")
    assert output(CODE, options=(), quiet=False).endswith("done\n")
