"""Types whose table of DLPack's C exchange API the kit crafts."""

from typing import Any

from dlbridge_conformance.crafter import Crafted, native

API = "__dlpack_c_exchange_api__"
BORROW, STREAM = "dltensor_from_py_object_no_sync", "current_work_stream"


def foreign(
    crafted: Crafted | None, asked: list[Any] | None = None, *, table: dict[str, Any] | None = None, **attributes: Any
) -> type:
    """A new type whose table exports a crafted tensor for every object, or fails without one.

    ``asked`` collects the objects; ``table`` has arguments of the kit's function. The table has no borrows, and
    returns a stream only if ``table`` has one.
    """
    table = table or {}
    missing = [BORROW] if "stream" in table else [BORROW, STREAM]

    def export(obj: Any) -> Any:
        if asked is not None:
            asked.append(obj)
        return crafted and crafted.native

    return type("Foreign", (), {API: native.craft_table(**{"missing": missing, **table}), "_crafted": export, **attributes})
