"""The table of the C exchange API: its place, its header, its functions, and ``current_work_stream``."""

from __future__ import annotations

from functools import partial

from dlbridge_conformance import crafter, exchange
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU
from dlbridge_conformance.exchange import ATTRIBUTE, capsule_of, table_of, tables_of, work_stream
from dlbridge_conformance.rule import may, must, should

TABLE = "dlpack.h 1.3, DLPackExchangeAPI"
HEADER = "dlpack.h 1.3, DLPackExchangeAPIHeader"
PYTHON = "Python specification of DLPack, DLPack C Exchange API"
STREAM = "dlpack.h 1.3, DLPackCurrentWorkStream"


@must("X-TABLE-NAME", "The attribute is a capsule named 'dlpack_exchange_api'.", f"{TABLE}; {PYTHON}")
def name(c: Context) -> None:
    capsule = capsule_of(c, c.array())
    c.expect(type(capsule).__name__ == "PyCapsule", f"it is a {type(capsule).__name__}")
    found = crafter.capsule_name(capsule)
    c.expect(found == "dlpack_exchange_api", f"the capsule is named {found!r}")


@must("X-TABLE-ON-TYPE", "The attribute is on the type, and an instance does not override it.", f"{TABLE}; {PYTHON}")
def on_type(c: Context) -> None:
    array = c.array()
    own = getattr(array, ATTRIBUTE, None)
    c.needs(own is not None, f"{c.lib.name} lacks {ATTRIBUTE}")
    found = getattr(type(array), ATTRIBUTE, None)
    c.expect(type(found).__name__ == "PyCapsule", f"on the type it is a {type(found).__name__}")
    same = crafter.native.Table(found).address == crafter.native.Table(own).address
    c.expect(same, "the instance has another table than the type")


@must("X-TABLE-STATIC", "The table of a type never changes: a consumer may keep its address.", TABLE)
def static(c: Context) -> None:
    array = c.array()
    before = tables_of(c, array)
    address, versions, functions = before.address, before.versions, before.functions()
    del array, before
    c.settle()
    after = tables_of(c, c.array([1, 2]))
    c.expect(after.address == address, "the address has changed")
    c.expect((after.versions, after.functions()) == (versions, functions), "the table has changed")


@must("X-TABLE-MAJOR", "The table, or an older one that it links to, has major version 1 and so this layout.",
      f"{HEADER}; {TABLE}")  # fmt: skip
def major(c: Context) -> None:
    table = tables_of(c, c.array())
    c.expect(table.version() is not None, f"the versions are {table.versions}")


@should("X-TABLE-MINOR", "The table of major version 1 has version 1.3 or later, because 1.3 introduced it.", PYTHON)
def minor(c: Context) -> None:
    version = table_of(c, c.array()).version()
    c.expect(version >= (1, 3), f"the version is {version}")


@must("X-TABLE-PREVIOUS", "prev_api is NULL, or points to a table of an older version.", HEADER)
def previous(c: Context) -> None:
    versions = tables_of(c, c.array()).versions
    c.got(f"versions {versions}")
    for version, older in zip(versions, versions[1:], strict=False):
        c.expect(older < version, f"prev_api of {version} is of {older}")


def _is_set(c: Context, function: str) -> None:
    c.expect(table_of(c, c.array()).functions()[function], f"{function} is NULL")


for _function in (exchange.ALLOCATOR, exchange.EXPORT, exchange.IMPORT, exchange.BORROW, exchange.STREAM):
    (may if _function == exchange.BORROW else must)(
        f"X-TABLE-{_function.upper().replace('_', '-')}", f"{_function} is not NULL.", f"{TABLE}::{_function}",
        partial(_is_set, function=_function),
    )  # fmt: skip


@must("X-STREAM-CPU", "For the CPU it returns 0 and does not set an exception.", STREAM)
def cpu(c: Context) -> None:
    status, _, error = work_stream(c, CPU)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@should("X-STREAM-CPU-NULL", "The stream of the CPU is NULL.", STREAM)
def cpu_null(c: Context) -> None:
    _, stream, _ = work_stream(c, CPU)
    c.expect(stream == 0, f"the stream is {stream:#x}")


@must("X-STREAM-OWN-DEVICE", "For the device of its arrays it returns 0 and does not set an exception.", STREAM)
def own_device(c: Context) -> None:
    status, _, error = work_stream(c, c.lib.device)
    c.expect(status == 0, f"it returned {status}: {error!r}")
    c.expect(error is None, f"it set {error!r}")


@must("X-STREAM-FOREIGN-DEVICE", "For a device that it does not support it returns 0, or -1 with an exception set.",
      STREAM)  # fmt: skip
def foreign_device(c: Context) -> None:
    status, _, error = work_stream(c, (9, 0))
    if status == 0:
        c.expect(error is None, f"it returned 0 and set {error!r}")
        return
    c.expect(status == -1, f"it returned {status}")
    c.expect(error is not None, "it returned -1 and set no exception")
