"""How a consumer treats the keyword ``copy``."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance import crafter
from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import CUDA_HOST, Crafted, Flags, OldProducer, Producer
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import must, should
from dlbridge_conformance.rules.consumer_outcome import (
    PLAIN, PYTHON, STANDARD, asking, feed, given_back, legacy, plain, right, shares, unwritten,
)  # fmt: skip

COPY = f"{STANDARD}, from_dlpack, copy"
ZERO = crafter.packed([0], "float32")


class Copying(Producer):
    """A producer that exports its tensor, or a copy of it if ``copy`` is true."""

    def __init__(self, source: Crafted) -> None:
        super().__init__(self.answered)
        self.source = source
        self.copies: list[Crafted] = []

    def answered(self, keywords: dict[str, Any]) -> Crafted:
        """Returns the tensor or the copy."""
        if not keywords.get("copy"):
            return self.source
        flags = Flags.IS_COPIED if self.source.versioned else 0
        shape = self.source.fields.shape
        self.copies.append(crafter.craft(shape, versioned=self.source.versioned, flags=flags))
        return self.copies[-1]


def knows_copy(c: Context) -> None:
    """Raises :class:`NotApplicable` if the library's from_dlpack does not know the keyword copy.

    It does not know it if ``copy=None`` raises TypeError and leaving it out does not, since both mean the same.
    """
    c.consume(plain(c))
    try:
        c.consume(plain(c), copy=None)
    except TypeError as error:
        raise NotApplicable(f"from_dlpack of {c.lib.name} does not know copy: {error}") from None


@should("C-COPY-KEYWORD", "from_dlpack has the keyword copy.", "array API standard 2023.12, from_dlpack, copy")
def keyword(c: Context) -> None:
    asking(c, None)
    right(c, c.consume(Copying(plain(c)), copy=True), PLAIN)
    right(c, c.consume(plain(c), copy=None), PLAIN)


def share_or_refuse(c: Context, crafted: Crafted, producer: Any, wrong: str) -> None:
    """Expects that an import with copy=False shares the memory of a crafted tensor, or raises an exception."""
    array, said = feed(c, producer, copy=False)
    if said is None:
        c.expect(shares(c, array, crafted), wrong)


def imported_copy(c: Context) -> tuple[Crafted, Any]:
    """A crafted tensor, and the array of its import with copy=True; not applicable if the import is refused."""
    knows_copy(c)
    crafted = plain(c)
    array, said = feed(c, asking(c, Copying(crafted)), copy=True)
    c.needs(said is None, f"{c.lib.name} refuses copy=True: {said}")
    return crafted, array


@must("C-COPY-NONE-AS-FALSE",
      "Data that is shared with copy=False is shared without copy too, since sharing is possible.", COPY)  # fmt: skip
def none_as_false(c: Context) -> None:
    knows_copy(c)
    crafted = plain(c)
    array, said = feed(c, asking(c, Copying(crafted)), copy=False)
    c.needs(said is None and shares(c, array, crafted), f"{c.lib.name} does not share with copy=False")
    del array
    crafted = plain(c)
    c.expect(shares(c, c.consume(crafted), crafted), "the data was copied")


@should("C-COPY-NONE-SHARES",
        "Without copy, writable float32 in C order on the CPU, aligned to 256 bytes, is shared: most libraries can.",
        f"{COPY}: \"if possible\", which is the library's to say")  # fmt: skip
def none_shares(c: Context) -> None:
    crafted = plain(c)
    array = c.consume(crafted)
    c.expect(shares(c, array, crafted), "the data was copied")


@should("C-COPY-NONE-ADDRESS",
        "An array over the producer's memory begins where its elements do, byte_offset included.", COPY)  # fmt: skip
def none_address(c: Context) -> None:
    crafted = plain(c, values=list(range(64)), byte_offset=64)
    array, said = feed(c, crafted)
    c.needs(said is None, f"{c.lib.name} refuses a byte_offset: {said}")
    c.needs(crafted.unreleased, "the array is a copy")
    begin = crafted.unreleased[-1].fields.data + 64
    address = c.lib.address(array)
    c.got(f"the array begins {address - begin + 64} bytes after data")
    c.expect(address == begin, f"the array begins {address - begin} bytes off its elements")


@must("C-COPY-TRUE-OTHER-MEMORY",
      "With copy=True, the array has its own memory: later writes of the producer do not change it.", COPY)  # fmt: skip
def true_other_memory(c: Context) -> None:
    crafted, array = imported_copy(c)
    c.expect(not shares(c, array, crafted), "the array shares the producer's memory")
    right(c, array, PLAIN)


@must("C-COPY-TRUE-SOURCE-UNWRITTEN", "With copy=True, writes to the array do not reach the producer.", COPY)
def true_source_unwritten(c: Context) -> None:
    crafted, array = imported_copy(c)
    try:
        c.lib.write(array, 99)
    except (Broken, NotApplicable):
        raise
    except Exception as error:
        raise NotApplicable(f"the copy cannot be written: {error}") from None
    unwritten(c, crafted, ZERO)


@must("C-COPY-TRUE-GIVEN-BACK", "With copy=True, every tensor that the producer exported is given back exactly once.",
      f"{PYTHON}, Implementation")  # fmt: skip
def true_given_back(c: Context) -> None:
    knows_copy(c)
    producer = asking(c, Copying(plain(c)))
    array, _ = feed(c, producer, copy=True)
    del array
    given_back(c, producer.source, "after the array was gone")
    for copied in producer.copies:
        given_back(c, copied, "after the array of the copy was gone")


@must("C-COPY-TRUE-OLD-PRODUCER",
      "With copy=True, a producer without the keyword copy is copied from, or refused; its memory is never shared.",
      COPY)  # fmt: skip
def true_old_producer(c: Context) -> None:
    knows_copy(c)
    crafted = legacy(c)
    array, said = feed(c, asking(c, OldProducer(crafted)), copy=True)
    if said is None:
        c.expect(not shares(c, array, crafted), "the array shares the producer's memory")
        right(c, array, PLAIN)


@must("C-COPY-FALSE-SHARES", "With copy=False, the array shares the producer's memory, or an exception is raised.",
      COPY)  # fmt: skip
def false_shares(c: Context) -> None:
    knows_copy(c)
    crafted = plain(c)
    share_or_refuse(c, crafted, asking(c, Copying(crafted)), "the data was copied")


@must("C-COPY-FALSE-NEEDED", "With copy=False, data that a library can import only by a copy raises an exception.",
      COPY)  # fmt: skip
def false_needed(c: Context) -> None:
    knows_copy(c)
    asking(c, None)
    for fields in (dict(origin=4), dict(origin=8), dict(strides=(2,)), dict(strides=(0,))):
        crafted = plain(c, values=list(range(64)), **fields)
        share_or_refuse(c, crafted, crafted, f"the data was copied: {fields}")


@should("C-COPY-FALSE-CLASS",
        "With copy=False, the exception for data that would have to be copied is BufferError or ValueError.",
        f"{STANDARD}, from_dlpack, Raises")  # fmt: skip
def false_class(c: Context) -> None:
    knows_copy(c)
    asking(c, None)
    found = []
    for fields, device in ((dict(origin=4), {}), (dict(strides=(2,)), {}), (dict(device=CUDA_HOST), {"device": "cpu"})):
        _, said = feed(c, plain(c, values=list(range(64)), **fields), copy=None, **device)
        if said is None:
            _, said = feed(c, plain(c, values=list(range(64)), **fields), copy=False, **device)
            found += [said.partition(":")[0]] if said else []
    c.needs(found, f"{c.lib.name} copies none of the tensors that were tried")
    wrong = [name for name in found if name not in ("BufferError", "ValueError")]
    c.expect(not wrong, f"refused with {', '.join(wrong)}")


@must("C-COPY-FALSE-OLD-PRODUCER",
      "With copy=False, a producer without the keyword copy shares its memory, or an exception is raised.", COPY)  # fmt: skip
def false_old_producer(c: Context) -> None:
    knows_copy(c)
    crafted = legacy(c, values=list(range(64)), origin=4)
    share_or_refuse(c, crafted, asking(c, OldProducer(crafted)), "the data was copied")


@must("C-COPY-FALSE-PRODUCER-REFUSES",
      "With copy=False, the BufferError of a producer that would have to copy is raised, and it is not asked to copy.",
      f"{STANDARD}, from_dlpack, Raises")  # fmt: skip
def false_producer_refuses(c: Context) -> None:
    knows_copy(c)

    def answer(keywords: dict[str, Any]) -> Any:
        if keywords.get("copy") is False:
            return BufferError("a copy would be needed")
        return plain(c)

    producer = asking(c, Producer(answer))
    array, said = feed(c, producer, copy=False)
    c.got(f"called with {producer.asked}")
    c.needs(any("copy" in keywords for keywords in producer.asked), f"{c.lib.name} does not pass copy to the producer")
    del array
    c.expect(said is not None, "the producer was called again, without copy=False")
    c.expect((said or "").startswith("BufferError"), f"it ended with {said}")
