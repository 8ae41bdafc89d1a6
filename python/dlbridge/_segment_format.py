"""The format of a segment: a page with the description of a tensor, then its elements in C order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dlbridge._core import Tensor, _copy, _rebuild, asdlpack

if TYPE_CHECKING:
    from typing_extensions import Buffer, CapsuleType

    from dlbridge.typing import TensorLike

#: The first bytes of a segment; the digit is the version of the format.
MAGIC = b"dlbridge shared tensor 1\n"

#: The first bytes of a segment that has a description and no data yet, and of the marker of a scope. No process
#: attaches to them.
UNFINISHED = b"dlbridge shared tensor 0\n"

#: The offset of the data: a page, behind the description.
DATA = 4096


def elements(obj: TensorLike | CapsuleType) -> tuple[memoryview, dict[str, Any]]:
    """Return the elements of a tensor in C order, as bytes, and their description."""
    reduced: Any = asdlpack(obj).__reduce_ex__(5)
    _, (buffer, dtype, shape, padded) = reduced
    data = buffer.raw()
    return data, {"dtype": dtype, "shape": shape, "padded": padded, "bytes": data.nbytes}


def encoded(description: dict[str, Any]) -> bytes:
    """Return a description as it is stored. Raises ValueError if it does not fit the page."""
    text = json.dumps(description).encode()
    if len(MAGIC) + len(text) >= DATA:
        raise ValueError(
            f"the tensor has too many dimensions to be described: {len(description['shape'])}"
        )
    return text


def write(mapping: Buffer, header: bytes, data: memoryview | None) -> None:
    """Write a description into a new segment, and copy ``data`` into it, if there is any."""
    with memoryview(mapping) as view:
        if data is not None:
            with view[DATA : DATA + data.nbytes] as target:
                _copy(target, data)
        view[len(MAGIC) : len(MAGIC) + len(header)] = header
        # Written last, so that no process attaches to unfinished data.
        view[: len(MAGIC)] = MAGIC


def parsed(page: bytes) -> Any:
    """Return the JSON on a first page. Raises ValueError or RecursionError if it has none."""
    description, _ = json.JSONDecoder().raw_decode(page[len(MAGIC) :].decode("latin-1"))
    return description


def described(page: bytes, available: int) -> dict[str, Any]:
    """Return the description on a first page, which any process may have written. ``available`` bytes follow the page.

    Raises ValueError for a description of another form, and for a tensor that needs more bytes.
    """
    if page[: len(MAGIC)] != MAGIC:
        raise ValueError(f"it begins with {page[: len(MAGIC)]!r} instead of {MAGIC!r}")
    try:
        description = parsed(page)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its description is not JSON: {error}") from error
    if not isinstance(description, dict):
        raise ValueError(f"its description is {description!r:.80}; it must be an object")

    def is_count(value: object) -> bool:
        return type(value) is int and 0 <= value < 1 << 63

    fields: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "dtype": ("a string", lambda value: isinstance(value, str)),
        "shape": (
            "a list of numbers from 0 to 2**63 - 1",
            lambda value: isinstance(value, list) and all(map(is_count, value)),
        ),
        "padded": ("true or false", lambda value: isinstance(value, bool)),
        "bytes": ("a number from 0 to 2**63 - 1", is_count),
    }
    for field, (expected, fits) in fields.items():
        value = description.get(field)
        if not fits(value):
            raise ValueError(f"{field!r} in its description is {value!r:.80}; it must be {expected}")
    if description["bytes"] > available:
        raise ValueError(
            f"{description['bytes']} bytes of data are needed, and {available} are available"
        )
    if description["dtype"].startswith("handle"):
        raise ValueError("its elements are handles, which are not valid in another process")
    return description


def tensor(mapping: Buffer, description: dict[str, Any]) -> Tensor:
    """Return the tensor in a map, without a copy. Raises ValueError or OverflowError for a wrong dtype or shape."""
    data = memoryview(mapping)[DATA : DATA + description["bytes"]]
    shape = tuple(description["shape"])
    return _rebuild(data, description["dtype"], shape, description["padded"])
