"""What an object speaks, what it says, and whether an exchange would be without a copy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from dlbridge._core import Tensor, _canonical, _has_protocol, _origin, asdlpack, fit
from dlbridge.typing import ProtocolName

__all__ = ["Door", "Explanation", "Verdict", "explain"]

#: The doors that are asked, in the order in which :func:`dlbridge.asdlpack` tries them.
DOORS: tuple[ProtocolName, ...] = (
    "exchange-api",
    "dlpack",
    "cuda-array-interface",
    "array-interface",
    "array-struct",
    "buffer",
    "arrow",
)


@dataclass(frozen=True)
class Door:
    """One protocol of an object."""

    protocol: str
    #: Whether the object has it.
    there: bool
    #: Why nothing comes through although it is there; None if something does.
    refusal: str | None
    #: Which protocol it was in the end, and whether it shares the memory.
    answer: str | None


@dataclass(frozen=True)
class Verdict:
    """What becomes of the tensor in one library."""

    library: str
    #: The installed version; None if it is not installed.
    version: str | None
    #: Whether the memory would be shared.
    zero_copy: bool
    #: Why not.
    reason: str | None
    #: What to do about it.
    remedy: str | None
    #: The release whose behaviour was measured, like ``"jax 0.12.0"``; None if it was not.
    measured: str | None


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found. ``str`` is for people, :meth:`as_json` for programs."""

    type: str
    doors: list[Door]
    #: What came in through the first door that lets anything through, as a dictionary.
    tensor: dict[str, Any] | None
    #: Why nothing came in.
    refusal: str | None
    verdicts: list[Verdict]

    def as_dict(self) -> dict[str, Any]:
        """The same as dictionaries and lists."""
        return asdict(self)

    def as_json(self) -> str:
        """The same as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [self.type, "  speaks"]
        for door in self.doors:
            if door.there:
                lines.append(f"    {door.protocol:22}{door.refusal or door.answer}")
        if not any(door.there for door in self.doors):
            lines.append("    no exchange protocol")
        if self.tensor is None:
            return [*lines, f"  cannot be imported: {self.refusal}"]
        lines.append("  comes in as")
        lines += [f"    {key.replace('_', ' '):22}{value}" for key, value in self.tensor.items()]
        for verdict in self.verdicts:
            lines.append(f"  to {verdict.library} {verdict.version or '(not installed)'}")
            if verdict.measured:
                lines.append(f"    measured with {verdict.measured}")
            if verdict.zero_copy:
                lines.append("    without a copy")
            else:
                lines.append(f"    not without a copy: {verdict.reason}")
            if verdict.remedy:
                lines.append(f"    {verdict.remedy}")
        return lines


def explain(obj: Any, *, to: str | list[str] | None = None) -> Explanation:
    """Say what an object speaks, what it says, and what an exchange would cost.

    ``to`` is a library, or several, of those in :func:`dlbridge.consumers`: for each, whether
    :meth:`Tensor.to` would share the memory, why not, and what to do about it. Each library is imported, and its
    behaviour is measured, as :meth:`Tensor.to` does it.

    Every door of the object is asked, the first of them twice, and what comes out is given back. So a
    producer that can be asked once is used up; a capsule is not, of which only the name is told.

    >>> import dlbridge
    >>> print(dlbridge.explain(b"abc", to="torch").verdicts[0].zero_copy)
    False

    Raises ValueError for a library that is not known.
    """
    libraries = [_canonical(library) for library in ([to] if isinstance(to, str) else to or [])]
    kind = type(obj)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if name == "PyCapsule":
        refusal = f"{obj!r} can be imported once, which would leave nothing to explain"
        return Explanation(name, [], None, refusal, [])
    doors = [_door(obj, protocol) for protocol in DOORS]
    try:
        tensor = asdlpack(obj)
    except Exception as error:
        return Explanation(name, doors, None, _sentence(error), [])
    verdicts = [_verdict(tensor, library) for library in libraries]
    return Explanation(name, doors, _facts(tensor), None, verdicts)


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _door(obj: Any, protocol: ProtocolName) -> Door:
    try:
        tensor = asdlpack(obj, protocol=protocol)
    except Exception as error:
        there = not isinstance(error, TypeError) or _has_protocol(obj, protocol)
        return Door(protocol, there, _sentence(error) if there else None, None)
    how = f"a copy: {tensor.copy_reason}" if tensor.copied else "shares its memory"
    legacy = "legacy, " if tensor.protocol == "dlpack-legacy" else ""
    mark = ", read-only" if tensor.readonly else ""
    return Door(protocol, True, None, f"{legacy}{how}{mark}")


def _facts(tensor: Tensor) -> dict[str, Any]:
    order = [name for name, holds in _orders(tensor).items() if holds]
    version, flags = _origin(tensor)
    return {
        "shape": tensor.shape,
        "strides": tensor.strides,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "address": hex(tensor.address),
        "alignment": alignment(tensor.address),
        "contiguous": " and ".join(order) or "no",
        "read_only": tensor.readonly,
        "protocol": tensor.protocol,
        "dlpack_version": version or "none",
        "flags": " and ".join(flags) or "none",
        "copied": tensor.copy_reason or "no",
    }


def _orders(tensor: Tensor) -> dict[str, bool]:
    shape, strides = tensor.shape, tensor.strides
    orders = {}
    for name, axes in [("C", range(tensor.ndim - 1, -1, -1)), ("F", range(tensor.ndim))]:
        expected, holds = 1, True
        for axis in axes:
            holds = holds and (shape[axis] <= 1 or strides[axis] == expected)
            expected *= shape[axis]
        orders[name] = holds or 0 in shape
    return orders


def alignment(address: int) -> int:
    """The largest power of two that divides an address, at most 4096 bytes."""
    return min(address & -address, 4096) if address else 4096


def _verdict(tensor: Tensor, library: str) -> Verdict:
    refused, reason, remedy, measured = fit(tensor, library)
    version, why = version_of(library), refused or reason
    if version is None:
        remedy = f"install {library} first"
    elif refused:
        remedy = None
    return Verdict(library, version, why is None, why, remedy, measured)


@cache
def version_of(library: str) -> str | None:
    """The version of a library as it is installed; None if it is not."""
    # These take longer to import than everything else here.
    import importlib.metadata
    import importlib.util

    package = "PIL" if library == "pillow" else library
    if importlib.util.find_spec(package) is None:
        return None
    for distribution in importlib.metadata.packages_distributions().get(package, []):
        return importlib.metadata.version(distribution)
    return "of unknown version"
