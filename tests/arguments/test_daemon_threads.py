"""A daemon thread that is inside a typed argument when Python ends does not end the process."""

import sys

import pytest
from daemon_threads import check_exits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork")


@pytest.mark.parametrize(
    "body",
    [
        "typed.twice(Slow())",
        "typed.norm(INTERFACE)",
        "typed.total_of_anything(Slow())",
        "typed.cast_to_float64(Slow())",
        "typed.sums_of_list([Slow(), Slow()])",
        "typed.sums_of_dict({'x': Slow()})",
        "typed.kept(Owner(8))",
        "typed.ramp(9, 'numpy')",
        "typed.Lent(Owner(8)).__dlpack__()",
        "bytes(typed.Lent(Slow()))",
        "typed.while_reading(dlbridge.asdlpack(array.array('d', [1])), spin)",
    ],
)
def test_exit(body: str) -> None:
    check_exits(body, "from typed_arguments import _native as typed")
