"""How a consumer uses the C exchange API of an object's type.

Each object has a new type, because a consumer may cache the table of a type. The tables export only managed tensors,
unless a rule is about borrowing. Using a table is optional: the rules do not apply to a library that ignores it.
"""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CPU, Crafted, Flags
from dlbridge_conformance.exchange import ATTRIBUTE, BORROW
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import may, must, should
from dlbridge_conformance.rules.consumer_outcome import HEADER, PLAIN, REFUSED, given_back, right, shares

TABLE = f"{HEADER}, DLPackExchangeAPI"
HEAD = f"{HEADER}, DLPackExchangeAPIHeader"
FROM_OBJECT = f"{HEADER}, DLPackManagedTensorFromPyObjectNoSync"
FAILS = f"no text; {FROM_OBJECT}: on failure a Python exception is set"


class OwnError(RuntimeError):
    """An exception class of the table."""


class Lender:
    """An object whose type's table exports a tensor, or raises; it counts the calls."""

    def __init__(self, exported: Crafted | Exception) -> None:
        self.exported = exported
        self.by_table = self.by_method = 0

    def _crafted(self) -> Any:
        """Returns the tensor to a crafted table, or raises."""
        self.by_table += 1
        if isinstance(self.exported, Exception):
            raise self.exported
        struct = self.exported.next()
        struct.given_away += 1
        return struct.native


class Both(Lender):
    """A :class:`Lender` that also has the two methods, which export a plain tensor."""

    def __init__(self, c: Context, exported: Crafted | Exception) -> None:
        super().__init__(exported)
        self.context = c

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:  # fmt: skip
        """Exports a plain tensor."""
        self.by_method += 1
        return self.context.as_asked({} if max_version is None else {"max_version": max_version}).capsule()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return CPU


def table(**fields: Any) -> Any:
    """A capsule over a crafted table. By default the table exports managed tensors, and cannot borrow."""
    return crafter.native.craft_table(**{"missing": [BORROW], **fields})


def typed(base: type[Lender], capsule: Any) -> Any:
    """A new type with a table."""
    return type("Lending", (base,), {ATTRIBUTE: capsule})


def both(c: Context, capsule: Any, exported: Crafted | Exception) -> Any:
    """An object of a new type that has a table and the two methods."""
    return typed(Both, capsule)(c, exported)


def lendable(c: Context, **fields: Any) -> Crafted:
    """A plain versioned tensor that a table can export."""
    return c.fitting((6,), versioned=True, **fields)


def taken(c: Context, producer: Lender) -> Any:
    """Imports an object with the library."""
    c.fed("an object with __dlpack__" if isinstance(producer, Both) else "an object without __dlpack__")
    array = c.lib.from_exchange_api(producer)
    c.got(f"{type(array).__module__}.{type(array).__qualname__}; {producer.by_table} calls by the table")
    return array


def tried(c: Context, producer: Lender) -> tuple[Any, Exception | None]:
    """Imports an object. Returns (array, None), or (None, the exception)."""
    try:
        return taken(c, producer), None
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        c.got(f"{type(error).__name__}: {error}; {producer.by_table} calls by the table")
        return None, error.with_traceback(None)


def needs_use(c: Context) -> None:
    """Raises :class:`NotApplicable` for a library that ignores the C exchange API."""
    c.needs_consumer()
    producer = both(c, table(missing=[]), lendable(c))
    c.lib.from_exchange_api(producer)
    c.needs(producer.by_table, f"{c.lib.name} uses __dlpack__ and ignores the C exchange API")


def unused(c: Context, producer: Any) -> None:
    """Expects that the table is not called, and that the object is read by its methods or refused."""
    array, error = tried(c, producer)
    c.expect(not producer.by_table, "a function of the table was called")
    if error is None:
        right(c, array, PLAIN)


@must("C-EXCHANGE-ELEMENTS", "An object whose type has a C exchange API is read correctly through it.", FROM_OBJECT)
def elements(c: Context) -> None:
    needs_use(c)
    producer = both(c, table(missing=[]), lendable(c))
    right(c, taken(c, producer), PLAIN)


