"""Explains an object: its protocols, its metadata, and whether an export would copy it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from types import ModuleType
from typing import Any

from dlbridge._core import Tensor, _canonical, _fit, _has_protocol, _origin, asdlpack
from dlbridge._libraries import is_installed
from dlbridge.typing import ProtocolName

__all__ = ["Explanation", "ProtocolReport", "Verdict", "explain"]

#: The protocols that :func:`explain` tries; :func:`dlbridge.asdlpack` has the same order.
PROTOCOLS: tuple[ProtocolName, ...] = (
    "exchange-api",
    "dlpack",
    "cuda-array-interface",
    "array-interface",
    "array-struct",
    "buffer",
    "arrow",
)


@dataclass(frozen=True)
class ProtocolReport:
    """One protocol: whether an object has it, and the result of an import by it."""

    protocol: str
    #: True if the object has it.
    present: bool
    #: Why an import by this protocol fails although the object has it; None if it succeeds.
    refusal: str | None
    #: The result of the import, in words: shared or copied, legacy, read-only; None without an import.
    answer: str | None


@dataclass(frozen=True)
class Verdict:
    """The result of an export to one library."""

    library: str
    #: The installed version; None if it is not installed.
    version: str | None
    #: True if the export would share the memory.
    zero_copy: bool
    #: The reason of the copy or the refusal.
    reason: str | None
    #: Advice that avoids it.
    remedy: str | None
    #: The release whose behaviour was measured, like ``"jax 0.12.0"``; None if it was not.
    measured: str | None
    #: True if :meth:`Tensor.to` raises, also with ``copy=True``.
    refused: bool = False


@dataclass(frozen=True, repr=False)
class Explanation:
    """The result of :func:`explain`. ``str`` and ``repr`` are for people, :meth:`as_json` for programs."""

    type: str
    protocols: list[ProtocolReport]
    #: The tensor that :func:`dlbridge.asdlpack` imports, as a dictionary; None if no import succeeds.
    tensor: dict[str, Any] | None
    #: The reason why no import succeeds.
    refusal: str | None
    verdicts: list[Verdict]

    def as_dict(self) -> dict[str, Any]:
        """The explanation as dictionaries and lists."""
        return asdict(self)

    def as_json(self) -> str:
        """The explanation as JSON."""
        import json

        return json.dumps(self.as_dict(), indent=2)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [self.type, "  protocols"]
        for report in self.protocols:
            if report.present:
                lines.append(f"    {report.protocol:22}{report.refusal or report.answer}")
        if not any(report.present for report in self.protocols):
            lines.append("    none")
        if self.tensor is None:
            return [*lines, f"  cannot be imported: {self.refusal}"]
        lines.append("  imported as")
        lines += [f"    {key.replace('_', ' '):22}{value}" for key, value in self.tensor.items()]
        for verdict in self.verdicts:
            lines.append(f"  to {verdict.library} {verdict.version or '(not installed)'}")
            if verdict.measured:
                lines.append(f"    measured with {verdict.measured}")
            if verdict.zero_copy:
                lines.append("    without a copy")
            elif verdict.refused:
                lines.append(f"    refused: {verdict.reason}")
            else:
                lines.append(f"    not without a copy: {verdict.reason}")
            if verdict.remedy:
                lines.append(f"    {verdict.remedy}")
        return lines


def explain(obj: Any, *, to: str | ModuleType | Iterable[str | ModuleType] | None = None) -> Explanation:
    """Explain an object: its protocols, the tensor that an import makes of it, and the cost of an export.

    ``to`` is one or several libraries, each a name or a module, as for :meth:`Tensor.to`. For each, the result says
    whether :meth:`Tensor.to` would share the memory, copy it or raise, why, and how to avoid that. Each library is
    imported, and its behaviour is measured, as by :meth:`Tensor.to`.

    The function imports the object by each protocol that the object has, by the first one twice, and releases every import.
    That uses up a producer that can export only once. It does not consume a capsule, and reports only its name.

    >>> import dlbridge
    >>> print(dlbridge.explain(b"abc", to="torch").verdicts[0].zero_copy)
    False

    Raises ValueError for an unknown library, TypeError for anything but a name or a module.
    """
    chosen = [] if to is None else list(to) if isinstance(to, Iterable) and not isinstance(to, (str, bytes, bytearray)) else [to]
    libraries = [_canonical(library) for library in chosen]
    kind = type(obj)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if name == "PyCapsule":
        refusal = f"{obj!r} can be imported once, which would leave nothing to explain"
        return Explanation(name, [], None, refusal, [])
    reports = [_report(obj, protocol) for protocol in PROTOCOLS]
    try:
        tensor = asdlpack(obj)
    except Exception as error:
        return Explanation(name, reports, None, _sentence(error), [])
    verdicts = [_verdict(tensor, library) for library in libraries]
    return Explanation(name, reports, _facts(tensor), None, verdicts)


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _report(obj: Any, protocol: ProtocolName) -> ProtocolReport:
    try:
        tensor = asdlpack(obj, protocol=protocol)
    except Exception as error:
        present = not isinstance(error, TypeError) or _has_protocol(obj, protocol)
        return ProtocolReport(protocol, present, _sentence(error) if present else None, None)
    how = f"a copy: {tensor.copy_reason}" if tensor.copied else "shares its memory"
    legacy = "legacy, " if tensor.protocol == "dlpack-legacy" else ""
    mark = ", read-only" if tensor.readonly else ""
    return ProtocolReport(protocol, True, None, f"{legacy}{how}{mark}")


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
    refused, reason, remedy, measured = _fit(tensor, library)
    version = version_of(library)
    if refused is not None:
        # An export with a copy gets the same refusal.
        remedy = None
    elif version is None:
        refused, remedy = f"{library} is not installed", f"install {library} first"
    why = refused or reason
    return Verdict(library, version, why is None, why, remedy, measured, refused is not None)


def version_of(library: str) -> str | None:
    """The version of an installed library; None if it is not installed."""
    package = "PIL" if library == "pillow" else library
    return _version(package) if is_installed(package) else None


@cache
def _version(package: str) -> str:
    """The version of an installed package."""
    # This module takes longer to import than all others here.
    import importlib.metadata

    for distribution in importlib.metadata.packages_distributions().get(package, []):
        return importlib.metadata.version(distribution)
    return "of unknown version"
