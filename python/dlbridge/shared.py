"""Tensors in shared memory, which processes find by name.

>>> import dlbridge
>>> with dlbridge.share_memory(b"abc") as shared:           # one copy, into the shared memory
...     with dlbridge.attach(shared.name) as other:         # in any process: no copy
...         memoryview(other.tensor)[0] = ord("x")
...     bytes(shared.tensor)
b'xbc'
"""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dlbridge import _segment_format, _segments, _shm
from dlbridge._core import Tensor
from dlbridge._core import empty as _empty
from dlbridge._segment_format import DATA
from dlbridge._shm import Ownership, Remover

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import SupportsIndex

    from typing_extensions import CapsuleType

    from dlbridge.typing import TensorLike

__all__ = ["SharedScope", "SharedTensor", "attach", "share_memory"]


_NOT_AN_ARRAY = "a SharedTensor is not an array; pass its tensor: numpy.asarray(shared.tensor)"


class SharedTensor:
    """A tensor in shared memory. Made by :func:`share_memory`, :func:`attach` and :class:`SharedScope`.

    As a context manager it is closed at the end, and the process that owns it removes the name. Pickling stores the
    name: another process attaches when it unpickles. If it cannot attach, :attr:`tensor` raises the reason.
    """

    def __init__(
        self,
        name: str,
        tensor: Tensor | None,
        ownership: Ownership | None,
        scope: SharedScope | None = None,
        failure: Exception | None = None,
    ) -> None:
        self._name = name
        self._tensor = tensor
        self._ownership = ownership
        self._scope = scope
        #: The reason why this process could not attach; ``tensor`` is None then.
        self._failure = failure

    @property
    def name(self) -> str:
        """The name under which other processes find the memory."""
        return self._name

    @property
    def tensor(self) -> Tensor:
        """The tensor over the shared memory, writable and without a copy.

        It stays valid after :meth:`close` and :meth:`unlink`, and so do arrays made from it.

        Raises ValueError once this is closed, and the exceptions of :func:`attach` if this was unpickled without them,
        for example FileNotFoundError because the name was removed before.
        """
        if self._failure is not None:
            # A new exception each time: its traceback is of this call alone. Libraries can make copies keep it.
            raise copy.copy(self._failure).with_traceback(None)
        if self._tensor is None:
            raise ValueError(f"the shared tensor {self._name!r} is closed; attach to it again")
        return self._tensor

    def close(self) -> None:
        """Release the memory. It is unmapped when this process drops its last tensor over it."""
        self._tensor = None

    def unlink(self) -> None:
        """Remove the name if this process owns it. Then processes can no longer attach.

        A process owns what its :func:`share_memory` made, and what it received from a process of its
        :class:`SharedScope`.

        The memory is freed when the last process releases it.
        """
        if self._ownership is not None:
            self._ownership.remove()

    def __enter__(self) -> SharedTensor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.unlink()

    def __reduce__(self) -> tuple[Callable[..., SharedTensor], tuple[Any, ...]]:
        if self._scope is None:
            return _unpickled, (self._name,)
        if self._ownership is not None and not self._scope._is_owner():
            # From now on, the owner of the scope removes the name.
            self._ownership.remove.made = False
        return _receive, (self._scope, self._name)

    def __repr__(self) -> str:
        state = f"tensor={self._tensor!r}" if self._failure is None else f"error={self._failure!r}"
        return f"dlbridge.SharedTensor(name={self._name!r}, {state})"

    # Hidden from type checkers, which would accept what these methods refuse.
    if not TYPE_CHECKING:

        def __array__(self, dtype=None, copy=None):
            # Without this method, NumPy makes an array of one object also where none was asked for.
            if getattr(dtype, "kind", None) != "O":
                raise TypeError(_NOT_AN_ARRAY)
            import numpy as np

            array = np.empty((), object)
            array[()] = self
            return array

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            # `numpy.float64(1) == shared` compares objects, also in a search of a list or an array.
            others = (*options.get("out", ()), options.get("where"))
            is_comparison = ufunc.__name__ in ("equal", "not_equal") and method == "__call__"
            if not is_comparison or any(isinstance(obj, SharedTensor) for obj in others):
                raise TypeError(_NOT_AN_ARRAY)
            import numpy as np

            objects = (np.asarray(obj, object) if isinstance(obj, SharedTensor) else obj for obj in inputs)
            return ufunc(*objects, **options)

        def __getattr__(self, name):
            if name.startswith("_") or not hasattr(Tensor, name):
                # Raises Python's own exception.
                return object.__getattribute__(self, name)
            raise AttributeError(f"a SharedTensor does not have {name!r}; use .tensor.{name}", name=name)


