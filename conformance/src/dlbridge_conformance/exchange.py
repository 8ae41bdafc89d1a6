"""Calls the C exchange API of a library as a consumer does."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Crafted, Fields, Held
from dlbridge_conformance.outcome import NotApplicable

#: (status, answer, exception): the status of a function, its result or None, and the exception that it set or None
Answer = tuple[int, Any, "BaseException | None"]

ATTRIBUTE = "__dlpack_c_exchange_api__"
ALLOCATOR = "managed_tensor_allocator"
EXPORT = "managed_tensor_from_py_object_no_sync"
IMPORT = "managed_tensor_to_py_object_no_sync"
BORROW = "dltensor_from_py_object_no_sync"
STREAM = "current_work_stream"


def capsule_of(c: Context, array: Any) -> Any:
    """The capsule on the type of an array; the rule does not apply if the type has none."""
    found = getattr(type(array), ATTRIBUTE, None)
    c.needs(found is not None, f"{type(array).__module__}.{type(array).__qualname__} lacks {ATTRIBUTE}")
    return found


def tables_of(c: Context, array: Any) -> Any:
    """The tables on the type of an array: the first table and the older ones that it links to, of any version."""
    return crafter.native.Table(capsule_of(c, array))


def table_of(c: Context, array: Any, *functions: str) -> Any:
    """The table of major version 1 on an array's type; the rule does not apply if one of the functions is NULL."""
    table = tables_of(c, array)
    c.needs(table.version() is not None, f"the tables have versions {table.versions}, none with major version 1")
    known = table.functions()
    for name in functions:
        c.needs(known[name], f"{name} is NULL")
    return table


def exported(c: Context, array: Any) -> Held:
    """Expects that ``managed_tensor_from_py_object_no_sync`` exports an array, and returns the managed tensor."""
    return c.hold(Held(_succeeded(c, EXPORT, table_of(c, array, EXPORT).exported(array))))


def exported_unless_refused(c: Context, array: Any) -> Held:
    """Exports an array that the function may refuse; the rule does not apply then."""
    answer = table_of(c, array, EXPORT).exported(array)
    _needs_success(c, EXPORT, answer)
    return c.hold(Held(_succeeded(c, EXPORT, answer)))


def borrowed(c: Context, array: Any) -> Fields:
    """Expects that ``dltensor_from_py_object_no_sync`` describes an array, and returns the fields."""
    return _lent(c, table_of(c, array, BORROW).borrowed(array))


def borrowed_unless_refused(c: Context, array: Any) -> Fields:
    """Borrows an array that the function may refuse; the rule does not apply then."""
    answer = table_of(c, array, BORROW).borrowed(array)
    _needs_success(c, BORROW, answer)
    return _lent(c, answer)


def imported(c: Context, crafted: Crafted) -> Any:
    """Expects that ``managed_tensor_to_py_object_no_sync`` imports a crafted tensor, and returns the object."""
    return _succeeded(c, IMPORT, table_of(c, c.array(), IMPORT).imported(crafted.native))


def refused_import(c: Context, crafted: Crafted) -> BaseException:
    """Expects that the import of a crafted tensor fails, and returns the exception."""
    return _failed(c, IMPORT, table_of(c, c.array(), IMPORT).imported(crafted.native))


def refused_object(c: Context, function: str, other: object) -> BaseException:
    """Expects that a function refuses an object that is not an array of the library, and returns the exception."""
    table = table_of(c, c.array(), function)
    c.fed(f"{function} of {other!r}")
    return _failed(c, function, (table.exported if function == EXPORT else table.borrowed)(other))


def work_stream(c: Context, device: tuple[int, int]) -> tuple[int, int, BaseException | None]:
    """The status and the stream of ``current_work_stream``, and the exception that it set."""
    status, stream, error = table_of(c, c.array(), STREAM).work_stream(device)
    c.fed(f"{STREAM} of {device}")
    c.got(f"status {status}, stream {stream:#x}, exception {error!r}")
    return status, stream, error


def _lent(c: Context, answer: Answer) -> Fields:
    found = Fields(version=None, flags=0, manager_ctx=0, deleter=0, **_succeeded(c, BORROW, answer))
    c.got(str(found))
    return found


def _needs_success(c: Context, function: str, answer: Answer) -> None:
    """Raises :class:`NotApplicable` if a function failed in the way that the header specifies."""
    if answer[0]:
        error = _failed(c, function, answer)
        raise NotApplicable(f"{function} refuses it: {type(error).__name__}: {error}")


def _succeeded(c: Context, function: str, answer: Answer) -> Any:
    status, made, error = answer
    c.got(f"{function}: status {status}, exception {error!r}")
    c.expect(status == 0, f"{function} returned {status}: {error!r}")
    c.expect(error is None, f"{function} succeeded with an exception set: {error!r}")
    c.expect(made is not None, f"{function} succeeded without an answer")
    return made


def _failed(c: Context, function: str, answer: Answer) -> BaseException:
    """Expects a failure, and returns the exception.

    The header specifies the status -1 for all functions except the export, which must return NULL.
    """
    status, made, error = answer
    c.got(f"{function}: status {status}, exception {error!r}")
    c.expect(status, f"{function} did not fail")
    c.expect(status == -1 or function == EXPORT, f"{function} returned {status}, and not -1")
    c.expect(made is None, f"{function} failed and gave an answer")
    c.expect(error is not None, f"{function} failed without an exception")
    assert error is not None
    return error
