"""What ``__dlpack__`` returns: the capsule, its name and its ABI."""

from __future__ import annotations

from dlbridge.conformance import crafter
from dlbridge.conformance.context import Context
from dlbridge.conformance.rule import Broken, Level, Role, rule

PYTHON = "Python specification of DLPack, Syntax for data interchange"
STANDARD = "array API standard 2024.12, __dlpack__"


@rule("P-CAPSULE-LEGACY-NAME", Role.PRODUCER, Level.MUST,
      "__dlpack__() without max_version returns a capsule named 'dltensor'.", STANDARD)  # fmt: skip
def legacy_name(c: Context) -> None:
    capsule = c.capsule(c.array())
    name = crafter.capsule_name(capsule)
    c.expect(name == "dltensor", f"the capsule is named {name!r}")


@rule("P-CAPSULE-VERSIONED-NAME", Role.PRODUCER, Level.SHOULD,
      "Asked with max_version=(1, 0) or newer, a producer returns a capsule named 'dltensor_versioned'.",
      STANDARD)  # fmt: skip
def versioned_name(c: Context) -> None:
    array = c.array()
    for version in [(1, 0), (1, 3)]:
        name = crafter.capsule_name(c.capsule(array, max_version=version))
        c.expect(name == "dltensor_versioned", f"max_version={version} gave a capsule named {name!r}")


@rule("P-CAPSULE-UNUSED-FREES", Role.PRODUCER, Level.MUST,
      "A capsule that nobody takes gives the memory back when it dies.", PYTHON)  # fmt: skip
def unused_frees(c: Context) -> None:
    import weakref

    array = c.array()
    try:
        gone = weakref.ref(array)
    except TypeError:
        raise Broken("arrays cannot be referred to weakly") from None
    capsule = c.capsule(array)
    del array, capsule
    c.settle()
    c.expect(gone() is None, "the array lives on after its capsule is gone")