@must("C-EXCHANGE-GIVEN-BACK", "A managed tensor from a table is given back exactly once, after the array is gone.",
      f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def gives_back(c: Context) -> None:
    needs_use(c)
    crafted = lendable(c)
    array = taken(c, typed(Lender, table())(crafted))
    right(c, array, PLAIN)
    del array
    given_back(c, crafted, "after the array was gone")


@must("C-EXCHANGE-BORROWED-NOT-KEPT",
      "An array does not keep the memory of a borrowed tensor, which only the producer owns after the call.",
      f"{HEADER}, DLPackDLTensorFromPyObjectNoSync")  # fmt: skip
def borrowed_not_kept(c: Context) -> None:
    needs_use(c)
    crafted = lendable(c)
    array = taken(c, typed(Lender, table(missing=[]))(crafted))
    shared = shares(c, array, crafted)
    del array
    c.settle()
    calls = [given.record.calls for given in crafted.all]
    c.expect(not shared or 1 in calls, "the array kept borrowed memory: no deleter ran when it was gone")


@must("C-EXCHANGE-BORROW-NULL",
      "A table without dltensor_from_py_object_no_sync, which may be NULL, causes neither a refusal nor a crash.",
      f"{TABLE}::dltensor_from_py_object_no_sync")  # fmt: skip
def borrow_null(c: Context) -> None:
    needs_use(c)
    right(c, taken(c, both(c, table(missing=[BORROW]), lendable(c))), PLAIN)


@should("C-EXCHANGE-ON-TYPE",
        "The table is looked up on the type: an attribute of the object itself is ignored, and hides no table.", TABLE)  # fmt: skip
def on_type(c: Context) -> None:
    needs_use(c)
    producer = type("Lending", (Both,), {})(c, lendable(c))
    setattr(producer, ATTRIBUTE, table())
    unused(c, producer)
    producer = both(c, table(), lendable(c))
    setattr(producer, ATTRIBUTE, None)
    right(c, taken(c, producer), PLAIN)
    c.expect(producer.by_table, "the table of the type was not used")


@must("C-EXCHANGE-MAJOR", "No function of a table of another major version is called.", f"{HEAD}::version")
def major(c: Context) -> None:
    needs_use(c)
    for version in ((2, 0), (0, 8), (257, 0)):
        c.fed(f"a table of version {version}")
        unused(c, both(c, table(version=version), lendable(c)))


@may("C-EXCHANGE-MINOR-LATER", "A table of a later minor version, which has the same layout, is used.",
     f"{HEADER}, DLPackVersion")  # fmt: skip
def minor_later(c: Context) -> None:
    needs_use(c)
    producer = both(c, table(version=(1, 99)), lendable(c))
    right(c, taken(c, producer), PLAIN)
    c.expect(producer.by_table, "the table was not used")


@may("C-EXCHANGE-PREVIOUS", "If a table has a later major version, an older known table that it links to is used.",
     f"{HEAD}::prev_api")  # fmt: skip
def previous(c: Context) -> None:
    needs_use(c)
    older = crafter.native.Table(table()).address
    producer = both(c, table(version=(2, 0), previous=older), lendable(c))
    right(c, taken(c, producer), PLAIN)
    c.expect(producer.by_table, "the older table was not used")


@should("C-EXCHANGE-NAME", "An attribute that is not a capsule named 'dlpack_exchange_api' is never read as a table.",
        f"no text for consumers; {TABLE}: a PyCapsule with that name")  # fmt: skip
def name(c: Context) -> None:
    needs_use(c)
    for capsule in (table(name="exchange_api"), table(name="dltensor"), None, 5, object()):
        c.fed(f"the attribute {capsule!r}")
        unused(c, both(c, capsule, lendable(c)))


@must("C-EXCHANGE-EACH-TYPE", "A table is used only for objects of its own type.", f"{FROM_OBJECT}: py_object")
def each_type(c: Context) -> None:
    needs_use(c)
    first = typed(Both, table())
    for kind, has_table in ((first, True), (type("Plain", (Both,), {}), False), (first, True)):
        producer = kind(c, lendable(c))
        right(c, taken(c, producer), PLAIN)
        c.expect(bool(producer.by_table) == has_table, f"{producer.by_table} calls of {kind.__name__} by a table")


@should("C-EXCHANGE-ERROR",
        "If the function of a table fails, its exception is raised, unless the object can be read by __dlpack__.",
        FAILS)  # fmt: skip
def error(c: Context) -> None:
    needs_use(c)
    for raised in (OwnError("out of memory"), BufferError("cannot be exported"), TypeError("elements are objects")):
        c.fed(f"a table that fails with {raised!r}")
        for producer in (typed(Lender, table())(raised), both(c, table(), raised)):
            array, came = tried(c, producer)
            if came is None:
                c.expect(producer.by_method, "no exception was raised")
                right(c, array, PLAIN)
            else:
                c.expect(type(came) is type(raised) and str(raised) in str(came), f"{raised!r} became {came!r}")


@must("C-EXCHANGE-RECOVERS", "After the function of a table has failed, the next object of the type is read correctly.",
      FAILS)  # fmt: skip
def recovers(c: Context) -> None:
    needs_use(c)
    kind = typed(Lender, table())
    tried(c, kind(OwnError("out of memory")))
    right(c, taken(c, kind(lendable(c))), PLAIN)


@must("C-EXCHANGE-REFUSED", "A managed tensor from a table that the library refuses is given back exactly once.",
      f"{HEADER}, DLManagedTensorVersioned::deleter")  # fmt: skip
def refused(c: Context) -> None:
    needs_use(c)
    count = 0
    for fields in (*REFUSED, dict(device=(99, 0))):
        crafted = lendable(c, **fields)
        array, came = tried(c, typed(Lender, table())(crafted))
        count += came is not None
        del array, came
        given_back(c, crafted, "after everything was gone")
    c.needs(count, f"{c.lib.name} accepts all tensors that were tried")


@must("C-EXCHANGE-TENSOR-MAJOR",
      "A managed tensor of another major version from a table is refused, and given back exactly once.",
      f"{HEADER}, DLPackVersion")  # fmt: skip
def tensor_major(c: Context) -> None:
    needs_use(c)
    crafted = lendable(c, version=(2, 0))
    producer = typed(Lender, table())(crafted)
    array, came = tried(c, producer)
    c.expect(came is not None, "not refused")
    del array, came
    given_back(c, crafted, "after the refusal")


@should("C-EXCHANGE-READ-ONLY", "A library with read-only arrays makes one from a read-only tensor of a table.",
        f"{HEADER}, DLPACK_FLAG_BITMASK_READ_ONLY")  # fmt: skip
def read_only(c: Context) -> None:
    needs_use(c)
    crafted = lendable(c, flags=Flags.READ_ONLY)
    array, came = tried(c, typed(Lender, table())(crafted))
    c.needs(came is None, f"{c.lib.name} refuses read-only tensors: {came}")
    c.needs(crafted.unreleased, "the array is a copy")
    c.expect(c.lib.is_read_only(array), "the array over read-only memory is writable")


@may("C-EXCHANGE-STREAM",
     "A library that takes a tensor on CUDA by the table asks for its device's current work stream, or refuses it.",
     f"{TABLE}: guidelines; a library that only takes the tensor may ask later")  # fmt: skip
def stream(c: Context) -> None:
    needs_use(c)
    crafted = lendable(c, device=(2, 1))
    array, came = tried(c, typed(Lender, table())(crafted))
    asked = crafter.native.stream_asked()
    c.got(f"asked for the stream of {asked}")
    c.expect(came is not None or (2, 1) in asked, "taken without asking for the stream")
    c.expect(set(asked) <= {(2, 1)}, f"asked for the stream of {asked}, and the tensor is on (2, 1)")
    del array
    given_back(c, crafted, "after everything was gone")
