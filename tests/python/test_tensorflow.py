"""Objects of TensorFlow and Keras that have no memory."""

from __future__ import annotations

from typing import Any

import dlbridge
import pytest
from conftest import require

tf = require("tensorflow")
keras = require("keras")

#: TensorFlow cannot share a process with all other libraries.
pytestmark = pytest.mark.alone


def test_variables_and_symbolic_tensors_say_what_to_pass() -> None:
    with pytest.raises(TypeError, match=r"pass its value: variable\.value\(\)"):
        dlbridge.asdlpack(tf.Variable([1.0]))
    with pytest.raises(TypeError, match=r"pass its value: variable\.value$"):
        dlbridge.asdlpack(keras.Variable([1.0]))

    @tf.function
    def compiled(x: Any) -> Any:
        with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
            dlbridge.asdlpack(x)
        return x

    compiled(tf.constant([1.0]))
    with pytest.raises(TypeError, match="it stands for elements that are not computed yet"):
        dlbridge.asdlpack(keras.Input((3,)))