def share_memory(obj: TensorLike | CapsuleType, /, *, name: str | None = None) -> SharedTensor:
    """Copy anything that :func:`dlbridge.asdlpack` imports into new shared memory, in C order.

    Data in another order is copied twice. The name is removed by :meth:`SharedTensor.unlink`, when the result is
    garbage, or when this process ends and has waited for its children, whichever is first.

    On Linux, a name that a killed process left behind is free. See ``python -m dlbridge clean``.

    Raises FileExistsError for a name that exists, ValueError for an invalid name, OSError if the system does not have
    that much shared memory, and the exceptions of ``asdlpack``.
    """
    data, description = _segment_format.elements(obj)
    description |= _segments.owner()
    if name is None:
        name = f"dlbridge_{os.urandom(8).hex()}"
        return _make(name, data, description, Remover(name, random=True), None)
    return _make(_shm.checked(name), data, description, Remover(name), None)


def attach(name: str) -> SharedTensor:
    """Find a shared tensor by name, in any process.

    All tensors over one segment in a process have the same address, even in the process that made the segment. So a
    function that writes one of them cannot borrow another.

    Raises FileNotFoundError if no shared memory has that name, ValueError for an invalid name and for memory that is
    not a tensor or is truncated, OSError for a link or a folder of that name and for memory that this user may not
    open.
    """
    name = _shm.checked(name)
    try:
        mapping = _shm.open_map(name)
        # One copy: another process may write the segment between a check and a use.
        description = _segment_format.described(bytes(memoryview(mapping)[:DATA]), len(mapping) - DATA)
        tensor = _segment_format.tensor(mapping, description)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"the shared memory {name!r} is not a tensor: {error}") from error
    return SharedTensor(name, tensor, None)


def _unpickled(name: str) -> SharedTensor:
    """Unpickle a tensor without a scope."""
    tensor, failure = _tensor_or_failure(name)
    return SharedTensor(name, tensor, None, None, failure)


def _tensor_or_failure(name: str) -> tuple[Tensor | None, Exception | None]:
    """Attach, and return the tensor, or the exception that says why this process cannot attach.

    An exception during unpickling would be lost: it ends the thread that receives the results of a ``multiprocessing``
    pool, and the program waits for ever.
    """
    try:
        return attach(name).tensor, None
    except (OSError, ValueError, MemoryError) as error:
        if isinstance(error, OSError) and not _shm.is_raised_here(error):
            # A signal handler raised it.
            raise
        # Without the traceback, which keeps the frames of the caller.
        return None, copy.copy(error).with_traceback(None)


def _make(
    name: str,
    data: memoryview | None,
    description: dict[str, Any],
    remove: Remover,
    scope: SharedScope | None,
) -> SharedTensor:
    """Make a segment. ``data`` is copied into it, if there is any."""
    header = _segment_format.encoded(description)
    # A signal handler may raise anywhere in here.
    try:
        mapping = _shm.create(name, header, DATA + description["bytes"], remove)
        _segment_format.write(mapping, header, data)
        tensor = _segment_format.tensor(mapping, description)
        return SharedTensor(name, tensor, Ownership(remove), scope)
    except BaseException:
        remove()
        raise


