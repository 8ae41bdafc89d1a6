"""The context of a check: the library, crafted tensors, and a record of inputs and results."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

from dlbridge_conformance import crafter
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import CPU, Crafted, Held, Producer
from dlbridge_conformance.isolation import first_line
from dlbridge_conformance.outcome import Broken, NotApplicable

#: the newest version, which consumers pass as ``max_version``
NEWEST = (1, 3)


#: the methods of an adapter that look at an array, or make another one from it, in a way that the adapter chose
LOOKS = (
    "address", "transposed", "stepped", "reversed", "sliced", "broadcast", "read_only", "is_read_only", "write",
)  # fmt: skip


class Looking:
    """An adapter, without findings against a library whose arrays lack an attribute that only the adapter expects.

    ``values`` is no such method: an import that returns something other than an array shows there.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._adapter, name)
        if name not in LOOKS:
            return found

        def look(*arguments: Any, **keywords: Any) -> Any:
            try:
                return found(*arguments, **keywords)
            except AttributeError as error:
                raise NotApplicable(f"the kit's {name}() needs what these arrays lack: {first_line(error)}") from None

        return look


class Context:
    """One run of one check."""

    def __init__(self, library: Adapter, evidence: list[tuple[str, str]] | None = None) -> None:
        self.lib = cast(Adapter, Looking(library))
        #: inputs and results in order, as (kind, text)
        self.evidence: list[tuple[str, str]] = [] if evidence is None else evidence
        self._held: list[Held] = []
        self._crafted: list[Crafted] = []
        #: cached results of :meth:`unknown` and :meth:`asking`
        self._unknown: dict[str, str | None] = {}
        self._asking: dict[str, Any] | None = None

    def fed(self, text: str) -> None:
        """Records an input of the library."""
        self.evidence.append(("fed", text))

    def got(self, text: str) -> None:
        """Records a result."""
        self.evidence.append(("got", text))

    def expect(self, truth: object, otherwise: str) -> None:
        """Raises :class:`Broken` with ``otherwise``, a sentence about what was found, unless ``truth`` is true."""
        if not truth:
            raise Broken(otherwise)

    def needs(self, truth: object, otherwise: str) -> None:
        """Raises :class:`NotApplicable` with the reason ``otherwise``, unless ``truth`` is true."""
        if not truth:
            raise NotApplicable(otherwise)

    # ------------------------------------------------------------------ the library as a producer

    def array(self, values: Any = ((0, 1, 2), (3, 4, 5)), dtype: str = "float32") -> Any:
        """Makes an array of the library in C order. The rule does not apply if the library lacks the dtype."""
        self.needs(self.lib.produces, f"{self.lib.name} does not produce")
        self.needs(dtype in self.lib.dtypes, f"{self.lib.name} does not support {dtype}")
        array = self.lib.array(_lists(values), dtype)
        self.fed(f"an array of {dtype}, {_lists(values)}")
        return array

    def capsule(self, array: Any, **keywords: Any) -> Any:
        """Calls ``__dlpack__`` and returns its result."""
        self.fed(f"__dlpack__({_shown(keywords)})")
        capsule = array.__dlpack__(**keywords)
        self.got(f"a capsule named {crafter.capsule_name(capsule)!r}" if _is_capsule(capsule) else repr(capsule))
        return capsule

    def export(self, array: Any, **keywords: Any) -> Held:
        """Exports an array with ``__dlpack__``. The tensor is deleted after the check, unless the check did it."""
        return self.hold(crafter.take(self.capsule(array, **keywords)))

    def hold(self, held: Held) -> Held:
        """Records a managed tensor. It is deleted after the check, unless the check did it."""
        self._held.append(held)
        self.got(str(held.fields))
        return held

    def versioned(self, array: Any, **keywords: Any) -> Held:
        """Exports an array as a versioned tensor.

        The rule does not apply to a library without versioned capsules, or without one of the keywords.
        """
        self.needs_keywords("max_version", *keywords)
        held = self.export(array, max_version=NEWEST, **keywords)
        if held.fields.version is None:
            held.delete()
            raise NotApplicable(f"{self.lib.name} exports only legacy capsules")
        return held

    @staticmethod
    def on_threads(calls: Iterable[Callable[[], object]]) -> None:
        """Runs each call on a thread of its own, all at once, and waits for them."""
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def needs_keywords(self, *names: str) -> None:
        """Raises :class:`NotApplicable` if ``__dlpack__`` does not know one of the keywords."""
        for name in names:
            error = self.unknown(name)
            self.needs(error is None, f"__dlpack__ of {self.lib.name} does not know the keyword {name}: {error}")

    def unknown(self, keyword: str) -> str | None:
        """The error of ``__dlpack__`` for a keyword that it does not know; None if it knows the keyword.

        A keyword is unknown if passing None raises TypeError and leaving it out does not, since both mean the same.
        ``max_version`` is tried with a version too.
        """
        if keyword not in self._unknown:
            values = (None, NEWEST) if keyword == "max_version" else (None,)
            said = [self._type_error(**{keyword: value}) for value in values]
            self._unknown[keyword] = said[0] if all(said) and not self._type_error() else None
        return self._unknown[keyword]

    def asking(self) -> dict[str, Any]:
        """The keywords to export a plain array with: ``max_version``, unless the export works only without it."""
        if self._asking is None:
            ways: tuple[dict[str, Any], ...] = ({"max_version": NEWEST}, {})
            self._asking = next((keywords for keywords in ways if self._failure(**keywords) is None), ways[0])
        return dict(self._asking)

    def _failure(self, **keywords: Any) -> Exception | None:
        """The exception that ``__dlpack__`` of a plain array raises; None if it raises none."""
        self.needs(self.lib.produces, f"{self.lib.name} does not produce")
        values: Any = [0, 1, 2]
        for _ in range(1, self.lib.ndims[0]):
            values = [values]
        array = self.lib.array(values, "float32" if "float32" in self.lib.dtypes else self.lib.dtypes[0])
        try:
            array.__dlpack__(**keywords)
        except Exception as error:
            return error
        return None

    def _type_error(self, **keywords: Any) -> str:
        """The text of the TypeError that ``__dlpack__`` raises for keywords; empty if it does not raise one."""
        error = self._failure(**keywords)
        return f"TypeError: {error}" if isinstance(error, TypeError) else ""

    # ------------------------------------------------------------------ the library as a consumer

    def craft(self, shape: tuple[int, ...] | None = (2, 3), **fields: Any) -> Crafted:
        """Makes a tensor by :func:`crafter.craft`, and records its fields."""
        crafted = crafter.craft(shape, **fields)
        self._crafted.append(crafted)
        self.fed(str(crafted.fields))
        return crafted

    def consume(self, producer: Any, **keywords: Any) -> Any:
        """Imports a producer with the library's ``from_dlpack``. A crafted tensor is wrapped in a :class:`Producer`."""
        if isinstance(producer, Crafted):
            producer = Producer(producer, producer.device)
        self.needs_consumer(getattr(producer, "device", CPU))
        self.fed(f"from_dlpack({_shown(keywords)})" if keywords else "from_dlpack")
        array = self.lib.from_dlpack(producer, **keywords)
        self.got(f"{type(array).__module__}.{type(array).__qualname__}")
        return array

    def abi(self) -> bool:
        """Returns whether the library takes versioned capsules, by whether it passes ``max_version`` to a producer."""
        self.needs_consumer()
        if not hasattr(self, "_abi"):
            asked = Producer(self.as_asked)
            try:
                self.lib.from_dlpack(asked)
            except (Broken, NotApplicable):
                raise
            except Exception:
                self._abi = any("max_version" in keywords for keywords in asked.asked)
            else:
                self._abi = bool(asked.asked) and "max_version" in asked.asked[-1]
        return self._abi

    def as_asked(self, keywords: dict[str, Any]) -> Crafted:
        """The answer of a producer that follows the standard: versioned if max_version was passed, legacy otherwise."""
        return crafter.craft(self.padded((6,)), versioned="max_version" in keywords)

    def fitting(self, shape: tuple[int, ...] | None = (2, 3), **fields: Any) -> Crafted:
        """Makes a tensor of the ABI and the number of dimensions that the library takes.

        If the library needs more dimensions, axes of extent 1 are appended, but not to a 0-d tensor.
        """
        fewest, most = self.lib.ndims
        ndim = len(shape or ())
        self.needs(min(fewest, 1) <= ndim <= most, f"{self.lib.name} does not support {ndim} dimensions")
        fields = {"versioned": self.abi(), **fields}
        if isinstance(fields.get("strides"), tuple):
            fields["strides"] = self.padded(fields["strides"])
        return self.craft(shape and self.padded(shape), **fields)

    def padded(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Appends extents of 1 until there are as many dimensions as the library needs."""
        return extents + (1,) * (self.lib.ndims[0] - len(extents))

    def needs_consumer(self, device: Any = CPU) -> None:
        """Raises :class:`NotApplicable` unless the library consumes, and takes CPU memory or memory of this device."""
        self.needs(self.lib.consumes, f"{self.lib.name} does not consume")
        takes = self.lib.takes_host_memory or device == self.lib.device
        self.needs(takes, f"{self.lib.name} does not take CPU memory, and the kit crafts no other")

    def values(self, array: Any) -> Any:
        """Returns the elements of one of the library's arrays as nested lists."""
        values = _lists(self.lib.values(array))
        self.got(f"elements {values}")
        return values

    def refused(self, call: Callable[[], Any], *classes: type[BaseException]) -> BaseException:
        """Expects that a call raises an exception, of one of the classes if any are given, and returns it."""
        try:
            answer = call()
        except (Broken, NotApplicable):
            raise
        except Exception as error:
            self.got(f"{type(error).__name__}: {first_line(error)}")
            if classes and not isinstance(error, classes):
                names = " or ".join(kind.__name__ for kind in classes)
                raise Broken(f"refused with {type(error).__name__}, and not with {names}") from None
            return error
        raise Broken(f"not refused: it returned {_brief(answer)}")

    def settle(self) -> None:
        """Collects garbage until nothing is left to free."""
        for _ in range(3):
            gc.collect()

    def script(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs code in a process of its own, with the library as ``lib`` and the crafter as ``crafter``.

        The rule's ``processes`` must count these processes.
        """
        begin = (
            "from dlbridge_conformance.search_path import search_here\nsearch_here()\n"
            "from dlbridge_conformance.registry import adapter_named\n"
            "from dlbridge_conformance import crafter\n"
            f"lib = adapter_named({self.lib.name!r})\nlib.load()\n"
        )
        self.fed(f"a process that runs\n{code.strip()}")
        done = subprocess.run([sys.executable, "-P", "-c", begin + code], capture_output=True, text=True)
        self.got(f"exit status {done.returncode}, {done.stdout.strip()!r} {done.stderr[-500:].strip()!r}")
        return done

    def finish(self) -> None:
        """Deletes the managed tensors that a check did not delete."""
        for held in self._held:
            if not held.deleted:
                held.delete()
        self._held.clear()


def _lists(values: Any) -> Any:
    return [_lists(value) for value in values] if isinstance(values, list | tuple) else values


def _is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def _shown(keywords: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in keywords.items())


def _brief(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
