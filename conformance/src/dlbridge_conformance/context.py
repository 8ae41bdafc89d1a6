"""What a check is given: the library, crafted tensors, and a notebook for what was fed and what came back."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.crafter import CPU, Crafted, Held, Producer
from dlbridge_conformance.outcome import Broken, NotApplicable

#: the version that consumers ask for
NEWEST = (1, 3)


class Context:
    """One run of one check."""

    def __init__(self, library: Adapter, evidence: list[tuple[str, str]] | None = None) -> None:
        self.lib = library
        #: what was fed and what came back, in order, as (kind, text)
        self.evidence: list[tuple[str, str]] = [] if evidence is None else evidence
        self._held: list[Held] = []
        self._crafted: list[Crafted] = []
        #: what :meth:`unknown` and :meth:`asking` have found
        self._unknown: dict[str, str | None] = {}
        self._asking: dict[str, Any] | None = None

    def fed(self, text: str) -> None:
        """Notes what the library is given."""
        self.evidence.append(("fed", text))

    def got(self, text: str) -> None:
        """Notes what came back."""
        self.evidence.append(("got", text))

    def expect(self, truth: object, otherwise: str) -> None:
        """Raises :class:`Broken` with a sentence that says what was found, unless something is true."""
        if not truth:
            raise Broken(otherwise)

    def needs(self, truth: object, otherwise: str) -> None:
        """Raises :class:`NotApplicable` with the reason, unless something is true."""
        if not truth:
            raise NotApplicable(otherwise)

    # ------------------------------------------------------------------ the library as a producer

    def array(self, values: Any = ((0, 1, 2), (3, 4, 5)), dtype: str = "float32") -> Any:
        """A fresh array of the library in C order. The rule does not apply if it lacks the dtype."""
        self.needs(self.lib.produces, f"{self.lib.name} does not produce")
        self.needs(dtype in self.lib.dtypes, f"{self.lib.name} has no {dtype}")
        array = self.lib.array(_lists(values), dtype)
        self.fed(f"an array of {dtype}, {_lists(values)}")
        return array

    def capsule(self, array: Any, **keywords: Any) -> Any:
        """What ``__dlpack__`` returns."""
        self.fed(f"__dlpack__({_shown(keywords)})")
        capsule = array.__dlpack__(**keywords)
        self.got(f"a capsule named {crafter.capsule_name(capsule)!r}" if _is_capsule(capsule) else repr(capsule))
        return capsule

    def export(self, array: Any, **keywords: Any) -> Held:
        """The managed tensor in what ``__dlpack__`` returns; it is deleted after the check, if that does not."""
        return self.hold(crafter.take(self.capsule(array, **keywords)))

    def hold(self, held: Held) -> Held:
        """Notes a managed tensor, which is deleted after the check, if that does not."""
        self._held.append(held)
        self.got(str(held.fields))
        return held

    def versioned(self, array: Any, **keywords: Any) -> Held:
        """The same, versioned; the rule does not apply to a library without versioned capsules or without a keyword."""
        self.needs_keywords("max_version", *keywords)
        held = self.export(array, max_version=NEWEST, **keywords)
        if held.fields.version is None:
            held.delete()
            raise NotApplicable(f"{self.lib.name} answers legacy capsules alone")
        return held

    def needs_keywords(self, *names: str) -> None:
        """The rule does not apply if ``__dlpack__`` does not know one of the keywords."""
        for name in names:
            error = self.unknown(name)
            self.needs(error is None, f"{self.lib.name} has no keyword {name}: {error}")

    def unknown(self, keyword: str) -> str | None:
        """What ``__dlpack__`` says to a keyword that it does not know; None if it knows it.

        It knows one unless None for it is a TypeError, where leaving it out, which means the same, is none.
        ``max_version`` is tried with a version too.
        """
        if keyword not in self._unknown:
            values = (None, NEWEST) if keyword == "max_version" else (None,)
            said = [self._type_error(**{keyword: value}) for value in values]
            self._unknown[keyword] = said[0] if all(said) and not self._type_error() else None
        return self._unknown[keyword]

    def asking(self) -> dict[str, Any]:
        """The keywords that a plain array is exported with: ``max_version``, unless only leaving it out is answered."""
        if self._asking is None:
            ways: tuple[dict[str, Any], ...] = ({"max_version": NEWEST}, {})
            self._asking = next((keywords for keywords in ways if self._failure(**keywords) is None), ways[0])
        return dict(self._asking)

    def _failure(self, **keywords: Any) -> Exception | None:
        """What ``__dlpack__`` of a plain array raises."""
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
        """What the TypeError says that ``__dlpack__`` raises for keywords; nothing if it raises none."""
        error = self._failure(**keywords)
        return f"TypeError: {error}" if isinstance(error, TypeError) else ""

    # ------------------------------------------------------------------ the library as a consumer

    def craft(self, shape: tuple[int, ...] | None = (2, 3), **fields: Any) -> Crafted:
        """A crafted managed tensor, by :func:`crafter.craft`, with its fields as evidence."""
        crafted = crafter.craft(shape, **fields)
        self._crafted.append(crafted)
        self.fed(str(crafted.fields))
        return crafted

    def consume(self, producer: Any, **keywords: Any) -> Any:
        """What the library's ``from_dlpack`` makes of a producer, or of a crafted tensor on its way through one.

        A crafted tensor goes as the library can take it: versioned ones by a producer that knows ``max_version``.
        """
        if isinstance(producer, Crafted):
            producer = Producer(producer, producer.device)
        self.needs_consumer(getattr(producer, "device", CPU))
        self.fed(f"from_dlpack({_shown(keywords)})" if keywords else "from_dlpack")
        array = self.lib.from_dlpack(producer, **keywords)
        self.got(f"{type(array).__module__}.{type(array).__qualname__}")
        return array

    def abi(self) -> bool:
        """Whether the library takes versioned capsules: by what it asks a producer that knows both for."""
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
        """The answer of a producer that keeps the standard: versioned if it is asked with max_version, or legacy."""
        return crafter.craft(self.padded((6,)), versioned="max_version" in keywords)

    def fitting(self, shape: tuple[int, ...] | None = (2, 3), **fields: Any) -> Crafted:
        """A crafted tensor of the ABI and the number of dimensions that the library takes.

        Where it takes no less, there are axes of extent 1 at the end; not for a tensor without dimensions.
        """
        fewest, most = self.lib.ndims
        ndim = len(shape or ())
        self.needs(min(fewest, 1) <= ndim <= most, f"{self.lib.name} has no arrays of {ndim} dimensions")
        fields = {"versioned": self.abi(), **fields}
        if isinstance(fields.get("strides"), tuple):
            fields["strides"] = self.padded(fields["strides"])
        return self.craft(shape and self.padded(shape), **fields)

    def padded(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Extents with as many of 1 at the end as the library needs."""
        return extents + (1,) * (self.lib.ndims[0] - len(extents))

    def needs_consumer(self, device: Any = CPU) -> None:
        """Raises :class:`NotApplicable`, unless the library consumes, and takes what is crafted or is on its device."""
        self.needs(self.lib.consumes, f"{self.lib.name} does not consume")
        takes = self.lib.takes_host_memory or device == self.lib.device
        self.needs(takes, f"{self.lib.name} takes no memory of the CPU, which is all that is crafted")

    def values(self, array: Any) -> Any:
        """The elements of one of the library's arrays as nested lists."""
        values = _lists(self.lib.values(array))
        self.got(f"elements {values}")
        return values

    def refused(self, call: Callable[[], Any], *classes: type[BaseException]) -> BaseException:
        """What a call raises, which has to raise; of one of the classes, if any are given."""
        try:
            answer = call()
        except (Broken, NotApplicable):
            raise
        except Exception as error:
            self.got(f"{type(error).__name__}: {_line(error)}")
            if classes and not isinstance(error, classes):
                names = " or ".join(kind.__name__ for kind in classes)
                raise Broken(f"refused with {type(error).__name__}, and not with {names}") from None
            return error
        raise Broken(f"not refused: it gave {_brief(answer)}")

    def settle(self) -> None:
        """Runs whatever is left to be freed."""
        for _ in range(3):
            gc.collect()

    def script(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs code in a process of its own, with the library as ``lib`` and the crafter as ``crafter``.

        The rule says how many of these its check starts.
        """
        begin = (
            "from dlbridge_conformance.adapter import adapter_named\n"
            "from dlbridge_conformance import crafter\n"
            f"lib = adapter_named({self.lib.name!r})\nlib.load()\n"
        )
        self.fed(f"a process that runs\n{code.strip()}")
        done = subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True)
        self.got(f"exit status {done.returncode}, {done.stdout.strip()!r} {done.stderr[-500:].strip()!r}")
        return done

    def finish(self) -> None:
        """Gives back what a check has left."""
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


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]


def _brief(value: Any) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