class SharedScope:
    """Owns the shared memory that several processes make for this one. Removes all of it at the end of its ``with``.

    Make it in the process that receives the tensors, for example the one that reads from a ``DataLoader`` or a
    ``multiprocessing`` pool. Pass it to the workers, by ``fork`` or pickled. A worker calls :meth:`share_memory` or
    :meth:`empty`, and returns the result: only a name is sent. The process that made the scope owns what it receives:
    the name is removed when the received :class:`SharedTensor` is garbage. Tensors stay valid.

    The end of the scope removes what was not received, for example because a worker was killed.

    >>> import dlbridge
    >>> with dlbridge.SharedScope() as scope:
    ...     shared = scope.share_memory(b"abc")         # in a worker
    ...     bytes(shared.tensor)
    b'abc'

    Pickling stores what identifies the scope.
    """

    def __init__(self) -> None:
        owner = _segments.owner()["owner"]
        # The workers inherit the tracker, which removes all names after the last of these processes was killed.
        self._set(f"dlbridge_{os.urandom(6).hex()}_", owner, _shm.tracker())
        self._process: int | None = os.getpid()
        marker = Remover(self._prefix, random=True)
        self._closer = _Closer(self._prefix, marker, self._owned)
        # A signal handler may raise anywhere in here.
        try:
            _shm.create_marker(self._prefix, _segment_format.encoded({"owner": owner}), marker)
            _SCOPES[self._prefix] = self
            self._close = _shm.finalize(self, self._closer)
        except BaseException:
            marker()
            raise

    def _set(self, prefix: str, owner: dict[str, Any], tracker: Any) -> None:
        self._prefix = prefix
        self._owner = owner
        self._tracker = tracker
        #: The names that this process made or received, in the process that made the scope.
        self._owned: weakref.WeakValueDictionary[str, Ownership] = weakref.WeakValueDictionary()

    def _is_owner(self) -> bool:
        return self._process == os.getpid()

    def share_memory(self, obj: TensorLike | CapsuleType, /) -> SharedTensor:
        """Copy anything that :func:`dlbridge.asdlpack` imports into new shared memory of this scope, in C order.

        Raises ValueError once the scope is closed, and the exceptions of :func:`dlbridge.share_memory`.
        """
        data, description = _segment_format.elements(obj)
        return self._make(data, description)

    def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], /, dtype: object = "float32") -> SharedTensor:
        """Make shared memory of this scope with any contents. Write a batch into it, and no copy is needed.

        Raises ValueError once the scope is closed, and for a wrong shape or dtype.
        """
        # No page of this tensor is used.
        _, description = _segment_format.elements(_empty(shape, dtype))
        return self._make(None, description)

    def _make(self, data: memoryview | None, description: dict[str, Any]) -> SharedTensor:
        tracked = self._tracker is not None and self._tracker == _shm.tracker()
        # The owner removes the name and must know whether its tracker has it.
        name = f"{self._prefix}{'t' if tracked else 'u'}{os.urandom(8).hex()}"[:_shm.LONGEST]
        remove = Remover(name, tracked, alone=self._is_owner(), random=True)
        shared = _make(name, data, {**description, "owner": self._owner}, remove, self)
        if self._is_owner() and shared._ownership is not None:
            self._owned[name] = shared._ownership
        # Checked after the segment exists: either the owner finds it when it closes the scope, or this finds no marker.
        if not _shm.marker_exists(self._prefix):
            remove()
            raise ValueError("the scope is closed; make a new dlbridge.SharedScope")
        return shared

    def _receive(self, name: str) -> SharedTensor:
        """Attach to a segment of this scope. If this process made the scope, it owns the segment from then on."""
        if not self._is_owner():
            tensor, failure = _tensor_or_failure(name)
            return SharedTensor(name, tensor, None, self, failure)
        # The name may be removed meanwhile, together with its remover.
        with _shm.DO_LEFT, _shm.LOCK:
            tensor, failure = _tensor_or_failure(name)
            ownership = self._owned.get(name)
            # A segment that exists needs an owner, even if this process cannot attach.
            if ownership is None and not isinstance(failure, FileNotFoundError):
                ownership = self._owned[name] = Ownership(_left(self._prefix, name))
        return SharedTensor(name, tensor, ownership, self, failure)

    def clear(self) -> None:
        """Remove the names that this process has not received, while no worker makes or sends tensors.

        Call it after an epoch whose last batches were not read. Only Linux lists names: elsewhere, this does nothing.
        """
        if self._is_owner() and self._close.still_active():
            self._closer.remove(received=False)

    def close(self) -> None:
        """Remove all names of this scope, in the process that made it. Tensors stay valid."""
        if self._is_owner() and self._close.still_active():
            self._closer()
            self._close.cancel()

    def __enter__(self) -> SharedScope:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., SharedScope], tuple[Any, ...]]:
        return _scope, (self._prefix, self._owner, self._tracker)

    def __repr__(self) -> str:
        return f"dlbridge.SharedScope(name={self._prefix!r}, owner={self._owner['pid']})"


#: The scopes that this process made, and their copies from a process that forked it.
_SCOPES: weakref.WeakValueDictionary[str, SharedScope] = weakref.WeakValueDictionary()


def _scope(prefix: str, owner: dict[str, Any], tracker: Any) -> SharedScope:
    """Unpickle a scope."""
    # Two threads may unpickle the same scope.
    with _shm.DO_LEFT, _shm.LOCK:
        scope = _SCOPES.get(prefix)
        if scope is None:
            scope = SharedScope.__new__(SharedScope)
            scope._set(prefix, owner, tracker)
            scope._process = None
            _SCOPES[prefix] = scope
        return scope


def _receive(scope: SharedScope, name: str) -> SharedTensor:
    """Unpickle a tensor of a scope."""
    return scope._receive(_shm.checked(name))


class _Closer:
    """Removes the names of a scope, in the process that owns them. Holds no reference to the scope."""

    def __init__(
        self, prefix: str, marker: Remover, owned: weakref.WeakValueDictionary[str, Ownership]
    ) -> None:
        self.prefix = prefix
        self.marker = marker
        self.owned = owned

    def __call__(self) -> None:
        # Without the marker, workers make no new segments.
        self.marker()
        self.remove(received=True)

    def remove(self, received: bool) -> None:
        """Remove all names except the marker, and except those that this process has received unless ``received``."""
        for name in _segments.names_with(self.prefix):
            with _shm.DO_LEFT, _shm.LOCK:
                ownership = self.owned.get(name)
                if ownership is None and name != self.prefix:
                    _left(self.prefix, name)()
                elif ownership is not None and received:
                    ownership.remove()


def _left(prefix: str, name: str) -> Remover:
    """The remover of a name that another process made for the owner of a scope."""
    remove = Remover(name, name[len(prefix)] == "t", alone=False)
    remove.made = True
    return remove
