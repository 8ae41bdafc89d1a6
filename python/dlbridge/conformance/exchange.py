"""The C exchange API of a library, called as a consumer calls it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlbridge.conformance import crafter
from dlbridge.conformance.context import Context
from dlbridge.conformance.crafter import Crafted, Fields, Held

ATTRIBUTE = "__dlpack_c_exchange_api__"
ALLOCATOR = "managed_tensor_allocator"
EXPORT = "managed_tensor_from_py_object_no_sync"
IMPORT = "managed_tensor_to_py_object_no_sync"
BORROW = "dltensor_from_py_object_no_sync"
STREAM = "current_work_stream"


def capsule_of(c: Context, array: Any) -> Any:
    """The capsule on the type of an array; the rule does not apply without one."""
    found = getattr(type(array), ATTRIBUTE, None)
    c.needs(found is not None, f"{type(array).__module__}.{type(array).__qualname__} has no {ATTRIBUTE}")
    return found


def table_of(c: Context, array: Any, *functions: str) -> Any:
    """The table on the type of an array; the rule does not apply if one of the functions is NULL."""
    table = crafter.native.Table(capsule_of(c, array))
    known = table.functions()
    for name in functions:
        c.needs(known[name], f"{name} is NULL")
    return table


def exported(c: Context, array: Any) -> Held:
    """What ``managed_tensor_from_py_object_no_sync`` makes of an array, which succeeds."""
    return c.hold(Held(_succeeded(c, EXPORT, table_of(c, array, EXPORT).exported(array))))


def borrowed(c: Context, array: Any) -> Fields:
    """What ``dltensor_from_py_object_no_sync`` writes about an array, which succeeds."""
    fields = _succeeded(c, BORROW, table_of(c, array, BORROW).borrowed(array))
    found = Fields(version=None, flags=0, manager_ctx=0, deleter=0, **fields)
    c.got(str(found))
    return found


def imported(c: Context, crafted: Crafted) -> Any:
    """What ``managed_tensor_to_py_object_no_sync`` makes of a crafted tensor, which succeeds."""
    return _succeeded(c, IMPORT, table_of(c, c.array(), IMPORT).imported(crafted.native))


def refused_import(c: Context, crafted: Crafted) -> BaseException:
    """The exception by which the import of a crafted tensor fails."""
    return _failed(c, IMPORT, table_of(c, c.array(), IMPORT).imported(crafted.native))


def refused_object(c: Context, function: str, other: object) -> BaseException:
    """The exception by which a function fails for an object that is none of the library's arrays."""
    table = table_of(c, c.array(), function)
    c.fed(f"{function} of {other!r}")
    return _failed(c, function, (table.exported if function == EXPORT else table.borrowed)(other))


def allocated(c: Context, shape: Iterable[int], dtype: str = "float32") -> Held:
    """What ``managed_tensor_allocator`` makes on the library's device, which succeeds."""
    c.needs(dtype in c.lib.dtypes, f"{c.lib.name} has no {dtype}")
    table = table_of(c, c.array(), ALLOCATOR)
    shape = list(shape)
    c.fed(f"{ALLOCATOR} for {shape}, {dtype}, {c.lib.device}")
    answer, reported = table.allocated(shape, crafter.DTYPES[dtype], c.lib.device)
    c.expect(not reported, f"SetError was called: {reported}")
    return c.hold(Held(_succeeded(c, ALLOCATOR, answer)))


def refused_allocation(
    c: Context, shape: Iterable[int], dtype: tuple[int, int, int], device: tuple[int, int]
) -> list[tuple[str, str]]:
    """What SetError was called with when ``managed_tensor_allocator`` failed, as (kind, message)."""
    table = table_of(c, c.array(), ALLOCATOR)
    shape = list(shape)
    c.fed(f"{ALLOCATOR} for {shape}, {dtype}, {device}")
    (status, made, error), reported = table.allocated(shape, dtype, device)
    c.got(f"status {status}, SetError {reported}, exception {error!r}")
    if made is not None:
        c.hold(Held(made))
    c.expect(status != 0 and made is None, "it is not refused")
    c.expect(status == -1, f"the status is {status}")
    found: list[tuple[str, str]] = reported
    return found


def work_stream(c: Context, device: tuple[int, int]) -> tuple[int, int, BaseException | None]:
    """What ``current_work_stream`` returned and wrote, and the exception that it has set."""
    status, stream, error = table_of(c, c.array(), STREAM).work_stream(device)
    c.fed(f"{STREAM} of {device}")
    c.got(f"status {status}, stream {stream:#x}, exception {error!r}")
    return status, stream, error


def _succeeded(c: Context, function: str, answer: tuple[int, Any, BaseException | None]) -> Any:
    status, made, error = answer
    c.got(f"{function}: status {status}, exception {error!r}")
    c.expect(status == 0, f"{function} returned {status}: {error!r}")
    c.expect(error is None, f"{function} succeeded with an exception set: {error!r}")
    c.expect(made is not None, f"{function} succeeded without an answer")
    return made


def _failed(c: Context, function: str, answer: tuple[int, Any, BaseException | None]) -> BaseException:
    status, made, error = answer
    c.got(f"{function}: status {status}, exception {error!r}")
    c.expect(status == -1, f"{function} returned {status}, and not -1")
    c.expect(made is None, f"{function} failed and gave an answer")
    c.expect(error is not None, f"{function} failed without an exception")
    assert error is not None
    return error
