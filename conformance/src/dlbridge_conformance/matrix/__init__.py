"""The matrix: passes tensors from every producer to every consumer, directly and through dlbridge.

``python -m dlbridge_conformance.matrix`` runs it. Each exchange is made in two ways:

* directly: the consumer's ``from_dlpack``, called with the producer's object, as users write it; for consumers without
  ``from_dlpack``, their closest function;
* through dlbridge: ``dlbridge.asdlpack(object).to(consumer)``, for the libraries that dlbridge knows; for others, the same
  function, called with ``dlbridge.asdlpack(object)``.

Values are always compared. An exchange is zero-copy if producer and consumer report the same address, and if the producer
sees the consumer's writes, where the consumer can write. Values are compared as Python numbers, so a wider dtype with the
same numbers counts as right. If read-only memory can be written, the exchange is ``unprotected``, and not zero-copy.
"""

from dlbridge_conformance.matrix.outcome import Cell, Change, Kind, Matrix, Outcome, Pair, Spec, change

__all__ = ["Cell", "Change", "Kind", "Matrix", "Outcome", "Pair", "Spec", "change"]
