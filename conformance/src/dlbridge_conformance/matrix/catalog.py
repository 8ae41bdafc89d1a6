"""All producers and consumers by name."""

from __future__ import annotations

from functools import cache

from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.matrix.buffers import BUFFERS
from dlbridge_conformance.matrix.columns import COLUMN_PRODUCERS, OTHER_CONSUMERS
from dlbridge_conformance.matrix.consumer import AdapterConsumer, Consumer, NarrowJAX
from dlbridge_conformance.matrix.crafted import CRAFTED
from dlbridge_conformance.matrix.producer import AdapterProducer, NumPyProducer, Producer
from dlbridge_conformance.registry import known_adapters


#: consumers that do not make arrays: what they receive does not have a shape or a dtype
MESSAGES = {"mpi4py"}


@cache
def _adapters() -> list[Adapter]:
    """The adapters, one instance each, so that producer and consumer of a library share the imported module."""
    return list(known_adapters().values())


def producers() -> dict[str, Producer]:
    """All producers by name: the libraries with adapters, and other objects with memory."""
    adapters = [adapter for adapter in _adapters() if adapter.produces]
    found: list[Producer] = [
        (NumPyProducer if adapter.name == "numpy" else AdapterProducer)(adapter) for adapter in adapters
    ]
    found += [kind() for kind in (*COLUMN_PRODUCERS, *BUFFERS, *CRAFTED)]
    return {producer.name: producer for producer in found}


def consumers() -> dict[str, Consumer]:
    """All consumers by name: the libraries with adapters, and functions that use other protocols."""
    adapters = [adapter for adapter in _adapters() if adapter.consumes and adapter.name not in MESSAGES]
    found: list[Consumer] = [AdapterConsumer(adapter) for adapter in adapters]
    found += [NarrowJAX(adapter) for adapter in adapters if adapter.name == "jax"]
    found += [kind() for kind in OTHER_CONSUMERS]
    return {consumer.name: consumer for consumer in found}
