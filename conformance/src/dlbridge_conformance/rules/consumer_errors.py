"""How a consumer handles a producer that raises, or that returns anything other than a DLPack capsule."""

from __future__ import annotations

from typing import Any

from dlbridge_conformance.context import Context
from dlbridge_conformance.crafter import Producer
from dlbridge_conformance.outcome import Broken, NotApplicable
from dlbridge_conformance.rule import may, must, should
from dlbridge_conformance.rules.consumer_outcome import PLAIN, PYTHON, STANDARD, asking, feed, plain, right

RAISES = f"{STANDARD}, from_dlpack, Raises"


class OwnError(RuntimeError):
    """An exception class of the producer."""


class FailingDevice(Producer):
    """A producer whose ``__dlpack_device__`` raises."""

    def __dlpack_device__(self) -> Any:
        """Raises :class:`OwnError`."""
        self.asked_device += 1
        raise OwnError("the device is unknown")


def passed_on(c: Context, error: Exception) -> None:
    """Expects that the library raises the producer's exception unchanged."""
    producer = asking(c, Producer(error))
    c.fed(f"a producer that raises {error!r}")
    raised = c.refused(lambda: c.consume(producer), type(error))
    c.expect(str(error) in str(raised), f"the text of the exception is lost: {raised}")


def called(c: Context, error: Exception, times: tuple[int, ...]) -> None:
    """Expects one of some numbers of calls to a producer that raises an exception."""
    producer = asking(c, Producer(error))
    feed(c, producer)
    c.got(f"called with {producer.asked}")
    c.expect(len(producer.asked) in times, f"called {len(producer.asked)} times")


must("C-ERROR-BUFFER-ERROR", "from_dlpack raises the BufferError of the producer's __dlpack__.", RAISES,
     lambda c: passed_on(c, BufferError("cannot be exported")))  # fmt: skip
must("C-ERROR-OWN-CLASS", "from_dlpack raises any other exception of the producer's __dlpack__, with its class.",
     RAISES, lambda c: passed_on(c, OwnError("out of memory")))  # fmt: skip
must("C-ERROR-TYPE-ERROR", "from_dlpack raises a TypeError that the producer raises itself, and not its signature.",
     RAISES, lambda c: passed_on(c, TypeError("elements are objects")))  # fmt: skip
may("C-ERROR-TYPE-ERROR-CALLS",
    "After a TypeError that the producer raises itself, the consumer calls it at most twice.",
    f"{STANDARD}, __dlpack__, recommended logic of the consumer",
    lambda c: called(c, TypeError("elements are objects"), (0, 1, 2)))  # fmt: skip
should("C-ERROR-NOT-REPEATED", "After an exception other than TypeError, the producer is not called again.",
       f"{STANDARD}, __dlpack__, recommended logic of the consumer",
       lambda c: called(c, BufferError("cannot be exported"), (1,)))  # fmt: skip


@must("C-ERROR-DEVICE", "from_dlpack raises an exception of __dlpack_device__, if it calls it.", RAISES)
def device(c: Context) -> None:
    producer = asking(c, FailingDevice(c.as_asked))
    error: Exception | None = None
    try:
        c.consume(producer)
    except (Broken, NotApplicable):
        raise
    except Exception as caught:
        error = caught
        c.got(f"{type(caught).__name__}: {caught}")
    c.needs(producer.asked_device, f"{c.lib.name} does not call __dlpack_device__")
    c.expect(isinstance(error, OwnError), f"it ended with {error!r}")


@may("C-ERROR-INTERRUPT", "A KeyboardInterrupt while the producer works is not swallowed.",
     "no text; only the exceptions of a failed export must be passed on")  # fmt: skip
def interrupt(c: Context) -> None:
    producer = asking(c, Producer(KeyboardInterrupt()))
    try:
        c.consume(producer)
    except (Broken, NotApplicable):
        raise
    except KeyboardInterrupt:
        return
    except Exception as error:
        raise Broken(f"it became {type(error).__name__}") from None
    raise Broken("it was swallowed")


@must("C-ERROR-NO-METHODS", "An object without the two methods is refused.", RAISES)
def no_methods(c: Context) -> None:
    asking(c, None)
    for thing in (object(), None, 3, "dltensor", object):
        c.fed(repr(thing))
        c.refused(lambda thing=thing: c.consume(thing))  # type: ignore[misc]


@should("C-ERROR-NO-METHODS-CLASS", "The exception for an object without the two methods is an AttributeError.", RAISES)
def no_methods_class(c: Context) -> None:
    asking(c, None)
    c.refused(lambda: c.consume(object()), AttributeError)


should("C-ERROR-NONE", "A __dlpack__ that returns None causes an exception.", f"{PYTHON}, Implementation",
       lambda c: c.refused(lambda: c.consume(Producer(None))))  # fmt: skip


@should("C-ERROR-NO-CAPSULE", "A __dlpack__ that returns something other than a capsule causes an exception.",
        f"{PYTHON}, Implementation")  # fmt: skip
def no_capsule(c: Context) -> None:
    for answer in (3, "dltensor", b"dltensor_versioned", [1.0, 2.0], object()):
        c.fed(f"a producer that returns {answer!r}")
        c.refused(lambda answer=answer: c.consume(Producer(answer)))  # type: ignore[misc]


@must("C-ERROR-RECOVERS", "After a refusal, the next import is correct.", f"{PYTHON}, Semantics")
def recovers(c: Context) -> None:
    feed(c, Producer(OwnError("out of memory")))
    feed(c, Producer(None))
    right(c, c.consume(plain(c)), PLAIN)
