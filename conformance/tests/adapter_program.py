"""Checks an adapter against its library. Run as a program with the adapter's name; it prints a line for each fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from dlbridge_conformance import Adapter, NotApplicable, crafter, elements
from dlbridge_conformance.matrix import address_of, shape_for
from dlbridge_conformance.registry import adapter_named

#: numbers that every dtype except bool can represent
NUMBERS = [1, 2, 4, 4, 2, 1]


def dtypes(library: Adapter) -> Iterator[str]:
    """Checks that arrays have the requested elements and dtype."""
    shape = shape_for(library)
    for dtype in library.dtypes:
        numbers = [number > 1 for number in NUMBERS] if dtype == "bool" else NUMBERS
        array = library.array(elements.nested(list(numbers), shape), dtype)
        if library.values(array) != elements.nested(list(numbers), shape):
            yield f"{dtype}: the elements are {library.values(array)}"
        if library.produces:
            held = crafter.take(array.__dlpack__())
            if held.fields.dtype != crafter.DTYPES[dtype]:
                yield f"{dtype}: exported as {held.fields.dtype}"
            if address_of(library, array) not in (None, held.fields.data + held.fields.byte_offset):
                yield f"{dtype}: the address is another one than that of the export"
            held.delete()


def layouts(library: Adapter) -> Iterator[str]:
    """Checks that views have the right elements, and that they and their exports share the memory."""
    values = elements.nested([float(i) for i in range(6)], shape_for(library))
    views: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
        "stepped": (library.stepped, values[::2], 0),
        "reversed": (library.reversed, values[::-1], 4 * (6 - 6 // len(values))),
        "sliced": (library.sliced, values[1:], 4 * 6 // len(values)),
        "broadcast": (lambda array: library.broadcast(array, 3), [values] * 3, 0),
        "read_only": (library.read_only, values, 0),
    }
    if library.ndims[1] > 1 and library.ndims[0] < 3:
        views["transposed"] = (library.transposed, [list(row) for row in zip(*values, strict=True)], 0)
    for name, (view_of, expected, start) in views.items():
        array = library.array(values)
        try:
            view = view_of(array)
        except NotApplicable:
            continue
        if library.values(view) != expected:
            yield f"{name}: the elements are {library.values(view)}"
        if library.address(view) - library.address(array) != start:
            yield f"{name}: other memory"
        yield from exported(library, name, view)


def exported(library: Adapter, name: str, view: Any) -> Iterator[str]:
    """Checks that the export of a view shares its memory. The library may refuse the export."""
    try:
        held = crafter.take(view.__dlpack__(**asked(view)))
    except BufferError:
        return
    if held.fields.data + held.fields.byte_offset != library.address(view):
        yield f"{name}: the export has other memory"
    held.delete()


def asked(view: Any) -> dict[str, Any]:
    """The keyword for a versioned capsule, if the library knows it."""
    try:
        view.__dlpack__(max_version=(1, 3))
    except TypeError:
        return {}
    except BufferError:
        pass
    return {"max_version": (1, 3)}


def consumes(library: Adapter) -> Iterator[str]:
    """Checks that the library imports a crafted tensor of at least one ABI, with its elements."""
    shape, reasons = shape_for(library), []
    for versioned in (True, False):
        crafted = crafter.craft(shape, versioned=versioned, payload=elements.packed(NUMBERS, "float32"))
        try:
            array = library.from_dlpack(crafter.Producer(crafted))
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        try:
            if library.values(array) != elements.nested(NUMBERS, shape):
                yield f"imported as {library.values(array)}"
        except NotApplicable:
            pass
    if len(reasons) == 2:
        yield f"imports neither: {reasons}"


def writing(library: Adapter) -> Iterator[str]:
    """Checks that a written element is read again."""
    array = library.array(elements.nested(NUMBERS, shape_for(library)))
    try:
        library.write(array, 9)
    except NotApplicable:
        return
    if elements.flat(library.values(array)) != [9, *NUMBERS[1:]]:
        yield f"written: {library.values(array)}"


def main(name: str) -> None:
    """Runs all checks of one adapter."""
    library = adapter_named(name)
    library.load()
    makes = type(library).array is not Adapter.array
    found = [*dtypes(library), *layouts(library), *writing(library)] if makes else []
    if library.consumes:
        found += consumes(library)
    print(*found, sep="\n")
    print(f"{name} {library.version()}: done")


if __name__ == "__main__":
    main(sys.argv[1])
