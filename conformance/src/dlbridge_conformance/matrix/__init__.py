"""The matrix: every producer into every consumer, directly and through dlbridge.

``python -m dlbridge_conformance.matrix`` runs it. Each exchange is made in up to four ways:

* ``direct``: the consumer's ``from_dlpack`` of the producer's object, as its users write it; for consumers without a
  ``from_dlpack``, the function that they have in its place;
* ``asdlpack``: the same function of ``dlbridge.asdlpack(object)``;
* ``to``: ``dlbridge.asdlpack(object).to(consumer)``, for the libraries that dlbridge knows;
* ``converted``: the consumer's function that makes an array of anything, such as ``numpy.asarray``, without dlbridge.

The comparison is between ``direct`` and ``to``, since that is what the users of dlbridge are told to write; where there
is no ``to``, it is between ``direct`` and ``asdlpack``. The other two are shown beside them: ``asdlpack`` is what comes
of a tensor that is handed to a function which knows nothing of dlbridge, and ``converted`` is what users do where the
direct way is refused.

The values are always compared. An exchange is zero-copy if the producer and the consumer say the same address; where the
consumer can be written to, what is written must be seen by the producer as well. Numbers are compared as Python's: a
dtype that holds the same numbers, like a wider one, is not told from the right one. Memory that must not be written and
is written all the same is ``unprotected``, and not zero-copy.
"""

from dlbridge_conformance.matrix.outcome import Cell, Change, Kind, Matrix, Outcome, Pair, Spec, Way, change

__all__ = ["Cell", "Change", "Kind", "Matrix", "Outcome", "Pair", "Spec", "Way", "change"]
